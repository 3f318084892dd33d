"""Sexes and ages of made-up people in households and group quarters, and the housing units of households.

The householder's sex and age come first. The others' ages follow from it: children are at least 15 years
younger, parents at least 15 years older. Limits keep to the structural zeros of both products. For instance,
no woman of 56 or more has an own child under 6.

The laws of ages are given by quantiles. They come from the American Community Survey (ages.csv, see
benchmarks/household_donors.py).
"""

from csv import DictReader
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers, Numbers
from tallyveil.products.dhc.made_up import households as r
from tallyveil.products.dhc.made_up.households import (
    ADULT,
    COUPLES,
    FROM_6_TO_17,
    UNDER_6,
    BlockRange,
    Compositions,
    For,
    MadeUpHouseholds,
    compositions,
    rank_within,
)

LEAST, MOST = -90, 115
"""Range of the values: ages, and years between two people."""
EVERYWHERE: Final = 1e-4
"""Share of the law that is spread over all values, so that every age can be drawn where the quantiles leave none."""


@dataclass(frozen=True, slots=True, eq=False)
class Laws:
    """Laws of whole numbers from `LEAST` to `MOST`, and the share of women.

    Attributes:
        names: Name of each law.
        women: Shape (n,).
        below: Shape (n, `MOST - LEAST + 2`): probability of a value below `LEAST + j`.
    """

    names: tuple[str, ...]
    women: Floats
    below: Floats

    def row(self, name: str) -> int:
        """Position of a law."""
        return self.names.index(name)

    def draw(self, row: Integers, uniform: Floats, least: Integers, most: Integers) -> Integers:
        """A value of each row's law, given that it is from `least` to `most`; the shapes are (n,)."""
        low = self.below[row, least - LEAST]
        high = self.below[row, most + 1 - LEAST]
        # Conditioned on the range: the uniform number is stretched to the probabilities between its ends.
        wanted = row + low + uniform * (high - low)
        # The rows are put one after the other, which makes one rising list.
        flat = (self.below + np.arange(len(self.below))[:, None]).reshape(-1)
        # One search for all rows, whose probabilities are shifted by the number of the row.
        position = np.searchsorted(flat, wanted, side="right") - 1 - row * self.below.shape[1] + LEAST
        # Rounding can push a number just over an end of its range.
        values: Integers = np.clip(position, least, most)
        return values


@cache
def laws() -> Laws:
    """The laws that come with the package."""
    source = resources.files("tallyveil.products.dhc.made_up") / "ages.csv"
    with source.open(encoding="utf-8") as lines:
        rows = list(DictReader(lines))
    shares = [float(column) for column in rows[0] if column not in ("law", "women")]
    knots = [[float(row[str(share)]) for share in shares] for row in rows]
    return Laws(
        tuple(row["law"] for row in rows),
        np.array([float(row["women"]) for row in rows]),
        np.array([_below(np.array(quantiles), np.array(shares)) for quantiles in knots]),
    )


def _below(knots: Floats, shares: Floats) -> Floats:
    """Probability below each value, linear between the quantiles."""
    values = np.arange(LEAST, MOST + 2)
    # Equal quantiles would make a jump; a small slope keeps the order of the shares.
    rising = knots + 0.01 * np.arange(len(knots))
    between = np.interp(values, rising, shares, left=0.0, right=1.0)
    spread = (values - LEAST) / (MOST + 1 - LEAST)
    below: Floats = (1 - EVERYWHERE) * between + EVERYWHERE * spread
    return below


