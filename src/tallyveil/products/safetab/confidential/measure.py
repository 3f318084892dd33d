"""Measures population groups: true counts of a few regions at a time, plus exact addressed noise.

The groups of a region in the Census layout are its iterations. For SafeTab-H they are households, and the
groups are those that a published T1 lists.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.confidential.histogram import REDACTED
from tallyveil.kernels.records import (
    IterationMaps,
    RegionBlocks,
    choose_detail,
    count_tables,
    count_totals,
    list_totals,
)
from tallyveil.noise.laws import Law
from tallyveil.products.safetab.confidential.records import Columns, ConfidentialPersons, read_coded_records
from tallyveil.products.safetab.public.addresses import (
    CELLS_APART,
    FIRST_TABLE,
    GEOLEVELS,
    HOUSEHOLDS,
    STAGE_1,
    TOTAL,
    TOTAL_ONLY,
    query_number,
)
from tallyveil.products.safetab.public.ages import FINEST_CELLS
from tallyveil.products.safetab.public.group_numbers import GroupMeasurements, TableMeasurements
from tallyveil.products.safetab.public.household_tables import ListedGroups
from tallyveil.products.safetab.public.households import HOUSEHOLDS as FORM
from tallyveil.products.safetab.public.households import TABLES, HouseholdPlan, HouseholdSet
from tallyveil.products.safetab.public.levels import GroupLevel
from tallyveil.products.safetab.public.plan import LevelSet
from tallyveil.products.safetab.public.regions import Regions

GROUPS_AT_ONCE = 1 << 18
"""Number of groups measured in one part, so that the counts of a part fit into the processor's cache."""

KEEP_ALL = -(2**62)
"""A bound that every noisy total is above, for levels without suppression: the kernel takes no None. Counts are below
2**40, and noise of a plan's law does not come near 2**61, so half of it would do as well; -2**63 is the last that
fits."""

ANSWERS_AT_ONCE = 1 << 20
"""Most addresses drawn in one call: 2**20, some 8 MiB for each array of addresses and draws. Twice as many take twice
the memory, and half as many make twice the calls. The numbers are the same for any value."""


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


class LevelCounts(Protocol):
    """True counts of the groups of one level. Confidential."""

    def totals(self, rows: Integers) -> Integers:
        """Records in each group of some rows; int64, shape (rows, width of the level)."""
        ...

    def tables(self, rows: Integers, slots: NDArray[np.int32], n: int) -> Integers:
        """Tables of the finest cells of some groups.

        Args:
            rows: Rows of the level; int64, ascending.
            slots: For each adaptive group of these rows, its place among the tables, or -1 for none.
            n: Number of tables.
        Returns:
            int64, shape (n, finest cells).
        """
        ...


Level_contra = TypeVar("Level_contra", bound=GroupLevel, contravariant=True)


