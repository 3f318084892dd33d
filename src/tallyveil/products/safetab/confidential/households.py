"""SafeTab-H behind the wall: household records, and noisy tables of the groups that a published T1 lists."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.confidential.histogram import REDACTED
from tallyveil.kernels.records.safetab_groups import IterationMaps, count_tables
from tallyveil.products.safetab.confidential.measure import ANSWERS_AT_ONCE, GROUPS_AT_ONCE, AddressedNoise
from tallyveil.products.safetab.confidential.records import Columns, ConfidentialPersons, read_coded_records
from tallyveil.products.safetab.public.addresses import CELLS_APART, GEOLEVELS, HOUSEHOLDS, query_number
from tallyveil.products.safetab.public.household_tables import ListedGroups
from tallyveil.products.safetab.public.households import HOUSEHOLDS as FORM
from tallyveil.products.safetab.public.households import TABLES, HouseholdPlan, HouseholdSet
from tallyveil.products.safetab.public.regions import Regions


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
