"""True counts of population groups, for evaluation: entered in the ledger before anything is counted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.confidential.declassify import enter_declassified
from tallyveil.noise.laws import Law
from tallyveil.products.safetab.confidential.group_records import RecordGroups
from tallyveil.products.safetab.confidential.measure import GroupMeasurer, HouseholdMeasurer, PersonCounts
from tallyveil.products.safetab.confidential.records import ConfidentialPersons
from tallyveil.products.safetab.public.ages import FINEST_CELLS
from tallyveil.products.safetab.public.evaluation import TrueGroups, TrueLevel, joined_groups
from tallyveil.products.safetab.public.group_plan import MappedLevel
from tallyveil.products.safetab.public.household_tables import ListedGroups
from tallyveil.products.safetab.public.households import HouseholdSet
from tallyveil.products.safetab.public.plan import LevelSet
from tallyveil.products.safetab.public.regions import Regions


def declassify_groups(
    persons: ConfidentialPersons,
    regions: Regions,
    sets: Sequence[LevelSet],
    *,
    ledger: Ledger,
    reason: str,
) -> Iterator[tuple[LevelSet, TrueGroups]]:
    """Return the true counts of SafeTab's population groups, after recording this in the ledger.

    Args:
        persons: The people of one run.
        regions: Its geography.
        sets: Level sets to count.
        ledger: Ledger of the release. A non-private event is written to it before anything is counted.
        reason: The reason in words, for the ledger.
    Returns:
        Every level set with its nonempty groups, one after the other.
    Privacy: none. Everything computed from the result must be marked as not private.
    """
    measurer = exact_group_measurer(persons, regions, ledger=ledger, reason=reason)
    return (
        (level_set, _true_groups(measurer, level_set, len(regions.ids[level_set.geography])))
        for level_set in sets
    )


def declassify_levels(
    records: RecordGroups, levels: Sequence[MappedLevel], *, ledger: Ledger, reason: str
) -> Iterator[TrueLevel]:
    """Return the true counts of levels of population groups, after recording this in the ledger.

    Args:
        records: The groups of every record.
        levels: Levels to count.
        ledger, reason: As in `declassify_groups`.
    Returns:
        One level after the other.
    Privacy: none. Everything computed from the result must be marked as not private.
    """
    enter_declassified(ledger, reason)
    return (_true_level(records, level) for level in levels)


def declassify_households(
    households: Mapping[str, ConfidentialPersons],
    regions: Regions,
    groups: Sequence[tuple[HouseholdSet, ListedGroups]],
    *,
    ledger: Ledger,
    reason: str,
) -> Iterator[tuple[HouseholdSet, ListedGroups, tuple[NDArray[np.int64], ...]]]:
    """Return the true cells of SafeTab-H's groups, after recording this in the ledger.

    Args:
        households: The households of one run, by table.
        regions: Its geography.
        groups: Sets and their groups.
        ledger, reason: As in `declassify_groups`.
    Returns:
        Every set with its groups and, for each detail, the true cells of the groups with this detail.
    Privacy: none. Everything computed from the result must be marked as not private.
    """
    measurer = exact_household_measurer(households, regions, ledger=ledger, reason=reason)
    return (
        (household_set, listed, measurer.measure(household_set, listed)) for household_set, listed in groups
    )


def exact_group_measurer(
    persons: ConfidentialPersons, regions: Regions, *, ledger: Ledger, reason: str
) -> GroupMeasurer[LevelSet]:
    """A measurer of population groups that adds no noise, made after recording this in the ledger.

    Args:
        persons, regions, ledger, reason: As in `declassify_groups`.
    Privacy: none. Everything computed from its measurements must be marked as not private.
    """
    enter_declassified(ledger, reason)
    return GroupMeasurer(PersonCounts(persons, regions), _NoNoise())


def exact_household_measurer(
    households: Mapping[str, ConfidentialPersons], regions: Regions, *, ledger: Ledger, reason: str
) -> HouseholdMeasurer:
    """A measurer of groups of households that adds no noise, made after recording this in the ledger.

    Args:
        households, regions, ledger, reason: As in `declassify_households`.
    Privacy: none. Everything computed from its measurements must be marked as not private.
    """
    enter_declassified(ledger, reason)
    return HouseholdMeasurer(households, regions, _NoNoise())


def _true_level(records: RecordGroups, level: MappedLevel) -> TrueLevel:
    """All groups of a level. Every nonempty group that may have a table gets the finest one."""
    # All rows at once: a plan allows at most 2**27 numbers a level, a GiB.
    counts, rows = records.of(level), np.arange(level.listed.n_rows)
    totals = counts.totals(rows)
    slots = np.full(totals.shape, -1, np.int32)
    held = np.zeros(totals.shape, np.bool_)
    # Total-only groups stand last in each row and never have a table, so they keep slot -1.
    held[:, : level.n_adaptive] = totals[:, : level.n_adaptive] > 0
    # Row-major, the order in which `tables` fills its slots.
    slots[held] = np.arange(held.sum())
    adaptive = np.ascontiguousarray(slots[:, : level.n_adaptive])
    finest = counts.tables(rows, adaptive, int(held.sum()))
    return TrueLevel(level, totals.ravel(), slots.ravel(), finest)


class _NoNoise:
    """A noise source that adds nothing, so that the measurements are the true counts."""

    def add_dense(
        self, law: Law, geolevel: int, query: int, geounits: Any, counts: NDArray[np.int64]
    ) -> None:
        """Leave the counts unchanged."""

    def at(self, law: Law, geolevel: int, query: int, geounits: Any, answers: Any) -> NDArray[np.int64]:
        """Return zeros."""
        # Not drawn with a tiny scale: a law with no noise would still be a law in a plan, and the ledger must
        # say non-private.
        return np.zeros(len(answers), np.int64)


def _true_groups(measurer: GroupMeasurer[LevelSet], level_set: LevelSet, n_regions: int) -> TrueGroups:
    """All nonempty groups. Every group that may have a table and contains somebody gets the finest table."""
    # All thresholds 1: whoever is not empty passes all three and gets the finest table, whose sum is the
    # total. No suppression, as empty groups alone would be left out.
    exact = replace(level_set, thresholds=(1, 1, 1), keep_above=None)
    everywhere = np.arange(n_regions, dtype=np.int64)
    parts = []
    for part in measurer.measure(exact, everywhere):
        # Detail 3 alone occurs: 0 is for empty groups, and 1 and 2 lie between equal thresholds.
        finest = part.tables[2]
        rows, iterations = np.divmod(finest.places, level_set.view.n_adaptive)
        # int32 is enough for a cell (at most the 330 million people of a country); sums are taken before, in
        # int64.
        totals = finest.values.sum(axis=1)
        parts.append(TrueGroups(part.rows[rows], iterations, totals, finest.values.astype(np.int32)))
        rows, iterations = np.nonzero(part.total_only)
        totals = part.total_only[rows, iterations]
        # Total-only groups have no cells; zeros keep one shape for all groups. Their columns follow the
        # adaptive ones.
        empty = np.zeros((len(rows), FINEST_CELLS), np.int32)
        parts.append(
            TrueGroups(
                part.rows[rows], iterations.astype(np.int64) + level_set.view.n_adaptive, totals, empty
            )
        )
    return joined_groups(parts)
