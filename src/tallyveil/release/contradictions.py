"""Whether published persons and published housing units contradict each other, in every finest geounit.

Both files are of the 2020 Demographic and Housing Characteristics (presets `dhc-persons` and `dhc-units`). They are
made from different measurements. If nothing ties them together, a block may have people and no occupied unit, or other
householders in one file than in the other. This module counts such blocks from the published counts alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import Bools, Integers
from tallyveil.universe.counts import PublicCounts, TripletSum, row_ranges
from tallyveil.universe.household_types import LARGEST_SIZE, Couple, household_types
from tallyveil.universe.schema import Schema

HOUSEHOLDERS: Final = (0, 1)
"""Codes of `relgq`: a householder who lives alone, and one who lives with others."""

PARTNERS: Final = (2, 4, 3, 5)
"""The code of `relgq` of the householder's spouse or partner, by `Couple`."""

HOUSEHOLD_MEMBERS: Final = 18
"""Codes of `relgq` below this are of people in households."""

TENURES: Final = 4
"""Codes of `tenvacgq` below this are of occupied units."""

HOUSEHOLDER_AGES: Final = np.array([25, 35, 45, 55, 60, 65, 75, 85])
"""First age of each age group of householders but the first."""

TWO_OR_MORE_RACES: Final = 6
"""Race of a householder for every combination of races; smaller codes of `cenrace` are of one race."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One way in which the two files can contradict each other, and how often they do.

    Attributes:
        name: A short name.
        meaning: What is compared, as a sentence.
        n_geounits: Finest geounits that contradict.
        n_records: By how many records they differ, summed over these geounits.
    """

    name: str
    meaning: str
    n_geounits: int
    n_records: int


def contradictions(
    persons: tuple[Schema, PublicCounts], units: tuple[Schema, PublicCounts]
) -> tuple[Contradiction, ...]:
    """Compare published persons with published housing units.

    Args:
        persons: Schema `dhc-persons`, and the counts of the finest geolevel.
        units: Schema `dhc-units`, and the counts of the finest geolevel, in the same order of geounits.
    Returns:
        Every comparison, also those without a contradiction.
    """
    people, homes = _people(*persons), _homes(*units)
    members = people.members
    occupied, others = homes.occupied, members - people.householders
    couples = np.abs(people.partners - homes.couples).sum(axis=1)
    short = np.maximum(homes.least_members - members, 0)
    # The largest size is open, so only geounits without such households can have people too many.
    too_many = np.where(homes.open_ended == 0, np.maximum(members - homes.least_members, 0), 0)
    return (
        _where(
            members * (occupied == 0),
            "people without a unit",
            "People live in households, and no unit is occupied.",
        ),
        _where(
            occupied * (members == 0),
            "units without people",
            "Units are occupied, and nobody lives in a household.",
        ),
        _where(
            np.abs(people.householders - occupied),
            "householders",
            "There are as many householders as occupied units.",
        ),
        _where(
            _householder_differences(persons, units),
            "kinds of householders",
            "Householders by sex, age group, Hispanic origin and race are those of the occupied units.",
        ),
        _where(
            np.abs(people.alone - homes.alone),
            "living alone",
            "As many people live alone as there are units of size 1.",
        ),
        _where(
            np.maximum(occupied - homes.alone - others, 0),
            "households with others",
            "There are enough other people for every household of two or more.",
        ),
        _where(
            couples, "partners", "There are as many spouses and partners of each kind as coupled households."
        ),
        _where(short + too_many, "sizes", "The sizes of the households add up to the people in households."),
    )


@dataclass(frozen=True, slots=True)
class _People:
    """People in households by geounit: all, householders, householders alone, and partners by `Couple`."""

    members: Integers
    householders: Integers
    alone: Integers
    partners: Integers


@dataclass(frozen=True, slots=True)
class _Homes:
    """Occupied units by geounit: all, of size 1, by `Couple`, of the open size, and the least people they hold."""

    occupied: Integers
    alone: Integers
    couples: Integers
    open_ended: Integers
    least_members: Integers


