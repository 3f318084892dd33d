"""Types of made-up group quarters, and the facility, sex and age of everybody who lives in one."""

from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Integers
from tallyveil.products.dhc.made_up import relations as r
from tallyveil.products.dhc.made_up.addressed import For
from tallyveil.products.dhc.made_up.assemble import BlockRange
from tallyveil.products.dhc.made_up.segments import rank_within

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
