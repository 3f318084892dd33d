"""Made-up group quarters: which people of a block live in a facility, and how many facilities there are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.synthetic.people import ADULT

HOUSEHOLD, JUVENILE, N_TYPES = 0, 2, 8
"""Codes of attribute hhgq, in the order of preset pl94-persons."""

# Probability of living in the facility, relative to that of its most common residents: (under 18, 18+) by hhgq code.
# For nursing facilities and minors it must be zero, because that is a structural zero.
RESIDENTS = np.array(
    [(0, 0), (0.005, 1), (1, 0.03), (0, 1), (0.1, 1), (0.02, 1), (0.005, 1), (0.3, 1)], dtype=np.float64
)
# A block with only adults is assumed to have one large facility. These are the probabilities of its type, by hhgq code.
LARGE_TYPE_SHARE = np.array([0, 0.05, 0, 0.32, 0.03, 0.46, 0.02, 0.12])
# The same for a small facility in a block of others, by hhgq code; scaled to the sum 1 where it is used.
SMALL_TYPE_SHARE = np.array([0, 0.01, 0.11, 0.20, 0.08, 0.15, 0, 0.45])
LARGE_BLOCK, LARGE_ADULT_SHARE = 60, 0.975
SMALL_BLOCK, SMALL_CHANCE, SECOND_CHANCE, SECOND_SHARE = 20, 0.012, 0.10, 0.15
# Probability that a block has vacant housing units. Where it has residents in households it has housing anyway.
VACANT_CHANCE = 0.08


@dataclass(frozen=True, slots=True)
class Dwellings:
    """Where people live.

    Attributes:
        households: Shape (n_blocks, 2, 8): people in households by voting age and race.
        block: Shape (n,): block of each group of residents.
        hhgq: Shape (n,): code of the group's facility type, 1 to 7.
        residents: Shape (n, 2, 8): residents by voting age and race; a group may have none.
        facilities: Shape (n,): number of facilities, at most the number of residents, so zero without residents.
        housing: Shape (n_blocks,): whether the block has housing units, occupied or vacant.
    """

    households: NDArray[np.int64]
    block: NDArray[np.int64]
    hhgq: NDArray[np.int64]
    residents: NDArray[np.int64]
    facilities: NDArray[np.int64]
    housing: NDArray[np.bool_]


def settle(people: NDArray[np.int64], generator: np.random.Generator) -> Dwellings:
    """Choose who lives in group quarters.

    Args:
        people: Shape (n_blocks, 2, 8): people by voting age and race.
        generator: Source of the random choices.
    Returns:
        Where people live. Household and group quarters populations together are the given people.
    """
    block, hhgq, share = _place_first(people, generator)
    chances = share[:, None] * RESIDENTS[hhgq]
    households = people.copy()
    residents = generator.binomial(households[block], chances[:, :, None]).astype(np.int64)
    households[block] -= residents
    # Some of these blocks also have a small facility of another type.
    # Further types are drawn after the first residents have left, so that nobody lives in two facilities.
    again = np.flatnonzero(generator.random(len(block)) < SECOND_CHANCE)
    # A step of 1 to 6 around the circle of the seven types never returns to the first one.
    second = 1 + (hhgq[again] - 1 + generator.integers(1, N_TYPES - 1, len(again))) % (N_TYPES - 1)
    left = households[block[again]]
    few = generator.binomial(left, SECOND_SHARE * RESIDENTS[second][:, :, None]).astype(np.int64)
    # No block occurs twice in `again`, so that the subtraction by index loses nothing.
    households[block[again]] -= few
    residents = np.concatenate([residents, few])
    numbers = residents.sum(axis=(1, 2))
    # At most one facility, and one more for every 25 residents.
    facilities = np.minimum(generator.geometric(0.6, len(numbers)), 1 + numbers // 25)
    vacant = generator.random(len(people)) < VACANT_CHANCE
    return Dwellings(
        households=households,
        block=np.concatenate([block, block[again]]),
        hhgq=np.concatenate([hhgq, second]),
        residents=residents,
        facilities=np.minimum(facilities, numbers),
        housing=households.any(axis=(1, 2)) | vacant,
    )


def _place_first(
    people: NDArray[np.int64], generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Blocks with group quarters, their main type, and the share of its most common residents who live there."""
    totals = people.sum(axis=(1, 2))
    adults = people[:, ADULT].sum(axis=1)
    large = (totals >= LARGE_BLOCK) & (adults > LARGE_ADULT_SHARE * totals)
    small = ~large & (totals >= SMALL_BLOCK) & (generator.random(len(people)) < SMALL_CHANCE)
    block = np.flatnonzero(large | small)
    types = np.where(
        large[block],
        generator.choice(N_TYPES, len(block), p=LARGE_TYPE_SHARE),
        generator.choice(N_TYPES, len(block), p=SMALL_TYPE_SHARE / SMALL_TYPE_SHARE.sum()),
    )
    # In half of the large facilities all adults of the block live in the facility, in the others nine tenths.
    filled = np.where(generator.random(len(block)) < 0.5, 1.0, 0.9)
    wanted = generator.integers(3, 20, len(block))
    eligible = np.where(types == JUVENILE, (totals - adults)[block], adults[block])
    share = np.where(large[block], filled, np.minimum(wanted / np.maximum(eligible, 1), 0.9))
    return block, types.astype(np.int64), share
