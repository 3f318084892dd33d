"""By how much an exact epsilon is smaller than that of a reference curve, at every delta down to a smallest one.

docs/proofs/every-delta.md proves that the exact epsilon is smaller than what any conversion of rho gives, at every
delta, and in section 6 that what is certified here holds. Variables: r(epsilon) is delta of the reference at an
epsilon; c is 1 minus the reduction. If delta(c epsilon) <= r(epsilon) for every epsilon from 0 to the reference's at
the smallest delta, then at every larger delta the exact epsilon is at most c times the reference's. r(epsilon / c) is a
reference curve itself, since its logarithm is concave as that of r is. So `curve_excess` compares it with the exact
delta, between all points.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tallyveil.accounting.calibration import ReferenceCurve, curve_excess
from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.guarantee import Guarantee
from tallyveil.accounting.numbers import Bounds

STEPS: Final = 10_000
"""A reduction is a multiple of one part in so many: hundredths of a percent."""


@dataclass(frozen=True, slots=True)
class ShrunkCurve:
    """A reference curve with every epsilon multiplied by a factor.

    Attributes:
        reference: The curve.
        factor: Above 0.
    """

    reference: ReferenceCurve
    factor: Fraction

    def epsilon(self, delta: Fraction) -> float:
        """Epsilon at a delta, rounded up."""
        return fraction_bounds(self.factor * Fraction(self.reference.epsilon(delta))).upper

    def log_delta_below(self, epsilon: float) -> float:
        """ln delta at an epsilon, rounded down: at a larger epsilon it is smaller."""
        return self.reference.log_delta_below(fraction_bounds(Fraction(epsilon) / self.factor).upper)


def certified_reduction(
    guarantee: Guarantee, reference: ReferenceCurve, smallest_delta: Fraction, exact: Bounds
) -> Fraction:
    """The part of a reference's epsilon by which the exact epsilon is smaller, at every delta from the smallest up.

    Args:
        guarantee: The guarantee.
        reference: The curve, such as what rho promises.
        smallest_delta: Between 0 and 1, both excluded.
        exact: Epsilon of the guarantee at it.
    Returns:
        A multiple of 1 / STEPS that is certified between all points; 0 where none is, or where both epsilons are 0.
    """
    end = reference.epsilon(smallest_delta)
    if end == 0:
        return Fraction(0)
    # At the smallest delta itself no more is possible.
    most = math.floor(STEPS * (1 - Fraction(exact.upper) / Fraction(end)))

    def holds(steps: int) -> bool:
        curve = ShrunkCurve(reference, 1 - Fraction(steps, STEPS))
        return curve_excess(guarantee, curve, curve.epsilon(smallest_delta), sign_only=True).bound <= 0

    # An exact epsilon of 0 is smaller by the whole, which no factor above 0 says.
    most = min(most, STEPS - 1)
    if most <= 0:
        return Fraction(0)
    if holds(most):
        return Fraction(most, STEPS)
    least = 0  # certified, or nothing is said
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if holds(middle) else (least, middle)
    return Fraction(least, STEPS)
