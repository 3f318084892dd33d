"""Tables T1 and T2 from noisy measurements: the production counts, better estimates beside them, and their margins.

T1 holds the total of a population group, T2 its sex by age and its sexes. COUNT is what production publishes: a noisy
count, or the sum of noisy cells. ESTIMATE is the least-squares estimate of the same number (`estimates`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.safetab.ages import DETAILS, SEXES
from tallyveil.safetab.config import NATIONWIDE, SafetabConfig
from tallyveil.safetab.coterminous import Twin
from tallyveil.safetab.estimates import UNIT, DetailEstimator, Method, Quality, estimator_of, quality_of
from tallyveil.safetab.measurements import GroupMeasurements
from tallyveil.safetab.plan import LevelSet, suppression_bound
from tallyveil.safetab.regions import Regions

Int64Array = NDArray[np.int64]

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
METHODS: Final = ("measured", "combined", "corrected", "partly")
DETAIL_NAMES: Final = ("total", "sex by 4 ages", "sex by 9 ages", "sex by 23 ages", "total only")
TOTAL_ONLY_DETAIL: Final = 4
ANY: Final = "*"


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Published groups of one detail of a level set, with the sums the tables are made of.

    Attributes:
        detail: 0 to 3, or 4: total only.
        regions, iterations: Positions; int64, shape (groups,).
        cells: Noisy cells, one column for a total; int64, shape (groups, n).
        shifts: What the estimate adds to each cell, in multiples of 1/4096; int64.
        methods: How (`Method`); int8.
    """

    detail: int
    regions: Int64Array
    iterations: Int64Array
    cells: Int64Array
    shifts: Int64Array
    methods: NDArray[np.int8]


