"""Better estimates of the same population groups, from the measurements alone.

A group of detail d has a count Y1 of stage 1 with variance v1 and n cells x_j with variance v2 and sum S. Least squares
gives every cell the same share of what the two totals disagree about,

    x_j + u (Y1 - S),   u = v2 / (v1 + n v2),   total: S + n u (Y1 - S),

which combines Y1 and S by inverse variance. u is rounded to a multiple of 1/4096, so estimates are multiples of that.

Y1 also chose the detail: given the choice, lo <= Y1 < hi, and Y1 is biased near a threshold. Under Gaussian noise the
total T = S + n u (Y1 - S) is complete and sufficient for the true count, whatever the choice. So E[S | T, choice] is
unbiased given the choice, and of all such estimates it has the smallest variance (Cohen and Sackrowitz 1989). It is

    T - (w1 / w2) (E[Y | lo <= Y < hi] - T),   w1 = n u = 1 - w2,   t**2 = v1 - 1 / (1 / v1 + 1 / (n v2)),

with Y a whole number of law proportional to exp(-(y - T)**2 / (2 t**2)): what Y1 is given T. Far from the thresholds
its mean is T, and nothing is corrected. Where it is not ("corrected") the stated variance and margin are those of S,
which the estimate's do not exceed. Under Laplace noise there is no such statistic: beyond a threshold Y1 says nothing
of the count (the law has no memory), so stage 1 is left out near thresholds and enters gradually farther away
("partly").
"""

import math
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from flint import arb
from numpy.typing import NDArray

from tallyveil.noise.balls import precision, rational
from tallyveil.noise.laws import DiscreteGaussian, Law
from tallyveil.safetab.sums import MARGIN_STEPS, NOTHING, NoisePair, NoiseSum, margin_of_sum, noise_sum

Int64Array = NDArray[np.int64]

UNIT: Final = 4096
"""Estimates are whole multiples of 1/4096."""

_NEAR: Final = 6.5  # beyond so many t the correction is below 1/4096
_NOTICED: Final = 0.02  # a correction below so many standard deviations leaves the stated quality as it is
_BITS: Final = 192
_WHOLE_SPREAD: Final = 12  # up to this spread whole numbers are summed; beyond it an integral is as good


class Method(IntEnum):
    """How an estimate was made."""

    MEASURED = 0
    COMBINED = 1
    CORRECTED = 2
    PARTLY = 3


@dataclass(frozen=True, slots=True)
class Quality:
    """Variance and exact 95 % margin of error of a number.

    Attributes:
        variance: Counts squared.
        margin: Smallest margin with at least 95 % coverage.
    """

    variance: float
    margin: float


