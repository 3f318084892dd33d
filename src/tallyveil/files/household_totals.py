"""What published files say of the households of every finest geounit, in numbers that can be compared between files.

Four schema presets say something of households: `pl94-persons` (how many people live in them), `pl94-units` (how many
units are occupied), `dhc-persons` (who lives in them) and `dhc-units` (what kinds of households there are). Everything
here is added up from published counts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import Bools, Integers
from tallyveil.schema.counts import (
    ENTRIES_AT_ONCE,
    PublicCounts,
    TripletSum,
    row_ranges,
    sums_between,
)
from tallyveil.schema.household_types import LARGEST_SIZE, Couple, MinorAges, household_types
from tallyveil.schema.schema import Schema

HOUSEHOLDERS: Final = (0, 1)
"""Codes of `relgq`: a householder who lives alone, and one who lives with others."""

PARTNERS: Final = (2, 4, 3, 5)
"""The code of `relgq` of the householder's spouse or partner, by `Couple`."""

CHILDREN: Final = (6, 7, 8)
"""Codes of `relgq` of own children: biological, adopted and step."""

OTHER_GENERATIONS: Final = (10, 11, 12)
"""Codes of `relgq` of parents, grandchildren and parents-in-law."""

HOUSEHOLD_MEMBERS: Final = 18
"""Codes of `relgq` below this are of people in households."""

TENURES: Final = 4
"""Codes of `tenvacgq` below this are of occupied units."""

HOUSING_UNITS: Final = 11
"""Codes of `tenvacgq` below this are of housing units."""

ADULT: Final = 18
"""First age of adults."""

OLDER: Final = (60, 65, 75)
"""The level of `oldest` with code k + 1 begins at `OLDER[k]`."""

HOUSEHOLDER_AGES: Final = np.array([25, 35, 45, 55, 60, 65, 75, 85])
"""First age of each age group of householders but the first."""

TWO_OR_MORE_RACES: Final = 6
"""Race of a householder for every combination of races; smaller codes of `cenrace` are of one race."""

KINDS: Final = 2 * 2 * (HOUSEHOLDER_AGES.size + 1) * 2 * (TWO_OR_MORE_RACES + 1)
"""Number of kinds of householders: living alone or with others, by sex, age group, Hispanic origin and race."""


@dataclass(frozen=True, slots=True, eq=False)
class HouseholdPeople:
    """People in households by geounit, as `dhc-persons` counts them. Arrays have the shape (G,).

    Attributes:
        members: All of them.
        householders: Householders.
        alone: Householders who live alone.
        partners: Spouses and unmarried partners by `Couple`, shape (G, 4).
        minors: People under 18.
        own_minors: Children of the householder under 18.
        children: Children of the householder of any age.
        generations: Parents, parents-in-law and grandchildren of the householder.
        older: People of 60, 65 and 75 years or more, shape (G, 3).
        kinds: Householders by kind, as a number below `KINDS`.
    """

    members: Integers
    householders: Integers
    alone: Integers
    partners: Integers
    minors: Integers
    own_minors: Integers
    children: Integers
    generations: Integers
    older: Integers
    kinds: PublicCounts


@dataclass(frozen=True, slots=True, eq=False)
class Households:
    """Households and vacant units by geounit, as `dhc-units` counts them. Arrays have the shape (G,).

    Attributes:
        occupied: Occupied units, one for each household.
        vacant: Vacant units.
        alone: Households of size 1.
        open_ended: Households of the largest size, which is open.
        least_members: The least number of people in all households.
        coupled: Households by `Couple`, without those that no couple leads, shape (G, 4).
        with_minors: Households with somebody under 18.
        with_own: Households with own children under 18.
        least_own: The least number of these children.
        multigenerational: Households of three generations.
        older: Households whose oldest person has 60, 65 or 75 years or more, shape (G, 3).
        kinds: Householders by kind, as a number below `KINDS`.
    """

    occupied: Integers
    vacant: Integers
    alone: Integers
    open_ended: Integers
    least_members: Integers
    coupled: Integers
    with_minors: Integers
    with_own: Integers
    least_own: Integers
    multigenerational: Integers
    older: Integers
    kinds: PublicCounts


