"""More accurate estimates of the same population groups, from the measurements alone; margins of sums.

A group of detail d has a stage-1 count Y1 with variance v1, and n cells x_j with variance v2 each and sum S. Y1 and S
both estimate the total. Least squares changes every cell by the same share of their difference:

    x_j + u (Y1 - S),   u = v2 / (v1 + n v2),   total: T = S + n u (Y1 - S).

u is rounded down to a multiple of 1/4096, so estimates are multiples of 1/4096. w = n u is the weight of Y1. Y1 also
chose the detail: given the choice, lo <= Y1 < hi, so Y1 is biased near a threshold.

*Gaussian noise ("corrected").* T is sufficient for the true count, up to the rounding of u and the lattice of the
noise. So E[S | T, choice] is unbiased given the choice, and has the smallest variance of all such estimates (Cohen and
Sackrowitz 1989). With Y integer, of a law proportional to exp(-(y - T)**2 / (2 t**2)), t**2 = (1 - w) v1, it is

    G(T) = T - w / (1 - w) (E[Y | lo <= Y < hi] - T).

Far from the thresholds G(T) = T. G(T) - T is tabulated at knots t / 16 apart, and interpolated in integers.

*Laplace noise ("partly").* Beyond a threshold Y1 carries no information, because the Laplace law has no memory. The
weight that the estimate gives to Y1 is 0 at the threshold, grows with the distance of Y1 from it, and reaches w far
away.

Worked case. n = 1, v1 = v2 = 100, Y1 = 52 and S = 48. Then u = w = 1/2 and T = 50, with variance 50, half that of S
alone. `near_threshold` gives the margins near a threshold, where the accuracy depends on the true count.

*Laws of sums* are floats, from the closed form of each law, convolved by the fast Fourier transform. A margin is
accepted only if its coverage exceeds the confidence by more than a tolerance for errors of these computations. Worked
case: X is -1, 0 or 1 with probabilities 0.02, 0.96, 0.02. The margin of one draw is 0. The sum of two draws is 0 with
probability 0.96**2 + 2 x 0.02**2 = 0.9224, so its margin is 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from flint import arb
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.noise.balls import precision, rational
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

    def at_most(self, highest: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(X <= highest) for each bound."""
        # Rounding may leave a sum of probabilities above 1.
        return np.minimum(self.within(np.full(highest.shape, -self.reach), highest), 1.0)


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

    def margin(self, guess: float) -> float:
        """Smallest multiple m of 1/64 for which at least 95 % of the weighted sum is in [-m, m], but not 0.

        Args:
            guess: Where the search begins. The margin is the same for every guess.
        """
        wanted = float(CONFIDENCE) + _TOLERANCE
        # Every term of a coverage rises with the margin and they are added in one order, so the coverage rises too.
        steps = first_enough(lambda steps: self.coverage(steps) >= wanted, round(guess * MARGIN_STEPS))
        return max(steps, 1) / MARGIN_STEPS


def first_enough(enough: Callable[[int], bool], start: int) -> int:
    """The smallest whole number that is enough, where all larger ones are.

    Args:
        enough: Whether a number, 0 or more, is enough.
        start: Where the search begins, 0 or more. The nearer it is, the fewer numbers are asked about.
    """
    # Exponential search, then bisection.
    jump, low, high = 1, 0, start
    if enough(start):
        while high > 0 and enough(max(high - jump, 0)):
            high, jump = max(high - jump, 0), 2 * jump
        low = max(high - jump, 0)
    else:
        low = start
        while not enough(low + jump):
            low, jump = low + jump, 2 * jump
        high = low + jump
    # `enough(high)` holds and `enough(low)` does not, or low is 0.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


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


UNIT: Final = 4096
"""Estimates are integer multiples of 1/4096."""

NEAR: Final = 6.5
"""If T is farther than 6.5 t from a threshold, nothing is corrected: the correction would be below 1/4096."""

_BELOW: Final = 6  # from this many t on the wrong side of a threshold, the correction is linear
_KNOTS_A_SPREAD: Final = 16
"""Knots of a correction in each spread t. Linear interpolation between them errs by about 1/2000 of the
curvature; half as many knots err four times as much, twice as many take twice the time to tabulate."""

_BITS: Final = 192
"""Bits of the balls in which a correction is computed. Tails at 6.5 spreads are near 2**-34 and are subtracted
from each other, so 192 leave far more than the 12 bits of a step of 1/4096; half as
many would do."""

