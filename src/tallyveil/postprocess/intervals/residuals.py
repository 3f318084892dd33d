"""How noisy answers lie around the joint estimate of all measurements, in units of what is expected.

The estimate by generalised least squares uses every measurement, so each noisy answer y has a residual y - x against
the estimate x of the same count. If the noise has the variance v that the measurements state, and geocodes, cells and
exact counts are those that they state, residuals have mean 0. The estimate is the best linear one and therefore not
correlated with them (Gauss and Markov), so that their covariance matrix is V - C, with V the variances of the noise
and C the covariance matrix of the estimates. The sum of (y - x)^2 / v over some answers has then the mean D, the sum of
1 - Var(x) / v: the degrees of freedom that are left.

The eigenvalues of V^(-1/2) (V - C) V^(-1/2) lie between 0 and 1 and add up to D, so the sum of their squares is at most
D. With normal noise, the sum of squares exceeds D by more than 2 sqrt(D t) + 2 t, or falls short of it by more than
2 sqrt(D t), each with a probability of at most exp(-t) (Laurent and Massart 2000, Lemma 1).

Large schemas. With a model for each table (`StatedPlan.tables_apart`), every query is held to the estimate of its own
answers, by all measurements that the model of this table uses, its own among them. That estimate is the best linear one
of what is used, so that the same holds. A query of too many answers is summed to each of its attributes, one after the
other, and these sums are held to the estimate of their table. Its cells are then not seen one by one: a mistake that
leaves all of these sums as they are is not found. Answers in which nobody can be counted (structural zeros) have the
estimate 0 without an error, and are held to it one by one.

A sum beyond these limits says that something is not as stated: cells in another order, a geounit under the wrong
geocode, an exact count that is not the true one, noise of another variance. So this is a check of files that others
published, and of what was done with them. It is post-processing of noisy measurements, and costs no budget.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import ConfigError, TallyveilError
from tallyveil.estimation.intervals.answers import LevelAnswers
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import AnswerRows, KeptRows, StoredRows, fit_tree
from tallyveil.estimation.intervals.merged import ANSWERS_AT_ONCE, MergedModel, MergedRows, UnmergedModel
from tallyveil.estimation.intervals.model import TreeModel, levels_of_strategy
from tallyveil.estimation.intervals.questions import questions_of
from tallyveil.postprocess.constraints import zeros_of
from tallyveil.postprocess.intervals.fits import table_model
from tallyveil.postprocess.intervals.model import whole_model
from tallyveil.postprocess.measured import Measured
from tallyveil.schema.names import LABEL_JOINT
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

LIMIT: Final = math.log(1e6)
"""t of the limits: each is passed by chance once in a million times. For the largest of many sums, the logarithm of
their number is added."""


@dataclass(frozen=True, slots=True)
class Worst:
    """Where the residuals of a query are larger than anywhere else.

    Attributes:
        place: A geocode, or the labels of a cell.
        ratio: Sum of the squared residuals there, divided by what is expected.
        highest: Limit of this ratio, which is the largest of many.
    """

    place: str
    ratio: float
    highest: float


@dataclass(frozen=True, slots=True)
class QueryResiduals:
    """The residuals of one query at one geolevel.

    Attributes:
        geolevel, query: What was measured.
        part: What was compared, where it is not all answers one by one: "summed to" an attribute or a recode, or
            "structural zeros"; None for all answers.
        degrees: What is expected of the sum of squared residuals, each divided by the variance of its noise.
        ratio: This sum divided by what is expected: about 1.
        lowest, highest: Limits of the ratio.
        cell, geounit: Where the residuals are largest.
    """

    geolevel: str
    query: str
    part: str | None
    degrees: float
    ratio: float
    lowest: float
    highest: float
    cell: Worst
    geounit: Worst

    @property
    def is_as_stated(self) -> bool:
        """Whether the residuals are as small and as large as chance allows, in all and everywhere."""
        inside = self.lowest <= self.ratio <= self.highest
        return inside and all(worst.ratio <= worst.highest for worst in (self.cell, self.geounit))

    def to_mapping(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "as_stated": self.is_as_stated}

    def __str__(self) -> str:
        part = "" if self.part is None else f", {self.part},"
        worst = (
            f"{self.cell.place} has {self.cell.ratio:.3g} (at most {self.cell.highest:.3g}) and geounit "
            f"{self.geounit.place} {self.geounit.ratio:.3g} (at most {self.geounit.highest:.3g})"
        )
        return (
            f"{self.query}{part} at {self.geolevel}: the squared residuals are {self.ratio:.3g} times what the "
            f"variances say ({self.lowest:.3g} to {self.highest:.3g} by chance); {worst}"
        )


ZEROS: Final = "structural zeros"
"""`QueryResiduals.part` of the answers in which nobody can be counted."""
MOST_CHECKED: Final = 1024
"""Answers of a query that are held to their own estimate, in a model for each table. The algebra of 1,024 sets takes
seconds. Twice as many take some eight times as long, and covariances of four times the size."""


_Exact = Mapping[str, Sequence[tuple[QueryGroup, Integers]]]
"""For each geolevel, the queries whose answers are known exactly, and these answers."""


class CheckedModel(NamedTuple):
    """The model of noisy measurements that are checked.

    Attributes:
        model: The model, before tables are merged.
        exact: The exact counts that it uses.
    """

    model: UnmergedModel
    exact: _Exact


def residuals_of(
    measured: Measured, checked: CheckedModel, workers: int = 1
) -> tuple[list[QueryResiduals], list[str]]:
    """The residuals of every query at every geolevel.

    Exact counts that are sums of siblings, and counts drawn on a lattice, are not used: without them the estimate is
    less exact, and its variance is as it is said here.

    Args:
        measured: Noisy measurements, opened.
        checked: Their model (`checked_model`).
        workers: Number of threads. The numbers do not depend on it.
    Returns:
        The residuals, by geolevel and query. A query of which nothing else says anything has none, and neither has,
        with a model for each table, one whose covariances would not fit into memory. And what was measured and has
        none, in words; of queries that are held to estimates of their attributes, those sums whose covariances would
        not fit, such as "age*home summed to age".
    Raises:
        SchemaError, ConstraintError: the covariances would be too large, or exact counts contradict each other.
        StoreError: measurements are missing or damaged.
    """
    model, exact = checked
    skipped: list[str] = []
    fits = (
        _apart(measured, model, exact, skipped)
        if measured.plan.tables_apart
        else [_whole(measured, model, exact)]
    )
    residuals = [item for fit in fits for item in _of_fit(fit, workers)]
    if measured.plan.tables_apart:
        residuals += _of_zeros(measured, model)
    every = [(level.geolevel, group.name) for level in model.levels for group in level.measured]
    place = {pair: number for number, pair in enumerate(every)}
    there = {(item.geolevel, item.query) for item in residuals if item.part != ZEROS}
    strategy = measured.plan.strategy
    pairs = [(geolevel, query) for geolevel in strategy.geolevels for query in strategy.queries(geolevel)]
    unchecked = [f"{query} at {geolevel}" for geolevel, query in pairs if (geolevel, query) not in there]
    # Stable: sums of one query keep the order of their attributes.
    return sorted(residuals, key=lambda item: place[item.geolevel, item.query]), [*unchecked, *skipped]


@dataclass(frozen=True, slots=True, eq=False)
class _Checked:
    """Sums of the answers of one query at a geolevel, which are held to an estimate.

    Attributes:
        query: The query.
        part: As in `QueryResiduals`.
        label: What a sum counts, by its number.
        columns: The place of each sum among all numbers that the model has at the geolevel.
    """

    query: str
    part: str | None
    label: Callable[[int], str]
    columns: Integers


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """A model, what it is fitted to, and what is held to its estimate.

    Attributes:
        model: The model.
        rows: The noisy answers.
        exact: The exact counts of each geolevel.
        checked: For each geolevel, what is held to the estimate.
    """

    model: TreeModel
    rows: AnswerRows
    exact: Mapping[str, Integers]
    checked: Sequence[Sequence[_Checked]]


def _whole(measured: Measured, model: UnmergedModel, exact: _Exact) -> _Fit:
    """One model of all cells, to which every query is held."""
    tree = whole_model(model)
    counts = {
        geolevel: np.concatenate([answers for _, answers in known], axis=1)
        for geolevel, known in exact.items()
    }
    checked = []
    for level in tree.levels:
        begins = np.cumsum([0, *(group.size for group in level.measured)])
        columns = [np.arange(start, stop) for start, stop in pairwise(begins.tolist())]
        pairs = zip(level.measured, columns, strict=True)
        checked.append(
            [_Checked(group.name, None, label_of_answer(group), places) for group, places in pairs]
        )
    return _Fit(tree, KeptRows(StoredRows(measured.root, tree)), counts, checked)


def _apart(measured: Measured, model: UnmergedModel, exact: _Exact, skipped: list[str]) -> Iterator[_Fit]:
    """A model for each query with few answers, and for each attribute of a query with many.

    Sums to attributes that have no model are added to `skipped`.
    """
    known = {
        geolevel: {query.factors: answers for query, answers in exact.get(geolevel, ())}
        for geolevel in model.spine.geolevels
    }
    # By what they count: two names of a query are one query.
    tables: dict[object, tuple[QueryGroup, dict[object, str]]] = {}
    for query in {group.factors: group for level in model.levels for group in level.measured}.values():
        for table in [query] if query.size <= MOST_CHECKED else _attributes_of(query, model.schema):
            tables.setdefault(table.factors, (table, {}))[1][query.factors] = query.name
    for table, queries in tables.values():
        try:
            merged = table_model(model, table)
        except TallyveilError as error:
            # Others may still be checked, which is better than nothing: what was not is said by what is returned.
            if error.code not in ("blocks-too-large", "table-undetermined"):
                raise
            skipped += [
                f"{name} summed to {table.name}"
                for factors, name in queries.items()
                if factors != table.factors
            ]
            continue
        rows = KeptRows(MergedRows(StoredRows(measured.root, model), merged))
        counts = {
            geolevel: np.concatenate(
                [sums.apply(answers[sums.query.factors]) for sums in merged.exact[number]], axis=1
            )
            for number, (geolevel, answers) in enumerate(known.items())
            if merged.exact[number]
        }
        yield _Fit(
            merged.tree, rows, counts, [_sums_of(table, queries, merged, n) for n in range(len(model.levels))]
        )


def _attributes_of(query: QueryGroup, schema: Schema) -> list[QueryGroup]:
    """The query summed to each of its attributes."""
    total = schema.query("total").factors
    return [
        QueryGroup(str(factor.name), (*total[:axis], factor, *total[axis + 1 :]))
        for axis, factor in enumerate(query.factors)
        if factor.name is not None
    ]


def _sums_of(
    table: QueryGroup, queries: Collection[object], merged: MergedModel, number: int
) -> list[_Checked]:
    """What the model of a table holds to its estimate at a geolevel."""
    checked, label_of, begin = [], label_of_answer(table), 0
    answer_of_atom = merged.asked.factors[0].codes
    for sums in merged.measured[number]:
        # The model has a query for each number of terms, ascending; the columns of a query follow that order.
        order = np.argsort(sums.terms, kind="stable")
        if sums.query.factors in queries:
            atom = np.array([int(np.argmax(sums.codes == place)) for place in order], dtype=np.int64)
            named = [label_of(int(answer)) for answer in answer_of_atom[atom]]
            part = None if sums.query.factors == table.factors else f"summed to {table.name}"
            places = np.arange(begin, begin + sums.n)
            checked.append(_Checked(sums.query.name, part, named.__getitem__, places))
        begin += sums.n
    return checked


def label_of_answer(query: QueryGroup, answers: Integers | None = None) -> Callable[[int], str]:
    """What each answer of a query counts, by its number among some or all; of a million, the few that are asked for."""

    def label_of(number: int) -> str:
        named = query.label(number if answers is None else int(answers[number]))
        return LABEL_JOINT.join(f"{name}={label}" for name, label in named.items()) or query.name

    return label_of


def _of_zeros(measured: Measured, model: UnmergedModel) -> Iterator[QueryResiduals]:
    """The residuals of the answers in which nobody can be counted."""
    stored = StoredRows(measured.root, model)
    for number, level in enumerate(model.levels):
        n = model.spine.n_geounits(number)
        for place, query in enumerate(level.measured):
            never = np.setdiff1d(np.arange(query.size), model.schema.possible_answers(query))
            if not len(never):
                continue
            tally = _Tally.of(n, _Checked(query.name, ZEROS, label_of_answer(query, never), never))
            at_once = max(1, ANSWERS_AT_ONCE // query.size)
            for start in range(0, n, at_once):
                stop = min(start + at_once, n)
                noisy = stored.rows(number, [query], start, stop)[:, never].astype(np.float64)
                precision = level.precisions_of(np.arange(start, stop))[:, place, None]
                tally.add(start, noisy, precision, np.zeros(noisy.shape))
            codes = model.spine.geocodes[number].text
            # At a geolevel of which nothing is measured there is nothing to compare.
            if tally.expected_by_cell.sum() > _LITTLE:
                yield tally.residuals(level.geolevel, codes)


def _of_fit(fit: _Fit, workers: int) -> list[QueryResiduals]:
    """The residuals of what is held to the estimate of a fit."""
    model = fit.model
    estimate = fit_tree(tree_covariance(model, workers=workers), fit.rows, fit.exact, workers=workers)
    residuals = []
    for number, (level, checked) in enumerate(zip(model.levels, fit.checked, strict=True)):
        if not checked:
            continue
        groups, n = level.measured, model.spine.n_geounits(number)
        of_column = np.repeat(np.arange(len(groups)), [group.size for group in groups])
        tallies = [_Tally.of(n, item) for item in checked]
        answers = LevelAnswers.of(estimate, number, questions_of(model.algebra, groups))
        for start, stop, part in answers.stream(workers=workers):
            noisy = fit.rows.rows(number, groups, start, stop).astype(np.float64)
            precisions = level.precisions_of(np.arange(start, stop))
            for tally in tallies:
                columns = tally.checked.columns
                residual = noisy[:, columns] - part.estimates[:, columns]
                precision = precisions[:, of_column[columns]]
                tally.add(start, residual, precision, part.variances[:, columns])
        codes = model.spine.geocodes[number].text
        residuals += [
            tally.residuals(level.geolevel, codes)
            for tally in tallies
            # Where no other measurement says anything about a query, nothing is left that could be compared.
            if tally.expected_by_cell.sum() > _LITTLE
        ]
    return residuals


def checked_model(measured: Measured) -> CheckedModel:
    """The model of the measurements, and the exact counts that it uses; raises ConfigError for other noise."""
    plan, spine = measured.plan, measured.hierarchies.spine
    if plan.strategy.mechanism is not Mechanism.DISCRETE_GAUSSIAN:
        raise ConfigError(
            f"{measured.root} has Laplace noise, and the limits of the sums of its squares are not known here. Only "
            "measurements with Gaussian noise can be checked.",
            code="interval-noise",
        )
    exact: dict[str, list[tuple[QueryGroup, Integers]]] = {}
    for table in measured.constraints:
        if table.is_exact and table.of_geounits >= 0:
            answers = table.bounds_of(table.of_geounits, 0, spine.n_geounits(table.of_geounits))[0]
            exact.setdefault(spine.geolevels[table.of_geounits], []).append((table.query, answers))
    levels = levels_of_strategy(
        plan.schema,
        spine,
        plan.strategy_in_passes,
        shares=measured.hierarchies.shares,
        invariants={geolevel: [query.name for query, _ in known] for geolevel, known in exact.items()},
    )
    zeros = [zeros_of(table, spine) for table in measured.constraints if not table.is_exact]
    return CheckedModel(UnmergedModel(plan.schema, spine, levels, zeros), exact)


_LITTLE: Final = 1e-6
"""Degrees of freedom below which there are none: what is left is a rounding error."""


@dataclass(slots=True)
class _Tally:
    """Sums of squared residuals of one query at one geolevel, and what is expected of them, by geounit and by cell."""

    checked: _Checked
    by_geounit: Floats
    expected_by_geounit: Floats
    by_cell: Floats
    expected_by_cell: Floats

    @classmethod
    def of(cls, n_geounits: int, checked: _Checked) -> "_Tally":
        """Nothing yet."""
        n = len(checked.columns)
        return cls(checked, np.zeros(n_geounits), np.zeros(n_geounits), np.zeros(n), np.zeros(n))

    def add(self, start: int, residual: Floats, precision: Floats, of_estimate: Floats) -> None:
        """Add the residuals of the geounits from `start` on; `precision` is 1 / variance, and 0 if unmeasured."""
        # What no measurement determines has an infinite variance, and no residual.
        counted = (precision > 0) & np.isfinite(of_estimate)
        squares = np.where(counted, residual**2 * precision, 0.0)
        # An estimate is never less exact than the answer itself, but for rounding.
        expected = np.where(counted, np.maximum(1.0 - of_estimate * precision, 0.0), 0.0)
        geounits = slice(start, start + len(residual))
        self.by_geounit[geounits] += squares.sum(axis=1)
        self.expected_by_geounit[geounits] += expected.sum(axis=1)
        self.by_cell += squares.sum(axis=0)
        self.expected_by_cell += expected.sum(axis=0)

    def residuals(self, geolevel: str, codes: pl.Series) -> QueryResiduals:
        """What the sums say."""
        degrees = self.expected_by_cell.sum()
        cell = _worst(self.by_cell, self.expected_by_cell)
        geounit = _worst(self.by_geounit, self.expected_by_geounit)
        checked = self.checked
        return QueryResiduals(
            geolevel,
            checked.query,
            checked.part,
            float(degrees),
            float(self.by_cell.sum() / degrees),
            max(0.0, 1 - 2 * math.sqrt(LIMIT / degrees)),
            float(_highest(degrees, LIMIT)),
            Worst(checked.label(cell.place), cell.ratio, cell.highest),
            Worst(str(codes[geounit.place]), geounit.ratio, geounit.highest),
        )


def _highest(degrees: Any, t: float) -> Any:
    """Limit of a ratio with so many degrees of freedom."""
    return 1 + 2 * np.sqrt(t / degrees) + 2 * t / degrees


class _Place(NamedTuple):
    """The place of the worst sum, its ratio and its limit."""

    place: int
    ratio: float
    highest: float


def _worst(sums: Floats, expected: Floats) -> _Place:
    """The sum that is largest in the unit of its limit."""
    degrees = np.maximum(expected, _LITTLE)
    highest = _highest(degrees, LIMIT + math.log(len(sums)))
    ratios = sums / degrees
    place = int(np.argmax(ratios / highest))
    return _Place(place, float(ratios[place]), float(highest[place]))
