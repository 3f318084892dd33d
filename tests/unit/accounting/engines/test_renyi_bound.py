"""Bounds from concentrated privacy against normal noise, which has it exactly, and against the written conversion."""

import math
from fractions import Fraction

import mpmath
import pytest

from tallyveil.accounting.engines.ball_tails import Normal
from tallyveil.accounting.engines.enclosing import RenyiUpper
from tallyveil.accounting.losses import ConcentratedLoss

RHOS = [Fraction(1, 1000), Fraction(1, 2), Fraction(263, 100)]
EPSILONS = [Fraction(-3), Fraction(-1, 7), Fraction(0), Fraction(1, 3), Fraction(4), Fraction(60)]


def of_rho(rho: Fraction) -> RenyiUpper:
    return RenyiUpper((ConcentratedLoss(rho),))


def log_delta(rho: Fraction, epsilon: Fraction) -> mpmath.mpf:
    """Canonne, Kamath and Steinke (2020), Proposition 12, minimised: ln delta <= x (tau - epsilon) - ln(order) - ..."""
    r, e = (mpmath.mpf(value.numerator) / value.denominator for value in (rho, epsilon))

    def bound(x: mpmath.mpf) -> mpmath.mpf:
        order = 1 + x
        return x * (r * order - e) + x * mpmath.log(1 - 1 / order) - mpmath.log(order)

    low, high = mpmath.mpf("1e-9"), mpmath.mpf("1e9")
    ratio = (mpmath.sqrt(5) - 1) / 2
    for _ in range(200):  # golden sections, in the logarithm
        a, b = high / (high / low) ** ratio, low * (high / low) ** ratio
        low, high = (low, b) if bound(a) < bound(b) else (a, high)
    return bound(low)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_normal_noise_costs_no_more(rho: Fraction, epsilon: Fraction) -> None:
    found, real = of_rho(rho).log_tails(epsilon), Normal(2 * rho).log_tails(epsilon)
    for bound, truth in (
        (found.log_first, real.log_first),
        (found.log_second, real.log_second),
        (found.log_delta, real.log_delta),
    ):
        assert bound.lower == -math.inf
        assert truth.lower <= bound.upper <= 0


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("epsilon", EPSILONS[2:])
def test_delta_is_that_of_the_best_order_rounded_up(rho: Fraction, epsilon: Fraction) -> None:
    with mpmath.workdps(40):
        wanted = log_delta(rho, epsilon)
    found = of_rho(rho).log_tails(epsilon)
    assert found.log_delta.upper >= min(wanted, 0) - 1e-12 * abs(wanted)
    assert found.log_delta.upper == pytest.approx(float(min(wanted, 0)), rel=1e-9, abs=1e-12)
    assert found.log_second.upper == pytest.approx(-float(epsilon), rel=1e-14)
    assert found.log_second.upper >= -epsilon


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", [Fraction(1, 10**10), Fraction(1, 1000)])
def test_an_epsilon_holds_and_a_smaller_one_is_not_shown_to(rho: Fraction, delta: Fraction) -> None:
    engine = of_rho(rho)
    epsilon = Fraction(engine.epsilon(delta))
    assert engine.log_deltas([epsilon])[0].upper <= math.log(delta) + 1e-12 * abs(math.log(delta))
    assert engine.log_deltas([epsilon * Fraction(999, 1000)])[0].upper > math.log(delta)