class GroupCounts(Protocol[Level_contra]):
    """True counts of population groups, whatever the layout of their records. Confidential."""

    def of(self, level: Level_contra) -> LevelCounts:
        """The counts of one level."""
        ...


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class GroupMeasurer(Generic[Level_contra]):
    """Noisy counts of population groups, computed on request: Algorithm 2 for each group.

    Attributes:
        counts: The true counts. Confidential.
        noise: Addressed noise of this run, bound to the records, the public inputs and the plan.

    Privacy: all groups of all levels together cost the event of the plan. In stage 1, a record changes the totals of
        at most `stability` groups of a level by one. In stage 2, given the outcome of stage 1, it changes one cell of
        each of them (SafeTab, Haney et al., Lemmas 9, 10 and 12). Repeated requests give the same noise.
    """

    counts: GroupCounts[Level_contra]
    noise: AddressedNoise

    def __repr__(self) -> str:
        return f"GroupMeasurer(counts={REDACTED}, noise={REDACTED})"

    def measure(self, level: Level_contra, rows: Integers) -> Iterator[GroupMeasurements]:
        """Measure all groups of some rows of a level, in parts of limited size.

        Args:
            level: The level.
            rows: Its rows; int64, ascending.
        """
        # At least one row, even if a row alone is wider than the limit.
        exact, n_rows = self.counts.of(level), max(1, GROUPS_AT_ONCE // level.width)
        for first in range(0, len(rows), n_rows):
            yield self._part(level, np.ascontiguousarray(rows[first : first + n_rows]), exact)

    def _part(self, level: GroupLevel, rows: Integers, exact: LevelCounts) -> GroupMeasurements:
        # Whatever is returned went through the noise source. Only declassifying gives this class a source that adds
        # none.
        counts = exact.totals(rows)
        totals = np.ascontiguousarray(counts[:, : level.n_adaptive])
        total_only = np.ascontiguousarray(counts[:, level.n_adaptive :])
        # Stage 1 and stage 2 measure the same true totals with independent noise, at different query numbers.
        stage_1 = totals.copy()
        # Noise is added for every group, also for those whose stage-2 total is not used: the addresses and so
        # the numbers do not depend on which detail is chosen.
        self._add(level, STAGE_1, level.stage_1, rows, stage_1)
        self._add(level, TOTAL_ONLY, level.total_only, rows, total_only)
        self._add(level, TOTAL, level.stage_2, rows, totals)
        detail, slots = np.empty(totals.shape, np.int8), np.empty(totals.shape, np.int32)
        # From the noisy count alone (post-processing): the choice reveals nothing that stage 1 has not paid
        # for.
        n_tables = choose_detail(stage_1, np.array(level.thresholds, np.int64), detail, slots)
        # One entry more than the kernel can list, so that the array is never of length 0.
        places = np.empty(totals.size + 1, np.int64)
        keep_above = KEEP_ALL if level.keep_above is None else level.keep_above
        # Also sets the totals of other details to 0: a group with a table must not have a second measured
        # total.
        n_listed = list_totals(totals, detail, keep_above, places)
        finest = np.zeros((0, level.ladder.finest_cells), np.int64)
        # Only now are tables counted, for the groups that need one: most groups are empty and have none.
        if n_tables:
            finest = exact.tables(rows, slots, n_tables)
        tables = self._tables(level, rows, detail, finest)
        # A copy, so that the part does not keep the whole array of room alive.
        listed = places[:n_listed].copy()
        return GroupMeasurements(rows, stage_1, detail, totals, listed, tables, total_only)

    def _add(
        self, level: GroupLevel, measured: int, law: Law, rows: Integers, counts: NDArray[np.int64]
    ) -> None:
        # A level may have no adaptive or no total-only groups; the noise source takes no empty block.
        if counts.size:
            self.noise.add_dense(law, level.geolevel, level.query + measured, rows, counts)

    def _tables(
        self, level: GroupLevel, rows: Integers, detail: NDArray[np.int8], finest: Integers
    ) -> tuple[TableMeasurements, ...]:
        """Noisy tables of the groups of each detail but 0. `finest` has one row for each such group, in order."""
        # In the order in which `choose_detail` numbered the slots, so row k of `finest` is group chosen[k].
        chosen = np.flatnonzero(detail)
        of_chosen = detail.ravel()[chosen]
        return tuple(
            self._table(level, number, rows, chosen[of_chosen == number], finest[of_chosen == number])
            for number in range(1, level.ladder.total_only)
        )

    def _table(
        self, level: GroupLevel, number: int, rows: Integers, places: Integers, finest: Integers
    ) -> TableMeasurements:
        table = level.ladder.tables[number - 1]
        # The detail's cells are summed from true cells first: one draw for each published cell.
        values, n_cells = table.collapse(finest), table.n_cells
        query = level.query + FIRST_TABLE + number - 1
        # max: a level without adaptive groups has no places, and must not divide by 0.
        within, groups = np.divmod(places, max(1, level.n_adaptive))
        step = max(1, ANSWERS_AT_ONCE // n_cells)
        for first in range(0, len(places), step):
            part = slice(first, first + step)
            geounits = np.repeat(rows[within[part]], n_cells)
            # The stride is the same for all details, so a group's addresses do not depend on its detail's
            # size.
            answers = (groups[part, None] * level.ladder.cells_apart + np.arange(n_cells)).ravel()
            noise = self.noise.at(level.stage_2, level.geolevel, query, geounits, answers)
            values[part] += noise.reshape(-1, n_cells)
        return TableMeasurements(places, values)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PersonCounts:
    """Counts of the people of one run in its population groups.

    Attributes:
        persons: The people. Confidential.
        regions: The public geography.
    """

    persons: ConfidentialPersons
    regions: Regions

    def __repr__(self) -> str:
        return f"PersonCounts(run={self.regions.run!r}, persons={REDACTED})"

    def of(self, level: LevelSet) -> "_SetCounts":
        """The counts of one level set."""
        view = level.view
        # The kernel counts race and ethnicity in one pass over the people of a block.
        maps = IterationMaps(view.alone_of, view.combination_of, view.ethnicity_of)
        return _SetCounts(self.persons, self.regions.blocks_of(level.geography), maps, len(view.iterations))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _SetCounts:
    """Counts of the groups of one level set. Rows are regions."""

    persons: ConfidentialPersons
    blocks: RegionBlocks
    maps: IterationMaps
    width: int

    def totals(self, rows: Integers) -> Integers:
        """People in each group of some regions."""
        # Zeros, because the kernel adds. int64, because noise is added in place and may be large.
        counts = np.zeros((len(rows), self.width), np.int64)
        count_totals(rows, self.blocks, self.persons.coded(), self.maps, counts)
        return counts

    def tables(self, rows: Integers, slots: NDArray[np.int32], n: int) -> Integers:
        """Tables of sex by 23 ages of some groups; see `LevelCounts.tables`."""
        # One row more than asked for: the kernel adds people without a slot there instead of branching.
        finest = np.zeros((n + 1, FINEST_CELLS), np.int64)
        persons = self.persons
        count_tables(rows, self.blocks, persons.coded(), persons.cells, self.maps, slots, finest)
        return finest[:n]


def read_households(
    folder: Path, plan: HouseholdPlan, regions: Mapping[str, Regions]
) -> dict[str, dict[str, ConfidentialPersons]]:
    """Read and check household-records. For each run and table, return the households with that table's finest cells.

    Raises:
        ConfigError, SchemaError, GeographyError, StoreError: as `read_persons`, with the same rules and messages.
    Privacy: messages name only the file, columns and rules.
    """
    return read_coded_records(folder, FORM, _finest_cells, plan.config, plan.files, regions)


def _finest_cells(columns: Columns) -> Mapping[str, NDArray[np.int8]]:
    # Values of the columns begin with 1, positions with 0. One reading of the records serves both tables.
    return {table.name: np.array(table.finest_of, np.int8)[columns[table.record] - 1] for table in TABLES}


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HouseholdMeasurer:
    """Noisy tables of the groups of one run.

    Attributes:
        households: The households, by table. Confidential.
        regions: The public geography.
        noise: Addressed noise of this run.

    Privacy: a record changes one cell by one in each of at most `stability` groups of a set. The detail of a group is
        already public. So a set costs `stability` counts with its law. Repeated requests give the same noise.
    """

    households: Mapping[str, ConfidentialPersons]
    regions: Regions
    noise: AddressedNoise

    def __repr__(self) -> str:
        return f"HouseholdMeasurer(households={REDACTED}, noise={REDACTED})"

    def measure(self, household_set: HouseholdSet, groups: ListedGroups) -> tuple[Integers, ...]:
        """Noisy cells of the groups of each detail, in the order of `groups`."""
        # Counted for all details together: a pass over the households costs more than the noise.
        finest = self._count(household_set, groups)
        return tuple(
            self._detail(household_set, number, groups, finest[groups.detail == number])
            for number in range(len(household_set.layout.details))
        )

    def _count(self, household_set: HouseholdSet, groups: ListedGroups) -> Integers:
        """True finest cells of every group, computed for some regions at a time."""
        homes = self.households[household_set.table]
        blocks = self.regions.blocks_of(household_set.geography)
        # The last row is the kernel's working room for households in groups without a slot.
        finest = np.zeros((len(groups.regions) + 1, max(household_set.layout.finest_of) + 1), np.int64)
        wanted = np.unique(groups.regions)
        width = len(household_set.view.iterations)
        # `slots` has regions x iterations entries, most of them -1, so regions are taken a few at a time.
        step = max(1, GROUPS_AT_ONCE // width)
        maps = IterationMaps(
            household_set.view.alone_of, household_set.view.combination_of, household_set.view.ethnicity_of
        )
        for first in range(0, len(wanted), step):
            part = np.ascontiguousarray(wanted[first : first + step])
            # Listed groups are sorted by region, so those of a part are one slice.
            low, high = np.searchsorted(groups.regions, [part[0], part[-1] + 1])
            slots = np.full((len(part), width), -1, np.int32)
            rows = np.searchsorted(part, groups.regions[low:high])
            # A slot is the position in `groups`, so all parts add into one table and no order is lost.
            slots[rows, groups.iterations[low:high]] = np.arange(low, high)
            count_tables(part, blocks, homes.coded(), homes.cells, maps, slots, finest)
        return finest[:-1]

    def _detail(
        self, household_set: HouseholdSet, number: int, groups: ListedGroups, finest: Integers
    ) -> Integers:
        detail = household_set.layout.details[number]
        # Summed before noise is added: each published cell has one draw of noise, whatever its detail.
        values = np.zeros((len(finest), detail.n_cells), np.int64)
        for cell, into in enumerate(detail.cell_of):
            values[:, into] += finest[:, cell]
        listed = np.flatnonzero(groups.detail == number)
        # Each table and detail has a query number of its own, so no two counts share a draw.
        query = query_number(household_set.level, HOUSEHOLDS[household_set.table] + number)
        # Bounds the memory of addresses and draws; the numbers do not depend on it, because noise is
        # addressed.
        step = max(1, ANSWERS_AT_ONCE // detail.n_cells)
        for first in range(0, len(listed), step):
            part = listed[first : first + step]
            geounits = np.repeat(groups.regions[part], detail.n_cells)
            answers = groups.iterations[part, None] * CELLS_APART + np.arange(detail.n_cells)
            noise = self.noise.at(
                household_set.law, GEOLEVELS[household_set.geography], query, geounits, answers.ravel()
            )
            values[first : first + step] += noise.reshape(-1, detail.n_cells)
        return values
