"""Puts the household residents of blocks into households.

The people of a block are given, by voting age, Hispanic origin and race. Its adults stand in a line that is sorted by
race, with a few out of order. Households take as many adults as they want from the line, so most have people of
one race. Then the minors are handed out, first to households whose first adult has their race.
"""

from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.products.dhc.made_up.addressed import For, uniforms
from tallyveil.products.dhc.made_up.compositions import ADULT, MOST, Compositions
from tallyveil.products.dhc.made_up.segments import rank_within, take
from tallyveil.synthetic.people import HISPANIC, RACES, SINGLE_RACES, TWO_OR_MORE

OUT_OF_LINE_SHARE: Final = 0.07
"""Share of the adults who do not stand beside others of their race."""
MOST_MINORS_ALONE: Final = 4
"""Most people of a household without adults."""
_GROUP_OF_RACE: Final = np.array([RACES.index(race) for race in SINGLE_RACES] + [TWO_OR_MORE] * 57)
"""By code of cenrace, the code of race_ethnicity: 6 races alone, then the 57 sets of two or more of them."""


class HouseholdResidents(NamedTuple):
    """Household residents with one row for each person, sorted by block; the arrays have shape (n,)."""

    block: Integers
    adult: Bools
    hispanic: Integers
    cenrace: Integers

    @property
    def group(self) -> Integers:
        """Code of race_ethnicity."""
        return np.where(self.hispanic == 1, HISPANIC, _GROUP_OF_RACE[self.cenrace])

    def where(self, rows: Integers | Bools) -> "HouseholdResidents":
        """Some of the residents, in the given order."""
        return HouseholdResidents(self.block[rows], self.adult[rows], self.hispanic[rows], self.cenrace[rows])


class BlockRange(NamedTuple):
    """Some blocks in a row.

    Attributes:
        seed: Seed of the population.
        first: Number of the first block in the country. Random numbers are addressed by it.
        neighbourhood: Shape (n_blocks,): kind of neighbourhood of each block.
    """

    seed: int
    first: int
    neighbourhood: Integers

    def uniforms(self, use: For, block: Integers, item: Integers | None = None) -> Floats:
        """Random numbers of blocks (numbered within these)."""
        return uniforms(self.seed, use, block + self.first, item)


class MadeUpHouseholds(NamedTuple):
    """Households sorted by block, and their people sorted by household, the householder first.

    Attributes:
        block: Shape (n,): block of each household.
        composition: Shape (n,): its composition.
        household: Shape (n_people,): household of each person.
        relation, band: Shape (n_people,): level of relgq and age band.
        hispanic, cenrace: Shape (n_people,): as given.
    """

    block: Integers
    composition: Integers
    household: Integers
    relation: Integers
    band: Integers
    hispanic: Integers
    cenrace: Integers


def make_households(
    residents: HouseholdResidents, blocks: BlockRange, known: Compositions
) -> MadeUpHouseholds:
    """Put all residents into households.

    Args:
        residents: The people. Blocks are numbered from 0.
        blocks: The blocks.
        known: The compositions to choose from.
    """
    adults = _in_line(residents.where(residents.adult), blocks)
    minors = residents.where(~residents.adult)
    # By race within a block, so that minors of one race are a run that `take` can hand out.
    minors = minors.where(np.lexsort((minors.cenrace, minors.group, minors.block)))
    homes = _share_adults(adults, blocks, known)
    given, home, alone = _share_minors(homes, minors, blocks, known)
    # Households of minors come after the others of their block.
    block = np.concatenate([homes.block, alone.block])
    order = np.argsort(block, kind="stable")
    # The inverse of `order`: the new number of each household.
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    block = block[order]
    n_adults = np.concatenate([homes.adults, np.zeros(len(alone.block), dtype=np.int64)])[order]
    n_minors = np.concatenate([given, alone.size])[order]
    # Addressed by the rank in the block, not in the array, so that other blocks made along change nothing.
    uniform = blocks.uniforms(For.COMPOSITION, block, rank_within(block))
    composition = known.choose(blocks.neighbourhood[block], n_adults, n_minors, uniform)
    minors = minors.where(np.argsort(place[home], kind="stable"))
    return _with_people(block, composition, adults, minors, known)


class _Homes(NamedTuple):
    """Households with adults, sorted by block: number of adults, and race of the first one; the shapes are (n,)."""

    block: Integers
    adults: Integers
    race: Integers


class _Alone(NamedTuple):
    """Households of minors alone: block, and number of minors."""

    block: Integers
    size: Integers


def _in_line(adults: HouseholdResidents, blocks: BlockRange) -> HouseholdResidents:
    """The adults of every block in an order in which most stand beside people of their race."""
    item = rank_within(adults.block)
    place = blocks.uniforms(For.PLACE_IN_LINE, adults.block, item)
    # The line begins with another race in every block, because the first in line are the likeliest to have minors.
    start = blocks.uniforms(For.PLACE_IN_LINE, adults.block) * len(RACES)
    turned = (adults.group - start.astype(np.int64)) % len(RACES)
    # Random places mix sets of races whose codes are close.
    place = turned + (adults.cenrace + 4 * place) / (len(_GROUP_OF_RACE) + 4)
    moved = blocks.uniforms(For.OUT_OF_LINE, adults.block, item) / OUT_OF_LINE_SHARE
    place = np.where(moved < 1, moved * len(RACES), place)
    return adults.where(np.lexsort((place, adults.block)))


