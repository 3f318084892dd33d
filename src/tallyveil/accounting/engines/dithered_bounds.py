"""Bounds of delta and of both probabilities from the dithered contour, with all roundings outwards.

The contour gives the dithered function delta_h from both sides. Delta follows from it at three epsilons, and the
probabilities P(L > epsilon) and Q(L > epsilon) follow from delta alone: Q is minus its slope in kappa = exp(epsilon),
which lies between the slopes of two chords (docs/proofs/off-lattice.md, section 1).

Left of the pole at 0 the contour gives 1 - delta instead, and all inequalities turn round.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.dithered_contour import DitheredContour
from tallyveil.accounting.engines.loss_transform import UNIT
from tallyveil.accounting.engines.tails import Tails
from tallyveil.accounting.losses.log_bounds import log_rest
from tallyveil.accounting.many_bounds import ManyBounds
from tallyveil.arrays import Floats

_MOST_AT_ONCE: Final = 1 << 20  # nodes times epsilons


def log_excess(contour: DitheredContour, epsilons: Sequence[Fraction]) -> ManyBounds:
    """ln delta, or ln(1 - delta) on a contour left of the pole at 0, at each epsilon."""
    # About 8 MiB for each array of angles; the epsilons go in pieces of this many nodes times epsilons.
    most = max(1, _MOST_AT_ONCE // contour.frequencies.size)
    logs = [
        _log_excess_at_once(contour, epsilons[begin : begin + most])
        for begin in range(0, len(epsilons), most)
    ]
    if len(logs) == 1:
        return logs[0]
    return ManyBounds(
        np.concatenate([bounds.lower for bounds in logs]), np.concatenate([bounds.upper for bounds in logs])
    )


def _log_excess_at_once(contour: DitheredContour, epsilons: Sequence[Fraction]) -> ManyBounds:
    # Exact: the three epsilons must be exactly those of the inequalities, or the bounds would be of other numbers.
    h = Fraction(contour.scan.depth.half_width)
    # Upper bound: one dither at epsilon - h^2 / (6 p). Lower bound: twice one dither at epsilon + h^2 / 2 less the one
    # twice as wide at epsilon (docs/proofs/off-lattice.md).
    (single, (lowest, highest)), (near, _), (far, (lower_scale, upper_scale)) = (
        _dithered(contour, [epsilon + shift for epsilon in epsilons], wide)
        for shift, wide in ((-h * h / (6 * contour.scan.depth.parts), 0), (h * h / 2, 0), (Fraction(0), 1))
    )
    # The rule at epsilon + h^2 / 2 is in units of that epsilon.
    shift = math.exp(-contour.tilt * float(h * h / 2))
    near = (near[0] * shift, near[1] * shift)
    # 2 near - far cancels to the size of delta: the roundings of both are absolute, so they are bounded before it.
    rounding = 64 * UNIT * (np.abs(near[1]) + np.abs(far[1]))
    # Right of the pole the sums are of delta; left of it they are of 1 - delta, and both inequalities turn round.
    if contour.tilt > 0:
        lowers = _logarithms(2 * near[0] - far[1] - rounding, lower_scale, -1)
        uppers = _logarithms(single[1], highest, 1)
    else:
        lowers = _logarithms(single[0], lowest, -1)
        uppers = _logarithms(2 * near[1] - far[0] + rounding, upper_scale, 1)
    uppers = np.minimum(uppers, 0.0)
    return ManyBounds(np.minimum(lowers, uppers), uppers)


def _dithered(
    contour: DitheredContour, epsilons: Sequence[Fraction], wide: int
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """The dithered function from both sides, and the logarithm of its unit from both sides."""
    values, errors = contour.sums_at(epsilons, wide)
    rounded = np.array([float(epsilon) for epsilon in epsilons])
    # What wraps around is positive, so it can only have been added: it widens the lower side alone.
    less = errors + contour.wrap_around(rounded, wide + 1)
    return (values - less, values + errors), contour.log_scales(rounded)


def _logarithms(values: Floats, scales: Floats, side: int) -> Floats:
    """ln value + scale, rounded to one side. If the value is not positive: -inf from below, and 0 from above."""
    known = values > 0
    parts = np.log(np.where(known, values, 1.0))
    # 40 units for each logarithm: libm's own error, the sum with the scale, and the rounding of the scale.
    logs = parts + scales + side * UNIT * (40 + 40 * np.abs(parts) + 4 * np.abs(scales))
    # A value that is not positive is below the rounding: nothing is known from below, and only ln 1 from above.
    return np.where(known, logs, -math.inf if side < 0 else 0.0)


def tails_of_delta(contour: DitheredContour, epsilon: Fraction, here: Bounds) -> Tails:
    """Both probabilities from ln delta at epsilon and at a chord's length on either side."""
    e = float(epsilon)
    # Chernoff's bound on P, and Q <= exp(-epsilon) P above epsilon.
    # Chernoff's bound is also the cap where the chord is too rough to say more.
    most = min(
        0.0, float(contour.log_scales(np.array([e]))[1][0]) + contour.scan.gaussians.log_norm * (1 + 1e-12)
    )
    second = Bounds(-math.inf, min(0.0, _less(most, e)))
    # Without a lower bound of delta there is no chord: the caps are all that is known.
    if here.lower > -math.inf:
        chord = _chord(contour, here)
        before, after = log_excess(contour, [epsilon - chord, epsilon + chord])
        lower, upper = _slopes(e, float(chord), (here.lower, after.upper), (before.upper, here.lower))
        upper = min(upper, second.upper)
        second = Bounds(min(lower, upper), upper)
    # P = delta + exp(epsilon) Q, both at their upper ends; both summands are positive.
    upper = min(most, _log_added(here.upper, second.upper + e, 1))
    return Tails(Bounds(min(_log_added(here.lower, second.lower + e, -1), upper), upper), second, here)


