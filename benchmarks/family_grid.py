"""Families of stated sizes, made of real geounits: every number of support cells with every number of children.

A child is a run of consecutive real geounits, the shortest for which the parent's support is large enough; the
support is the parent's most populous cells. Counts, facility bounds and the variances of the measurements are those
of the geounits' geolevel ("weights"); the noise is a normal law's, rounded, on a fixed seed.
"""

from collections.abc import Iterator

import numpy as np
from release_families import Source

from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)
from tallyveil.schema.query_group import QueryGroup

SUPPORTS = (20, 50, 100, 200, 500)
CHILDREN = (5, 20, 80)


def grid(source: Source, geolevel: str) -> Iterator[FamilyProblem]:
    """Families with a geolevel's weights, of every size that its geounits can fill."""
    for cells in SUPPORTS:
        for children in CHILDREN:
            rng = np.random.default_rng([cells, children])
            family = _family(source, geolevel, cells, children, rng)
            if family is not None:
                yield family


def _family(
    source: Source, geolevel: str, n_cells: int, n_children: int, rng: np.random.Generator
) -> FamilyProblem | None:
    level = source.spine.geolevels.index(geolevel)
    n_geounits = len(source.spine.geocodes[level])
    place = rng.random()
    for run in range(1, n_geounits // n_children + 1):
        start = int(place * (n_geounits - run * n_children + 1))
        counts = _counts(source, level, start, run, n_children)
        if np.count_nonzero(counts.sum(axis=0)) >= n_cells:
            return _problem(source, level, start, run, counts, n_cells, rng)
    return None


def _counts(source: Source, level: int, start: int, run: int, n_children: int) -> np.ndarray:
    """True counts of the children, (children, schema cells)."""
    histogram = source.truth[level]
    counts = np.zeros((n_children, source.plan.schema.size), np.int64)
    rows, cells, persons = histogram.rows(start, start + run * n_children)
    np.add.at(counts, (rows // run, cells), persons)
    return counts


def _problem(
    source: Source,
    level: int,
    start: int,
    run: int,
    counts: np.ndarray,
    n_cells: int,
    rng: np.random.Generator,
) -> FamilyProblem:
    plan, spine, geolevel = source.plan, source.spine, source.spine.geolevels[level]
    support = np.sort(np.argsort(-counts.sum(axis=0), kind="stable")[:n_cells])
    persons = counts[:, support]
    settings = plan.estimation_of(geolevel)
    return FamilyProblem(
        geocode=f"{persons.shape[0]} x {run} from {spine.geocodes[level][start]}",
        geolevel=geolevel,
        children=tuple(str(code) for code in spine.geocodes[level][start::run][: persons.shape[0]]),
        support=support,
        parent_counts=persons.sum(axis=0),
        measured=tuple(
            _measured(source, plan.query(name), geolevel, support, persons, rng)
            for name in plan.strategy.queries(geolevel)
        ),
        constraints=tuple(
            _bounds(table.on_support(level, start, start + run * persons.shape[0], support), run, persons)
            for table in source.constraints
            if table.reaches(level)
        ),
        passes=tuple(EstimationPass(names, float(settings.slack)) for names in settings.passes),
        rounding=tuple(
            RoundingStage(
                tuple((name, _columns(plan.query(name), support)) for name in stage), settings.target
            )
            for stage in settings.rounding
        ),
    )


def _columns(query: QueryGroup, support: np.ndarray) -> np.ndarray:
    """Column of each support cell among the answers that the support reaches, -1: none."""
    answers = query.answers_of(support)
    reached = np.unique(answers[answers >= 0])
    return np.where(answers >= 0, np.searchsorted(reached, answers), -1).astype(np.int32)


def _measured(
    source: Source,
    query: QueryGroup,
    geolevel: str,
    support: np.ndarray,
    counts: np.ndarray,
    rng: np.random.Generator,
) -> MeasuredQuery:
    columns = _columns(query, support)
    truth = np.zeros((counts.shape[0], columns.max() + 1), np.int64)
    np.add.at(truth.T, columns[columns >= 0], counts.T[columns >= 0])
    variance = source.plan.strategy.law(geolevel, query.name).variance_float()
    noise = np.rint(rng.normal(0.0, np.sqrt(variance), truth.shape)).astype(np.int64)
    return MeasuredQuery(query.name, columns, truth + noise, np.full(counts.shape[0], variance))


def _bounds(constraint: LinearConstraint, run: int, counts: np.ndarray) -> LinearConstraint:
    """Bounds of the children: sums over their geounits, but never more than the cells of the support hold."""
    held = np.zeros((counts.shape[0], constraint.lower.shape[1]), np.int64)
    used = constraint.labels >= 0
    np.add.at(held.T, constraint.labels[used], counts.T[used])
    lower = constraint.lower.reshape(counts.shape[0], run, -1).sum(axis=1)
    free = (constraint.upper >= UNBOUNDED).reshape(counts.shape[0], run, -1).any(axis=1)
    upper = (
        np.where(constraint.upper >= UNBOUNDED, 0, constraint.upper)
        .reshape(counts.shape[0], run, -1)
        .sum(axis=1)
    )
    return LinearConstraint(
        constraint.name, constraint.labels, np.minimum(lower, held), np.where(free, UNBOUNDED, upper)
    )
