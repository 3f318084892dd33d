"""The noise of the simulations, which is exact and the same every time, and the exact expectation of its errors."""

import math
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.noise import DiscreteGaussian, NoiseSource, insecure_key

KEY_TEXT: Final = "tallyveil study fdp-census"
"""The key is made from this text. The counts are public, so the key need not be secret."""


def study_noise() -> NoiseSource:
    """The source of all noise in this study."""
    return NoiseSource(insecure_key(KEY_TEXT))


def expected_errors(counts: Integers, variance: Fraction, *, nonnegative: bool) -> tuple[float, float]:
    """Expected squared and absolute error of noisy counts, averaged over the counts and computed without draws.

    Args:
        counts: Counts of 0 or more, in an array of any shape.
        variance: Variance parameter of the discrete Gaussian.
        nonnegative: Whether negative noisy counts are set to zero.
    Returns:
        Mean squared error (counts squared), mean absolute error (counts).
    """
    law = DiscreteGaussian(variance)
    reach = math.ceil(14 * math.sqrt(float(variance)))  # the probability of larger noise is about 1e-42
    noise = np.arange(-reach, reach + 1)
    probability = np.array([law.probability(x) for x in range(reach + 1)])
    probability = np.concatenate([probability[:0:-1], probability])
    # Counts beyond the reach of the noise are all alike: none of them becomes negative. So the sum is over
    # few values.
    values, numbers = np.unique(np.minimum(counts, reach), return_counts=True)
    squared = absolute = 0.0
    for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
        # A count that would fall below zero is set to zero, so the error is never below -value.
        error = np.maximum(noise, -value) if nonnegative else noise
        squared += number * float(probability @ error.astype(np.float64) ** 2)
        absolute += number * float(probability @ np.abs(error))
    return squared / counts.size, absolute / counts.size