def _share_adults(adults: HouseholdResidents, blocks: BlockRange, known: Compositions) -> _Homes:
    """Households take the adults of each block as they stand in line."""
    # Every adult begins a household that wants some adults. It gets none if those before it have taken all.
    item = rank_within(adults.block)
    uniform = blocks.uniforms(For.ADULTS, adults.block, item)
    wanted = _drawn(known.adults[blocks.neighbourhood[adults.block]], uniform)
    # `take` gives out at most what a block has, so that the last household may get fewer than it wants.
    available = np.bincount(adults.block, minlength=len(blocks.neighbourhood))
    taken = take(available, wanted, adults.block)
    homes = taken > 0
    # Position in line of the first adult of each household; it is the householder.
    first = np.cumsum(taken) - taken
    return _Homes(adults.block[homes], taken[homes], adults.group[first[homes]])


def _share_minors(
    homes: _Homes, minors: HouseholdResidents, blocks: BlockRange, known: Compositions
) -> tuple[Integers, Integers, _Alone]:
    """The number of minors in each household, the household of each minor, and the households of minors alone.

    Households of minors alone are numbered after the others.
    """
    item, n_blocks = rank_within(homes.block), len(blocks.neighbourhood)
    law = known.minors[blocks.neighbourhood[homes.block], homes.adults]
    wanted = _drawn(law, blocks.uniforms(For.MINORS, homes.block, item))
    # First to households of the same race that want minors; what remains goes round without regard to race.
    given, home, left = _by_race(homes, wanted, minors, n_blocks)
    again = _drawn_above_zero(law, blocks.uniforms(For.MORE_MINORS, homes.block, item))
    n_left = np.bincount(minors.block[left], minlength=n_blocks)
    # Wishes of the rounds: as drawn; a second draw for those that wanted none; one more for everybody.
    more = _later_rounds(homes.block, given, n_left, (wanted, np.where(wanted == 0, again, 0), given + 1))
    alone = _minors_alone(n_left - _of_blocks(homes.block, more, n_blocks), blocks)
    order = np.argsort(np.concatenate([homes.block, alone.block]), kind="stable")
    home[left] = np.repeat(order, np.concatenate([more, alone.size])[order])
    return given + more, home, alone


def _by_race(
    homes: _Homes, wanted: Integers, minors: HouseholdResidents, n_blocks: int
) -> tuple[Integers, Integers, Bools]:
    """Hand minors to households of their race: number of each household, home of each minor, and who is left."""
    # A pair of block and race as one number, sorted as the pairs are.
    run, run_of_minor = (
        block * len(RACES) + race for block, race in ((homes.block, homes.race), (minors.block, minors.group))
    )
    order = np.argsort(run, kind="stable")
    available = np.bincount(run_of_minor, minlength=n_blocks * len(RACES))
    given = np.zeros(len(run), dtype=np.int64)
    given[order] = take(available, wanted[order], run[order])
    # Of each run the first minors found a home, as many as its households were given.
    left = rank_within(run_of_minor) >= _of_blocks(run, given, len(available))[run_of_minor]
    home = np.empty(len(left), dtype=np.int64)
    home[~left] = np.repeat(order, given[order])
    return given, home, left


def _later_rounds(block: Integers, given: Integers, left: Integers, wishes: tuple[Integers, ...]) -> Integers:
    """How many more minors each household gets of those left in its block.

    In each round a household's number of minors rises to the wish of the round at most, and at last to the most.
    """
    more = np.zeros(len(block), dtype=np.int64)
    for wish in (*wishes, np.full(len(block), MOST)):
        room = np.clip(np.minimum(wish, MOST) - given - more, 0, None)
        more += take(left - _of_blocks(block, more, len(left)), room, block)
    return more


def _minors_alone(left: Integers, blocks: BlockRange) -> _Alone:
    """Households for the minors of each block for whom no household has room."""
    block = np.repeat(np.arange(len(left)), left)
    uniform = blocks.uniforms(For.MINORS_ALONE, block, rank_within(block))
    size = take(left, 1 + (uniform * MOST_MINORS_ALONE).astype(np.int64), block)
    return _Alone(block[size > 0], size[size > 0])


def _of_blocks(block: Integers, values: Integers, n_blocks: int) -> Integers:
    """Sum of the values of each block."""
    return np.bincount(block, values, minlength=n_blocks).astype(np.int64)


def _with_people(
    block: Integers,
    composition: Integers,
    adults: HouseholdResidents,
    minors: HouseholdResidents,
    known: Compositions,
) -> MadeUpHouseholds:
    """The households with their people. Adults and minors are in the order of their households."""
    size = known.size[composition]
    household = np.repeat(np.arange(len(block)), size)
    # Members of a composition follow each other, the householder first, and so do the people of a household.
    member = known.first[composition][household] + rank_within(household)
    band = known.band[member]
    adult = band == ADULT
    hispanic = np.empty(len(member), dtype=np.int64)
    cenrace = np.empty(len(member), dtype=np.int64)
    for who, people in ((adult, adults), (~adult, minors)):
        hispanic[who], cenrace[who] = people.hispanic, people.cenrace
    return MadeUpHouseholds(block, composition, household, known.relation[member], band, hispanic, cenrace)


def _drawn(cumulative: Floats, uniform: Floats) -> Integers:
    """A random number for each row of cumulative probabilities; shape (n,)."""
    number: Integers = np.minimum(np.sum(cumulative <= uniform[:, None], axis=1), cumulative.shape[1] - 1)
    return number


def _drawn_above_zero(cumulative: Floats, uniform: Floats) -> Integers:
    none = cumulative[:, 0]
    return np.maximum(_drawn(cumulative, none + uniform * (1 - none)), 1)