def _people(schema: Schema, counts: PublicCounts) -> _People:
    table = np.zeros((counts.n_geounits, HOUSEHOLD_MEMBERS), dtype=np.int64)
    for rows, codes, records in _entries(schema, counts):
        role = codes[:, _axis(schema, "relgq")]
        inside = role < HOUSEHOLD_MEMBERS
        np.add.at(table, (rows[inside], role[inside]), records[inside])
    return _People(
        table.sum(axis=1),
        table[:, list(HOUSEHOLDERS)].sum(axis=1),
        table[:, HOUSEHOLDERS[0]].copy(),
        table[:, list(PARTNERS)],
    )


def _homes(schema: Schema, counts: PublicCounts) -> _Homes:
    size = np.array([one.size for one in household_types()])
    couple = np.array([one.couple for one in household_types()])
    by_size = np.zeros((counts.n_geounits, LARGEST_SIZE + 1), dtype=np.int64)
    by_couple = np.zeros((counts.n_geounits, len(Couple)), dtype=np.int64)
    for rows, codes, records in _entries(schema, counts):
        occupied = codes[:, _axis(schema, "tenvacgq")] < TENURES
        kind = codes[occupied, _axis(schema, "household")]
        np.add.at(by_size, (rows[occupied], size[kind]), records[occupied])
        np.add.at(by_couple, (rows[occupied], couple[kind]), records[occupied])
    return _Homes(
        by_size.sum(axis=1),
        by_size[:, 1].copy(),
        by_couple[:, : Couple.NO_PARTNER],
        by_size[:, LARGEST_SIZE].copy(),
        by_size @ np.arange(LARGEST_SIZE + 1),
    )


def _householder_differences(
    persons: tuple[Schema, PublicCounts], units: tuple[Schema, PublicCounts]
) -> Integers:
    """By geounit, how many householders of each kind the two files have too many or too few, in all."""
    n_geounits = persons[1].n_geounits
    width = 2 * (HOUSEHOLDER_AGES.size + 1) * 2 * (TWO_OR_MORE_RACES + 1)
    total = TripletSum(n_geounits, width)
    for sign, (kinds, (schema, counts)) in (
        (1, (_kinds_of_persons, persons)),
        (-1, (_kinds_of_units, units)),
    ):
        for rows, codes, records in _entries(schema, counts):
            inside, kind = kinds(schema, codes)
            total.add(rows[inside], kind, sign * records[inside])
    offsets, _, gaps = total.finish()
    found = np.zeros(n_geounits, dtype=np.int64)
    np.add.at(found, np.repeat(np.arange(n_geounits), np.diff(offsets)), np.abs(gaps.astype(np.int64)))
    return found


def _kinds_of_persons(schema: Schema, codes: Integers) -> tuple[Bools, Integers]:
    inside = np.isin(codes[:, _axis(schema, "relgq")], HOUSEHOLDERS)
    sex, age, origin, race = (
        codes[inside, _axis(schema, name)] for name in ("sex", "age", "hispanic", "cenrace")
    )
    return inside, _kind(
        sex, np.searchsorted(HOUSEHOLDER_AGES, age, "right"), origin, np.minimum(race, TWO_OR_MORE_RACES)
    )


def _kinds_of_units(schema: Schema, codes: Integers) -> tuple[Bools, Integers]:
    inside = codes[:, _axis(schema, "tenvacgq")] < TENURES
    names = ("householder_sex", "householder_age", "householder_hispanic", "householder_race")
    return inside, _kind(*(codes[inside, _axis(schema, name)] for name in names))


def _kind(sex: Integers, age: Integers, origin: Integers, race: Integers) -> Integers:
    """The number of a kind of householder."""
    return ((sex * (HOUSEHOLDER_AGES.size + 1) + age) * 2 + origin) * (TWO_OR_MORE_RACES + 1) + race


def _entries(schema: Schema, counts: PublicCounts) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Geounits, level codes and counts of some entries at a time."""
    for start, stop in row_ranges(counts.offsets):
        rows, cells, records = counts.rows(start, stop)
        yield start + rows, schema.decode(cells), records


def _axis(schema: Schema, name: str) -> int:
    return schema.attribute_names.index(name)


def _where(gaps: Integers, name: str, meaning: str) -> Contradiction:
    return Contradiction(name, meaning, int(np.count_nonzero(gaps)), int(gaps.sum()))
