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
        # ln of the theta constant: the transform's largest value is the sum of all images at 0.
        images = sum(np.exp(-2 * np.pi**2 * v * (j * j)) for j in range(1, 6))
        return cls(
            variances=v,
            sensitivities=k,
            powers=m,
            rates=rates,
            periods=2 * np.pi * v / k,
            # The pull: curvature of the transform's decay, less what the other images may add
            # (docs/proofs/off-lattice.md, 3).
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
        # Beyond the frequency p / h the dither falls like a power of p: the depth may fall by its logarithm.
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
    first = _FIRST_END / math.sqrt(factors.variance)
    segments = [_Segment(0.0, first, depth.depth + factors.loss)]
    # Twice as long each time: the dither's factor shrinks with u, so the number of segments grows only with ln(U).
    while (bound := depth.at(segments[-1].end)) > 0:
        segments.append(_Segment(segments[-1].end, 2 * segments[-1].end, bound + factors.loss))
    windows = _scanned(factors, segments, MOST_STATES, MOST_WINDOWS)
    return None if windows is None else Windows(*windows, first, segments[-1].end, len(segments))


def windows_up_to(factors: GaussianFactors, bound: float, end: float) -> tuple[Floats, Floats] | None:
    """Intervals of [0, end] outside which minus the logarithm of the transform's size exceeds a bound, or None.

    The size is that of the product of the sums of all images, without the constant: at most C at u = 0. The intervals
    may overlap, and reach a little beyond the end.
    """
    return _scanned(factors, [_Segment(0.0, end, bound + factors.loss)], MOST_STATES)


def number_of_nodes(lows: Floats, highs: Floats, step: float) -> float:
    """About how many nodes at this distance lie in some intervals."""
    return lows.size + float((highs - lows).sum()) / step


def nodes_within(lows: Floats, highs: Floats, step: float) -> Integers:
    """All whole j with j step in some interval, each once and in order."""
    # Widened by more than a division's rounding: a node on the edge of an interval must not be dropped.
    first = np.ceil(lows / step * (1 - 1e-13) - 1e-9).astype(np.int64)
    last = np.floor(highs / step * (1 + 1e-13) + 1e-9).astype(np.int64)
    counts = np.maximum(last - first + 1, 0)
    # All places of all intervals in one array: begin of each interval repeated, plus a running count.
    numbers = np.arange(int(counts.sum())) + np.repeat(first - np.cumsum(counts) + counts, counts)
    numbers.sort()
    # Windows may overlap; each node enters the sum once, and numbers are sorted already.
    distinct: Integers = numbers[np.diff(numbers, prepend=-1) > 0]
    return distinct


@dataclass(frozen=True, slots=True)
class _Segment:
    """An interval of frequencies, and the size of F from which the transform is negligible there."""

    begin: float
    end: float
    bound: float


@dataclass(frozen=True, slots=True)
class _States:
    """Intervals of u, the quadratic of the factors so far on each, and the bound and slip of the segment it is in."""

    middle: Floats
    rest: Floats
    low: Floats
    high: Floats
    bound: Floats
    slip: Floats

    def where(self, chosen: Bools | Integers) -> "_States":
        return _States(
            self.middle[chosen],
            self.rest[chosen],
            self.low[chosen],
            self.high[chosen],
            self.bound[chosen],
            self.slip[chosen],
        )


def _scanned(
    factors: GaussianFactors, segments: list[_Segment], most_states: int, most_windows: float = math.inf
) -> tuple[Floats, Floats] | None:
    """Windows of all segments, or None if there are more states or windows on the way to them.

    Most segments are short, and hold few states. So many of them go through the factors at once: a call of numpy takes
    about as long for one state as for a thousand.
    """
    period = factors.periods[0]
    # Refused before an array is made: the longest period alone would need this many states.
    if segments[-1].end / period > most_states:
        return None
    pieces, multiples = [], []
    for segment in segments:
        count = math.ceil((segment.end - segment.begin) / (_CHUNK * period))
        ends = np.linspace(segment.begin, segment.end, count + 1)
        pieces.append(_begun(factors, segment, ends))
        multiples += (np.diff(ends) / period + 1).tolist()
    begun = _States(*(np.concatenate([getattr(part, name) for part in pieces]) for name in _States.__slots__))
    # A batch has at most as many multiples of the longest period as one full piece, or it is one piece.
    # Batches by the number of multiples, not of segments: the work of a batch is what its states split into.
    batch = np.floor(np.cumsum(multiples) / _CHUNK)
    lows, highs, seen = [], [], 0
    for number in np.unique(batch):
        windows = _windows_of(factors, begun.where(batch == number), most_states - seen)
        if windows is None:
            return None
        states, looked_at = windows
        lows.append(np.maximum(states.low, 0.0))
        highs.append(states.high)
        seen += looked_at
        # Windows are what costs time later, so they are limited apart from the states on the way to them.
        if sum(part.size for part in lows) > most_windows:
            return None
    return np.concatenate(lows), np.concatenate(highs)


def _begun(factors: GaussianFactors, segment: _Segment, ends: Floats) -> _States:
    """The states before the first factor: one for each piece of a segment."""
    n = ends.size - 1
    # By how much rounding may move a multiple of a period, a middle or the edge of a cell.
    # Rounding of every period's multiple, of the middles and of the cells, relative to the end of the segment.
    slip = (8 * factors.count + 32) * UNIT * segment.end
    # The bound raised by what that rounding could hide: F at the true place may be larger than at the rounded one.
    bound = (math.sqrt(segment.bound) + slip * math.sqrt(8 * float(factors.pulls.sum()))) ** 2
    bound = bound * (1 + 1e-9) + 1e-9
    return _States(np.zeros(n), np.zeros(n), ends[:-1], ends[1:], np.full(n, bound), np.full(n, slip))


def _windows_of(factors: GaussianFactors, states: _States, allowed: int) -> tuple[_States, int] | None:
    # Weight and rest of the quadratic so far; F's factors are added one by one, as the module says.
    """The states after the last factor and the number of states looked at, or None if there are more than allowed."""
    weight, seen = 0.0, 0
    for period, pull in zip(factors.periods.tolist(), factors.pulls.tolist(), strict=True):
        split = _split(states, period, allowed - seen)
        if split is None:
            # A limit on the states that were looked at, not on those left: time is spent on the former.
            return None
        seen += split[1].size
        states = _joined(*split, (weight, pull, period))
        weight += pull
    return states, seen


def _split(states: _States, period: float, allowed: int) -> tuple[_States, Floats] | None:
    """One state for every multiple of the period that is nearest somewhere in the interval, and these multiples."""
    first = np.floor(states.low / period + 0.5)
    # Round to the nearest multiple at both ends: all multiples in between are candidates.
    counts = (np.floor(states.high / period + 0.5) - first).astype(np.int64) + 1
    total = int(counts.sum())
    if total > allowed:
        return None
    if total == counts.size:  # every interval lies in one cell, as most do
        return states, first * period
    parents = np.repeat(np.arange(counts.size), counts)
    # A running count within each state, plus its first multiple: one array instead of a loop.
    place = np.arange(total, dtype=np.float64) - np.repeat(np.cumsum(counts) - counts, counts)
    centres: Floats = (first[parents] + place) * period
    return states.where(parents), centres


def _joined(states: _States, centre: Floats, factor: tuple[float, float, float]) -> _States:
    """The states with one more factor: its pull towards its multiple of the period, and the cell of this multiple."""
    weight, pull, period = factor
    total, bound, slip = weight + pull, states.bound, states.slip
    # Sum of two squares, completed: weight (u - m)^2 / 2 + pull (u - c)^2 / 2 has this middle and this rest.
    off = centre - states.middle
    rest = states.rest + (0.5 * weight * pull / total) * off * off
    middle = states.middle + off * (pull / total)
    # Where the quadratic is above the bound nothing is left: the interval shrinks to where it is not.
    reach = np.sqrt(np.maximum(bound - rest, 0.0) * (2 / total)) + slip
    low = np.maximum(np.maximum(states.low, centre - period / 2 - slip), middle - reach)
    high = np.minimum(np.minimum(states.high, centre + period / 2 + slip), middle + reach)
    # States whose rest already exceeds the bound, or whose interval is empty, hold no frequency.
    return _States(middle, rest, low, high, bound, slip).where((rest <= bound) & (low <= high))
