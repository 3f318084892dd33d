"""Rho as (epsilon, delta)."""

import math
from decimal import Decimal
from fractions import Fraction

import flint
import pytest

from tallyveil.accounting import (
    ZcdpCurve,
    delta_with_total_variation,
    zcdp_to_delta,
    zcdp_to_epsilon,
    zcdp_to_epsilon_textbook,
)
from tallyveil.accounting.renyi import epsilon_to_rho
from tallyveil.errors import BudgetError

RATES = [Fraction(1, 10**12), Fraction(1, 100), Fraction(293764, 114921), Fraction(50), Fraction(10**6)]
DELTAS = [Fraction(1, 10**300), Fraction(1, 10**10), Fraction(1, 1000), Fraction(1, 2)]


def best_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Minimum over alpha of equation (6) of SafeTab's Lemma 4, by ternary search at 400 bits."""
    with flint.ctx.workprec(400):
        r = flint.arb(flint.fmpq(rho.numerator, rho.denominator))
        d = flint.arb(flint.fmpq(delta.numerator, delta.denominator))

        def bound(log_excess: Fraction) -> flint.arb:
            a = 1 + flint.arb(flint.fmpq(log_excess.numerator, log_excess.denominator)).exp()
            return r * a + ((1 / d).log() + (a - 1) * (1 - 1 / a).log() - a.log()) / (a - 1)

        low, high = Fraction(-30), Fraction(60)
        for _ in range(200):
            left, right = low + (high - low) * 3 / 8, low + (high - low) * 5 / 8
            low, high = (low, right) if bound(left) < bound(right) else (left, high)
        mantissa, exponent = bound((low + high) / 2).mid().man_exp()
        return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


@pytest.mark.parametrize("rho", RATES)
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_is_never_below_the_best_bound_and_hardly_above_it(rho: Fraction, delta: Fraction) -> None:
    best = max(Fraction(0), best_epsilon(rho, delta))
    found = Fraction(zcdp_to_epsilon(rho, delta))
    assert found * (1 + Fraction(1, 2**90)) >= best
    assert found <= best * (1 + Fraction(1, 10**14)) + Fraction(1, 10**25)


@pytest.mark.parametrize("rho", RATES)
@pytest.mark.parametrize("delta", DELTAS[1:3])
def test_delta_of_epsilon_gives_the_delta_back(rho: Fraction, delta: Fraction) -> None:
    epsilon = zcdp_to_epsilon(rho, delta)
    # Epsilon was rounded up, so delta may only come back smaller, by what one rounding of epsilon is worth.
    back = zcdp_to_delta(rho, Fraction(epsilon))
    assert back <= float(delta) * (1 + 1e-14)
    if epsilon > 0:  # else even epsilon = 0 leaves delta to spare
        steepness = 1 + (epsilon - float(rho)) / (2 * float(rho))
        assert back == pytest.approx(float(delta), rel=1e-13 + 4 * math.ulp(epsilon) * steepness)


@pytest.mark.parametrize("epsilon", ["1e-100", "1e-6", "0.3", "7", "1000000"])
@pytest.mark.parametrize("delta", ["1e-300", "1e-6", "0.4", "0.99"])
def test_rho_of_epsilon_is_nearly_the_largest_that_gives_it(epsilon: str, delta: str) -> None:
    found = epsilon_to_rho(epsilon, delta)
    assert zcdp_to_epsilon(found, delta) <= Fraction(epsilon)
    assert zcdp_to_epsilon(found * (1 + Fraction(1, 50_000)), delta) > Fraction(epsilon)
    assert (
        len(f"{found.numerator}".rstrip("0")) <= 6
        or len(f"{float(found):.17e}".split("e")[0].rstrip("0")) <= 7
    )


def test_an_epsilon_out_of_range_has_no_rho() -> None:
    for epsilon in (0, -1, "1000000.1"):
        with pytest.raises(BudgetError, match="above 0 and at most 1000000"):
            epsilon_to_rho(epsilon, "1e-6")
    with pytest.raises(BudgetError, match="no rho above 1e-300"):
        epsilon_to_rho("1e-160", "1e-160")


def test_the_textbook_formula() -> None:
    found = zcdp_to_epsilon_textbook(Fraction(1, 4), Fraction(1, 10**6))
    assert found == pytest.approx(0.25 + math.sqrt(math.log(1e6)), rel=1e-15)
    assert found > zcdp_to_epsilon(Fraction(1, 4), Fraction(1, 10**6))


def test_nothing_spent_is_nothing_lost() -> None:
    assert zcdp_to_epsilon(Fraction(0), Fraction(1, 10)) == 0.0
    assert zcdp_to_delta(Fraction(0), Fraction(0)) == 0.0
    assert zcdp_to_epsilon_textbook(Fraction(0), Fraction(1, 10)) == 0.0


def test_a_large_delta_needs_no_epsilon() -> None:
    assert zcdp_to_epsilon(Fraction(1, 1000), Fraction(1, 2)) == 0.0


def test_beyond_the_range_of_floats_the_answers_stay_bounds() -> None:
    assert zcdp_to_delta(Fraction(1), Fraction(10**6)) == math.ulp(0.0)
    assert zcdp_to_epsilon(Fraction(10**400), Fraction(1, 2)) == math.inf
    assert zcdp_to_delta(Fraction(10**6), Fraction(0)) == 1.0
    assert 0 < zcdp_to_epsilon(Fraction(1, 10**400), Fraction(1, 10**400)) < 1e-140
    assert 0 < zcdp_to_delta(Fraction(1, 10**400), Fraction(0)) < 1e-140


def test_numbers_are_taken_in_every_exact_form() -> None:
    rho, delta, epsilon = Fraction(1, 2), Fraction(1, 10**6), Fraction(3)
    assert (
        zcdp_to_epsilon("1/2", "1e-6")
        == zcdp_to_epsilon(Decimal("0.5"), Decimal("1e-6"))
        == zcdp_to_epsilon(rho, delta)
    )
    assert zcdp_to_delta("0.5", 3) == zcdp_to_delta(rho, epsilon)
    assert zcdp_to_epsilon_textbook("0.5", "1e-6") == zcdp_to_epsilon_textbook(rho, delta)
    assert ZcdpCurve("1/2").epsilon("1e-6") == ZcdpCurve(rho).epsilon(delta)
    assert delta_with_total_variation(3, "1e-6", "1e-9") == delta_with_total_variation(
        epsilon, delta, Fraction(1, 10**9)
    )
    for wrong, name in (((0.5, delta), "rho"), ((rho, 0.5), "delta")):
        with pytest.raises(BudgetError, match=rf"\b{name}\b.*Write '0\.5'"):
            zcdp_to_epsilon(*wrong)