def tails_of_rest(contour: DitheredContour, epsilon: Fraction, rest: Bounds) -> Tails:
    """Both probabilities where ln(1 - delta) is known instead. 1 - delta rises with kappa."""
    e = float(epsilon)
    second, least = Bounds(-math.inf, min(0.0, _less(rest.upper, e))), -math.inf
    if rest.lower > -math.inf:
        chord = _chord(contour, rest)
        before, after = log_excess(contour, [epsilon - chord, epsilon + chord])
        # 1 - delta rises with kappa, so the chord's ends change roles.
        lower, upper = _slopes(e, float(chord), (after.lower, rest.upper), (rest.upper, before.lower))
        upper = min(upper, second.upper)
        second = Bounds(min(lower, upper), upper)
        least = _log_gap(rest.lower, second.upper + e, -1)
    # P(L <= epsilon) = 1 - delta - exp(epsilon) Q(L > epsilon).
    below = _log_gap(rest.upper, second.lower + e, 1)
    return Tails(log_rest(Bounds(min(least, below), min(below, 0.0))), second, log_rest(rest))


def _chord(contour: DitheredContour, here: Bounds) -> Fraction:
    """A chord over which the width of delta's bounds and the bending of delta cost the slope about the same."""
    # Relative to the slope, a width w of delta's bounds costs about w / (|s| c) over a chord of length c, and the
    # bending |s| c / 2: equal at this c. The floor of 1e-15 keeps the chord above rounding where both bounds agree.
    return Fraction(math.sqrt(2 * max(here.width, 1e-15)) / abs(contour.tilt))


def _slopes(
    e: float, chord: float, after: tuple[float, float], before: tuple[float, float]
) -> tuple[float, float]:
    """Logarithms of the slopes in kappa over the chords beyond and before epsilon.

    Args:
        e: Epsilon.
        chord: Length of both chords, in epsilon.
        after: Logarithms whose exponentials differ by at most the change over the chord beyond epsilon.
        before: Logarithms whose exponentials differ by at least the change over the chord before it.
    """
    # The logarithms of expm1 are off by libm's error, and 8 |epsilon| covers the rounding of epsilon itself.
    slack = UNIT * (200 + 8 * abs(e))
    beyond = e + math.log(math.expm1(chord))
    within = e + math.log(-math.expm1(-chord))
    slack += UNIT * 40 * (abs(beyond) + abs(within))
    return _log_gap(*after, -1) - beyond - slack, _log_gap(*before, 1) - within + slack


def _less(logarithm: float, epsilon: float) -> float:
    """An upper bound of a logarithm minus epsilon, which is rounded to nearest."""
    return logarithm - epsilon + 8 * UNIT * (abs(logarithm) + abs(epsilon))


def _log_gap(high: float, low: float, side: int) -> float:
    """ln(exp(high) - exp(low)), rounded to one side; -inf where it is not positive."""
    if not low < high:
        return -math.inf
    # -inf stands for exp(-inf) = 0, so the difference is the first number alone.
    part = math.log(-math.expm1(low - high)) if low > -math.inf else 0.0
    return high + part + side * UNIT * (80 + 40 * abs(part) + 4 * abs(high))


def _log_added(log_left: float, log_right: float, side: int) -> float:
    """ln(exp(one) + exp(other)), rounded to one side."""
    low, high = min(log_left, log_right), max(log_left, log_right)
    if high == -math.inf:
        return high
    return high + math.log1p(math.exp(low - high)) + side * UNIT * (80 + 8 * abs(high))
