"""Tables T1 and T2 from noisy measurements: the production counts, better estimates next to them, and margins of both.

T1 has the total of each population group. T2 has its sex by age and its sexes. COUNT is what production publishes: a
noisy count, or a sum of noisy cells. ESTIMATE is the least-squares estimate of the same number (`estimates`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.products.safetab.public.ages import DETAILS, SEXES
from tallyveil.products.safetab.public.config import NATIONWIDE, SafetabConfig
from tallyveil.products.safetab.public.coterminous import Twin
from tallyveil.products.safetab.public.group_numbers import (
    QUALITY_COLUMNS,
    CollectedGroups,
    NumberedGroups,
    numbers_of,
)
from tallyveil.products.safetab.public.levels import bounds_of
from tallyveil.products.safetab.public.measurements import GroupMeasurements
from tallyveil.products.safetab.public.plan import LADDER, LevelSet, suppression_bound
from tallyveil.products.safetab.public.regions import Regions
from tallyveil.products.safetab.public.sums import noise_sum, quantile_of_sum

T1_COLUMNS: Final = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "COUNT")
T2_COLUMNS: Final = ("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "AGESTART", "AGEEND", "SEX", "COUNT")
DETAIL_NAMES: Final = LADDER.names
TOTAL_ONLY_DETAIL: Final = LADDER.total_only
ANY: Final = "*"
"""Value of AGESTART and AGEEND in a row of a whole sex."""


class SetTables:
    """Collects the tables of one level set, part by part.

    Args:
        level_set: The level set.
        regions: The geography of the run.
        config: The config.
        exact: Whether the measurements have no noise. Then no estimate is made, and every margin is 0.
    """

    def __init__(
        self, level_set: LevelSet, regions: Regions, config: SafetabConfig, *, exact: bool = False
    ) -> None:
        self.set = level_set
        self.regions = regions
        self.allow_negative = config.allow_negative
        self._chance = config.suppression
        self._exact = exact
        self._collected = CollectedGroups(level_set)

    @property
    def n_counts(self) -> int:
        """Number of noisy counts in the measurements."""
        return self._collected.n_counts

    def add(self, part: GroupMeasurements) -> None:
        """Add the published groups of one part of the measurements."""
        self._collected.add(part)

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

    def _groups(self, twins: Sequence[Twin]) -> Iterator[tuple[NumberedGroups, str, pl.Series, bool]]:
        """Groups of every detail: (groups, geography, region ids by position, whether they belong to twins)."""
        place = self.set.geography
        names = self.regions.names(place)
        for groups in self._collected.by_detail():
            yield groups, place, names, False
            # All twins in one geography have the thresholds of its level set.
            for geography in dict.fromkeys(twin.geography for twin in twins):
                of_geography = [twin for twin in twins if twin.geography == geography]
                for copied in self._copied(groups, of_geography):
                    yield copied, geography, self.regions.names(geography), True

    def _copied(self, groups: NumberedGroups, twins: Sequence[Twin]) -> Iterator[NumberedGroups]:
        """The groups of regions with a twin in one geography, at the twin's position and in the twin's detail.

        The twin's own thresholds and the measured stage-1 count choose the detail. It is at most as fine as the
        measured detail (`coterminous`), so its cells are sums of measured cells. Below the state, total-only groups are
        not tabulated and small totals are suppressed, whichever region was measured.
        """
        # By position of the measured region; -1 without a twin.
        twin_of = np.full(len(self.regions.ids[self.set.geography]), -1, np.int64)
        twin_of[[twin.measured for twin in twins]] = [twin.region for twin in twins]
        groups = groups.subset(twin_of[groups.rows] >= 0)
        groups = replace(groups, rows=twin_of[groups.rows])
        nationwide = twins[0].geography in NATIONWIDE
        # Below the state those iterations do not exist in the list.
        if groups.detail == TOTAL_ONLY_DETAIL:
            if nationwide and len(groups.rows):
                yield groups
            return
        thresholds = twins[0].thresholds
        details = np.searchsorted(np.array(thresholds), groups.stage_1, side="right")
        for detail in np.unique(details).tolist():
            of_detail = details == detail
            if detail == 0 and not nationwide and self._chance is not None:
                # The total may now be a sum of measured cells, whose noise is larger, so the bound is that of
                # the sum.
                of_detail &= groups.cells.sum(axis=1) > self._bound(groups.cells.shape[1], self._chance)
            if of_detail.any():
                # Stage 1 has passed both choices, so the estimate is corrected for both.
                bounds = _narrower(groups.bounds, bounds_of(thresholds, detail))
                yield replace(groups.subset(of_detail), detail=detail, bounds=bounds)

    def _bound(self, n: int, chance: Fraction) -> int:
        """The bound that a total from n cells must exceed to be published."""
        law = self.set.stage_2
        # For one draw the bound is certified; for a sum it is by floats and rounded up where they cannot
        # decide.
        return suppression_bound(law, chance) if n == 1 else quantile_of_sum(noise_sum(law, n), chance)

    def _t1(self, groups: NumberedGroups, geography: str, names: pl.Series, twin: bool) -> pl.DataFrame:
        n, size = groups.cells.shape[1], len(groups.rows)
        columns = {
            **self._keys(groups, geography, names, 1),
            **self._numbers(groups, [np.arange(n)]),
            "DETAIL": _constant(DETAIL_NAMES[groups.detail], size),
            "SAME_AS": _constant(self.set.geography if twin else "", size),
        }
        return pl.DataFrame(columns)

    def _t2(self, groups: NumberedGroups, geography: str, names: pl.Series, twin: bool) -> pl.DataFrame:
        """Rows of each group: its two sexes, then its cells."""
        detail, measured = DETAILS[groups.detail - 1], DETAILS[groups.measured - 1]
        size, into = len(groups.rows), measured.cells_in(detail)
        half = measured.n_cells // 2
        sums = [np.arange(half), np.arange(half, 2 * half)]
        # For a measured region the two details are the same and each sum has one cell.
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

    def _numbers(self, groups: NumberedGroups, sums: Sequence[Integers]) -> dict[str, Any]:
        return numbers_of(self.set, groups, sums, allow_negative=self.allow_negative, exact=self._exact)

    def _keys(
        self, groups: NumberedGroups, geography: str, names: pl.Series, times: int
    ) -> dict[str, pl.Series]:
        codes = pl.Series(self.set.view.codes)
        rows, columns = np.repeat(groups.rows, times), np.repeat(groups.columns, times)
        return {
            "REGION_ID": names.gather(rows),
            "REGION_TYPE": _constant(geography, len(rows)),
            "ITERATION_CODE": codes.gather(columns),
        }


def _narrower(
    left: tuple[int | None, int | None], other: tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    """The bounds that satisfy both pairs of bounds."""
    lowest = [x for x in (left[0], other[0]) if x is not None]
    highest = [x for x in (left[1], other[1]) if x is not None]
    return max(lowest, default=None), min(highest, default=None)


def _constant(text: str, n: int) -> pl.Series:
    return pl.Series([text], dtype=pl.String).new_from_index(0, n)


def _tiled(values: list[str], times: int) -> pl.Series:
    return pl.Series(values, dtype=pl.String).gather(np.tile(np.arange(len(values)), times))


def _empty(columns: Sequence[str], further: Sequence[str]) -> pl.DataFrame:
    # Empty tables keep the types, so that runs can be joined.
    kinds: dict[str, Any] = dict.fromkeys((*columns, *QUALITY_COLUMNS, *further), pl.String)
    kinds |= dict.fromkeys(QUALITY_COLUMNS[:-1], pl.Float64)
    return pl.DataFrame(schema=kinds | {"COUNT": pl.Int64})
