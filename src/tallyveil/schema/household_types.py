"""The 522 household types of the 2020 Demographic and Housing Characteristics, from seven variables and eight rules.

A household type says what couple leads a household, who else lives there, and how many people. The rules drop the
combinations that cannot exist, such as a household of one person with a spouse. What is left is numbered as in the
released code of the 2020 Census.

A minor is a person under 18. A grandchild, a niece or a foster child can be a minor without being an own child.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from itertools import product
from typing import Final

LARGEST_SIZE: Final = 7
"""The size that stands for seven people or more."""


class Couple(IntEnum):
    """The couple that the householder belongs to."""

    MARRIED_OPPOSITE_SEX = 0
    MARRIED_SAME_SEX = 1
    COHABITING_OPPOSITE_SEX = 2
    COHABITING_SAME_SEX = 3
    NO_PARTNER = 4

    @property
    def married(self) -> bool:
        """Whether the householder has a spouse in the household."""
        return self in {Couple.MARRIED_OPPOSITE_SEX, Couple.MARRIED_SAME_SEX}

    @property
    def cohabiting(self) -> bool:
        """Whether the householder has an unmarried partner in the household."""
        return self in {Couple.COHABITING_OPPOSITE_SEX, Couple.COHABITING_SAME_SEX}


class MinorAges(IntEnum):
    """Which ages under 18 a set of people has."""

    NONE = 0
    UNDER_6 = 1
    FROM_6_TO_17 = 2
    BOTH = 3


AGES_IN_LABELS: Final = ("none", "under_6", "6_17", "both")
"""The word of each value of `MinorAges` in labels."""


@dataclass(frozen=True, slots=True)
class HouseholdType:
    """One combination of the seven variables.

    Attributes:
        couple: The couple that the householder belongs to.
        relatives: Whether a relative of the householder lives there. A spouse is one, an unmarried partner is not.
        own_children: Ages of the householder's own children under 18 (biological, adopted, step).
        minors: Ages of all people under 18 except the householder, the spouse and the unmarried partner.
        under_18: Whether anybody is under 18, those three included.
        multigenerational: Whether an own child of any age lives there, and a parent, a parent-in-law or a grandchild of
            the householder.
        size: Number of people, 1 to 7, where 7 means seven or more.
    """

    couple: Couple
    relatives: bool
    own_children: MinorAges
    minors: MinorAges
    under_18: bool
    multigenerational: bool
    size: int

    @property
    def label(self) -> str:
        """The label of the level: the couple and the size, then everything else that is there."""
        words = (
            (self.couple.name.lower(), True),
            (size_label(self.size), True),
            ("relatives", self.relatives and not self.couple.married),
            (f"own_{AGES_IN_LABELS[self.own_children]}", self.own_children),
            (f"minors_{AGES_IN_LABELS[self.minors]}", self.minors),
            ("householder_or_partner_under_18", self.under_18 and not self.minors),
            ("multigenerational", self.multigenerational),
        )
        return " ".join(word for word, shown in words if shown)

    @property
    def possible(self) -> bool:
        """Whether such a household can exist, by the eight rules of the released code."""
        # Under 18, but no minor besides: then it is one of a couple, or a householder without one.
        couple_or_one = self.couple is not Couple.NO_PARTNER
        householder_is_only_minor = self.under_18 and not self.minors and not couple_or_one
        return (
            # A spouse, an own child and a second generation are relatives, so that without relatives there are none of
            # them.
            (self.relatives or not (self.couple.married or self.own_children or self.multigenerational))
            # Own children are among the minors, so that the ages of the minors include theirs.
            and (not self.own_children or self.minors in {self.own_children, MinorAges.BOTH})
            and (self.under_18 or not self.minors)
            and (self.size > 1 or not (couple_or_one or self.relatives))
            and not (householder_is_only_minor and self.multigenerational)
            and self.size >= self._fewest_people()
        )

    def _fewest_people(self) -> int:
        """The smallest size that the other variables allow."""
        # Minors of both age groups are at least two people.
        core = 1 if self.couple is Couple.NO_PARTNER else 2
        fewest = core + (0, 1, 1, 2)[self.minors]
        if self.couple.cohabiting and self.relatives:
            # A partner is no relative, so that householder, partner and a relative are three.
            fewest = max(fewest, 3)
        if self.multigenerational:
            # A child and a third generation are two more people; children of both age groups are one more.
            two_children = self.own_children is MinorAges.BOTH or (
                not self.own_children and self.minors is MinorAges.BOTH
            )
            fewest = max(fewest, core + 2 + two_children)
        return fewest

    def _place(self) -> tuple[int, ...]:
        """Sorts types into the order of the released code, in which "none" comes after the other ages."""
        # "none" is 0 among the values and last in the released order, so that it is moved behind the others.
        own_children, minors = (ages or len(MinorAges) for ages in (self.own_children, self.minors))
        return (
            self.couple,
            self.size > 1,
            not self.relatives,
            own_children,
            minors,
            self.under_18,
            self.multigenerational,
            self.size,
        )


def size_label(size: int) -> str:
    """The label of a household's size, such as "size_2" or "size_7_plus"."""
    return f"size_{size}_plus" if size == LARGEST_SIZE else f"size_{size}"


@cache
def household_types() -> tuple[HouseholdType, ...]:
    """All possible household types. A type's position is its code, that of the level of the attribute `household`."""
    sizes, yes_or_no = range(1, LARGEST_SIZE + 1), (False, True)
    # All 5 * 2 * 4 * 4 * 2 * 2 * 7 combinations are tried, and the rules leave 522.
    every = product(Couple, yes_or_no, MinorAges, MinorAges, yes_or_no, yes_or_no, sizes)
    return tuple(
        sorted(
            filter(lambda household: household.possible, (HouseholdType(*row) for row in every)),
            key=_by_place,
        )
    )


def _by_place(household: HouseholdType) -> tuple[int, ...]:
    return household._place()
