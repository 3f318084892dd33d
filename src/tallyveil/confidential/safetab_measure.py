"""Measures population groups: true counts of a few regions at a time, plus exact addressed noise."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.confidential.histogram import REDACTED
from tallyveil.confidential.safetab_records import ConfidentialPersons
from tallyveil.kernels.records.safetab_groups import (
    IterationMaps,
    RegionBlocks,
    choose_detail,
    count_tables,
    count_totals,
    list_totals,
)
from tallyveil.noise.laws import Law
from tallyveil.safetab.addresses import (
    CELLS_APART,
    FIRST_TABLE,
    GEOLEVELS,
    STAGE_1,
    TOTAL,
    TOTAL_ONLY,
    query_number,
)
from tallyveil.safetab.ages import DETAILS, FINEST_CELLS
from tallyveil.safetab.measurements import GroupMeasurements, TableMeasurements
from tallyveil.safetab.plan import LevelSet
from tallyveil.safetab.regions import Regions

GROUPS_AT_ONCE = 1 << 18
"""Number of groups measured in one part, so that the counts of a part fit into the processor's cache."""

KEEP_ALL = -(2**62)
ANSWERS_AT_ONCE = 1 << 20


class AddressedNoise(Protocol):
    """The methods of a noise source that measuring needs (`tallyveil.noise.source.NoiseSource`)."""

    def add_dense(
        self, law: Law, geolevel: int, query: int, geounits: Any, counts: NDArray[np.int64]
    ) -> None:
        """Add noise to counts in place."""
        ...

    def at(self, law: Law, geolevel: int, query: int, geounits: Any, answers: Any) -> NDArray[np.int64]:
        """Noise at scattered addresses."""
        ...


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class GroupMeasurer:
    """Noisy counts of the population groups of one run, computed on request.

    Attributes:
        persons: The people. Confidential.
        regions: The public geography.
        noise: Addressed noise of this run, bound to the records, the geography and the plan.

    Privacy: all groups of all level sets together cost `RunPlan.event`. In stage 1, a record changes the totals of at
        most `stability` groups of a region by one. In stage 2, given the outcome of stage 1, it changes one cell of
        each of them (SafeTab, Haney et al., Lemmas 9, 10 and 12). Repeated requests give the same noise.
    """

    persons: ConfidentialPersons
    regions: Regions
    noise: AddressedNoise

    def __repr__(self) -> str:
        return f"GroupMeasurer(run={self.regions.run!r}, persons={REDACTED}, noise={REDACTED})"

    def measure(self, one: LevelSet, regions: Integers) -> Iterator[GroupMeasurements]:
        """Measure all groups of some regions of a level set, in parts of limited size.

        Args:
            one: The level set.
            regions: Positions of the regions; int64, ascending.
        """
        blocks = self.regions.blocks_of(one.geography)
        n_rows = max(1, GROUPS_AT_ONCE // len(one.view.iterations))
        for first in range(0, len(regions), n_rows):
            yield self._part(one, np.ascontiguousarray(regions[first : first + n_rows]), blocks)

    def _part(self, one: LevelSet, regions: Integers, blocks: RegionBlocks) -> GroupMeasurements:
        view, n_adaptive = one.view, one.view.n_adaptive
        people, maps = (
            self.persons.coded(),
            IterationMaps(view.alone_of, view.combination_of, view.ethnicity_of),
        )
        counts = np.zeros((len(regions), len(view.iterations)), np.int64)
        count_totals(regions, blocks, people, maps, counts)
        totals = np.ascontiguousarray(counts[:, :n_adaptive])
        total_only = np.ascontiguousarray(counts[:, n_adaptive:])
        stage_1 = totals.copy()
        self._add(one, STAGE_1, one.stage_1, regions, stage_1)
        self._add(one, TOTAL_ONLY, one.total_only, regions, total_only)
        self._add(one, TOTAL, one.stage_2, regions, totals)
        detail, slots = np.empty(totals.shape, np.int8), np.empty(totals.shape, np.int32)
        n_tables = choose_detail(stage_1, np.array(one.thresholds, np.int64), detail, slots)
        places = np.empty(totals.size + 1, np.int64)
        keep_above = KEEP_ALL if one.keep_above is None else one.keep_above
        n_listed = list_totals(totals, detail, keep_above, places)
        finest = np.zeros((n_tables + 1, FINEST_CELLS), np.int64)
        if n_tables:
            count_tables(regions, blocks, people, self.persons.cells, maps, slots, finest)
        tables = self._tables(one, regions, detail, finest[:n_tables])
        listed = places[:n_listed].copy()
        return GroupMeasurements(regions, stage_1, detail, totals, listed, tables, total_only)

    def _add(
        self, one: LevelSet, measured: int, law: Law, regions: Integers, counts: NDArray[np.int64]
    ) -> None:
        if counts.size:
            query = query_number(one.level, measured)
            self.noise.add_dense(law, GEOLEVELS[one.geography], query, regions, counts)

    def _tables(
        self, one: LevelSet, regions: Integers, detail: NDArray[np.int8], finest: Integers
    ) -> tuple[TableMeasurements, TableMeasurements, TableMeasurements]:
        """Noisy tables of the groups with detail 1, 2 and 3. `finest` has one row for each such group, in order."""
        chosen = np.flatnonzero(detail)
        of_chosen = detail.reshape(-1)[chosen]
        first, second, third = (
            self._table(one, number, regions, chosen[of_chosen == number], finest[of_chosen == number])
            for number in (1, 2, 3)
        )
        return first, second, third

    def _table(
        self, one: LevelSet, number: int, regions: Integers, places: Integers, finest: Integers
    ) -> TableMeasurements:
        detail = DETAILS[number - 1]
        values = detail.collapse(finest)
        query = query_number(one.level, FIRST_TABLE + number - 1)
        rows, iterations = np.divmod(places, one.view.n_adaptive)
        step = max(1, ANSWERS_AT_ONCE // detail.n_cells)
        for first in range(0, len(places), step):
            part = slice(first, first + step)
            geounits = np.repeat(regions[rows[part]], detail.n_cells)
            answers = (iterations[part, None] * CELLS_APART + np.arange(detail.n_cells)).reshape(-1)
            noise = self.noise.at(one.stage_2, GEOLEVELS[one.geography], query, geounits, answers)
            values[part] += noise.reshape(-1, detail.n_cells)
        return TableMeasurements(places, values)
