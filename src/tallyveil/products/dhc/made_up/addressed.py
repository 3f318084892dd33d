"""Random numbers by address, so that a block's people do not depend on which blocks are made together with it.

A number is a function of the seed, what it is for, its block, and its place in the block. The function is the mixing
step of the generator SplitMix64. The numbers only make up people. They have nothing to do with privacy noise.
"""

from enum import IntEnum, auto
from typing import Final

import numpy as np

from tallyveil.arrays import Floats, Integers, Words

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