MALE, FEMALE = 0, 1
GENERATION, LONGEST_GENERATION = 15, 55
"""Fewest and most years between a householder and an own child under 18."""
_YOUNGEST_ADULT, _OLDEST_ADULT = 18, 104
_GIRLS: Final = 0.488
"""Share of girls among minors."""
# Together with `_BAND_LAST`.
_BAND_FIRST: Final = np.array([0, 6, _YOUNGEST_ADULT])
_BAND_LAST: Final = np.array([5, 17, r.OLDEST])
"""First and last age of the bands under 6, 6 to 17, and 18 and over, in years."""
_LAW_OF_RELATION: Final = {
    r.PARTNER: "unmarried partner", r.SAME_SEX_SPOUSE: "same-sex spouse", r.SAME_SEX_PARTNER: "unmarried partner",
    r.CHILD: "child", r.ADOPTED_CHILD: "child", r.STEPCHILD: "child", r.SIBLING: "sibling", r.PARENT: "parent",
    r.GRANDCHILD: "grandchild", r.PARENT_IN_LAW: "parent-in-law", r.CHILD_IN_LAW: "child-in-law",
    r.OTHER_RELATIVE: "other relative", r.ROOMMATE: "roommate",
    r.FOSTER_CHILD: "other nonrelative", r.OTHER_NONRELATIVE: "other nonrelative",
}  # fmt: skip
# Fewest and most years by which an adult of a relationship is older than the householder.
_YEARS_OLDER: Final = {
    **dict.fromkeys(r.COUPLED, (-35, 35)),
    **dict.fromkeys((*r.OWN_CHILDREN, r.CHILD_IN_LAW), (-80, -GENERATION)),
    r.GRANDCHILD: (-85, -32),
    **dict.fromkeys((r.PARENT, r.PARENT_IN_LAW), (GENERATION, 60)),
}


class MadeUpPeople(NamedTuple):
    """Sex and age of each person; shape (n_people,)."""

    sex: Integers
    age: Integers


@dataclass(frozen=True, slots=True, eq=False)
class _Limits:
    """What a composition says about its householder.

    Attributes:
        law: Shape (n,): row of the law of the householder's age.
        youngest: Shape (n,).
        oldest: Shape (2, n): by the householder's sex.
    """

    law: Integers
    youngest: Integers
    oldest: Integers


@cache
def _limits() -> _Limits:
    known, law = compositions(), laws()
    partner, relative = known.having(r.COUPLED), known.having(r.RELATIVES)
    infant = known.having(r.OWN_CHILDREN, [UNDER_6])
    older_child = known.having(r.OWN_CHILDREN, [FROM_6_TO_17])
    grown = known.having(r.OWN_CHILDREN, [ADULT])
    # The first class that fits counts (`np.select`); the last one fits everybody.
    classes = (
        (partner & (infant | older_child), "householder with partner and minor child"),
        (partner & grown, "householder with partner and grown child"),
        (partner, "householder with partner"),
        (infant | older_child, "householder with minor child"),
        (grown, "householder with grown child"),
        (relative, "householder with other relatives"),
        (known.size > 1, "householder with nonrelatives"),
        (known.size > 0, "householder alone"),
    )
    minor = known.band[known.first[:-1]] != ADULT
    # Greatest of all floors and least of all ceilings that a composition meets.
    floors = (
        (older_child, 6 + GENERATION),
        (known.having([r.CHILD_IN_LAW]) | grown, _YOUNGEST_ADULT + GENERATION),
        (known.having([r.GRANDCHILD]), 40),
        (known.having([r.GRANDCHILD], [ADULT]), 50),
    )
    youngest = np.max([np.where(test, floor, _YOUNGEST_ADULT) for test, floor in floors], axis=0)
    ceilings = (
        (known.having([r.PARENT, r.PARENT_IN_LAW]), (85, 85)),
        (older_child, (72, 68)),
        # Men, women: from here on the structural zeros of both products bar own children so young.
        (infant, (60, 55)),
        # A minor's partner is young, unless children or grandchildren say otherwise.
        (known.having(r.COUPLED, [UNDER_6, FROM_6_TO_17]) & (youngest <= 25), (25, 25)),
    )
    oldest = np.full((2, len(minor)), _OLDEST_ADULT)
    for test, by_sex in ceilings:
        oldest = np.where(test, np.minimum(oldest, np.array(by_sex)[:, None]), oldest)
    return _Limits(
        np.select([test for test, _ in classes], [law.row(name) for _, name in classes]),
        np.where(minor, 15, youngest),
        np.where(minor, 17, oldest),
    )


