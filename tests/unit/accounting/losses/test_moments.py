"""Logarithms of moments: what a sum leaves out is within the ball, and floats are close to balls."""

import math
from fractions import Fraction

import pytest
from flint import arb

from tallyveil.accounting.engines import moments
from tallyveil.accounting.engines.moments import certified_log_moment, log_moment
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss
from tallyveil.noise.balls import precision, rational


@pytest.mark.parametrize("variance", [Fraction(1, 30), Fraction(1, 3), Fraction(19, 10)])
@pytest.mark.parametrize("part", [Fraction(0), Fraction(1, 3), Fraction(1, 2)])
def test_what_a_sum_over_integers_leaves_out_is_within_its_ball_and_hardly_less(
    variance: Fraction, part: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With so few terms that the rest is far above the radius of the sum itself."""
    monkeypatch.setattr(moments, "_BITS", 2)
    reach = math.ceil(math.sqrt(2 * float(variance) * 2 * math.log(2))) + 2
    with precision(300):
        found, slope = moments._theta(variance, part), rational(-1 / (2 * variance))

        def summed(values: range) -> arb:
            return sum(((slope * rational((x - part) ** 2)).exp() for x in values), arb(0))

        exact, kept = summed(range(-90, 91)), summed(range(-reach, reach + 1))
        left_out = exact - kept
        assert found.lower() <= exact.upper()
        assert exact.lower() <= found.upper()
        assert found.upper() - found.lower() < 3 * left_out.upper() + 1e-80


@pytest.mark.parametrize(
    "tilt", [Fraction(-5, 2), Fraction(-1, 2), Fraction(0), Fraction(1, 3), Fraction(9, 4)]
)
@pytest.mark.parametrize(
    "factor",
    [
        GaussianLoss(Fraction(1, 9), 2, 1),
        GaussianLoss(Fraction(199, 100), 3, 1),
        GaussianLoss(Fraction(2), 3, 1),
        LaplaceLoss(Fraction(3), 1, 1),
        LaplaceLoss(Fraction(1, 4), 2, 1),
        LaplaceLoss(Fraction(10**8), 7, 1),
    ],
)
def test_floats_and_balls_give_the_same_logarithm(factor: GaussianLoss | LaplaceLoss, tilt: Fraction) -> None:
    bounds = certified_log_moment((factor,), tilt, Fraction(0))
    assert log_moment(factor, float(tilt)) == pytest.approx(bounds.upper, rel=1e-12, abs=1e-13)
    assert bounds.width <= 1e-15 * (1 + abs(bounds.upper)) + (
        1e-15 if factor == GaussianLoss(Fraction(2), 3, 1) else 0
    )
