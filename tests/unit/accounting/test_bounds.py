"""Two-sided answers, and the floats on either side of exact numbers."""

import math
import sys
from fractions import Fraction

import flint
import pytest

from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.numbers import Bounds, exact_upper, parameter_of_noise, round_up
from tallyveil.errors import BudgetError


def test_the_width_of_equal_infinities_is_nothing() -> None:
    assert Bounds(math.inf, math.inf).width == 0.0
    assert Bounds(1.0, math.inf).width == math.inf
    assert Bounds(1.0, 2.0).to_mapping() == {"lower": 1.0, "upper": 2.0}


@pytest.mark.parametrize("sign", [1, -1])
def test_fractions_beyond_the_range_of_floats_stay_enclosed(sign) -> None:
    huge = sign * Fraction(10) ** 400
    found = fraction_bounds(huge)
    finite = found.lower if sign > 0 else found.upper
    assert math.isfinite(finite)
    assert abs(finite) == sys.float_info.max
    assert (found.upper if sign > 0 else found.lower) == sign * math.inf
    for value in (Fraction(1, 3), -Fraction(1, 3), Fraction(1, 2)):
        near = fraction_bounds(value)
        assert Fraction(near.lower) <= value <= Fraction(near.upper)
        assert (near.width == 0) == (value == Fraction(1, 2))


def test_balls_are_rounded_up_over_any_range() -> None:
    assert round_up(flint.arb("nan")) == math.inf
    assert exact_upper(flint.arb("inf")) is None
    assert round_up(flint.arb(2) ** 5000) == math.inf
    assert round_up(-(flint.arb(2) ** 5000)) == -sys.float_info.max
    assert round_up(flint.arb(2) ** -5000) == math.ulp(0.0)
    assert round_up(-(flint.arb(2) ** -5000)) == 0.0
    third = round_up(flint.arb(1) / 3)
    assert Fraction(third) >= Fraction(1, 3)
    assert math.nextafter(third, 0.0) < 1 / 3 + 1e-15


@pytest.mark.parametrize("value", [Fraction(1, 10**101), 10**101, 0, -1, "-3"])
def test_noise_beyond_what_can_be_computed_is_refused(value) -> None:
    with pytest.raises(BudgetError):
        parameter_of_noise(value, "the variance")
    assert parameter_of_noise("1/3", "the variance") == Fraction(1, 3)


def test_bounds_are_shown_rounded_outwards() -> None:
    assert (
        repr(Bounds(6.5479240668645025, 6.547924066864651))
        == "Bounds(lower=6.5479240668645, upper=6.5479240668647)"
    )
    assert repr(Bounds(0.0, 0.0)) == "Bounds(lower=0, upper=0)"
    assert repr(Bounds(0.0, math.inf)) == "Bounds(lower=0, upper=infinity)"
