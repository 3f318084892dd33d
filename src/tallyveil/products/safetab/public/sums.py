"""Laws of sums of independent integer noise, and exact margins of error of their combinations.

Probabilities are floats, from the closed form of each law. Convolutions use the fast Fourier transform. A margin is
accepted only if its coverage exceeds the confidence by more than a tolerance for the errors of these computations. So a
margin is rounded up if floats cannot decide.

Worked case. Let X be -1, 0 or 1 with probabilities 0.02, 0.96, 0.02. The margin of one draw is 0, since 0.96 is above
0.95. The sum of two draws is 0 with probability 0.96**2 + 2 x 0.02**2 = 0.9224, so its margin is 1.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.noise.laws import DiscreteGaussian, Law

CONFIDENCE: Final = Fraction(19, 20)
"""Coverage of all margins, as in production."""

MARGIN_STEPS: Final = 64
"""Margins of combined estimates are multiples of 1/64, rounded up."""

_TAIL: Final = 1e-18
"""Probability that may be cut off at both ends of a law together. It is far below _TOLERANCE even after a
hundred sums, so it cannot change a margin; a larger one would shorten the arrays by little, because tails fall
fast."""

_TOLERANCE: Final = 1e-11
"""By how much a coverage must exceed the confidence, for rounding of floats and Fourier transforms (near 1e-15
each). Twice it rounds a margin up a little more often; a thousandth could accept a margin that covers less."""


@dataclass(frozen=True, slots=True, eq=False)
class NoiseSum:
    """Law of a sum of independent symmetric integer noise.

    Attributes:
        reach: Largest value stored. The probability beyond it is below 1e-15.
        probabilities: P(X = x) for x = -reach..reach; float64.
    """

    reach: int
    probabilities: NDArray[np.float64]

    def plus(self, other: "NoiseSum") -> "NoiseSum":
        """Law of the sum of two independent sums."""
        n = len(self.probabilities) + len(other.probabilities) - 1
        # A power of two with room for the whole sum, so that the cyclic convolution does not wrap.
        size = 1 << (n - 1).bit_length()
        both = np.fft.irfft(
            np.fft.rfft(self.probabilities, size) * np.fft.rfft(other.probabilities, size), size
        )
        # The transform leaves errors of about 1e-17, some of them negative.
        return _trimmed(np.maximum(both[:n], 0.0))

    def within(self, lowest: NDArray[np.int64], highest: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(lowest <= X <= highest) for pairs of bounds; 0 if lowest is above highest."""
        below = np.concatenate([[0.0], np.cumsum(self.probabilities)])
        n = len(self.probabilities)
        low = np.clip(lowest + self.reach, 0, n)
        high = np.clip(highest + self.reach + 1, 0, n)
        return np.where(high > low, below[high] - below[np.minimum(low, high)], 0.0)


NOTHING: Final = NoiseSum(0, np.ones(1))
"""The law of a sum of no draws: 0 with certainty."""


def noise_sum(law: Law, n: int) -> NoiseSum:
    """Law of the sum of n independent draws."""
    # Binary powers: log2 n convolutions instead of n.
    total, power = NOTHING, _one(law)
    while n:
        total = total.plus(power) if n & 1 else total
        n >>= 1
        power = power.plus(power) if n else power
    return total


@dataclass(frozen=True, slots=True, eq=False)
class NoisePair:
    """The weighted sum (a X + b W) / scale of two independent sums of noise.

    Attributes:
        a, b: Integer weights; a is above 0.
        first, second: Laws of X and W.
        scale: Divisor of the weights.
    """

    a: int
    first: NoiseSum
    b: int
    second: NoiseSum
    scale: int

    def coverage(self, steps: int) -> float:
        """P(|a X + b W| <= steps scale / 64)."""
        values = np.arange(-self.second.reach, self.second.reach + 1, dtype=np.int64)
        # Rounded down, so that the interval is never too wide.
        limit = steps * self.scale // MARGIN_STEPS
        # The integers x with |a x + b w| <= limit, for every w; whole numbers, so exactly.
        low, high = -((limit + self.b * values) // self.a), (limit - self.b * values) // self.a
        return float(self.second.probabilities @ self.first.within(low, high))

    def margin(self) -> float:
        """Smallest multiple m of 1/64 for which at least 95 % of the weighted sum is in [-m, m]."""
        wanted = float(CONFIDENCE) + _TOLERANCE
        high = 1
        # Doubling finds an upper end in log steps; the bisection keeps it.
        while self.coverage(high) < wanted:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.coverage(middle) >= wanted else (middle, high)
        # With high = 1 the loop does not run, and low is 0.
        return (low if low and self.coverage(low) >= wanted else high) / MARGIN_STEPS


def margin_of_sum(law: NoiseSum) -> int:
    """Smallest integer m with P(|X| <= m) >= 95 %."""
    middle = law.reach
    tail = np.cumsum(law.probabilities[::-1])[:middle][::-1]  # P(X >= x) for x = 1, 2, ...
    # Both tails are equal by symmetry; adding from the far end keeps the small terms.
    enough = np.flatnonzero(2 * tail <= float(1 - CONFIDENCE) - _TOLERANCE)
    return int(enough[0]) if enough.size else middle


def raised_margin(plain: NDArray[np.int64], count: NDArray[np.int64], margin: float) -> NDArray[np.float64]:
    """Margins of sums whose negative cells were raised to 0 before they were added.

    The true sum is not negative. It lies within `margin` of the sum of the measured cells, with the coverage of
    `margin`. The published sum's distance to the farthest such number therefore has at least the same coverage.

    Args:
        plain: Sums of the noisy cells as measured.
        count: The same sums after negative cells were raised.
        margin: Margin of the noise of such a sum.
    """
    lowest, highest = np.maximum(plain - margin, 0.0), plain + margin
    return np.asarray(np.maximum(np.maximum(count - lowest, highest - count), 0.0))


def quantile_of_sum(law: NoiseSum, chance: Fraction) -> int:
    """Smallest integer x with P(X <= x) >= chance; or x + 1 if floats cannot decide between the two."""
    enough = np.cumsum(law.probabilities) >= float(chance) + _TOLERANCE
    return (int(np.argmax(enough)) if enough.any() else 2 * law.reach) - law.reach


def _one(law: Law) -> NoiseSum:
    if isinstance(law, DiscreteGaussian):
        v = float(law.variance)
        # 10 standard deviations: beyond are 2e-23, less than _TAIL.
        reach = int(10 * v**0.5) + 4
        x = np.arange(-reach, reach + 1, dtype=np.float64)
        weights = np.exp(-x * x / (2 * v))
    else:
        # exp(-42) is 6e-19, less than _TAIL.
        reach = int(42 * float(law.scale)) + 4
        weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / float(law.scale))
    # Normalised by the sum that is kept: what is cut off is below the rounding of a float.
    return _trimmed(weights / weights.sum())


def _trimmed(probabilities: NDArray[np.float64]) -> NoiseSum:
    """The law without its symmetric ends of negligible probability."""
    middle = len(probabilities) // 2
    beyond = np.cumsum(probabilities[:middle] + probabilities[:middle:-1])
    cut = int(np.searchsorted(beyond, _TAIL))
    middle_part = probabilities[cut : len(probabilities) - cut]
    return NoiseSum(middle - cut, middle_part)
