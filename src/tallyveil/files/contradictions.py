"""Whether published files of people and of units contradict each other, in every finest geounit.

The files are made from different measurements. If nothing ties them together, a block may have people and no occupied
unit, or other householders in one file than in the other. This module counts such blocks from the published counts
alone. Releases can be made to agree so that some kinds of contradictions cannot occur. The other kinds are only
counted: the numbers tell how far the files are apart.
"""

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.files.household_totals import (
    KINDS,
    OLDER,
    HouseholdPeople,
    Households,
    RedistrictingPeople,
    Units,
)
from tallyveil.schema.counts import PublicCounts, sum_triplets


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One way in which two files can contradict each other, and how often they do.

    Attributes:
        name: A short name.
        meaning: What is true of files without such a contradiction, as a sentence.
        can_agree: Whether releases can be made to agree in this; of sizes, whether these releases were.
        n_geounits: Finest geounits that contradict; of sizes that were made to agree, the areas that do.
        n_records: By how many records they differ, summed over these geounits.
    """

    name: str
    meaning: str
    can_agree: bool
    n_geounits: int
    n_records: int


@dataclass(frozen=True, slots=True, eq=False)
class SizedAreas:
    """The areas in which a release of units was made to agree with household people in the sizes of households.

    Attributes:
        geolevel: Their geolevel.
        area: The number of the area that each finest geounit lies in, shape (G,).
    """

    geolevel: str
    area: Integers


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
    people: RedistrictingPeople | HouseholdPeople, homes: Units | Households, sized: SizedAreas | None = None
) -> tuple[Contradiction, ...]:
    """Compare a file of people with a file of units. Every comparison is returned, also those without a contradiction.

    Args:
        people: What the first file says of people in households.
        homes: What the second one says of units, in the same order of geounits.
        sized: Where the two files were made to agree in sizes; None where they were not.
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
            found += [*_households(people, homes), *_not_made_to_agree(people, homes)]
            found += [] if sized is None else [_sizes_in(people, homes, sized)]
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


def _sizes_in(people: HouseholdPeople, homes: Households, sized: SizedAreas) -> Contradiction:
    """The comparison of sizes in the areas in which the files were made to agree in them."""
    members, least, open_ended = np.zeros((3, int(sized.area.max(initial=-1)) + 1), dtype=np.int64)
    sums = ((members, people.members), (least, homes.least_members), (open_ended, homes.open_ended))
    for total, values in sums:
        np.add.at(total, sized.area, values)
    return _found(
        _size_gaps(members, least, open_ended),
        f"sizes in {sized.geolevel}",
        f"In every {sized.geolevel}, the sizes of the households add up to the people in households.",
    )


def _size_gaps(members: Integers, least: Integers, open_ended: Integers) -> Integers:
    """By how many people sizes are above or below the people in households.

    The largest size is open, so only areas without such households can have people too many.
    """
    too_many = np.where(open_ended == 0, np.maximum(members - least, 0), 0)
    gaps: Integers = np.maximum(least - members, 0) + too_many
    return gaps


def _not_made_to_agree(people: HouseholdPeople, homes: Households) -> list[Contradiction]:
    """Comparisons of persons and households in which nothing makes finest geounits agree, or only passes for sizes."""
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
        _told(
            _size_gaps(people.members, homes.least_members, homes.open_ended),
            "sizes",
            "The sizes of the households add up to the people in households.",
        ),
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
