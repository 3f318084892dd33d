"""Who lives together: the household residents of blocks, put into made-up households.

A member is a level of relgq and an age band: "6b" is a biological child from 6 to 17. Bands are a (under 6),
b (6 to 17) and c (18 and over). A composition is the members of a household, the householder first.

Frequencies come from households of the American Community Survey (households.csv, see
benchmarks/household_donors.py). A few made-up households have other compositions, so that every household
type exists: one composition for each type.

The people of a block are given, by voting age, Hispanic origin and race. Its adults stand in a line that is
sorted by race, with a few out of order. Households take as many adults as they want from the line, so most
have people of one race. Then the minors are handed out, first to households whose first adult has their race.

Random numbers have addresses, so that a block's people do not depend on which blocks are made together with
it. A number is a function of the seed, what it is for, its block, and its place in the block. The function is
the mixing step of the generator SplitMix64. The numbers only make up people. They have nothing to do with
privacy noise.
"""

from collections.abc import Sequence
from csv import DictReader
from dataclasses import dataclass
from enum import IntEnum, auto
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Floats, Int8s, Integers, Words
from tallyveil.schema.household_types import LARGEST_SIZE, Couple, HouseholdType, MinorAges, household_types
from tallyveil.synthetic.people import HISPANIC, RACES, SINGLE_RACES, TWO_OR_MORE

ALONE, HOUSEHOLDER = 0, 1
"""Householder who lives alone, and householder with others."""
SPOUSE, PARTNER, SAME_SEX_SPOUSE, SAME_SEX_PARTNER = 2, 3, 4, 5
CHILD, ADOPTED_CHILD, STEPCHILD = 6, 7, 8
SIBLING, PARENT, GRANDCHILD, PARENT_IN_LAW, CHILD_IN_LAW, OTHER_RELATIVE = 9, 10, 11, 12, 13, 14
ROOMMATE, FOSTER_CHILD, OTHER_NONRELATIVE = 15, 16, 17

COUPLED: Final = (SPOUSE, PARTNER, SAME_SEX_SPOUSE, SAME_SEX_PARTNER)
OWN_CHILDREN: Final = (CHILD, ADOPTED_CHILD, STEPCHILD)
RELATIVES: Final = (SPOUSE, SAME_SEX_SPOUSE, *range(CHILD, OTHER_RELATIVE + 1))
"""Unmarried partners, roommates, foster children and other nonrelatives are none."""
N_RELATIONS: Final = 18
"""Relationships in households come first, then 24 types of group quarters."""

CLASS_FIRST: Final = (0, 18, 24, 27, 28, 33, 34, 36)
"""By code of hhgq, the first level of relgq in it. The levels of a class follow each other."""
N_LEVELS: Final = 42
"""18 relationships and 24 types of group quarters."""

OLDEST: Final = 115
"""Greatest age in preset dhc-persons."""
_ALLOWED: Final = {
    **dict.fromkeys(range(6), (15, OLDEST)),
    **dict.fromkeys((CHILD, ADOPTED_CHILD, STEPCHILD), (0, 89)),
    **dict.fromkeys((PARENT, PARENT_IN_LAW), (30, OLDEST)),
    GRANDCHILD: (0, 74),
    CHILD_IN_LAW: (15, 89),
    FOSTER_CHILD: (0, 20),
    **dict.fromkeys(range(18, 23), (15, OLDEST)),
    **dict.fromkeys((23, 31, 34, 35), (17, 65)),
    **dict.fromkeys((24, 25, 26), (0, 25)),
    27: (20, OLDEST),
    32: (3, 30),
    33: (16, 65),
    **dict.fromkeys((37, 38), (16, OLDEST)),
    39: (16, 75),
}
"""Youngest and oldest allowed age by level of relgq, as in the structural zeros of the preset; others may have any."""


def allowed_ages() -> tuple[Int8s, Int8s]:
    """The youngest and the oldest allowed age by level of relgq, as the structural zeros of preset dhc-persons say."""
    bounds = np.array([_ALLOWED.get(level, (0, OLDEST)) for level in range(N_LEVELS)], dtype=np.int8)
    return bounds[:, 0], bounds[:, 1]


# SplitMix64; see below.
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
# First and second multiplier.
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
"""The constants of SplitMix64: its step (2**64 divided by the golden ratio) and two multipliers, which are odd, so
that `_mixed` is one-to-one. Another number gives other made-up people."""


