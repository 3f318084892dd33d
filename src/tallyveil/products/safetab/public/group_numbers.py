"""The published numbers of population groups and their quality, for every layout of the tables.

COUNT is a measurement itself: a noisy count, or a sum of noisy cells. ESTIMATE is an estimate of the same number from
both stages: by least squares, and corrected near a threshold (`estimates`). *Quality* is the variance and the margin.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.products.safetab.public.estimates import (
    UNIT,
    DetailEstimator,
    Method,
    Quality,
    estimator_of,
    quality_of,
)
from tallyveil.products.safetab.public.levels import GroupLevel
from tallyveil.products.safetab.public.measurements import GroupMeasurements
from tallyveil.products.safetab.public.near_threshold import quality_arrays
from tallyveil.products.safetab.public.sums import raised_margin

_Worth = tuple[Quality, NDArray[np.float64] | float, NDArray[np.float64] | float]
"""Quality of a measured number; variance and margin of its estimate."""

QUALITY_COLUMNS: Final = (
    "VARIANCE",
    "MARGIN",
    "ESTIMATE",
    "ESTIMATE_VARIANCE",
    "ESTIMATE_MARGIN",
    "METHOD",
)
METHODS: Final = ("measured", "combined", "corrected", "partly", "exact")


@dataclass(frozen=True, slots=True, eq=False)
class NumberedGroups:
    """Published groups of one detail of a level, with the measurements that their tables are made from.

    Attributes:
        detail: Number of the detail in the level's ladder, or the number that stands for total-only groups.
        measured: The measured detail. It is finer than `detail` only for a region with the same blocks as another.
        bounds: Stage-1 counts that choose both details: lowest <= count < highest. None means no bound.
        rows, columns: Positions; int64, shape (groups,).
        stage_1: Counts that chose the detail; int64; zeros for total-only groups.
        cells: Noisy cells as measured, one column for a total; int64, shape (groups, n).
    """

    detail: int
    measured: int
    bounds: tuple[int | None, int | None]
    rows: Integers
    columns: Integers
    stage_1: Integers
    cells: Integers

    def subset(self, which: NDArray[np.bool_]) -> "NumberedGroups":
        """Some of the groups."""
        arrays = (a[which] for a in (self.rows, self.columns, self.stage_1, self.cells))
        return NumberedGroups(self.detail, self.measured, self.bounds, *arrays)


class CollectedGroups:
    """Collects the published groups of one level, part by part.

    Args:
        level: The level.
    """

    def __init__(self, level: GroupLevel) -> None:
        self.level = level
        self.n_counts = 0
        self._parts: list[list[NumberedGroups]] = [[] for _ in level.ladder.names]

    def add(self, part: GroupMeasurements) -> None:
        """Add the published groups of one part of the measurements."""
        width, only = self.level.n_adaptive, part.total_only
        self.n_counts += part.n_counts
        self._add(part, 0, part.listed, part.totals.reshape(-1)[part.listed][:, None], width)
        # Detail k is the k-th table of the ladder; detail 0 was added before as totals of one cell.
        for number, table in enumerate(part.tables, start=1):
            self._add(part, number, table.places, table.values, width)
        self._add(
            part, self.level.ladder.total_only, np.arange(only.size), only.reshape(-1, 1), only.shape[1]
        )

    def by_detail(self) -> Iterator[NumberedGroups]:
        """The groups of every detail that at least one group has."""
        for parts in self._parts:
            if parts:
                names = ("rows", "columns", "stage_1", "cells")
                arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
                yield NumberedGroups(parts[0].detail, parts[0].measured, parts[0].bounds, *arrays)

    def _add(
        self, part: GroupMeasurements, detail: int, places: Integers, cells: Integers, width: int
    ) -> None:
        if not len(places):
            return
        rows, columns = np.divmod(places, width)
        if detail == self.level.ladder.total_only:
            # Total-only groups have no stage 1, and their estimator does not ask for it.
            stage_1 = np.zeros(len(places), np.int64)
            columns = columns + self.level.n_adaptive
        else:
            stage_1 = part.stage_1.reshape(-1)[places]
        bounds = self.level.bounds(detail)
        self._parts[detail].append(
            NumberedGroups(detail, detail, bounds, part.rows[rows], columns, stage_1, cells)
        )


def numbers_of(
    level: GroupLevel,
    groups: NumberedGroups,
    sums: Sequence[Integers],
    *,
    allow_negative: bool,
    exact: bool = False,
) -> dict[str, Any]:
    """COUNT and quality columns for several sums of cells of each group. The sums of a group are adjacent rows.

    Args:
        level: The level.
        groups: Its groups of one detail.
        sums: The cells of each sum.
        allow_negative: Whether negative counts remain. Otherwise every negative noisy cell is raised to 0.
        exact: Whether the measurements have no noise. Then no estimate is made, and every margin is 0.
    """
    size = len(groups.rows)
    # Without an estimator ESTIMATE is COUNT before negatives are raised.
    shifts, methods = np.zeros(size, np.int64), np.full(size, Method.MEASURED, np.int64)
    if exact:
        methods[:], worth = Method.EXACT, _exact_worth
    elif groups.detail == level.ladder.total_only:
        worth = partial(_total_only_worth, level)
    else:
        estimator = estimator_of(groups.cells.shape[1], level.stage_1, level.stage_2, *groups.bounds)
        totals = groups.cells.sum(axis=1)
        shifts = estimator.shifts(groups.stage_1, totals)
        # Totals of the groups: whether a threshold is near is judged by the total, also for cells.
        estimates = (totals * UNIT + estimator.n * shifts) / UNIT
        near = quality_arrays(estimator, estimator.n, estimates)[2]
        methods = np.where(near, Method.CORRECTED if estimator.gaussian else Method.PARTLY, Method.COMBINED)
        worth = partial(_worth, estimator, estimates)
    # Variance and margin depend on how many cells a sum has, not on which: one computation for all sums
    # alike.
    of_parts = {parts: worth(parts) for parts in {len(cells) for cells in sums}}
    # True counts are not negative, so nothing is raised in a table without noise.
    raised = not allow_negative and not exact
    columns = [_number(groups, cells, shifts, of_parts[len(cells)], allow_negative, raised) for cells in sums]
    names = ("COUNT", *QUALITY_COLUMNS[:-1])
    numbers: dict[str, Any] = {
        # Sums of a group become adjacent rows: stacked as columns, then read row by row.
        name: np.stack([np.broadcast_to(column[name], size) for column in columns], axis=1).reshape(-1)
        for name in names
    }
    return numbers | {"METHOD": pl.Series(METHODS).gather(np.repeat(methods, len(sums)))}


def _number(
    groups: NumberedGroups,
    cells: Integers,
    shifts: Integers,
    worth: _Worth,
    allow_negative: bool,
    raised: bool,
) -> dict[str, Any]:
    """COUNT and its quality for the sum of some of the cells of each group."""
    cells_of_detail = groups.cells[:, cells]
    plain = cells_of_detail.sum(axis=1)
    # Cells are raised before they are summed, as production does; the sum is then biased upwards.
    count = plain if allow_negative else np.maximum(cells_of_detail, 0).sum(axis=1)
    # An integer below 2**53 divided by a power of two is exact.
    estimates = (plain * UNIT + len(cells) * shifts) / UNIT
    measured, variances, margins = worth
    return {
        "COUNT": count,
        "VARIANCE": measured.variance,
        "MARGIN": raised_margin(plain, count, measured.margin) if raised else measured.margin,
        "ESTIMATE": estimates if allow_negative else np.maximum(estimates, 0.0),
        "ESTIMATE_VARIANCE": variances,
        "ESTIMATE_MARGIN": margins,
    }


def _exact_worth(_: int) -> _Worth:
    return Quality(0.0, 0.0), 0.0, 0.0


def _total_only_worth(level: GroupLevel, _: int) -> _Worth:
    measured = quality_of(level.total_only)
    return measured, measured.variance, measured.margin


def _worth(estimator: DetailEstimator, estimates: NDArray[np.float64], parts: int) -> _Worth:
    """Quality of a sum of `parts` cells, and variances and margins of its estimate in groups with these totals."""
    variances, margins, _ = quality_arrays(estimator, parts, estimates)
    return estimator.measured(parts), variances, margins
