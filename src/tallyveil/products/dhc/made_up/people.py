"""Sexes and ages of the people of made-up households, which fit their relationships and each other.

The householder's sex and age come first. The others' ages follow from it: children are at least 15 years younger,
parents at least 15 years older. Limits keep to the structural zeros of both products. For instance, no woman of 56 or
more has an own child under 6.
"""

from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.products.dhc.made_up import relations as r
from tallyveil.products.dhc.made_up.addressed import For
from tallyveil.products.dhc.made_up.assemble import BlockRange, MadeUpHouseholds
from tallyveil.products.dhc.made_up.compositions import (
    ADULT,
    FROM_6_TO_17,
    UNDER_6,
    Compositions,
    compositions,
)
from tallyveil.products.dhc.made_up.laws import Laws, laws
from tallyveil.products.dhc.made_up.segments import rank_within

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
