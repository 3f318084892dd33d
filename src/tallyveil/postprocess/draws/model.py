"""The posterior of a finished release: its measurements, and everything public that limits its counts."""

from dataclasses import replace
from typing import Final

import numpy as np

from tallyveil.arrays import Int32s, NarrowArray
from tallyveil.errors import ConfigError
from tallyveil.estimation.posterior.covariates import Covariates
from tallyveil.estimation.posterior.earlier import EarlierCensus
from tallyveil.estimation.posterior.problem import LARGEST, LimitRows, PosteriorProblem, posterior_problem
from tallyveil.files.histograms import read_histogram
from tallyveil.geography.areas import given_geography
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.intervals.model import (
    FinishedRelease,
    measured_rows,
    refuse_partial_measurements,
    refuse_tables_apart,
    release_measured,
)
from tallyveil.postprocess.measured import read_constraints
from tallyveil.schema.counts import LARGEST_INT32

MOST_COUNTS: Final = 1 << 29
"""Blocks times cells: 537 million, with which four chains take about 16 GiB. Half would exclude a state of 250,000
blocks with 2,016 cells; twice as many would not fit into the machines that releases of this size are made on."""


def on_given_geography(release: FinishedRelease) -> FinishedRelease:
    """A finished release with the geography that it was given: draws are of geounits that readers know."""
    given = given_geography(release.hierarchies, release.plan)
    return replace(release, hierarchies=replace(release.hierarchies, original=given))


def posterior_of(
    release: FinishedRelease, covariates: Covariates | None = None, earlier: EarlierCensus | None = None
) -> tuple[PosteriorProblem, Int32s]:
    """What the sampler needs, and the released counts of the finest geolevel, from which it begins.

    Args:
        release: The release.
        covariates: What public numbers say of its blocks; None for no such numbers.
        earlier: Public counts of an earlier census; None for none.
    Raises:
        ConfigError: this kind of release has no posterior here, or it is too large.
        StoreError: measurements or constraints are missing or damaged.
    """
    refuse_partial_measurements(release)
    refuse_tables_apart(release.stated)
    plan, spine, schema = release.stated, release.spine, release.schema
    _refuse_kinds(release)
    measured = release_measured(release)
    overlapping = [query.name for level in measured.levels for query in level.measured if query.overlaps]
    if overlapping:
        raise _refused(release, f"groups of '{overlapping[0]}' overlap")
    tables = read_constraints(release.root, release.plan, schema, release.hierarchies)
    limits = [rows for table in tables for rows in _limits(release, table)]
    bounded = {
        factor.attribute for item in plan.bounds for factor in schema.query(item.query).factors if factor.name
    }
    released = _released(release)
    problem = posterior_problem(
        schema,
        spine,
        measured.levels,
        measured_rows(release, measured),
        limits,
        [name for name in schema.attribute_names if name in bounded],
        covariates,
        earlier=earlier,
        gaussian=measured.gaussian,
    )
    return problem, released


def _released(release: FinishedRelease) -> Int32s:
    """The released counts of the finest geolevel; shape (blocks, cells)."""
    spine = release.spine
    finest = read_histogram(release.root, spine.geolevels[spine.finest], release.schema, spine)
    if finest.total > LARGEST:
        raise _refused(release, f"it has more than {LARGEST:,} people")
    return finest.dense(0, finest.n_geounits, release.schema.size).astype(np.int32)


def _refuse_kinds(release: FinishedRelease) -> None:
    """Refuse what the sampler does not know; raises ConfigError."""
    spine = release.spine
    if spine.n_levels < 3:
        raise _refused(
            release,
            "its spine has fewer than three geolevels, so that nothing says how blocks resemble each other",
        )
    if "outer" in release.plan or release.stated.subspace:
        raise _refused(release, "it has outer passes or counts drawn on a lattice")
    if spine.n_geounits(spine.finest) * release.schema.size > MOST_COUNTS:
        raise _refused(release, f"it has more than {MOST_COUNTS:,} cells of blocks")


def _limits(release: FinishedRelease, table: ConstraintTable) -> list[LimitRows]:
    """The limits of a table: at every geolevel where it is exact, else at its last one, from which others follow."""
    if table.groups is not None:
        raise _refused(release, "it has an invariant on sums of siblings")
    levels = range(len(table.lower)) if table.is_exact else [len(table.lower) - 1]
    rows = []
    for level in levels:
        lower, upper = table.bounds_of(level, 0, len(table.lower[level]))
        rows.append(LimitRows(level, table.query, _narrow(lower), _narrow(upper)))
    return rows


def _narrow(values: NarrowArray) -> Int32s:
    return np.minimum(values, LARGEST_INT32).astype(np.int32)


def _refused(release: FinishedRelease, why: str) -> ConfigError:
    return ConfigError(
        f"draws of {release.root} cannot be made: {why}. Use its published counts and intervals.",
        code="draws-unsuited",
    )
