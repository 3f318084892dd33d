"""Tables T1 and T2 from noisy measurements: the production counts, better estimates next to them, and margins of both.

T1 has the total of each population group. T2 has its sex by age and its sexes. COUNT is what production publishes: a
noisy count, or a sum of noisy cells. ESTIMATE is the least-squares estimate of the same number (`estimates`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.safetab.ages import DETAILS, SEXES
from tallyveil.safetab.config import NATIONWIDE, SafetabConfig
from tallyveil.safetab.coterminous import Twin
from tallyveil.safetab.estimates import UNIT, DetailEstimator, Method, Quality, estimator_of, quality_of
from tallyveil.safetab.measurements import GroupMeasurements
from tallyveil.safetab.near_threshold import quality_arrays
from tallyveil.safetab.plan import LevelSet, suppression_bound
from tallyveil.safetab.regions import Regions
from tallyveil.safetab.sums import noise_sum, quantile_of_sum, raised_margin

_Worth = tuple[Quality, NDArray[np.float64] | float, NDArray[np.float64] | float]
"""Quality of a measured number; variance and margin of its estimate."""

T1_COLUMNS: Final = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "COUNT")
T2_COLUMNS: Final = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "AGESTART", "AGEEND", "SEX", "COUNT")
QUALITY_COLUMNS: Final = (
    "VARIANCE",
    "MARGIN",
    "ESTIMATE",
    "ESTIMATE_VARIANCE",
    "ESTIMATE_MARGIN",
    "METHOD",
)
METHODS: Final = ("measured", "combined", "corrected", "partly", "exact")
DETAIL_NAMES: Final = ("total", "sex by 4 ages", "sex by 9 ages", "sex by 23 ages", "total only")
TOTAL_ONLY_DETAIL: Final = 4
ANY: Final = "*"


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Published groups of one detail of a level set, with the measurements that their tables are made from.

    Attributes:
        detail: 0 to 3, or 4 for total-only groups.
        measured: The measured detail. It is finer than `detail` only for a region with the same blocks as another.
        bounds: Stage-1 counts that choose both details: lowest <= count < highest. None means no bound.
        regions, iterations: Positions; int64, shape (groups,).
        stage_1: Counts that chose the detail; int64; zeros for total-only groups.
        cells: Noisy cells as measured, one column for a total; int64, shape (groups, n).
    """

    detail: int
    measured: int
    bounds: tuple[int | None, int | None]
    regions: Integers
    iterations: Integers
    stage_1: Integers
    cells: Integers

    def kept(self, rows: NDArray[np.bool_]) -> "_Groups":
        """Some of the groups."""
        arrays = (a[rows] for a in (self.regions, self.iterations, self.stage_1, self.cells))
        return _Groups(self.detail, self.measured, self.bounds, *arrays)


