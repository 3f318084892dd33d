"""Budgets stated as epsilon at delta: the exact accountant finds the rho, and zCDP alone would allow less."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from tallyveil.accounting import Neighbours, compose
from tallyveil.accounting.renyi import zcdp_to_epsilon
from tallyveil.budget.guarantees import geolevel_savings, rho_for_target
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError

DELTA = Fraction(1, 10**10)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_rho_found_meets_the_target_and_a_larger_one_does_not(neighbours):
    shares = (("total", Fraction(1, 4)), ("detailed", Fraction(3, 4)))
    shape = Strategy(
        Mechanism.DISCRETE_GAUSSIAN,
        neighbours,
        Fraction(1),
        (("State", Fraction(1, 3)), ("Block", Fraction(2, 3))),
        (("State", shares), ("Block", shares)),
    )
    target = Fraction(19, 2)  # rho is a little below 1, where nine digits are the most exact
    rho = rho_for_target(shape, target, DELTA)
    exact = compose(replace(shape, total=rho).event(), neighbours=neighbours).epsilon(DELTA)
    assert exact.upper <= target
    assert exact.upper > target - 1e-5
    larger = compose(replace(shape, total=rho * Fraction(1000001, 1000000)).event(), neighbours=neighbours)
    assert larger.epsilon(DELTA).lower > target
    assert zcdp_to_epsilon(rho, DELTA) > target
    assert rho == Fraction(f"{float(rho):.9g}")
    last_digit = Fraction(10) ** (math.floor(math.log10(rho)) - 8)
    next_one = compose(replace(shape, total=rho + 2 * last_digit).event(), neighbours=neighbours)
    assert next_one.epsilon(DELTA).upper > target  # one digit is lost to the rounding of the calibration


def test_only_gaussian_noise_has_savings():
    shape = Strategy(
        Mechanism.DISCRETE_LAPLACE,
        Neighbours.BOUNDED,
        Fraction(1),
        (("State", Fraction(1)),),
        (("State", (("total", Fraction(1)),)),),
    )
    with pytest.raises(BudgetError):
        geolevel_savings(shape, DELTA)


def test_each_geolevel_is_calibrated_to_what_zcdp_gives_for_it():
    shares = (("total", Fraction(1)),)
    strategy = Strategy(
        Mechanism.DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        Fraction(3),
        (("State", Fraction(1, 3)), ("Block", Fraction(2, 3))),
        (("State", shares), ("Block", shares)),
    )
    found = dict(geolevel_savings(strategy, DELTA))
    assert list(found) == ["State", "Block"]
    for geolevel, rho in (("State", 1), ("Block", 2)):
        noise = strategy.law(geolevel, "total").variance
        claimed = zcdp_to_epsilon(Fraction(rho), DELTA)
        exact = compose(
            replace(strategy, total=strategy.total / found[geolevel].factor).geolevel_event(geolevel),
            neighbours=Neighbours.BOUNDED,
        ).epsilon(DELTA)
        assert found[geolevel].factor < 1
        assert noise == Fraction(1, rho)
        assert claimed * (1 - 1e-6) < exact.upper <= claimed
