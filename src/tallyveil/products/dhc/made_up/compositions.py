"""Who lives together: the compositions of made-up households, and how frequent they are.

A member is a level of relgq and an age band: "6b" is a biological child from 6 to 17. Bands are a (under 6), b (6 to
17) and c (18 and over). A composition is the members of a household, the householder first.

Frequencies come from households of the American Community Survey (households.csv, see benchmarks/household_donors.py).
A few made-up households have other compositions, so that every household type exists: one composition for each type.
"""

from collections.abc import Sequence
from csv import DictReader
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

import numpy as np

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.products.dhc.made_up import relations as r
from tallyveil.schema.household_types import (
    LARGEST_SIZE,
    Couple,
    HouseholdType,
    MinorAges,
    household_types,
)

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
        return ((r.ALONE, bands[0]),)
    others = [(r.SIBLING, band) if band == ADULT else (r.OTHER_RELATIVE, band) for band in bands[1:]]
    return ((r.HOUSEHOLDER, bands[0]), *others)


def type_of(members: Members) -> HouseholdType:
    """The household type of a composition."""
    own_children = [band for relation, band in members if relation in r.OWN_CHILDREN]
    # The householder and the partner are no "others", even where one of them is a minor.
    leading = (r.ALONE, r.HOUSEHOLDER, *r.COUPLED)
    others = [band for relation, band in members if relation not in leading]
    elders_or_grandchildren = {r.PARENT, r.PARENT_IN_LAW, r.GRANDCHILD}
    present = {relation for relation, _ in members}
    return HouseholdType(
        couple=next((COUPLES[partner] for partner in r.COUPLED if partner in present), Couple.NO_PARTNER),
        relatives=not present.isdisjoint(r.RELATIVES),
        own_children=_ages(own_children),
        minors=_ages(others),
        under_18=any(band != ADULT for _, band in members),
        multigenerational=bool(own_children) and not present.isdisjoint(elders_or_grandchildren),
        size=min(len(members), LARGEST_SIZE),
    )


COUPLES: Final = {
    r.SPOUSE: Couple.MARRIED_OPPOSITE_SEX,
    r.SAME_SEX_SPOUSE: Couple.MARRIED_SAME_SEX,
    r.PARTNER: Couple.COHABITING_OPPOSITE_SEX,
    r.SAME_SEX_PARTNER: Couple.COHABITING_SAME_SEX,
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
    own_children = [(r.CHILD, band) for band in _BANDS_OF[wanted.own_children]]
    if wanted.multigenerational and not own_children:
        own_children = [(r.CHILD, ADULT)]
    others = [(_minor_relation(wanted), band) for band in not_own]
    if wanted.multigenerational and not others:
        others = [(r.PARENT, ADULT)]
    if wanted.relatives and not (wanted.couple.married or own_children or others):
        others = [(r.SIBLING, ADULT)]
    lead_band = FROM_6_TO_17 if minor_leads and partner is None else ADULT
    lead = (r.HOUSEHOLDER if wanted.size > 1 else r.ALONE, lead_band)
    couple = [] if partner is None else [(partner, FROM_6_TO_17 if minor_leads else ADULT)]
    members = [lead, *couple, *own_children, *others]
    filler = r.SIBLING if wanted.relatives else r.ROOMMATE
    return (*members, *[(filler, ADULT)] * (wanted.size - len(members)))


def _minor_relation(wanted: HouseholdType) -> int:
    """The relationship of minors who are not own children."""
    if wanted.multigenerational:
        return r.GRANDCHILD
    return r.OTHER_RELATIVE if wanted.relatives else r.OTHER_NONRELATIVE