class SetTables:
    """Collects the tables of one level set, part by part.

    Args:
        one: The level set.
        regions: The geography of the run.
        config: The config.
        exact: Whether the measurements have no noise. Then no estimate is made, and every margin is 0.
    """

    def __init__(
        self, one: LevelSet, regions: Regions, config: SafetabConfig, *, exact: bool = False
    ) -> None:
        self.set = one
        self.regions = regions
        self.allow_negative = config.allow_negative
        self._chance = config.suppression
        self._exact = exact
        self.n_counts = 0
        self._parts: list[list[_Groups]] = [[] for _ in DETAIL_NAMES]

    def add(self, part: GroupMeasurements) -> None:
        """Add the published groups of one part of the measurements."""
        width = self.set.view.n_adaptive
        self.n_counts += part.n_counts
        self._add(part, 0, part.listed, part.totals.reshape(-1)[part.listed][:, None], width)
        for number, table in enumerate(part.tables, start=1):
            self._add(part, number, table.places, table.values, width)
        if part.total_only.size:
            places = np.arange(part.total_only.size)
            self._add(
                part, TOTAL_ONLY_DETAIL, places, part.total_only.reshape(-1, 1), part.total_only.shape[1]
            )

    def t1(self, twins: Sequence[Twin] = ()) -> pl.DataFrame:
        """T1 with variances and margins, for the measured regions and their twins."""
        frames = [self._t1(*groups) for groups in self._groups(twins)]
        return pl.concat(frames) if frames else _empty(T1_COLUMNS, ("DETAIL", "SAME_AS"))

    def t2(self, twins: Sequence[Twin] = ()) -> pl.DataFrame:
        """T2 with variances and margins, for the measured regions and their twins."""
        frames = [
            self._t2(*groups) for groups in self._groups(twins) if 0 < groups[0].detail < TOTAL_ONLY_DETAIL
        ]
        return pl.concat(frames) if frames else _empty(T2_COLUMNS, ("SAME_AS",))

    def _add(
        self, part: GroupMeasurements, detail: int, places: Integers, cells: Integers, width: int
    ) -> None:
        if not len(places):
            return
        rows, iterations = np.divmod(places, width)
        if detail == TOTAL_ONLY_DETAIL:
            stage_1 = np.zeros(len(places), np.int64)
            iterations = iterations + self.set.view.n_adaptive
        else:
            stage_1 = part.stage_1.reshape(-1)[places]
        bounds = _bounds(self.set.thresholds, detail)
        self._parts[detail].append(
            _Groups(detail, detail, bounds, part.regions[rows], iterations, stage_1, cells)
        )

    def _groups(self, twins: Sequence[Twin]) -> Iterator[tuple[_Groups, str, pl.Series, bool]]:
        """Groups of every detail: (groups, geography, region ids by position, whether they belong to twins)."""
        own = self.set.geography
        names = self.regions.names(own)
        for parts in self._parts:
            if not parts:
                continue
            groups = _joined(parts)
            yield groups, own, names, False
            for geography in dict.fromkeys(twin.geography for twin in twins):
                of_geography = [twin for twin in twins if twin.geography == geography]
                for copied in self._copied(groups, of_geography):
                    yield copied, geography, self.regions.names(geography), True

    def _copied(self, groups: _Groups, twins: Sequence[Twin]) -> Iterator[_Groups]:
        """The groups of regions with a twin in one geography, at the twin's position and in the twin's detail.

        The twin's own thresholds and the measured stage-1 count choose the detail. It is at most as fine as the
        measured detail (`coterminous`), so its cells are sums of measured cells. Below the state, total-only groups are
        not tabulated and small totals are suppressed, whichever region was measured.
        """
        twin_of = np.full(len(self.regions.ids[self.set.geography]), -1, np.int64)
        twin_of[[twin.measured for twin in twins]] = [twin.region for twin in twins]
        groups = groups.kept(twin_of[groups.regions] >= 0)
        groups = replace(groups, regions=twin_of[groups.regions])
        nationwide = twins[0].geography in NATIONWIDE
        if groups.detail == TOTAL_ONLY_DETAIL:
            if nationwide and len(groups.regions):
                yield groups
            return
        thresholds = twins[0].thresholds
        details = np.searchsorted(np.array(thresholds), groups.stage_1, side="right")
        for detail in np.unique(details).tolist():
            kept = details == detail
            if detail == 0 and not nationwide and self._chance is not None:
                kept &= groups.cells.sum(axis=1) > self._bound(groups.cells.shape[1], self._chance)
            if kept.any():
                bounds = _narrower(groups.bounds, _bounds(thresholds, detail))
                yield replace(groups.kept(kept), detail=detail, bounds=bounds)

    def _bound(self, n: int, chance: Fraction) -> int:
        """The bound that a total from n cells must exceed to be published."""
        law = self.set.stage_2
        return suppression_bound(law, chance) if n == 1 else quantile_of_sum(noise_sum(law, n), chance)

    def _t1(self, groups: _Groups, geography: str, names: pl.Series, twin: bool) -> pl.DataFrame:
        n, size = groups.cells.shape[1], len(groups.regions)
        columns = {
            **self._keys(groups, geography, names, 1),
            **self._numbers(groups, [np.arange(n)]),
            "DETAIL": _constant(DETAIL_NAMES[groups.detail], size),
            "SAME_AS": _constant(self.set.geography if twin else "", size),
        }
        return pl.DataFrame(columns)

    def _t2(self, groups: _Groups, geography: str, names: pl.Series, twin: bool) -> pl.DataFrame:
        """Rows of each group: its two sexes, then its cells."""
        detail, measured = DETAILS[groups.detail - 1], DETAILS[groups.measured - 1]
        size, into = len(groups.regions), measured.cells_in(detail)
        half = measured.n_cells // 2
        sums = [np.arange(half), np.arange(half, 2 * half)]
        sums += [np.flatnonzero(into == cell) for cell in range(detail.n_cells)]
        spans = [(ANY, ANY)] * 2 + [(str(first), str(last)) for first, last in detail.spans] * 2
        sex = [*SEXES, *(s for s in SEXES for _ in range(detail.n_cells // 2))]
        columns: dict[str, Any] = {
            **self._keys(groups, geography, names, len(sums)),
            "AGESTART": _tiled([start for start, _ in spans], size),
            "AGEEND": _tiled([end for _, end in spans], size),
            "SEX": _tiled(sex, size),
            **self._numbers(groups, sums),
            "SAME_AS": _constant(self.set.geography if twin else "", size * len(sums)),
        }
        return pl.DataFrame(columns)

    def _numbers(self, groups: _Groups, sums: Sequence[Integers]) -> dict[str, Any]:
        """COUNT and quality columns for several sums of cells of each group. The sums of a group are adjacent rows."""
        size = len(groups.regions)
        shifts, methods = np.zeros(size, np.int64), np.full(size, Method.MEASURED, np.int64)
        if self._exact:
            methods[:], worth = Method.EXACT, self._exact_worth
        elif groups.detail == TOTAL_ONLY_DETAIL:
            worth = self._total_only_worth
        else:
            one = self._estimator(groups)
            totals = groups.cells.sum(axis=1)
            shifts = one.shifts(groups.stage_1, totals)
            estimates = (totals * UNIT + one.n * shifts) / UNIT
            near = quality_arrays(one, one.n, estimates)[2]
            methods = np.where(near, Method.CORRECTED if one.gaussian else Method.PARTLY, Method.COMBINED)
            worth = partial(_worth, one, estimates)
        of_parts = {parts: worth(parts) for parts in {len(cells) for cells in sums}}
        columns = [self._number(groups, cells, shifts, of_parts[len(cells)]) for cells in sums]
        names = ("COUNT", *QUALITY_COLUMNS[:-1])
        found: dict[str, Any] = {
            name: np.stack([np.broadcast_to(column[name], size) for column in columns], axis=1).reshape(-1)
            for name in names
        }
        return found | {"METHOD": pl.Series(METHODS).gather(np.repeat(methods, len(sums)))}

    def _number(self, groups: _Groups, cells: Integers, shifts: Integers, worth: _Worth) -> dict[str, Any]:
        """COUNT and its quality for the sum of some of the cells of each group."""
        plain = groups.cells[:, cells].sum(axis=1)
        count = self._raised(groups.cells[:, cells]).sum(axis=1)
        # An integer below 2**53 divided by a power of two is exact.
        estimates = (plain * UNIT + len(cells) * shifts) / UNIT
        measured, variances, margins = worth
        raised = not self.allow_negative and not self._exact
        return {
            "COUNT": count,
            "VARIANCE": measured.variance,
            "MARGIN": raised_margin(plain, count, measured.margin) if raised else measured.margin,
            "ESTIMATE": estimates if self.allow_negative else np.maximum(estimates, 0.0),
            "ESTIMATE_VARIANCE": variances,
            "ESTIMATE_MARGIN": margins,
        }

    def _exact_worth(self, _: int) -> _Worth:
        return Quality(0.0, 0.0), 0.0, 0.0

    def _total_only_worth(self, _: int) -> _Worth:
        measured = quality_of(self.set.total_only)
        return measured, measured.variance, measured.margin

    def _estimator(self, groups: _Groups) -> DetailEstimator:
        return estimator_of(groups.cells.shape[1], self.set.stage_1, self.set.stage_2, *groups.bounds)

    def _keys(self, groups: _Groups, geography: str, names: pl.Series, times: int) -> dict[str, pl.Series]:
        codes = pl.Series(self.set.view.codes)
        rows, iterations = np.repeat(groups.regions, times), np.repeat(groups.iterations, times)
        return {
            "REGION_ID": names.gather(rows),
            "REGION_TYPE": _constant(geography, len(rows)),
            "ITERATION_CODE": codes.gather(iterations),
        }

    def _raised(self, cells: Integers) -> Integers:
        return cells if self.allow_negative else np.maximum(cells, 0)


def _bounds(thresholds: Sequence[int], detail: int) -> tuple[int | None, int | None]:
    """Stage-1 counts that choose a detail."""
    if detail == TOTAL_ONLY_DETAIL:
        return None, None
    return (
        thresholds[detail - 1] if detail else None,
        thresholds[detail] if detail < len(thresholds) else None,
    )


def _narrower(
    one: tuple[int | None, int | None], other: tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    """The bounds that satisfy both pairs of bounds."""
    lowest = [x for x in (one[0], other[0]) if x is not None]
    highest = [x for x in (one[1], other[1]) if x is not None]
    return max(lowest, default=None), min(highest, default=None)


def _worth(one: DetailEstimator, estimates: NDArray[np.float64], parts: int) -> _Worth:
    """Quality of a sum of `parts` cells, and variances and margins of its estimate in groups with these totals."""
    variances, margins, _ = quality_arrays(one, parts, estimates)
    return one.measured(parts), variances, margins


def _joined(parts: list[_Groups]) -> _Groups:
    names = ("regions", "iterations", "stage_1", "cells")
    arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return _Groups(parts[0].detail, parts[0].measured, parts[0].bounds, *arrays)


def _constant(text: str, n: int) -> pl.Series:
    return pl.Series([text], dtype=pl.String).new_from_index(0, n)


def _tiled(values: list[str], times: int) -> pl.Series:
    return pl.Series(values, dtype=pl.String).gather(np.tile(np.arange(len(values)), times))


def _empty(columns: Sequence[str], further: Sequence[str]) -> pl.DataFrame:
    kinds: dict[str, Any] = dict.fromkeys((*columns, *QUALITY_COLUMNS, *further), pl.String)
    kinds |= dict.fromkeys(QUALITY_COLUMNS[:-1], pl.Float64)
    return pl.DataFrame(schema=kinds | {"COUNT": pl.Int64})