class For(IntEnum):
    """What a random number is for."""

    NEIGHBOURHOOD = auto()
    PLACE_IN_LINE = auto()
    OUT_OF_LINE = auto()
    ADULTS = auto()
    MINORS = auto()
    MORE_MINORS = auto()
    MINORS_ALONE = auto()
    COMPOSITION = auto()
    HOUSEHOLDER_SEX = auto()
    HOUSEHOLDER_AGE = auto()
    SEX = auto()
    AGE = auto()
    OWNED = auto()
    TENURE = auto()
    VACANT = auto()
    VACANCY = auto()
    FACILITY = auto()
    FACILITY_TYPE = auto()


def uniforms(seed: int, use: For, block: Integers, item: Integers | None = None) -> Floats:
    """Numbers from 0 to 1, without 1.

    Args:
        seed: Seed of the population.
        use: What the numbers are for.
        block: Shape (n,): block of each number, counted over the whole country.
        item: Shape (n,): place in the block; None for one number a block.
    Returns:
        Shape (n,).
    """
    # 64 uses at most for each seed: `For` has fewer, so that no two seeds share a stream.
    start = np.array([(seed * 64 + int(use)) % 2**64], dtype=np.uint64)
    # Arithmetic of uint64 wraps at 2**64, as the generator wants it; numpy does not warn for arrays.
    mixed = _mixed(_mixed(start) + block.astype(np.uint64) * _STEP)
    if item is not None:
        mixed = _mixed(mixed + (item.astype(np.uint64) + np.uint64(1)) * _STEP)
    # The upper 53 bits, so that every number is a multiple of 2**-53 below 1, exactly represented.
    numbers: Floats = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers


def _mixed(values: Words) -> Words:
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def rank_within(runs: Integers) -> Integers:
    """Position of each entry within its run of equal values, from 0. `runs` is sorted."""
    # Runs are numbers from 0 on, so that -1 begins the first one.
    new = np.flatnonzero(np.diff(runs, prepend=-1))
    lengths = np.diff(new, append=len(runs))
    rank: Integers = np.arange(len(runs)) - np.repeat(new, lengths)
    return rank


def sum_before(values: Integers, runs: Integers) -> Integers:
    """Sum of the earlier values of the same run. `runs` is sorted."""
    below = np.cumsum(values) - values
    first = np.arange(len(runs)) - rank_within(runs)
    before: Integers = below - below[first]
    return before


def take(available: Integers, wanted: Integers, runs: Integers) -> Integers:
    """Hand out what is available in each run, in order, until it is gone.

    Args:
        available: Shape (n_runs,): what there is, by value of `runs`.
        wanted: Shape (n,): what each entry wants.
        runs: Shape (n,), sorted: the run of each entry.
    Returns:
        Shape (n,): what each entry gets.
    """
    # Entry i gets what earlier entries of its run have left, at least 0 and at most what it wants.
    taken: Integers = np.clip(available[runs] - sum_before(wanted, runs), 0, wanted)
    return taken


BANDS: Final = "abc"
UNDER_6, FROM_6_TO_17, ADULT = range(3)
MOST = 7
"""Most adults, and most minors, of a household."""
NEIGHBOURHOODS: Final = np.linspace(-0.9, 0.9, 8)
"""Kinds of neighbourhoods. A household with relatives is exp(2 x) times as likely there, against others, as at -x."""
RARE_SHARE = 0.015
"""Share of the made-up households that are there for the rare household types."""
FALLBACK_WEIGHT = 1e-3
"""Weight of a composition that is there for odd numbers of people; the survey's compositions have 31 or more."""

Members = tuple[tuple[int, int], ...]
"""Level of relgq and age band of every member, the householder first."""


