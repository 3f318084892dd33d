"""Limits that published counts of people set on households, so that files of persons and of units can agree.

A block has H household people, of whom A are adults, in HU housing units; all three are public. How many units may be
occupied, and in how many of these may one person live alone? The limits here leave room at every leaf for all later
splits (docs/proofs/agreement.md), and no more is asked of them:

- a block has occupied units if and only if it has household people;
- there are at most as many occupied units as housing units, and as many as adults (one, where all are minors);
- no household needs to be larger than 15, unless there are too few units.

Noise makes blocks that no census has, such as three minors by themselves. The limits must be possible for them, too.
"""

import numpy as np

from tallyveil.arrays import Bools, Integers
from tallyveil.errors import ConstraintError

USUAL_LARGEST = 15
"""Size that a household must exceed only where there are too few units."""


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
