"""The curve of zCDP from below: the inverse of the published epsilon, concave, and never above what is proved."""

import math
from fractions import Fraction

import flint
import pytest

from tallyveil.accounting import ZcdpConversion, ZcdpCurve, zcdp_to_delta


@pytest.mark.parametrize("conversion", ZcdpConversion)
@pytest.mark.parametrize("rho", ["1e-6", "0.073", "3.65", "40"])
def test_it_is_the_inverse_of_epsilon(conversion, rho):
    curve = ZcdpCurve(Fraction(rho), conversion)
    for exponent in (1, 5, 11, 40):
        delta = Fraction(1, 10**exponent)
        if not curve.epsilon(delta):  # epsilon 0 holds at a smaller delta too
            continue
        found = curve.log_delta_below(curve.epsilon(delta))
        assert found <= math.log(delta)
        assert found == pytest.approx(math.log(delta), rel=1e-8)


def test_the_best_conversion_is_never_above_what_is_proved():
    for epsilon in (0.0, 0.1, 1.0, 5.0, 20.0):
        proved = math.log(zcdp_to_delta(Fraction("3.65"), Fraction(epsilon)))
        found = ZcdpCurve(Fraction("3.65"), ZcdpConversion.BEST).log_delta_below(epsilon)
        assert proved - 1e-9 <= found <= math.nextafter(proved, math.inf)


@pytest.mark.parametrize(
    ("rho", "epsilon"), [(700, 0.0), (700, 100.5), (1000, 401.0), (2500, 3.0), (2500, 900.0)]
)
def test_the_best_curve_reaches_to_deltas_next_to_one(rho: int, epsilon: float) -> None:
    """F at any x is above the minimum, and near exp(-(rho - epsilon)) it is close to it."""
    found = ZcdpCurve(Fraction(rho), ZcdpConversion.BEST).log_delta_below(epsilon)
    assert -1e-200 < found < 0
    with flint.ctx.workprec(10_000):
        heights = []
        for part in ("0.9", "1", "1.1"):
            x = flint.arb(part) * flint.arb(epsilon - rho).exp()
            heights.append(x * ((1 + x) * rho - epsilon) + x * x.log() - (1 + x) * x.log1p())
            assert flint.arb(found) <= heights[-1]
        assert flint.arb(found) >= heights[1] * flint.arb("1.000001") or found == -5e-324