@dataclass(frozen=True, slots=True, eq=False)
class Compositions:
    """All compositions, sorted by their numbers of adults and minors.

    Attributes:
        first: Shape (n + 1,): position of each composition's first member.
        relation, band: Level of relgq and age band of every member.
        household: Shape (n,): code of the household type.
        group: Shape (n,): adults * 8 + minors.
        begins: Cumulative probabilities of the kinds of neighbourhoods, made for `choose`: shape (8, n), rising from
            `group` to `group + 1` among the compositions of a group.
        adults: Shape (8, 8): cumulative probability of each number of adults, among households with adults.
        minors: Shape (8, 8, 8): cumulative probability of each number of minors by number of adults.
    """

    first: Integers
    relation: Integers
    band: Integers
    household: Integers
    group: Integers
    begins: Floats
    adults: Floats
    minors: Floats

    @property
    def size(self) -> Integers:
        """Number of members of each composition."""
        return np.diff(self.first)

    def having(self, levels: Sequence[int], bands: Sequence[int] = (0, 1, 2)) -> Bools:
        """Whether each composition has a member with one of the levels of relgq and one of the bands; shape (n,)."""
        matching = np.isin(self.relation, levels) & np.isin(self.band, bands)
        return np.logical_or.reduceat(matching, self.first[:-1])

    def choose(
        self, neighbourhood: Integers, adults: Integers, minors: Integers, uniform: Floats
    ) -> Integers:
        """A random composition for each household, given its neighbourhood and its numbers of adults and minors."""
        wanted = (
            adults * (MOST + 1) + minors + np.minimum(uniform, 1 - 1e-9)
        )  # the sum stays below the next group
        chosen = np.empty(len(wanted), dtype=np.int64)
        for kind, begins in enumerate(self.begins):
            here = neighbourhood == kind
            # The integer part of `wanted` is the group, the fraction chooses within it: one search serves all groups.
            chosen[here] = np.searchsorted(begins, wanted[here], side="right") - 1
        return chosen


@cache
def compositions() -> Compositions:
    """The compositions that come with the package."""
    weights = _weighted()
    members = sorted(weights, key=lambda composition: (_group(composition), composition))
    sizes = [len(composition) for composition in members]
    every = np.array([member for composition in members for member in composition], dtype=np.int64)
    codes = {household_type: code for code, household_type in enumerate(household_types())}
    household = np.array([codes[type_of(composition)] for composition in members], dtype=np.int64)
    group = np.array([_group(composition) for composition in members], dtype=np.int64)
    family = np.array([household_types()[code].relatives for code in household])
    # Shape (8, n): the weight of a composition in each kind of neighbourhood, exp(x) for those with relatives.
    weight = np.array([weights[composition] for composition in members]) * np.exp(
        np.outer(NEIGHBOURHOODS, family)
    )
    totals = np.zeros((len(NEIGHBOURHOODS), (MOST + 1) ** 2))
    for kind, row in enumerate(weight):
        totals[kind] = np.bincount(group, row, minlength=(MOST + 1) ** 2)
    by_minors = totals.reshape(-1, MOST + 1, MOST + 1)
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    by_adults = by_minors.sum(axis=2)
    # Households are formed around adults; those of minors alone are made from who is left.
    by_adults[:, 0] = 0.0
    return Compositions(
        first=first,
        relation=every[:, 0],
        band=every[:, 1],
        household=household,
        group=group,
        begins=_begins(weight / totals[:, group], group),
        adults=_cumulative(by_adults),
        minors=_cumulative(by_minors),
    )


def _begins(shares: Floats, group: Integers) -> Floats:
    """Where each composition's interval begins. The shares of a group fill the interval from its number to the next."""
    below = np.cumsum(shares, axis=1) - shares
    # Compositions are sorted by group, so that the first of each group is found by a search.
    starts = np.searchsorted(group, group)
    return group + (below - below[:, starts])


def _cumulative(weights: Floats) -> Floats:
    below = np.cumsum(weights, axis=-1)
    total = below[..., -1:]
    shares: Floats = below / np.where(total > 0, total, 1.0)
    return shares


def _group(members: Members) -> int:
    adults = sum(band == ADULT for _, band in members)
    return adults * (MOST + 1) + len(members) - adults


def _weighted() -> dict[Members, float]:
    """All compositions with their weights."""
    weights: dict[Members, float] = {}
    for members, weight in _donors().items():
        minors = sum(band != ADULT for _, band in members)
        # Larger donors are left out: the tables have room for up to MOST adults and MOST minors.
        if max(minors, len(members) - minors) <= MOST:
            weights[members] = weight
    # All types share the rare households equally, so that each occurs in a large country.
    rare = sum(weights.values()) * RARE_SHARE / len(household_types())
    for household_type in household_types():
        members = rare_composition(household_type)
        weights[members] = weights.get(members, 0.0) + rare
    for adults in range(MOST + 1):
        for minors in range(adults == 0, MOST + 1):
            # Every pair of numbers needs a composition, or `choose` would take one of another group.
            weights.setdefault(_fallback(adults, minors), FALLBACK_WEIGHT)
    return weights