def make_people(
    households: MadeUpHouseholds, blocks: BlockRange, tilt: Integers, known: Compositions
) -> MadeUpPeople:
    """Give every person of the households a sex and an age.

    Args:
        households: The households.
        blocks: Their blocks.
        tilt: Shape (n_blocks,): -1, 0 or 1 where householders are younger, as usual, or older.
        known: The compositions.
    """
    limits, law = _limits(), laws()
    block, composition = households.block, households.composition
    number = rank_within(block)
    row = limits.law[composition]
    sex = (blocks.uniforms(For.HOUSEHOLDER_SEX, block, number) < law.women[row]).astype(np.int64)
    uniform = blocks.uniforms(For.HOUSEHOLDER_AGE, block, number) ** np.array([1.0, 0.7, 1.4])[tilt[block]]
    age = law.draw(row, uniform, limits.youngest[composition], limits.oldest[sex, composition])
    return _with_members(households, blocks, MadeUpPeople(sex, age), known)


def _with_members(
    households: MadeUpHouseholds, blocks: BlockRange, householders: MadeUpPeople, known: Compositions
) -> MadeUpPeople:
    """Sex and age of every person, given those of the householders."""
    of = households.household
    item = rank_within(households.block[of])
    first = rank_within(of) == 0
    relation, band = households.relation, households.band
    drawn = blocks.uniforms(For.SEX, households.block[of], item)
    sex = _sexes(relation, band, householders.sex[of], drawn)
    lead = householders.age[of]
    least, most = _age_limits(relation, band, lead)
    uniform = blocks.uniforms(For.AGE, households.block[of], item)
    # Minors have even ages within their limits; laws are known for adults only.
    even = least + (uniform * (most - least + 1)).astype(np.int64)
    # Laws are of the years between a member and the householder, so that the range is shifted by the latter's age.
    row = _laws_of_relations()[householders.sex[of], relation]
    by_law = lead + laws().draw(row, uniform, least - lead, most - lead)
    age = np.where(first, lead, np.where(band == ADULT, by_law, even))
    return MadeUpPeople(np.where(first, householders.sex[of], sex), age)


def _sexes(relation: Integers, band: Integers, lead: Integers, uniform: Floats) -> Integers:
    women = np.where(band == ADULT, laws().women[_laws_of_relations()[0, relation]], _GIRLS)
    drawn = (uniform < women).astype(np.int64)
    other = np.isin(relation, (r.SPOUSE, r.PARTNER))
    same = np.isin(relation, (r.SAME_SEX_SPOUSE, r.SAME_SEX_PARTNER))
    sex: Integers = np.where(other, 1 - lead, np.where(same, lead, drawn))
    return sex


def _age_limits(relation: Integers, band: Integers, lead: Integers) -> tuple[Integers, Integers]:
    """The youngest and the oldest that each person can be, given the householder's age."""
    low, high = r.allowed_ages()
    least = np.maximum(low[relation].astype(np.int64), _BAND_FIRST[band])
    most = np.minimum(high[relation].astype(np.int64), _BAND_LAST[band])
    fewer, more = _years_older()
    # Years between generations bind adults and own children; other minors have any age of their band.
    apart = (band == ADULT) | np.isin(relation, r.OWN_CHILDREN)
    least = np.where(apart, np.maximum(least, lead + fewer[relation, band]), least)
    most = np.where(apart, np.minimum(most, lead + more[relation, band]), most)
    # Limits may contradict each other for odd compositions; then the upper one, a structural zero, counts.
    return np.minimum(least, most), most


