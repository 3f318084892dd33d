"""Budgets stated as epsilon at delta: the exact accountant finds the rho, and zCDP alone would allow less."""

from dataclasses import replace
from fractions import Fraction

import pytest

from tallyveil.accounting import Neighbours, compose
from tallyveil.accounting.zcdp import zcdp_to_epsilon
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.budget.target import rho_for_target

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
    rho = rho_for_target(shape, Fraction(3), DELTA)
    exact = compose(replace(shape, total=rho).event(), neighbours=neighbours).epsilon(DELTA)
    assert exact.upper <= 3
    assert exact.upper > 3 - 1e-6
    larger = compose(replace(shape, total=rho * Fraction(1000001, 1000000)).event(), neighbours=neighbours)
    assert larger.epsilon(DELTA).lower > 3
    assert zcdp_to_epsilon(rho, DELTA) > 3