def _donors() -> dict[Members, float]:
    source = resources.files("tallyveil.products.dhc.made_up") / "households.csv"
    with source.open(encoding="utf-8") as lines:
        rows = [(row["members"].split(), float(row["households"])) for row in DictReader(lines)]
    return {
        tuple((int(member[:-1]), BANDS.index(member[-1])) for member in members): weight
        for members, weight in rows
    }


def _fallback(adults: int, minors: int) -> Members:
    """Siblings and cousins, so that there is a composition for every number of adults and of minors."""
    bands = [ADULT] * adults + [FROM_6_TO_17] * minors
    if len(bands) == 1:
        return ((ALONE, bands[0]),)
    others = [(SIBLING, band) if band == ADULT else (OTHER_RELATIVE, band) for band in bands[1:]]
    return ((HOUSEHOLDER, bands[0]), *others)


def type_of(members: Members) -> HouseholdType:
    """The household type of a composition."""
    own_children = [band for relation, band in members if relation in OWN_CHILDREN]
    # The householder and the partner are no "others", even where one of them is a minor.
    leading = (ALONE, HOUSEHOLDER, *COUPLED)
    others = [band for relation, band in members if relation not in leading]
    elders_or_grandchildren = {PARENT, PARENT_IN_LAW, GRANDCHILD}
    present = {relation for relation, _ in members}
    return HouseholdType(
        couple=next((COUPLES[partner] for partner in COUPLED if partner in present), Couple.NO_PARTNER),
        relatives=not present.isdisjoint(RELATIVES),
        own_children=_ages(own_children),
        minors=_ages(others),
        under_18=any(band != ADULT for _, band in members),
        multigenerational=bool(own_children) and not present.isdisjoint(elders_or_grandchildren),
        size=min(len(members), LARGEST_SIZE),
    )


COUPLES: Final = {
    SPOUSE: Couple.MARRIED_OPPOSITE_SEX,
    SAME_SEX_SPOUSE: Couple.MARRIED_SAME_SEX,
    PARTNER: Couple.COHABITING_OPPOSITE_SEX,
    SAME_SEX_PARTNER: Couple.COHABITING_SAME_SEX,
}
"""The couple that each kind of partner makes with the householder."""
_PARTNERS: Final = {couple: relation for relation, couple in COUPLES.items()}
_BANDS_OF: Final = {
    MinorAges.NONE: (),
    MinorAges.UNDER_6: (UNDER_6,),
    MinorAges.FROM_6_TO_17: (FROM_6_TO_17,),
    MinorAges.BOTH: (UNDER_6, FROM_6_TO_17),
}


def _ages(bands: Sequence[int]) -> MinorAges:
    return MinorAges((UNDER_6 in bands) + 2 * (FROM_6_TO_17 in bands))


def rare_composition(wanted: HouseholdType) -> Members:
    """The members of one household of a type. Those that the type asks for come first, then others up to its size."""
    partner = _PARTNERS.get(wanted.couple)
    # Only the householder or the partner can then be the person under 18 that the type asks for.
    minor_leads = wanted.under_18 and not wanted.minors
    not_own = [band for band in _BANDS_OF[wanted.minors] if band not in _BANDS_OF[wanted.own_children]]
    own_children = [(CHILD, band) for band in _BANDS_OF[wanted.own_children]]
    if wanted.multigenerational and not own_children:
        own_children = [(CHILD, ADULT)]
    others = [(_minor_relation(wanted), band) for band in not_own]
    if wanted.multigenerational and not others:
        others = [(PARENT, ADULT)]
    if wanted.relatives and not (wanted.couple.married or own_children or others):
        others = [(SIBLING, ADULT)]
    lead_band = FROM_6_TO_17 if minor_leads and partner is None else ADULT
    lead = (HOUSEHOLDER if wanted.size > 1 else ALONE, lead_band)
    couple = [] if partner is None else [(partner, FROM_6_TO_17 if minor_leads else ADULT)]
    members = [lead, *couple, *own_children, *others]
    filler = SIBLING if wanted.relatives else ROOMMATE
    return (*members, *[(filler, ADULT)] * (wanted.size - len(members)))


def _minor_relation(wanted: HouseholdType) -> int:
    """The relationship of minors who are not own children."""
    if wanted.multigenerational:
        return GRANDCHILD
    return OTHER_RELATIVE if wanted.relatives else OTHER_NONRELATIVE


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
