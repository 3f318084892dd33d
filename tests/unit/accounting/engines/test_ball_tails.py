"""Ball arithmetic of tails: logarithms of balls that say little or nothing, and a precision that is out of reach."""

import math
from fractions import Fraction

import pytest
from flint import arb

from tallyveil.accounting.engines.ball_tails import log_bounds, resolving_bits
from tallyveil.accounting.losses import GaussianLoss
from tallyveil.errors import BudgetError


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


@pytest.mark.parametrize(("power", "rho"), [(7, "5000000"), (30, "5e+29"), (500, "5e+499")])
def test_the_refusal_of_a_precision_states_the_cost(power: int, rho: str) -> None:
    """The cost may be far above the largest float."""
    factor = GaussianLoss(variance=Fraction(1, 10**power), sensitivity=1, multiplicity=1)
    with pytest.raises(BudgetError) as caught:
        resolving_bits((factor,), Fraction(1, 10**9))
    assert f"costs rho = {rho}, and the least delta asked for is exp(-20.72)" in str(caught.value)