class SetTables:
    """Collects the tables of one level set, part by part."""

    def __init__(self, one: LevelSet, regions: Regions, config: SafetabConfig) -> None:
        self.set = one
        self.regions = regions
        self.allow_negative = config.allow_negative
        self._chance = config.suppression
        self.n_counts = 0
        self._parts: list[list[_Groups]] = [[] for _ in DETAIL_NAMES]

    def add(self, part: GroupMeasurements) -> None:
        """Take the published groups of one part of the measurements."""
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
        """T1 with variances and margins, of the regions measured and of their twins."""
        frames = [self._t1(*groups) for groups in self._groups(twins)]
        return pl.concat(frames) if frames else _empty(T1_COLUMNS, ("DETAIL", "SAME_AS"))

    def t2(self, twins: Sequence[Twin] = ()) -> pl.DataFrame:
        """T2 with variances and margins, of the regions measured and of their twins."""
        frames = [
            self._t2(*groups) for groups in self._groups(twins) if 0 < groups[0].detail < TOTAL_ONLY_DETAIL
        ]
        return pl.concat(frames) if frames else _empty(T2_COLUMNS, ("SAME_AS",))

    def _add(
        self, part: GroupMeasurements, detail: int, places: Int64Array, cells: Int64Array, width: int
    ) -> None:
        if not len(places):
            return
        rows, iterations = np.divmod(places, width)
        if detail == TOTAL_ONLY_DETAIL:
            shifts, methods = np.zeros(len(places), np.int64), np.full(len(places), Method.MEASURED, np.int8)
            iterations = iterations + self.set.view.n_adaptive
        else:
            stage_1 = part.stage_1.reshape(-1)[places]
            shifts, methods = self._estimator(detail).shifts(stage_1, cells.sum(axis=1))
        self._parts[detail].append(_Groups(detail, part.regions[rows], iterations, cells, shifts, methods))

    def _estimator(self, detail: int) -> DetailEstimator:
        one = self.set
        return estimator_of(
            DETAILS[detail - 1].n_cells if detail else 1,
            one.stage_1,
            one.stage_2,
            one.thresholds[detail - 1] if detail else None,
            one.thresholds[detail] if detail < len(DETAILS) else None,
        )

    def _groups(self, twins: Sequence[Twin]) -> Iterator[tuple[_Groups, str, pl.Series, bool]]:
        """Groups of every detail: (groups, geography, region ids by position, whether they are a twin's)."""
        own = self.set.geography
        for parts in self._parts:
            if not parts:
                continue
            groups = _joined(parts)
            yield groups, own, self.regions.names(own), False
            for geography in dict.fromkeys(twin.geography for twin in twins):
                copied = self._copied(groups, [twin for twin in twins if twin.geography == geography])
                if len(copied.regions):
                    yield copied, geography, self.regions.names(geography), True

    def _copied(self, groups: _Groups, twins: Sequence[Twin]) -> _Groups:
        """The groups of regions that have a twin in one geography, at the twin's position.

        Below the state, total-only groups are not tabulated and small totals are suppressed, whoever measured.
        """
        twin_of = np.full(len(self.regions.ids[self.set.geography]), -1, np.int64)
        twin_of[[twin.measured for twin in twins]] = [twin.region for twin in twins]
        kept = twin_of[groups.regions] >= 0
        if twins[0].geography not in NATIONWIDE:
            kept &= groups.detail != TOTAL_ONLY_DETAIL
            if groups.detail == 0 and self._chance is not None:
                kept &= groups.cells[:, 0] > suppression_bound(self.set.stage_2, self._chance)
        return _Groups(
            groups.detail,
            twin_of[groups.regions[kept]],
            groups.iterations[kept],
            groups.cells[kept],
            groups.shifts[kept],
            groups.methods[kept],
        )

    def _t1(self, groups: _Groups, geography: str, names: pl.Series, twin: bool) -> pl.DataFrame:
        n = groups.cells.shape[1]
        columns = {
            **self._keys(groups, geography, names, 1),
            "COUNT": self._raised(groups.cells).sum(axis=1),
            **self._quality(groups, "total", groups.cells.sum(axis=1) * UNIT + n * groups.shifts),
            "DETAIL": _constant(DETAIL_NAMES[groups.detail], len(groups.regions)),
            "SAME_AS": _constant(self.set.geography if twin else "", len(groups.regions)),
        }
        return pl.DataFrame(columns)

    def _t2(self, groups: _Groups, geography: str, names: pl.Series, twin: bool) -> pl.DataFrame:
        """Rows of a group: its two sexes, then its cells."""
        detail = DETAILS[groups.detail - 1]
        half, size = detail.n_cells // 2, len(groups.regions)
        sexes = [slice(0, half), slice(half, None)]
        raised = self._raised(groups.cells)
        counts = np.concatenate([np.stack([raised[:, s].sum(axis=1) for s in sexes], axis=1), raised], axis=1)
        halves = np.stack(
            [groups.cells[:, s].sum(axis=1) * UNIT + half * groups.shifts for s in sexes], axis=1
        )
        cells = groups.cells * UNIT + groups.shifts[:, None]
        spans = [(ANY, ANY)] * 2 + [(str(first), str(last)) for first, last in detail.spans] * 2
        sex = [*SEXES, *(s for s in SEXES for _ in range(half))]
        columns: dict[str, Any] = {
            **self._keys(groups, geography, names, 2 + detail.n_cells),
            "AGESTART": _tiled([start for start, _ in spans], size),
            "AGEEND": _tiled([end for _, end in spans], size),
            "SEX": _tiled(sex, size),
            "COUNT": counts.reshape(-1),
        }
        parts = self._quality(groups, "half", halves), self._quality(groups, "cell", cells)
        for name in QUALITY_COLUMNS:
            columns[name] = _side_by_side(parts[0][name], 2, parts[1][name], detail.n_cells, size)
        columns["SAME_AS"] = _constant(self.set.geography if twin else "", size * (2 + detail.n_cells))
        return pl.DataFrame(columns)

    def _keys(self, groups: _Groups, geography: str, names: pl.Series, times: int) -> dict[str, pl.Series]:
        codes = pl.Series(self.set.view.codes)
        rows, iterations = np.repeat(groups.regions, times), np.repeat(groups.iterations, times)
        return {
            "REGION_ID": names.gather(rows),
            "REGION_TYPE": _constant(geography, len(rows)),
            "ITERATION_CODE": codes.gather(iterations),
        }

    def _quality(self, groups: _Groups, part: str, units: Int64Array) -> dict[str, Any]:
        """Quality columns of a number of each group, or of several: `units` is its estimate in 1/4096."""
        estimates = units / UNIT  # a whole number below 2**53 over a power of two: exact
        if not self.allow_negative:
            estimates = np.maximum(estimates, 0.0)
        per_group = units.shape[1] if units.ndim == 2 else 1
        methods = np.repeat(groups.methods, per_group)
        combined, measured = self._qualities(groups.detail, part)
        better = methods == Method.COMBINED
        size = len(methods)
        return {
            "VARIANCE": np.full(size, measured.variance),
            "MARGIN": np.full(size, measured.margin),
            "ESTIMATE": estimates.reshape(-1),
            "ESTIMATE_VARIANCE": np.where(better, combined.variance, measured.variance),
            "ESTIMATE_MARGIN": np.where(better, combined.margin, measured.margin),
            "METHOD": pl.Series(METHODS).gather(methods.astype(np.int64)),
        }

    def _qualities(self, detail: int, part: str) -> tuple[Quality, Quality]:
        if detail == TOTAL_ONLY_DETAIL:
            quality = quality_of(self.set.total_only)
            return quality, quality
        return self._estimator(detail).qualities(part)

    def _raised(self, cells: Int64Array) -> Int64Array:
        return cells if self.allow_negative else np.maximum(cells, 0)


def _joined(parts: list[_Groups]) -> _Groups:
    names = ("regions", "iterations", "cells", "shifts", "methods")
    arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return _Groups(parts[0].detail, *arrays)


def _constant(text: str, n: int) -> pl.Series:
    return pl.select(pl.repeat(text, n, dtype=pl.String)).to_series()


def _tiled(values: list[str], times: int) -> pl.Series:
    return pl.Series(values, dtype=pl.String).gather(np.tile(np.arange(len(values)), times))


def _side_by_side(first: Any, n_first: int, second: Any, n_second: int, size: int) -> Any:
    """Columns of (size, n_first) and (size, n_second) as one of (size, n_first + n_second), flat."""
    if isinstance(first, pl.Series):
        places = _side_by_side(
            np.arange(size * n_first), n_first, np.arange(size * n_second) + size * n_first, n_second, size
        )
        return pl.concat([first, second]).gather(places)
    joined = np.concatenate([first.reshape(size, n_first), second.reshape(size, n_second)], axis=1)
    return joined.reshape(-1)


def _empty(columns: Sequence[str], further: Sequence[str]) -> pl.DataFrame:
    kinds: dict[str, Any] = dict.fromkeys((*columns, *QUALITY_COLUMNS, *further), pl.String)
    kinds |= dict.fromkeys(QUALITY_COLUMNS[:-1], pl.Float64)
    return pl.DataFrame(schema=kinds | {"COUNT": pl.Int64})
