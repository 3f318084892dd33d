"""Housing units of made-up households: tenure, the householder, the oldest person, and vacant units."""

from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers, Numbers
from tallyveil.products.dhc.made_up.addressed import For
from tallyveil.products.dhc.made_up.assemble import BlockRange, MadeUpHouseholds
from tallyveil.products.dhc.made_up.compositions import COUPLES, Compositions
from tallyveil.products.dhc.made_up.people import MadeUpPeople
from tallyveil.products.dhc.made_up.segments import rank_within

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