@cache
def _years_older() -> tuple[Integers, Integers]:
    """Fewest and most years by which a member is older than the householder, by level of relgq and age band."""
    fewer, more = np.full((r.N_RELATIONS, 3), -85), np.full((r.N_RELATIONS, 3), 85)
    for relation, (low, high) in _YEARS_OLDER.items():
        fewer[relation], more[relation] = low, high
    for relation in r.OWN_CHILDREN:
        fewer[relation, :ADULT] = -LONGEST_GENERATION
    return fewer, more


@cache
def _laws_of_relations() -> Integers:
    """Row of the law of years between member and householder, by the householder's sex and level of relgq."""
    law: Laws = laws()
    rows = np.zeros((2, r.N_RELATIONS), dtype=np.int64)
    for relation, name in _LAW_OF_RELATION.items():
        rows[:, relation] = law.row(name)
    rows[:, r.SPOUSE] = law.row("spouse of a man"), law.row("spouse of a woman")
    return rows


# By code of hhgq: shares of the types of the class, in their order; share of women; and of adults the youngest, the
# oldest, and the power of a uniform number that gives an age between them (above 1, the young are more frequent).
_TYPES: Final = {
    1: (0.08, 0.12, 0.45, 0.25, 0.08, 0.02),
    2: (0.5, 0.3, 0.2),
    3: (1.0,),
    4: (0.4, 0.25, 0.15, 0.1, 0.1),
    5: (1.0,),
    6: (0.9, 0.1),
    7: (0.25, 0.35, 0.15, 0.05, 0.08, 0.12),
}
# Made-up numbers of a plausible size. They change what is made up and nothing that is computed from it.
_WOMEN: Final = np.array([0.5, 0.09, 0.3, 0.68, 0.45, 0.53, 0.15, 0.38])
# Youngest and oldest adult, and the power; code 0 is the household, which no inmate has.
_ADULTS: Final = np.array(
    [
        (18, 85, 1),
        (18, 75, 1.6),
        (18, 22, 2),
        (50, 104, 0.6),
        (18, 95, 1),
        (18, 27, 1.8),
        (18, 58, 2.2),
        (18, 88, 1.3),
    ]
)
# Age of the youngest minor of a class; 0 where the structural zeros say more.
_YOUNGEST_MINOR: Final = np.array([0, 15, 9, 20, 0, 16, 17, 0])


class Facilities(NamedTuple):
    """Facilities sorted by block and type of the redistricting data.

    Attributes:
        block: Shape (n,).
        relgq: Shape (n,): type, a level of relgq.
    """

    block: Integers
    relgq: Integers


class GroupQuartersPeople(NamedTuple):
    """People in group quarters, sorted by block; the arrays have shape (n,).

    Attributes:
        block: Block of each person.
        facility: Position of the facility.
        sex, age: Positions of levels.
        hispanic, cenrace: As given.
    """

    block: Integers
    facility: Integers
    sex: Integers
    age: Integers
    hispanic: Integers
    cenrace: Integers


class Inmates(NamedTuple):
    """People of group quarters as they are given, sorted by block and hhgq; the arrays have shape (n,)."""

    block: Integers
    hhgq: Integers
    adult: Bools
    hispanic: Integers
    cenrace: Integers


def make_facilities(block: Integers, hhgq: Integers, number: Integers, blocks: BlockRange) -> Facilities:
    """Choose a type for every facility.

    Args:
        block, hhgq: Shape (n,): the blocks and their classes of group quarters, sorted; each pair once.
        number: Shape (n,): number of facilities.
        blocks: The blocks.
    """
    home, kind = np.repeat(block, number), np.repeat(hhgq, number)
    uniform = blocks.uniforms(For.FACILITY_TYPE, home, rank_within(home))
    within = np.zeros(len(home), dtype=np.int64)
    for code, shares in _TYPES.items():
        here = kind == code
        # Without the last sum, which may be a little below 1, so that no number falls behind it.
        within[here] = np.searchsorted(np.cumsum(shares)[:-1], uniform[here], side="right")
    return Facilities(home, np.array(r.CLASS_FIRST)[kind] + within)