_WHOLE_SPREADS: Final = (
    0.8,
    12.0,
)  # for spreads in this range, sums over integers are used; elsewhere an integral is as accurate


class Method(IntEnum):
    """The method by which an estimate was made."""

    MEASURED = 0
    COMBINED = 1
    CORRECTED = 2
    PARTLY = 3
    EXACT = 4


@dataclass(frozen=True, slots=True)
class Quality:
    """Variance and exact 95 % margin of error of a number.

    Attributes:
        variance: In squared counts.
        margin: Smallest margin with at least 95 % coverage.
    """

    variance: float
    margin: float


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """The amount subtracted from every cell near a threshold, as a piecewise linear function of T.

    Attributes:
        knots: Values of T in multiples of 1/4096; int64, ascending.
        values: The amount subtracted from each cell at the knots, in the same unit; int64.
    """

    knots: Integers
    values: Integers

    def of(self, totals: Integers) -> Integers:
        """The amount to subtract from each cell, for groups with these T."""
        # Clipped, so that T beyond the knots continues the last line: far on the wrong side it is linear.
        place = np.clip(np.searchsorted(self.knots, totals, side="right") - 1, 0, len(self.knots) - 2)
        rise = self.values[place + 1] - self.values[place]
        run = self.knots[place + 1] - self.knots[place]
        # Integer interpolation, rounded down: the same on every machine, unlike floats.
        return np.asarray(self.values[place] + rise * (totals - self.knots[place]) // run)


@dataclass(frozen=True, slots=True, eq=False)
class Fade:
    """The weight of stage 1, by the distance of its count from the nearest threshold: 0, then increasing, then 1.

    Attributes:
        begin: Distance up to which stage 1 is not used.
        width: Distance over which its weight grows from 0 to 1.
    """

    begin: int
    width: int

    def of(self, stage_1: Integers, lowest: int | None, highest: int | None) -> Integers:
        """Weights in multiples of 1 / width."""
        # Without a threshold the distance is as large as can be, and the weight is full.
        distance = np.full(len(stage_1), self.begin + self.width, np.int64)
        if lowest is not None:
            distance = np.minimum(distance, stage_1 - lowest)
        if highest is not None:
            # highest - 1 is the last count that chooses this detail.
            distance = np.minimum(distance, highest - 1 - stage_1)
        return np.clip(distance - self.begin, 0, self.width)


@dataclass(frozen=True, slots=True, eq=False)
class DetailEstimator:
    """Estimates for the groups of one detail of one level set. Made by `estimator_of`.

    Attributes:
        n: Number of cells; 1 for detail 0.
        stage_1, stage_2: Laws of the noise.
        lowest, highest: Stage-1 counts that choose this detail: lowest <= Y1 < highest. None means no bound.
        unit: u in multiples of 1/4096.
    """

    n: int
    stage_1: Law
    stage_2: Law
    lowest: int | None
    highest: int | None
    unit: int

    @property
    def bounds(self) -> tuple[int, ...]:
        """The thresholds that bound the choice of this detail."""
        return tuple(bound for bound in (self.lowest, self.highest) if bound is not None)

    @property
    def weight(self) -> float:
        """Weight of stage 1 in the total, if it has its full weight."""
        return self.n * self.unit / UNIT

    @property
    def spread(self) -> float:
        """t: standard deviation of stage 1, given T."""
        return math.sqrt((1 - self.weight) * self.stage_1.variance_float())

    @property
    def gaussian(self) -> bool:
        """Whether the noise of both stages is Gaussian."""
        return isinstance(self.stage_1, DiscreteGaussian)

    def shifts(self, stage_1: Integers, sums: Integers) -> Integers:
        """The amount to add to every cell of each group, in multiples of 1/4096.

        Args:
            stage_1: Noisy totals of stage 1, shape (groups,).
            sums: Sums of the noisy cells, shape (groups,).
        """
        # Integers throughout: estimates of a group add up exactly, and no machine rounds in another way.
        shifts = self.unit * (stage_1 - sums)
        if not self.bounds or not self.unit:
            return shifts
        if self.gaussian:
            # UNIT * sums + n * shifts is T in multiples of 1/4096.
            return shifts - correction_of(self).of(UNIT * sums + self.n * shifts)
        fade = fade_of(self)
        # Rounded towards minus infinity, by less than 1/4096 a cell; `near_threshold` allows for it.
        return shifts * fade.of(stage_1, self.lowest, self.highest) // fade.width

    def measured(self, parts: int) -> Quality:
        """Quality of a sum of `parts` noisy cells."""
        return _measured(self.stage_2, parts)

    def combined(self, parts: int) -> Quality:
        """Quality of a sum of `parts` cells combined with stage 1, if stage 1 has its full weight."""
        if not self.unit:
            return self.measured(parts)
        return _combined_quality(self.n, parts, self.unit, self.stage_1, self.stage_2)


@lru_cache(maxsize=256)
def estimator_of(
    n: int, stage_1: Law, stage_2: Law, lowest: int | None, highest: int | None
) -> DetailEstimator:
    """The estimator for a detail with n cells, whose stage-1 counts satisfy lowest <= Y1 < highest."""
    # Floats suffice: u is rounded down to a multiple of 1/4096, and any such u gives an unbiased estimate.
    v1, v2 = stage_1.variance_float(), stage_2.variance_float()
    unit = min(
        int(UNIT * v2 / (v1 + n * v2)), (UNIT - 1) // n
    )  # below 1 / n, so that the cells keep some weight
    return DetailEstimator(n, stage_1, stage_2, lowest, highest, unit)


@lru_cache(maxsize=1024)
def correction_of(estimator: DetailEstimator) -> Correction:
    """The correction of an estimator with Gaussian noise and at least one threshold, tabulated at its knots."""
    spread = estimator.spread
    # At least one unit apart: knots must be different integers.
    step = max(1, round(UNIT * spread / _KNOTS_A_SPREAD))
    near, below = math.ceil(NEAR * _KNOTS_A_SPREAD), _BELOW * _KNOTS_A_SPREAD
    steps = np.arange(-below, near + 1, dtype=np.int64) * step
    # The same distances on the right side of each threshold: above the lower and below the upper threshold.
    sides = [UNIT * estimator.lowest + steps] if estimator.lowest is not None else []
    sides += [UNIT * estimator.highest - steps[::-1]] if estimator.highest is not None else []
    # Two thresholds may be so near that their knots overlap.
    knots = np.unique(np.concatenate(sides))
    spread2 = Fraction(estimator.stage_1.variance_float()) * (
        1 - Fraction(estimator.n * estimator.unit, UNIT)
    )
    values = [_taken_off(int(knot), estimator, spread, spread2) for knot in knots]
    return Correction(knots, np.array(values, np.int64))


@lru_cache(maxsize=1024)
def fade_of(estimator: DetailEstimator) -> Fade:
    """How the weight of stage 1 with Laplace noise grows away from the thresholds."""
    # Weight 0 up to 8 standard deviations of stage 1 from a threshold, and 1 after 20 more of the total.
    begin = int(8 * estimator.stage_1.standard_deviation()) + 1
    return Fade(begin, int(20 * estimator.measured(estimator.n).variance ** 0.5) + 1)


@lru_cache(maxsize=1024)
def _measured(law: Law, parts: int) -> Quality:
    noise = noise_sum(law, parts)
    # A sum of no cells is known exactly.
    margin = float(margin_of_sum(noise)) if noise is not NOTHING else 0.0
    return Quality(parts * law.variance_float(), margin)


@lru_cache(maxsize=1024)
def _combined_quality(n: int, parts: int, unit: int, stage_1: Law, stage_2: Law) -> Quality:
    u, v1, v2 = unit / UNIT, stage_1.variance_float(), stage_2.variance_float()
    # parts cells keep 1 - parts u of their own noise; the other n - parts enter with parts u each, and stage
    # 1, too.
    variance = ((1 - parts * u) ** 2 + (n - parts) * parts * u * u) * parts * v2 + (parts * u) ** 2 * v1
    # Only where the search begins: 95 % of a normal law.
    guess = 1.96 * variance**0.5
    return Quality(variance, _combined(parts, n, unit, stage_1, stage_2).margin(guess))


def _combined(parts: int, n: int, unit: int, stage_1: Law, stage_2: Law) -> NoisePair:
    """Noise of the sum of `parts` out of n combined cells: that of these cells, and that of stage 1 and other cells."""
    others = noise_sum(stage_1, 1).plus(noise_sum(stage_2, n - parts))
    # Whole weights over 4096, so that the coverage of a margin is decided in integers.
    return NoisePair(UNIT - parts * unit, noise_sum(stage_2, parts), parts * unit, others, UNIT)


@lru_cache(maxsize=256)
def quality_of(law: Law) -> Quality:
    """Quality of one noisy count."""
    return _measured(law, 1)


def chosen_law(
    noise: NoiseSum, count: int, lowest: int | None, highest: int | None
) -> tuple[Integers, NDArray[np.float64]]:
    """Stage-1 counts that choose a detail, and their probabilities, which add up to the probability of the choice."""
    # Counts beyond the reach have a probability below 1e-15 and are left out.
    first = -noise.reach if lowest is None else max(-noise.reach, lowest - count)
    last = noise.reach if highest is None else min(noise.reach, highest - 1 - count)
    values = np.arange(first, max(first, last + 1), dtype=np.int64)
    return count + values, noise.probabilities[values + noise.reach]


def _taken_off(total: int, estimator: DetailEstimator, spread: float, spread2: Fraction) -> int:
    """The correction of each cell at T, both in multiples of 1/4096; 0 far from the thresholds.

    `spread` is t, and `spread2` is its square exactly.
    """
    center = Fraction(total, UNIT)
    away = NEAR * spread
    lowest = estimator.lowest if estimator.lowest is not None and center - estimator.lowest < away else None
    highest = (
        estimator.highest if estimator.highest is not None and estimator.highest - center < away else None
    )
    if lowest is None and highest is None:
        return 0
    whole = _WHOLE_SPREADS[0] <= spread <= _WHOLE_SPREADS[1]
    # A cell's correction is w / (1 - w) / n = u / (1 - n u) times (E[Y] - T).
    share = Fraction(estimator.unit, UNIT - estimator.n * estimator.unit)
    if spread2 * UNIT**2 < 1:  # Y is the integer nearest to T, because other values are too improbable
        half = Fraction(1, 2)
        nearest = center if lowest is None else max(center, lowest - half)
        nearest = nearest if highest is None else min(nearest, highest - half)
        return math.floor(UNIT * share * (nearest - center) + half)
    with precision(_BITS):
        excess = (_mean_of_whole if whole else _mean_of_real)(center, spread2, lowest, highest)
        return int((rational(UNIT * share) * excess + arb(0.5)).floor().mid().unique_fmpz())


def _mean_of_whole(center: Fraction, spread2: Fraction, lowest: int | None, highest: int | None) -> Any:
    """E[Y] - center for integer Y, lowest <= Y < highest, P(y) proportional to exp(-(y - center)**2 / 2 spread2)."""
    # 13 spreads on either side: what is beyond is below e**-84 of the largest term.
    reach = 13 * (math.isqrt(int(spread2)) + 1)
    nearest = round(center)
    # The sum starts at the most probable allowed integer, so that its terms only fall and nothing underflows.
    nearest = nearest if lowest is None else max(nearest, lowest)
    nearest = nearest if highest is None else min(nearest, highest - 1)
    rate, mass, moment = -1 / (2 * rational(spread2)), arb(0), arb(0)
    step = (2 * rate).exp()
    # Upwards first, then downwards without the starting integer, which has been counted.
    for sign, bound in ((1, highest), (-1, None if lowest is None else lowest - 1)):
        distance = rational(nearest - center)
        # The ratio of neighbouring weights changes by a constant factor from one integer to the next.
        weight, ratio = arb(1), ((2 * sign * distance + 1) * rate).exp()
        for away in range(reach):
            if nearest + sign * away == bound:
                break
            if away or sign > 0:
                mass, moment = mass + weight, moment + weight * (distance + sign * away)
            weight, ratio = weight * ratio, ratio * step
    return moment / mass


def _mean_of_real(center: Fraction, spread2: Fraction, lowest: int | None, highest: int | None) -> Any:
    """The same for real Y between lowest - 1/2 and highest - 1/2, which is as accurate if the spread is large."""
    spread, half = rational(spread2).sqrt(), Fraction(1, 2)
    low = None if lowest is None else rational(lowest - half - center) / spread
    high = None if highest is None else rational(highest - half - center) / spread
    root, zero, two = arb(2).sqrt(), arb(0), arb(2)
    # Infinite bounds have density 0.
    density = [zero if bound is None else (-bound * bound / 2).exp() for bound in (low, high)]
    if low is not None and low > 0:  # use upper tails, so that no digits cancel
        above = [(low / root).erfc(), zero if high is None else (high / root).erfc()]
        mass = (above[0] - above[1]) / 2
    else:
        below = [
            zero if low is None else (-low / root).erfc(),
            two if high is None else (-high / root).erfc(),
        ]
        mass = (below[1] - below[0]) / 2
    return spread * (density[0] - density[1]) / (mass * (2 * arb.pi()).sqrt())
