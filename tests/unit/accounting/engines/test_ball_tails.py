"""Ball arithmetic of tails: logarithms of balls that say little or nothing, and a precision that is out of reach."""

import math

import pytest
from flint import arb

from tallyveil.accounting.engines.ball_tails import log_bounds


@pytest.mark.parametrize(
    ("ball", "lower", "upper"),
    [
        (arb(0), -math.inf, -math.inf),
        (arb(1), 0.0, 0.0),
        (arb(0, 0.25), -math.inf, math.log(0.25)),
        (arb(0.5, 0.25), math.log(0.25), math.log(0.75)),
        (arb(0.75, 0.5), math.log(0.25), 0.0),
        (arb(3, 1), 0.0, 0.0),
        (arb("nan"), -math.inf, 0.0),
    ],
    ids=str,
)
def test_a_logarithm_is_enclosed_and_at_most_0(ball: arb, lower: float, upper: float) -> None:
    found = log_bounds(ball)
    assert found.lower <= lower
    assert found.upper >= upper
    assert (found.lower, found.upper) == pytest.approx((lower, upper), rel=1e-8)