def make_inmates(
    inmates: Inmates, first: Integers, number: Integers, facilities: Facilities, blocks: BlockRange
) -> GroupQuartersPeople:
    """Give everybody in group quarters a facility, a sex and an age.

    Args:
        inmates: The people.
        first, number: Shape (n,): the first facility of each person's block and class, and how many there are: at most
            as many as people of that block and class, so that none is empty.
        facilities: The facilities.
        blocks: The blocks.
    """
    item = rank_within(inmates.block)
    rank = rank_within(first)
    uniform = blocks.uniforms(For.FACILITY, inmates.block, item)
    # Everybody after the first of each facility goes to any, most often to the first.
    facility = first + np.where(rank < number, rank, (uniform**1.5 * number).astype(np.int64))
    # Negative places: households use those from 0 for the same purpose, and no address may serve twice.
    sex = (blocks.uniforms(For.SEX, inmates.block, -1 - item) < _WOMEN[inmates.hhgq]).astype(np.int64)
    age = _ages(inmates, facilities.relgq[facility], blocks, item)
    return GroupQuartersPeople(inmates.block, facility, sex, age, inmates.hispanic, inmates.cenrace)


def _ages(inmates: Inmates, relgq: Integers, blocks: BlockRange, item: Integers) -> Integers:
    # Structural zeros of the type go before the shares of the class.
    low, high = (bound[relgq].astype(np.int64) for bound in r.allowed_ages())
    youngest, oldest, power = _ADULTS[inmates.hhgq].T
    adult = inmates.adult
    least = np.maximum(low, np.where(adult, youngest, _YOUNGEST_MINOR[inmates.hhgq]))
    most = np.minimum(high, np.where(adult, oldest, 17))
    uniform = blocks.uniforms(For.AGE, inmates.block, -1 - item) ** np.where(adult, power, 0.6)
    # The power bends the uniform number: above 1, towards the youngest.
    age: Integers = (least + uniform * (most - least + 1)).astype(np.int64)
    return age


OWNED, OWNED_CLEAR, RENTED, NO_PAYMENT = range(4)
FIRST_VACANT, FIRST_FACILITY = 4, 11
"""Positions of levels of tenvacgq: four tenures, seven kinds of vacant units, then the types of group quarters."""
NO_SEX, NO_AGE, NO_ORIGIN, NO_RACE, NO_OLDEST, NO_HOUSEHOLD = 2, 9, 2, 7, 4, 522
"""Position of the level "none" of each attribute of householders and households. It is the last."""
# One docstring for both: the classes of the schema preset, so that they are not a choice.
HOUSEHOLDER_AGES: Final = np.array([25, 35, 45, 55, 60, 65, 75, 85])
OLDEST_AGES: Final = np.array([60, 65, 75])
"""First age of every level of householder_age and of oldest after the first."""
MORE_VACANT: Final = 0.5
"""In a block whose housing units are all vacant: the probability of one more of them."""
VACANT_SHARE: Final = np.array([0.09, 0.35])
"""Mean number of vacant housing units for each occupied one, in ordinary and in holiday neighbourhoods."""
_VACANCY: Final = np.array(
    [[0.24, 0.03, 0.12, 0.06, 0.17, 0.003, 0.377], [0.06, 0.01, 0.03, 0.02, 0.80, 0.01, 0.07]]
)
"""Shares of the kinds of vacant units, in ordinary and in holiday neighbourhoods."""
_NO_PAYMENT_SHARE: Final = 0.045
"""Share of the households that do not own which live there without payment of rent."""
_BLACK: Final = 1
"""Level of the householder's race, and of cenrace."""


class MadeUpUnits(NamedTuple):
    """Housing units and facilities, as positions of levels of preset dhc-units; the arrays have shape (n,)."""

    block: Integers
    tenvacgq: Integers
    sex: Integers
    age: Integers
    hispanic: Integers
    race: Integers
    oldest: Integers
    household: Integers


