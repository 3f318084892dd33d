"""The whole curve that zCDP promises: epsilon at every delta, by the textbook's conversion or by the best one.

Variables: rho; epsilon; alpha, the order of a Renyi divergence; x = alpha - 1 > 0.

Textbook: ln delta = -(epsilon - rho)^2 / (4 rho) where epsilon > rho, otherwise 0. Best: ln delta is the minimum over
x of

    F(x) = x ((1 + x) rho - epsilon) + x ln x - (1 + x) ln(1 + x).

Both are concave functions of epsilon: the second is a minimum of linear ones. A search over the whole curve
(`accounting/whole_curve.py`) needs this, and values that are never above the true ones. F is convex in x, because
F'' = 2 rho + 1 / (x (1 + x)). So two tangents on either side of its minimum bound it from below where they meet.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import flint

from tallyveil.accounting.exact import Exact, exact_number, exact_text
from tallyveil.accounting.rounding import as_float, round_up
from tallyveil.accounting.zcdp import zcdp_to_epsilon, zcdp_to_epsilon_textbook
from tallyveil.errors import BudgetError
from tallyveil.noise.balls import precision, rational

_BITS = 256
"""Bits of ball arithmetic. Slopes at points 2e-6 of x apart are subtracted, which costs some 20 of them. Half as many
would still leave a float's 53."""
_ASIDE = Fraction(1, 10**6)
"""Distance of the two tangents from the x found, relative to it."""

_FARTHEST = 600.0
"""Logarithm of the largest x that is searched for: floats hold its exponential."""

_LARGEST_EXPONENT = 100_000.0
"""Minus the logarithm of the smallest x. There delta is 1 but for a number far below every float."""


class ZcdpConversion(StrEnum):
    """A way from rho to epsilon at a delta.

    TEXTBOOK: rho + 2 sqrt(rho ln(1 / delta)), which the Census Bureau published.
    BEST: the smallest epsilon that follows from rho-zCDP by the best known proof.
    """

    TEXTBOOK = "textbook"
    BEST = "best"

    def epsilon(self, rho: Exact, delta: Exact) -> float:
        """Epsilon at a delta, rounded up.

        Raises:
            BudgetError: rho or delta out of range.
        """
        convert = zcdp_to_epsilon_textbook if self is ZcdpConversion.TEXTBOOK else zcdp_to_epsilon
        return convert(rho, delta)


@dataclass(frozen=True, slots=True)
class ZcdpCurve:
    """What rho promises at every delta.

    Attributes:
        rho: zCDP cost, above 0.
        conversion: The conversion of rho.
    """

    rho: Fraction
    conversion: ZcdpConversion = ZcdpConversion.TEXTBOOK

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", exact_number(self.rho, "rho of ZcdpCurve"))
        if not self.rho > 0:
            raise BudgetError(
                f"a curve of zCDP needs rho above 0, got {exact_text(self.rho)}. Give the rho that was published."
            )

    def epsilon(self, delta: Exact) -> float:
        """Epsilon at a delta, rounded up.

        Raises:
            BudgetError: delta does not lie between 0 and 1.
        """
        return self.conversion.epsilon(self.rho, delta)

    def log_delta_below(self, epsilon: float) -> float:
        """Natural logarithm of delta at an epsilon of 0 or more, rounded down; -inf where rho is above 100,000."""
        exact = Fraction(epsilon)
        if self.conversion is ZcdpConversion.TEXTBOOK:
            excess = max(exact - self.rho, Fraction(0))
            # A fraction becomes the nearest float, so the next float up is never below it.
            return -math.nextafter(float(excess * excess / (4 * self.rho)), math.inf) if excess else 0.0
        return self._best_log_delta_below(exact)

    def _best_log_delta_below(self, epsilon: Fraction) -> float:
        flattest = _flattest(as_float(self.rho), as_float(epsilon))
        if flattest is None:
            return -math.inf
        with precision(_BITS):
            r, e = rational(self.rho), rational(epsilon)
            # Any two points may be taken: that the minimum lies between them is proved below.
            left, right = rational(flattest * (1 - _ASIDE)), rational(flattest * (1 + _ASIDE))

            def height(x: flint.arb) -> flint.arb:
                return x * ((1 + x) * r - e) + x * x.log() - (1 + x) * x.log1p()

            def slope(x: flint.arb) -> flint.arb:
                return (1 + 2 * x) * r - e - (1 / x).log1p()

            # The minimum may lie anywhere: nothing is known from below.
            if not slope(left) < 0 < slope(right):
                return -math.inf
            # The tangent at the left end, where the tangent at the right end meets it.
            reach = (height(left) - height(right) + slope(right) * (right - left)) / (
                slope(right) - slope(left)
            )
            return -round_up(-(height(left) + slope(left) * reach))


def _flattest(rho: float, epsilon: float) -> Fraction | None:
    """About the x at which F' = (1 + 2 x) rho - epsilon - ln(1 + 1 / x) is 0; None where floats end before it."""
    from scipy.optimize import brentq  # here, since most users of this module compute no curve

    def slope(log_x: float) -> float:
        x = math.exp(log_x)
        return (1 + 2 * x) * rho - epsilon - math.log1p(1 / x)

    if slope(-_FARTHEST) >= 0 and rho - epsilon < _LARGEST_EXPONENT:
        # F' is rho - epsilon + ln(x), but for about x of itself; exp(-(rho - epsilon)) as a float times a power of 2.
        halvings = math.floor((rho - epsilon) / math.log(2))
        return Fraction(math.exp(halvings * math.log(2) - (rho - epsilon))) / (1 << halvings)
    if not slope(-_FARTHEST) < 0 < slope(_FARTHEST):
        return None
    return Fraction(math.exp(brentq(slope, -_FARTHEST, _FARTHEST, xtol=1e-12)))
