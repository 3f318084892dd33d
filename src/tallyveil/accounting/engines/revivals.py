"""Finds where the transform of a loss without a lattice is not negligible, once for a composition.

The problem: find all frequencies u in [0, U] at which the transform of a sum of discrete Gaussian losses may exceed a
stated size, and be sure that none is missed.

The variables: v, k and m are the variance, the sensitivity and the multiplicity of a factor; P = 2 pi v / k is its
*period*; d is the distance of u from the nearest multiple of P; a = m (k^2 / v) (1 - 2 ln 2 / (pi^2 v)) is its *pull*.

At the multiples of its period, the transform of one factor returns to its full size: a *revival*. Elsewhere it is at
most exp(-a d^2 / 2), up to a constant. So the transform of the sum is at most exp(-F(u)) with F(u) the sum of a d^2 / 2
over all factors (docs/proofs/off-lattice.md, section 3).

The steps: take the factors one after the other, and first those that narrow the scan most. A state is an interval of
u, with one multiple of the period chosen for each factor so far. The part of F of these factors is there the quadratic
weight (u - middle)^2 / 2 + rest. The next factor splits each state into one for every multiple of its period that is
the nearest one somewhere in the interval. Then the interval shrinks to where the quadratic is at most the bound, and
empty intervals are dropped. The intervals that remain after the last factor are the *windows*.

The stopping rule: segments [b, 2 b] are scanned until the dither alone makes everything beyond negligible, or until
more states were looked at than the limit.

Example: one factor alone has a window around every multiple of its period. With two factors of periods 1 and sqrt(2),
a window is left only where a multiple of one is close to a multiple of the other, such as 7 and 5 sqrt(2) = 7.07.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np

from tallyveil.accounting.engines.loss_transform import UNIT
from tallyveil.accounting.losses.factors import GaussianLoss
from tallyveil.arrays import Bools, Floats, Integers

MOST_STATES: Final = 4_000_000
"""Largest number of states that a scan may look at. This many take about a second on one core."""

MOST_WINDOWS: Final = 20_000
"""Largest number of windows. Each one holds a few nodes of every contour. This many take seconds for an epsilon."""

_CHUNK: Final = 1 << 17  # multiples of the longest period that are split at once
_FIRST_END: Final = (
    8.0  # end of the first segment, in units of the reciprocal of the loss's standard deviation
)


@dataclass(frozen=True, slots=True)
class GaussianFactors:
    """Discrete Gaussian factors as arrays, those first that narrow the scan most.

    Attributes:
        variances: v, rounded to nearest.
        sensitivities: k.
        powers: m.
        rates: k^2 / v.
        periods: P.
        pulls: a.
        variance: V, the sum of m k^2 / v: the variance of the loss, exact.
        log_norm: Sum of m ln c_v, c_v being the theta constant.
        loss: By how much F may exceed minus the logarithm of the transform's size: the sum of m exp(4 - 2 pi^2 v).
    """

    variances: Floats
    sensitivities: Floats
    powers: Floats
    rates: Floats
    periods: Floats
    pulls: Floats
    variance: Fraction
    log_norm: float
    loss: float

    @classmethod
    def of(cls, factors: list[GaussianLoss]) -> "GaussianFactors":
        """The factors, each of variance 1/4 or more."""
        ordered = sorted(factors, key=lambda f: -f.variance * f.multiplicity)
        v = np.array([float(f.variance) for f in ordered])
        k = np.array([float(f.sensitivity) for f in ordered])
        m = np.array([float(f.multiplicity) for f in ordered])
        rates = k * k / v
        images = sum(np.exp(-2 * np.pi**2 * v * (j * j)) for j in range(1, 6))
        return cls(
            variances=v,
            sensitivities=k,
            powers=m,
            rates=rates,
            periods=2 * np.pi * v / k,
            pulls=m * rates * (1 - 2 * math.log(2) / (np.pi**2 * v)),
            variance=sum((2 * f.multiplicity * f.offset for f in factors), Fraction(0)),
            log_norm=float((m * np.log1p(2 * images)).sum()),
            loss=float((m * np.exp(4 - 2 * np.pi**2 * v)).sum()),
        )

    @property
    def count(self) -> int:
        """How many different factors there are."""
        return self.variances.size


@dataclass(frozen=True, slots=True)
class Depth:
    """How small a transform is negligible at a frequency, and how the dither shortens the scan.

    Attributes:
        depth: T; in the first segment, what is below exp(-T) is negligible.
        half_width: h, half the width of the dither.
        parts: p, the number of uniform laws that the dither adds up.
    """

    depth: float
    half_width: float
    parts: int

    def at(self, begin: float) -> float:
        """T - ln b - p max(0, ln(h b / p)), for the segment that begins at b."""
        return (
            self.depth
            - math.log(begin)
            - self.parts * max(0.0, math.log(self.half_width * begin / self.parts))
        )


@dataclass(frozen=True, slots=True)
class Windows:
    """Intervals of frequencies outside which the transform is negligible; they may overlap.

    Attributes:
        lows: Where each interval begins, at least 0.
        highs: Where each interval ends.
        first: End of the first segment.
        end: U, the end of the scan.
        segments: Number of segments, the first one included.
    """

    lows: Floats
    highs: Floats
    first: float
    end: float
    segments: int


def find_windows(factors: GaussianFactors, depth: Depth) -> Windows | None:
    """All windows, or None if there are too many states or windows on the way to them."""
    lows, highs, seen, segments = [np.zeros(0)], [np.zeros(0)], 0, 0
    first = _FIRST_END / math.sqrt(factors.variance)
    begin, end, bound = 0.0, first, depth.depth
    while bound > 0:
        found = _segment(factors, bound + factors.loss, (begin, end), MOST_STATES - seen)
        if found is None:
            return None
        low, high, looked_at = found
        lows.append(low)
        highs.append(high)
        seen, segments = seen + looked_at, segments + 1
        if sum(part.size for part in lows) > MOST_WINDOWS:
            return None
        begin, end, bound = end, 2 * end, depth.at(end)
    return Windows(np.concatenate(lows), np.concatenate(highs), first, begin, segments)


def windows_up_to(factors: GaussianFactors, bound: float, end: float) -> tuple[Floats, Floats] | None:
    """Intervals of [0, end] outside which minus the logarithm of the transform's size exceeds a bound, or None.

    The size is that of the product of the sums of all images, without the constant: at most C at u = 0. The intervals
    may overlap, and reach a little beyond the end.
    """
    found = _segment(factors, bound + factors.loss, (0.0, end), MOST_STATES)
    return None if found is None else found[:2]


def number_of_nodes(lows: Floats, highs: Floats, step: float) -> float:
    """About how many nodes at this distance lie in some intervals."""
    return lows.size + float((highs - lows).sum()) / step


def nodes_within(lows: Floats, highs: Floats, step: float) -> Integers:
    """All whole j with j step in some interval, each once and in order."""
    first = np.ceil(lows / step * (1 - 1e-13) - 1e-9).astype(np.int64)
    last = np.floor(highs / step * (1 + 1e-13) + 1e-9).astype(np.int64)
    counts = np.maximum(last - first + 1, 0)
    found = np.arange(int(counts.sum())) + np.repeat(first - np.cumsum(counts) + counts, counts)
    found.sort()
    distinct: Integers = found[np.diff(found, prepend=-1) > 0]
    return distinct


@dataclass(frozen=True, slots=True)
class _States:
    """Intervals of u, and the quadratic of the factors so far on each."""

    middle: Floats
    rest: Floats
    low: Floats
    high: Floats

    def where(self, kept: Bools) -> "_States":
        return _States(self.middle[kept], self.rest[kept], self.low[kept], self.high[kept])


def _segment(
    factors: GaussianFactors, bound: float, segment: tuple[float, float], allowed: int
) -> tuple[Floats, Floats, int] | None:
    """Windows of one segment and the number of states looked at, or None if there are more than allowed."""
    start, stop = segment
    # By how much rounding may move a multiple of a period, a middle or the edge of a cell.
    slip = (8 * factors.count + 32) * UNIT * stop
    bound = (math.sqrt(bound) + slip * math.sqrt(8 * float(factors.pulls.sum()))) ** 2 * (1 + 1e-9) + 1e-9
    pieces = math.ceil((stop - start) / (_CHUNK * factors.periods[0]))
    if pieces * _CHUNK > allowed + _CHUNK:
        return None
    lows, highs, seen = [], [], 0
    for low, high in pairwise(np.linspace(start, stop, pieces + 1)):
        states, weight = _States(np.zeros(1), np.zeros(1), np.array([low]), np.array([high])), 0.0
        for period, pull in zip(factors.periods.tolist(), factors.pulls.tolist(), strict=True):
            split = _split(states, period, allowed - seen)
            if split is None:
                return None
            seen += split[1].size
            states = _joined(*split, (weight, pull, period), bound, slip)
            weight += pull
        lows.append(states.low)
        highs.append(states.high)
    return np.maximum(np.concatenate(lows), 0.0), np.concatenate(highs), seen


def _split(states: _States, period: float, allowed: int) -> tuple[_States, Floats] | None:
    """One state for every multiple of the period that is nearest somewhere in the interval, and these multiples."""
    first = np.floor(states.low / period + 0.5)
    counts = (np.floor(states.high / period + 0.5) - first).astype(np.int64) + 1
    total = int(counts.sum())
    if total > allowed:
        return None
    if total == counts.size:  # every interval lies in one cell, as most do
        return states, first * period
    parents = np.repeat(np.arange(counts.size), counts)
    place = np.arange(total, dtype=np.float64) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = _States(states.middle[parents], states.rest[parents], states.low[parents], states.high[parents])
    centres: Floats = (first[parents] + place) * period
    return rows, centres


def _joined(
    states: _States, centre: Floats, factor: tuple[float, float, float], bound: float, slip: float
) -> _States:
    """The states with one more factor: its pull towards its multiple of the period, and the cell of this multiple."""
    weight, pull, period = factor
    total = weight + pull
    off = centre - states.middle
    rest = states.rest + (0.5 * weight * pull / total) * off * off
    middle = states.middle + off * (pull / total)
    reach = np.sqrt(np.maximum(bound - rest, 0.0) * (2 / total)) + slip
    low = np.maximum(np.maximum(states.low, centre - period / 2 - slip), middle - reach)
    high = np.minimum(np.minimum(states.high, centre + period / 2 + slip), middle + reach)
    return _States(middle, rest, low, high).where((rest <= bound) & (low <= high))
