"""Losses without a usable common lattice, sorted into groups that each have one.

Letters: h lattice step.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from tallyveil.accounting.losses.factors import LossFactor, lattice_of
from tallyveil.accounting.losses.moments import moments

LONGEST_GROUP = 1 << 20
"""Lattice points of one group, about, up to which another factor joins it."""

_MOST_PAIRED = 80  # groups that are compared two by two
_SPREAD = 20.0  # standard deviations of a loss that matter, both sides together


@dataclass(frozen=True, slots=True)
class LossGroup:
    """Factors that share a lattice.

    Attributes:
        factors: Their losses.
        step: h, the coarsest common one.
        variance: Of their sum, about.
    """

    factors: tuple[LossFactor, ...]
    step: Fraction
    variance: float

    @property
    def length(self) -> float:
        """Lattice points that matter, about."""
        return _SPREAD * math.sqrt(self.variance) / float(self.step)

    def joined(self, other: "LossGroup") -> "LossGroup":
        """Both together."""
        factors = self.factors + other.factors
        return LossGroup(factors, lattice_of(factors).step, self.variance + other.variance)


def grouped(factors: tuple[LossFactor, ...]) -> tuple[LossGroup, ...]:
    """Few groups, each on a lattice of at most about a million points, unless one factor alone has more.

    The two groups whose common lattice is shortest join, again and again. Many factors are first sorted into
    few groups one at a time, so that the time stays in proportion to their number.
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
    """Place of the group with the shortest lattice, if it is short enough."""
    place = min(range(len(groups)), key=lambda at: groups[at].length)
    return place if groups[place].length <= LONGEST_GROUP else None
