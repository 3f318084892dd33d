"""Limits that published counts of people set on households, so that files of persons and of units can agree.

A block has H household people, of whom A are adults, in HU housing units; all three are public. How many units may be
occupied, and in how many of these may one person live alone? The limits here leave room at every leaf for all later
splits (docs/proofs/agreement.md), and no more is asked of them:

- a block has occupied units if and only if it has household people;
- there are at most as many occupied units as housing units, and as many as adults (one, where all are minors);
- no household needs to be larger than 15, unless there are too few units.

Noise makes blocks that no census has, such as three minors by themselves. The limits must be possible for them, too.

Sizes. How many households of a place can have a size, so that all sizes can add up to the people who live there.

Sizes are found one by one, the largest first. Some households have a size that is known before, such as people who live
alone. All others can have any size from the smallest open one up. The largest size stands for itself and all larger
ones; the others are exact. At every step, the limits are those numbers of households with which the sizes that are left
can still add up, and no others (docs/proofs/agreement.md).

Households of the largest size hold at most two people beyond it on average, unless there are too few households.

Worked case: 12 people live in 4 households of two or more. Beyond two in each, there are 4 people. A household of size
7 takes 5 of these, so there is none. One household may have size 6: its 4 people beyond two are all there are. Then the
others have size 2.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import Bools, Integers
from tallyveil.errors import ConstraintError

USUAL_LARGEST = 15
"""Size that a household must exceed only where there are too few units."""

MOST_BEYOND: Final = 2
"""People beyond the largest size that households of this size may have on average, where there are enough of them. With
more, State counts of smaller sizes would be less exact (docs/dhc.md)."""


def occupied_limits(people: Integers, adults: Integers, housing_units: Integers) -> tuple[Integers, Integers]:
    """Least and largest number of occupied units.

    Args:
        people: Published household people of each block.
        adults: Published household people of 18 or more.
        housing_units: Housing units of each block.
    Returns:
        Two arrays of the same shape; the first is nowhere above the second.
    Raises:
        ConstraintError: a block has household people and no housing unit.
    """
    settled = people > 0
    homeless = settled & (housing_units == 0)
    if bool(homeless.any()):
        raise ConstraintError(
            f"{int(homeless.sum())} finest geounit(s) have published household people and no housing unit. Publish the "
            "persons with an upper bound of 0 on household people where there is no housing unit.",
            code="people-without-units",
        )
    upper = np.where(settled, np.minimum(housing_units, np.maximum(adults, 1)), 0)
    largest = np.maximum(USUAL_LARGEST, divided_up(people, upper, settled))
    return divided_up(people, largest, settled), upper


def alone_limits(people: Integers, occupied: Integers) -> tuple[Integers, Integers]:
    """Least and largest number of people who live alone.

    Those who are not householders must fit into the other households. Each of these has at least one of them, and at
    most 14, or as few as possible where there are too few households.

    Args:
        people: Published household people of each block.
        occupied: Occupied units, one for each householder; above zero and at most `people` where there are people.
    Returns:
        Two arrays of the same shape; the first is nowhere above the second.
    """
    others = people - occupied
    settled = others > 0
    largest = np.maximum(USUAL_LARGEST, divided_up(people, occupied, settled))
    needed = divided_up(others, largest - 1, settled)
    return np.maximum(occupied - others, 0), occupied - needed


def divided_up(parts: Integers, by: Integers, where: Bools) -> Integers:
    """Quotients rounded up, and 0 elsewhere."""
    return np.where(where, -(-parts // np.maximum(by, 1)), 0)


@dataclass(frozen=True, slots=True, eq=False)
class SizedHouseholds:
    """Households of some places, and the people who live in them.

    Attributes:
        people: People in all households of each place, shape (G,).
        known: Households known to have one person, two, and so on; shape (G, Z). The last size is open.
        unknown: Households whose size is not known, shape (G,).
        smallest: The smallest size that these can have.
    """

    people: Integers
    known: Integers
    unknown: Integers
    smallest: int

    @property
    def left(self) -> Integers:
        """People who are left if each household is as small as it can be."""
        sizes = np.arange(1, self.known.shape[1] + 1)
        held: Integers = self.people - self.known @ sizes - self.smallest * self.unknown
        return held

    def possible(self) -> Bools:
        """Where sizes can add up to the people, if no known size is above the smallest unknown one."""
        fits: Bools = (self.left == 0) | ((self.left > 0) & (self.unknown > 0))
        return fits


def size_limits(homes: SizedHouseholds, size: int) -> tuple[Integers, Integers]:
    """Least and largest number of households of the largest size that is not known yet.

    Args:
        homes: The households. Those whose size is not known can have any size from the smallest up to `size`.
        size: This size, above the smallest.
    Returns:
        Two arrays of the shape (G,). The first is nowhere above the second, if sizes can add up.
    """
    known, smallest, open_size = homes.known, homes.smallest, homes.known.shape[1]
    # Households of at least the smallest unknown size, known and unknown: only these can take people beyond it.
    large = homes.unknown + known[:, smallest - 1 :].sum(axis=1)
    in_large = homes.people - known[:, : smallest - 1] @ np.arange(1, smallest)
    largest = np.maximum(open_size + MOST_BEYOND, divided_up(in_large, large, large > 0))
    # What households of the open size can take beyond it, and what smaller households can take.
    beyond = known[:, -1] * (largest - open_size)
    smaller = (size - 1 - smallest) * homes.unknown
    # One more household of this size instead of the size below takes so many people more.
    more = largest - size + 1 if size == open_size else np.ones_like(largest)
    lacking = homes.left - beyond - smaller
    lower = divided_up(lacking, more, lacking > 0)
    upper = np.minimum(homes.unknown, homes.left // (size - smallest))
    return lower, upper
