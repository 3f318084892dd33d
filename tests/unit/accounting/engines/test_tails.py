"""Bounds of sums and of exact numbers as floats: outwards, and by no more than is stated."""

import math
from fractions import Fraction

import pytest
from flint import arb

from tallyveil.accounting.engines.tails import (
    NOTHING,
    Tails,
    float_bounds,
    fraction_bounds,
    log_bounds_of,
    log_of,
    lower_fraction,
    narrower,
    probability,
    upper_fraction,
    within_floats,
)
from tallyveil.accounting.numbers import Bounds
from tallyveil.errors import BudgetError
from tallyveil.noise.balls import precision, rational

THIRD = Fraction(1, 3)


@pytest.mark.parametrize(("total", "error"), [(0.75, 0.25), (3.0, 1e-9), (1e-200, 0.0)])
@pytest.mark.parametrize("scale", [0.0, -2.5, 600.0])
def test_a_logarithm_of_a_sum_takes_its_error_to_both_sides(total: float, error: float, scale: float) -> None:
    found = log_of(Bounds(scale - 0.5, scale), total, error)
    low, high = scale - 0.5 + math.log(total - error), scale + math.log(total + error)
    assert found.lower < low
    assert high < found.upper
    for bound, exact in ((found.lower, low), (found.upper, high)):
        slack = abs(bound - exact)
        least = 4 * math.ulp(exact) + 2e-15
        assert 0.9 * least - math.ulp(exact) <= slack <= 1.1 * least + math.ulp(exact)


def test_a_sum_that_may_be_nothing_has_no_lower_bound() -> None:
    found = log_of(Bounds(-1.0, -1.0), 0.25, 0.5)
    assert found.lower == -math.inf
    assert found.upper == pytest.approx(-1 + math.log(0.75))
    assert log_of(Bounds(0.0, 0.0), -1.0, 0.5) == NOTHING
    assert log_of(Bounds(0.0, 0.0), 0.0, 0.0) == NOTHING


def test_exact_numbers_as_floats_on_both_sides() -> None:
    found = fraction_bounds(THIRD)
    assert Fraction(found.lower) < THIRD < Fraction(found.upper)
    assert found.upper == math.nextafter(found.lower, 1)
    assert fraction_bounds(Fraction(3, 4)) == Bounds(0.75, 0.75)
    assert fraction_bounds(-THIRD) == Bounds(-found.upper, -found.lower)
    huge = Fraction(10) ** 400
    assert fraction_bounds(huge) == Bounds(math.nextafter(math.inf, 0), math.inf)
    assert fraction_bounds(-huge) == Bounds(-math.inf, -math.nextafter(math.inf, 0))
    with precision(200):
        ball = rational(THIRD)
        assert lower_fraction(ball) <= THIRD <= upper_fraction(ball)
        assert upper_fraction(ball) - lower_fraction(ball) < Fraction(1, 2**190)
        around = float_bounds(ball)
        assert found.lower >= around.lower >= math.nextafter(found.lower, 0)
        assert found.upper <= around.upper <= math.nextafter(found.upper, 1)
        assert lower_fraction(arb(-3)) == upper_fraction(arb(-3)) == -3
    logs = log_bounds_of(THIRD)
    with precision(200):
        exact = rational(THIRD).log()
        assert logs.lower < exact < logs.upper
    assert logs.width < 5e-16


def test_two_answers_to_one_question_are_intersected() -> None:
    one = Tails(Bounds(-3.0, -1.0), Bounds(-5.0, -4.0), Bounds(-9.0, -2.0))
    other = Tails(Bounds(-2.0, -0.5), Bounds(-6.0, -4.5), Bounds(-8.0, -1.0))
    both = Tails(Bounds(-2.0, -1.0), Bounds(-5.0, -4.5), Bounds(-8.0, -2.0))
    assert narrower(one, other) == narrower(other, one) == both
    assert probability(Bounds(-1.0, 0.5)) == Bounds(-1.0, 0.0)
    assert probability(Bounds(0.25, 0.5)) == Bounds(0.0, 0.0)


def test_epsilons_that_floats_cannot_hold_are_refused() -> None:
    assert within_floats(Fraction(10**301)) == 10**301
    assert within_floats(-(10**301)) == -(10**301)
    for far in (Fraction(10**301) + 1, -Fraction(10**301) - 1):
        with pytest.raises(BudgetError, match="1e301"):
            within_floats(far)
    with pytest.raises(BudgetError, match="finite"):
        within_floats(math.nan)