@dataclass(frozen=True, slots=True, eq=False)
class DetailEstimator:
    """Estimates of the groups of one detail of one level set; made by `estimator_of`.

    Attributes:
        n: Cells; 1 for detail 0.
        stage_1, stage_2: Laws of the noise.
        lowest, highest: Stage-1 counts that choose this detail: lowest <= Y1 < highest; None: no bound.
        unit: u in multiples of 1/4096.
        measured_total, measured_half, measured_cell: Quality of sums of n and of n / 2 noisy cells, and of one.
        combined_total, combined_half, combined_cell: Quality of the same with stage 1.
    """

    n: int
    stage_1: Law
    stage_2: Law
    lowest: int | None
    highest: int | None
    unit: int
    measured_total: Quality
    measured_half: Quality
    measured_cell: Quality
    combined_total: Quality
    combined_half: Quality
    combined_cell: Quality

    def shifts(self, stage_1: Int64Array, sums: Int64Array) -> tuple[Int64Array, NDArray[np.int8]]:
        """What to add to every cell of each group, in multiples of 1/4096, and how it was found (`Method`).

        Args:
            stage_1: Noisy totals of stage 1, shape (groups,).
            sums: Sums of the noisy cells, shape (groups,).
        """
        shifts = self.unit * (stage_1 - sums)
        methods = np.full(len(shifts), Method.COMBINED, np.int8)
        if isinstance(self.stage_1, DiscreteGaussian) and isinstance(self.stage_2, DiscreteGaussian):
            # The parameter is the variance, to more digits than matter here.
            v1, vs = self.stage_1.variance, self.n * self.stage_2.variance
            self._correct(v1, vs, stage_1, sums, shifts, methods)
        else:
            self._leave_out(sums, shifts, methods)
        return shifts, methods

    def qualities(self, part: str) -> tuple[Quality, Quality]:
        """Quality of "total", "half" or "cell" with stage 1, and of what was measured."""
        combined: Quality = getattr(self, f"combined_{part}")
        measured: Quality = getattr(self, f"measured_{part}")
        return combined, measured

    def _correct(
        self,
        v1: Fraction,
        vs: Fraction,
        stage_1: Int64Array,
        sums: Int64Array,
        shifts: Int64Array,
        methods: NDArray[np.int8],
    ) -> None:
        w1 = vs / (v1 + vs)
        spread = float(v1 * v1 / (v1 + vs)) ** 0.5
        total = sums + float(w1) * (stage_1 - sums)
        near = np.zeros(len(sums), bool)
        if self.lowest is not None:
            near |= total - self.lowest < _NEAR * spread
        if self.highest is not None:
            near |= self.highest - total < _NEAR * spread
        where = np.flatnonzero(near)
        if not where.size:
            return
        pairs, back = np.unique(np.stack([stage_1[where], sums[where]]), axis=1, return_inverse=True)
        found = [
            _corrected_shift(y1, s, w1, v1 * v1 / (v1 + vs), self.lowest, self.highest, self.n)
            for y1, s in pairs.T.tolist()
        ]
        corrected = np.array(found, np.int64)[back.reshape(-1)]
        moved = self.n * np.abs(corrected - shifts[where]) / UNIT
        methods[where[moved > _NOTICED * self.combined_total.variance**0.5]] = Method.CORRECTED
        shifts[where] = corrected

    def _leave_out(self, sums: Int64Array, shifts: Int64Array, methods: NDArray[np.int8]) -> None:
        """Weigh stage 1 from nothing near a threshold to all of it far away, in whole numbers."""
        begin = int(8 * self.stage_1.standard_deviation() + 3 * self.measured_total.variance**0.5) + 1
        width = int(20 * self.measured_total.variance**0.5) + 1
        distance = np.full(len(sums), begin + width, np.int64)
        if self.lowest is not None:
            distance = np.minimum(distance, sums - self.lowest)
        if self.highest is not None:
            distance = np.minimum(distance, self.highest - sums)
        weight = np.clip(distance - begin, 0, width)
        shifts[:] = np.where(weight == width, shifts, shifts * weight // width)
        methods[weight < width] = Method.PARTLY


@lru_cache(maxsize=256)
def estimator_of(
    n: int, stage_1: Law, stage_2: Law, lowest: int | None, highest: int | None
) -> DetailEstimator:
    """The estimator of a detail with n cells, whose stage-1 counts lie in lowest <= Y1 < highest."""
    v1, v2 = stage_1.variance_float(), stage_2.variance_float()
    unit = round(UNIT * v2 / (v1 + n * v2))
    u, half = unit / UNIT, n // 2
    return DetailEstimator(
        n=n,
        stage_1=stage_1,
        stage_2=stage_2,
        lowest=lowest,
        highest=highest,
        unit=unit,
        measured_total=_sum_quality(n * v2, noise_sum(stage_2, n)),
        measured_half=_sum_quality(half * v2, noise_sum(stage_2, half)),
        measured_cell=_sum_quality(v2, noise_sum(stage_2, 1)),
        combined_total=Quality(
            (1 - n * u) ** 2 * n * v2 + (n * u) ** 2 * v1, _combined(n, n, unit, stage_1, stage_2).margin()
        ),
        combined_half=Quality(
            ((1 - half * u) ** 2 + (half * u) ** 2) * half * v2 + (half * u) ** 2 * v1,
            _combined(half, n, unit, stage_1, stage_2).margin() if half else 0.0,
        ),
        combined_cell=Quality(
            ((1 - u) ** 2 + (n - 1) * u * u) * v2 + u * u * v1,
            _combined(1, n, unit, stage_1, stage_2).margin(),
        ),
    )


def _combined(parts: int, n: int, unit: int, stage_1: Law, stage_2: Law) -> NoisePair:
    """Noise of the sum of so many of n combined cells: of those cells, and of stage 1 and the other cells."""
    others = noise_sum(stage_1, 1).plus(noise_sum(stage_2, n - parts))
    return NoisePair(UNIT - parts * unit, noise_sum(stage_2, parts), parts * unit, others, UNIT)


def combined_coverage(estimator: DetailEstimator, parts: int) -> float:
    """Coverage of the stated margin of the sum of 1, n / 2 or n cells, where stage 1 enters in full: at least 95 %."""
    quality = {1: estimator.combined_cell, estimator.n: estimator.combined_total}
    margin = quality.get(parts, estimator.combined_half).margin
    pair = _combined(parts, estimator.n, estimator.unit, estimator.stage_1, estimator.stage_2)
    return pair.coverage(round(margin * MARGIN_STEPS))


@lru_cache(maxsize=256)
def quality_of(law: Law) -> Quality:
    """Quality of one noisy count."""
    return Quality(law.variance_float(), float(margin_of_sum(noise_sum(law, 1))))


def stage_1_bias(law: Law, count: int, lowest: int | None, highest: int | None) -> float:
    """Bias of a stage-1 count given that it lies in lowest <= Y1 < highest: E[Y1 | choice] - count.

    Args:
        law: Law of its noise.
        count: True count.
        lowest, highest: The choice; None: no bound.
    """
    noise = noise_sum(law, 1)
    y1 = count + np.arange(-noise.reach, noise.reach + 1)
    chosen = np.ones(len(y1), bool)
    if lowest is not None:
        chosen &= y1 >= lowest
    if highest is not None:
        chosen &= y1 < highest
    weights = noise.probabilities * chosen
    return float((weights * (y1 - count)).sum() / weights.sum())


def _sum_quality(variance: float, law: NoiseSum) -> Quality:
    return Quality(variance, float(margin_of_sum(law)) if law is not NOTHING else 0.0)


def _corrected_shift(
    y1: int, total: int, w1: Fraction, spread2: Fraction, lowest: int | None, highest: int | None, n: int
) -> int:
    """The shift of each cell of the unbiased estimate, in multiples of 1/4096, rounded to nearest."""
    combined = total + w1 * (y1 - total)
    with precision(_BITS):
        mean = _mean_of_whole if spread2 <= _WHOLE_SPREAD**2 else _mean_of_real
        excess = mean(combined, spread2, lowest, highest)
        estimate = rational(combined) - rational(w1 / (1 - w1)) * excess
        shift = (estimate - total) * UNIT / n
        return int((shift + arb(0.5)).floor().mid().unique_fmpz())


def _mean_of_whole(center: Fraction, spread2: Fraction, lowest: int | None, highest: int | None) -> Any:
    """E[Y] - center for whole Y in lowest <= Y < highest, P(y) proportional to exp(-(y - center)**2 / 2 spread2)."""
    reach = 13 * (math.isqrt(int(spread2)) + 1)
    nearest = round(center)
    nearest = nearest if lowest is None else max(nearest, lowest)
    nearest = nearest if highest is None else min(nearest, highest - 1)
    rate, mass, moment = -1 / (2 * rational(spread2)), arb(0), arb(0)
    step = (2 * rate).exp()
    for sign, bound in ((1, highest), (-1, None if lowest is None else lowest - 1)):
        distance = rational(nearest - center)
        # Weights of neighbours have a ratio, which itself changes by a constant factor.
        weight, ratio = arb(1), ((2 * sign * distance + 1) * rate).exp()
        for away in range(reach):
            if nearest + sign * away == bound:
                break
            if away or sign > 0:
                mass, moment = mass + weight, moment + weight * (distance + sign * away)
            weight, ratio = weight * ratio, ratio * step
    return moment / mass


def _mean_of_real(center: Fraction, spread2: Fraction, lowest: int | None, highest: int | None) -> Any:
    """The same for real Y between lowest - 1/2 and highest - 1/2: as good where the spread is large."""
    spread, half = rational(spread2).sqrt(), Fraction(1, 2)
    low = None if lowest is None else rational(lowest - half - center) / spread
    high = None if highest is None else rational(highest - half - center) / spread
    root, zero, two = arb(2).sqrt(), arb(0), arb(2)
    density = [zero if bound is None else (-bound * bound / 2).exp() for bound in (low, high)]
    if low is not None and low > 0:  # the upper tails, so that nothing cancels
        above = [(low / root).erfc(), zero if high is None else (high / root).erfc()]
        mass = (above[0] - above[1]) / 2
    else:
        below = [
            zero if low is None else (-low / root).erfc(),
            two if high is None else (-high / root).erfc(),
        ]
        mass = (below[1] - below[0]) / 2
    return spread * (density[0] - density[1]) / (mass * (2 * arb.pi()).sqrt())