def occupied_units(
    households: MadeUpHouseholds,
    people: MadeUpPeople,
    blocks: BlockRange,
    owners: Floats,
    known: Compositions,
) -> MadeUpUnits:
    """The unit of every household.

    Args:
        households, people, blocks, known: As for `make_people`.
        owners: Shape (n_blocks,): how much likelier owning is than usual, as a difference of log odds.
    """
    first = np.flatnonzero(rank_within(households.household) == 0)
    age, hispanic = people.age[first], households.hispanic[first]
    # Codes from 6 on are sets of several races, which are one level here.
    race = np.minimum(households.cenrace[first], NO_RACE - 1)
    # reduceat needs at least one segment.
    oldest = np.maximum.reduceat(people.age, first) if len(first) else first
    coupled = known.having(tuple(COUPLES))[households.composition]
    block = households.block
    # Log odds of owning: older, coupled, not Hispanic and not Black householders own more often.
    odds: Floats = (
        -0.4 + 0.045 * (age - 40) + 1.2 * coupled - 0.9 * hispanic - 0.7 * (race == _BLACK) + owners[block]
    )
    number = rank_within(block)
    owned = blocks.uniforms(For.OWNED, block, number) < _share(odds)
    uniform = blocks.uniforms(For.TENURE, block, number)
    clear = np.where(uniform < _share(3.2 - 0.07 * (age - 40)), OWNED, OWNED_CLEAR)
    rent = np.where(uniform < _NO_PAYMENT_SHARE, NO_PAYMENT, RENTED)
    return MadeUpUnits(
        block,
        np.where(owned, clear, rent),
        people.sex[first],
        np.searchsorted(HOUSEHOLDER_AGES, age, side="right"),
        hispanic,
        race,
        np.searchsorted(OLDEST_AGES, oldest, side="right"),
        known.household[households.composition],
    )


def vacant_units(occupied: MadeUpUnits, housing: Bools, blocks: BlockRange, holiday: Integers) -> MadeUpUnits:
    """Vacant units beside the occupied ones, and in blocks that have only vacant ones.

    Args:
        occupied: The occupied units.
        housing: Shape (n_blocks,): whether the block has housing units.
        blocks: The blocks.
        holiday: Shape (n_blocks,): 1 in holiday neighbourhoods, otherwise 0.
    """
    n_blocks = len(housing)
    number = rank_within(occupied.block)
    beside = blocks.uniforms(For.VACANT, occupied.block, number) < VACANT_SHARE[holiday[occupied.block]]
    vacant = np.bincount(occupied.block[beside], minlength=n_blocks)
    # A block with housing units and without households has vacant ones only, at least one.
    empty = housing & (np.bincount(occupied.block, minlength=n_blocks) == 0)
    every = np.arange(n_blocks)
    # A geometric number by inversion: floor(log(1 - u) / log(p)) has P(n) = (1 - p) p**n.
    more = np.log1p(-blocks.uniforms(For.VACANT, every)) / np.log(MORE_VACANT)
    vacant = np.where(empty, 1 + more.astype(np.int64), vacant)
    block = np.repeat(every, vacant)
    uniform = blocks.uniforms(For.VACANCY, block, rank_within(block))
    below = np.cumsum(_VACANCY, axis=1)[:, :-1]
    kind = np.sum(below[holiday[block]] <= uniform[:, None], axis=1)
    return without_household(block, FIRST_VACANT + kind)


def without_household(block: Integers, tenvacgq: Integers) -> MadeUpUnits:
    """Vacant units or facilities, which have no householder."""
    levels = (NO_SEX, NO_AGE, NO_ORIGIN, NO_RACE, NO_OLDEST, NO_HOUSEHOLD)
    return MadeUpUnits(block, tenvacgq, *(np.full(len(block), level) for level in levels))


def _share(odds: Numbers) -> Floats:
    share: Floats = 1 / (1 + np.exp(-odds))
    return share