@dataclass(frozen=True, slots=True, eq=False)
class RedistrictingPeople:
    """People in households by geounit, as `pl94-persons` counts them, shape (G,)."""

    members: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Occupied and vacant units by geounit, as `pl94-units` counts them, shape (G,)."""

    occupied: Integers
    vacant: Integers


def redistricting_people(schema: Schema, counts: PublicCounts) -> RedistrictingPeople:
    """People in households, from counts of schema `pl94-persons`."""
    place = schema.attribute_names.index("hhgq")
    household = schema.attributes[place].code("household")
    # One column, because `_added_up` sums any number of measures.
    sums = _added_up(schema, counts, lambda codes: (codes[:, place] == household)[:, None])
    return RedistrictingPeople(sums[:, 0])


def units(schema: Schema, counts: PublicCounts) -> Units:
    """Occupied and vacant units, from counts of schema `pl94-units`."""
    wanted = np.array([schema.attributes[0].code(label) for label in ("occupied", "vacant")])
    sums = _added_up(schema, counts, lambda codes: codes == wanted)
    return Units(sums[:, 0], sums[:, 1])


def household_people(schema: Schema, counts: PublicCounts) -> HouseholdPeople:
    """What counts of schema `dhc-persons` say of people in households."""
    role, age = (_axis(schema, name) for name in ("relgq", "age"))
    relation, year = np.ogrid[: schema.attributes[role].size, : schema.attributes[age].size]
    # Codes of relgq count household members first, so that one comparison finds them.
    inside, child = relation < HOUSEHOLD_MEMBERS, np.isin(relation, CHILDREN)
    measures = (
        inside,
        np.isin(relation, HOUSEHOLDERS),
        relation == HOUSEHOLDERS[0],
        inside & (year < ADULT),
        child & (year < ADULT),
        child,
        np.isin(relation, OTHER_GENERATIONS),
        *(relation == partner for partner in PARTNERS),
        *(inside & (year >= first) for first in OLDER),
    )
    # A table by relation and age: each record then looks its measures up at once.
    table = np.stack(np.broadcast_arrays(*measures), axis=2)
    sums = _added_up(schema, counts, lambda codes: table[codes[:, role], codes[:, age]])
    members, householders, alone, minors, own_minors, children, generations = sums[:, :7].T
    return HouseholdPeople(
        members,
        householders,
        alone,
        sums[:, 7:11],
        minors,
        own_minors,
        children,
        generations,
        sums[:, 11:],
        _kinds(schema, counts, _kinds_of_people),
    )


def households(schema: Schema, counts: PublicCounts) -> Households:
    """What counts of schema `dhc-units` say of households and vacant units."""
    status, home, oldest = (_axis(schema, name) for name in ("tenvacgq", "household", "oldest"))
    n_types, types = len(household_types()), _measures_of_types()
    # Units without a household have the last code, and no measure.
    types = np.concatenate([types, np.zeros((1, types.shape[1]), dtype=np.int64)])

    def measures(codes: Integers) -> Integers:
        vacant = (codes[:, status] >= TENURES) & (codes[:, status] < HOUSING_UNITS)
        led = codes[:, home] < n_types
        older = led[:, None] & (codes[:, oldest][:, None] > np.arange(len(OLDER)))
        # A type's measures hold for one household; the sum below multiplies them by the number of households.
        return np.concatenate([vacant[:, None], older, types[codes[:, home]]], axis=1).astype(np.int64)

    sums = _added_up(schema, counts, measures)
    vacant, older = sums[:, 0], sums[:, 1:4]
    occupied, alone, open_ended, least, minors, own, least_own, multigenerational = sums[:, 4:12].T
    return Households(
        occupied,
        vacant,
        alone,
        open_ended,
        least,
        sums[:, 12:],
        minors,
        own,
        least_own,
        multigenerational,
        older,
        _kinds(schema, counts, _kinds_of_units),
    )


def _measures_of_types() -> Integers:
    """What one household of each type adds to the numbers of `Households`, shape (types, 12)."""
    return np.array(
        [
            [
                1,
                household.size == 1,
                household.size == LARGEST_SIZE,
                household.size,
                household.under_18,
                household.own_children > 0,
                # Own children of both age groups are two at least.
                (household.own_children > 0) + (household.own_children is MinorAges.BOTH),
                household.multigenerational,
                *(household.couple == couple for couple in range(Couple.NO_PARTNER)),
            ]
            for household in household_types()
        ],
        dtype=np.int64,
    )


def _added_up(
    schema: Schema, counts: PublicCounts, measures: Callable[[Integers], Integers | Bools]
) -> Integers:
    """Sums over the records of each geounit, shape (G, measures).

    Args:
        schema: The universe of the counts.
        counts: Counts of the finest geolevel.
        measures: From level codes, shape (n, attributes), what one record adds to each sum, shape (n, measures).
    """
    sums = []
    # A sixteenth of the entries, because each becomes a row of some sixteen measures.
    for start, stop in row_ranges(counts.offsets, ENTRIES_AT_ONCE // 16):
        _, cells, records = counts.rows(start, stop)
        each = measures(schema.decode(cells)) * records[:, None]
        sums.append(sums_between(counts.offsets[start : stop + 1] - counts.offsets[start], each))
    return np.concatenate(sums)


def _kinds(
    schema: Schema, counts: PublicCounts, kinds: Callable[[Schema, Integers], tuple[Bools, Integers]]
) -> PublicCounts:
    """Householders by kind."""
    total = TripletSum(counts.n_geounits, KINDS)
    for start, stop in row_ranges(counts.offsets):
        rows, cells, records = counts.rows(start, stop)
        inside, kind = kinds(schema, schema.decode(cells))
        total.add(start + rows[inside], kind, records[inside])
    return PublicCounts(counts.geolevel, *total.finish())


def _kinds_of_people(schema: Schema, codes: Integers) -> tuple[Bools, Integers]:
    role = codes[:, _axis(schema, "relgq")]
    inside: Bools = np.isin(role, HOUSEHOLDERS)
    sex, age, origin, race = (
        codes[inside, _axis(schema, name)] for name in ("sex", "age", "hispanic", "cenrace")
    )
    # The group is the number of limits that the age has reached.
    group = np.searchsorted(HOUSEHOLDER_AGES, age, "right")
    alone = role[inside] == HOUSEHOLDERS[0]
    # All sets of two races and more are one kind.
    return inside, _kind(alone, sex, group, origin, np.minimum(race, TWO_OR_MORE_RACES))


def _kinds_of_units(schema: Schema, codes: Integers) -> tuple[Bools, Integers]:
    inside: Bools = codes[:, _axis(schema, "tenvacgq")] < TENURES
    size = np.array([household.size for household in household_types()])
    names = ("householder_sex", "householder_age", "householder_hispanic", "householder_race")
    alone = size[codes[inside, _axis(schema, "household")]] == 1
    return inside, _kind(alone, *(codes[inside, _axis(schema, name)] for name in names))


def _kind(alone: Bools, sex: Integers, age: Integers, origin: Integers, race: Integers) -> Integers:
    """The number of a kind of householder."""
    sizes = (2, 2, HOUSEHOLDER_AGES.size + 1, 2, TWO_OR_MORE_RACES + 1)
    # The last number varies fastest, and both files number kinds here, so that equal kinds have equal numbers.
    return np.ravel_multi_index((alone.astype(np.int64), sex, age, origin, race), sizes).astype(np.int64)


def _axis(schema: Schema, name: str) -> int:
    return schema.attribute_names.index(name)
