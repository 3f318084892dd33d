"""Whether published files of people and of units contradict each other, in every finest geounit.

The files are made from different measurements. If nothing ties them together, a block may have people and no occupied
unit, or other householders in one file than in the other. This module counts such blocks from the published counts
alone. Releases can be made to agree so that some kinds of contradictions cannot occur. The other kinds are only
counted: the numbers tell how far the files are apart.
"""

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.release.household_totals import (
    KINDS,
    OLDER,
    HouseholdPeople,
    Households,
    RedistrictingPeople,
    Units,
)
from tallyveil.universe.counts import PublicCounts, sum_triplets


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One way in which two files can contradict each other, and how often they do.

    Attributes:
        name: A short name.
        meaning: What is true of files without such a contradiction, as a sentence.
        can_agree: Whether releases can be made to agree in this.
        n_geounits: Finest geounits that contradict.
        n_records: By how many records they differ, summed over these geounits.
    """

    name: str
    meaning: str
    can_agree: bool
    n_geounits: int
    n_records: int


def between_people(earlier: RedistrictingPeople, persons: HouseholdPeople) -> tuple[Contradiction, ...]:
    """Compare two files of people."""
    gaps = np.abs(earlier.members - persons.members)
    return (_found(gaps, "people in households", "Both files have the same number of people in households."),)


def between_units(earlier: Units, homes: Households) -> tuple[Contradiction, ...]:
    """Compare two files of units."""
    return (
        _found(
            np.abs(earlier.occupied - homes.occupied),
            "occupied units",
            "Both files have the same number of occupied units.",
        ),
        _found(
            np.abs(earlier.vacant - homes.vacant),
            "vacant units",
            "Both files have the same number of vacant units.",
        ),
    )


def people_and_units(
    people: RedistrictingPeople | HouseholdPeople, homes: Units | Households
) -> tuple[Contradiction, ...]:
    """Compare a file of people with a file of units. Every comparison is returned, also those without a contradiction.

    Args:
        people: What the first file says of people in households.
        homes: What the second one says of units, in the same order of geounits.
    """
    members, occupied = people.members, homes.occupied
    found = [
        _found(
            members * (occupied == 0),
            "people without a unit",
            "Where people live in households, a unit is occupied.",
        ),
        _found(
            np.maximum(occupied - members, 0),
            "units without people",
            "There are at least as many people in households as occupied units.",
        ),
    ]
    if isinstance(people, HouseholdPeople):
        found.append(
            _found(
                np.abs(people.householders - occupied),
                "householders",
                "There are as many householders as occupied units.",
            )
        )
        if isinstance(homes, Households):
            found += [*_households(people, homes), *_never_made_to_agree(people, homes)]
    return tuple(found)


def _households(people: HouseholdPeople, homes: Households) -> list[Contradiction]:
    """Comparisons of persons and households in which releases can be made to agree."""
    return [
        _found(
            _differences(people.kinds, homes.kinds),
            "kinds of householders",
            "Both files have the same number of householders of each kind: living alone or with others, sex, age "
            "group, "
            "Hispanic origin and race.",
        ),
        _found(
            np.abs(people.alone - homes.alone),
            "living alone",
            "As many people live alone as there are households of size 1.",
        ),
        _found(
            np.maximum(homes.occupied - homes.alone - (people.members - people.householders), 0),
            "households with others",
            "There are enough other people for every household of two or more.",
        ),
        _found(
            np.abs(people.partners.sum(axis=1) - homes.coupled.sum(axis=1)),
            "partners",
            "There are as many spouses and unmarried partners as coupled households.",
        ),
    ]


def _never_made_to_agree(people: HouseholdPeople, homes: Households) -> list[Contradiction]:
    """Comparisons of persons and households in which no release is made to agree."""
    short = np.maximum(homes.least_members - people.members, 0)
    # The largest size is open, so only geounits without such households can have people too many.
    too_many = np.where(homes.open_ended == 0, np.maximum(people.members - homes.least_members, 0), 0)
    older = sum(
        _misplaced(homes.older[:, k], homes.older[:, k], people.older[:, k]) for k in range(len(OLDER))
    )
    generations = np.minimum(people.children, people.generations)
    return [
        _told(
            np.abs(people.partners - homes.coupled).sum(axis=1),
            "kinds of partners",
            "Spouses and unmarried partners, of the same and of the opposite sex, are as many as households of their "
            "kind.",
        ),
        _told(short + too_many, "sizes", "The sizes of the households add up to the people in households."),
        _told(
            _misplaced(homes.with_minors, homes.with_minors, people.minors),
            "minors",
            "People under 18 live in households with somebody under 18, and there are enough of them.",
        ),
        _told(
            _misplaced(homes.with_own, homes.least_own, people.own_minors),
            "own children",
            "Own children under 18 live in households with own children under 18, and there are enough of them.",
        ),
        _told(
            np.asarray(older),
            "older people",
            "People of 60, 65 and 75 or more live in households whose oldest person is as old, and there are enough "
            "of them.",
        ),
        _told(
            np.maximum(homes.multigenerational - generations, 0),
            "generations",
            "There are enough children, and enough parents, parents-in-law or grandchildren, for every household of "
            "three generations.",
        ),
    ]


def _misplaced(homes: Integers, needed: Integers, people: Integers) -> Integers:
    """How many people of some kind the households that need them lack; all such people where no household has any."""
    missing: Integers = np.maximum(needed - people, 0)
    return missing + np.where(homes == 0, people, 0)


def _differences(one: PublicCounts, other: PublicCounts) -> Integers:
    """By geounit, the differences between the householders of each kind in two files, summed over all kinds."""
    rows = [np.repeat(np.arange(counts.n_geounits), np.diff(counts.offsets)) for counts in (one, other)]
    geounits, _, gaps = sum_triplets(
        np.concatenate(rows),
        np.concatenate([one.cells, other.cells]),
        np.concatenate([one.counts.astype(np.int64), -other.counts.astype(np.int64)]),
        KINDS,
    )
    found = np.zeros(one.n_geounits, dtype=np.int64)
    np.add.at(found, geounits, np.abs(gaps))
    return found


def _found(gaps: Integers, name: str, meaning: str) -> Contradiction:
    return Contradiction(name, meaning, True, int(np.count_nonzero(gaps)), int(gaps.sum()))


def _told(gaps: Integers, name: str, meaning: str) -> Contradiction:
    return Contradiction(name, meaning, False, int(np.count_nonzero(gaps)), int(gaps.sum()))
