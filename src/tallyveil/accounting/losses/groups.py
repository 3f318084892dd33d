"""Losses without a usable common lattice, sorted into groups with one lattice each; h is a lattice step."""

import math
from dataclasses import dataclass
from fractions import Fraction

from tallyveil.accounting.losses.factors import LossFactor, lattice_of
from tallyveil.accounting.losses.moments import moments

LONGEST_GROUP = 1 << 20
"""A factor joins a group only if the group then has at most about this many lattice points."""

_MOST_PAIRED = 80  # groups that are compared two by two
_SPREAD = 20.0  # standard deviations of a loss that matter, both sides together


@dataclass(frozen=True, slots=True)
class LossGroup:
    """Factors that share a lattice.

    Attributes:
        factors: Their losses.
        step: h, the coarsest common step.
        variance: Approximate variance of the sum of their losses.
    """

    factors: tuple[LossFactor, ...]
    step: Fraction
    variance: float

    @property
    def length(self) -> float:
        """About how many lattice points matter."""
        return _SPREAD * math.sqrt(self.variance) / float(self.step)

    def joined(self, other: "LossGroup") -> "LossGroup":
        """The group that holds the factors of both."""
        factors = self.factors + other.factors
        return LossGroup(factors, lattice_of(factors).step, self.variance + other.variance)


def grouped(factors: tuple[LossFactor, ...]) -> tuple[LossGroup, ...]:
    """A few groups, each on a lattice of at most about a million points, unless one factor alone has more.

    The two groups with the shortest common lattice are joined. This is repeated until the shortest one is too long. If
    there are more than 80 factors, the later ones first join the best group one by one, so that the time stays in
    proportion to the number of factors.
    """
    groups: list[LossGroup] = []
    for factor in factors:
        # Tilted, even a law on one atom spreads over two.
        variance = max(moments(factor, 0.0)[1], float(factor.step) ** 2 / 4)
        alone = LossGroup((factor,), factor.step, factor.multiplicity * variance)
        place = _shortest([group.joined(alone) for group in groups]) if len(groups) >= _MOST_PAIRED else None
        if place is None:
            groups.append(alone)
        else:
            groups[place] = groups[place].joined(alone)
    gone: set[int] = set()
    pairs = {
        (one, other): groups[one].joined(groups[other]).length
        for other in range(len(groups))
        for one in range(other)
    }
    while pairs and min(pairs.values()) <= LONGEST_GROUP:
        one, other = min(pairs, key=pairs.__getitem__)
        groups[one] = groups[one].joined(groups[other])
        pairs = {pair: length for pair, length in pairs.items() if other not in pair}
        for pair in pairs:
            if one in pair:
                pairs[pair] = groups[pair[0]].joined(groups[pair[1]]).length
        gone.add(other)
    return tuple(group for place, group in enumerate(groups) if place not in gone)


def _shortest(groups: list[LossGroup]) -> int | None:
    """Place of the group with the shortest lattice, or None if that lattice is too long."""
    place = min(range(len(groups)), key=lambda at: groups[at].length)
    return place if groups[place].length <= LONGEST_GROUP else None
