"""Filters and the odometer: what they enter, refuse and promise, also if the noise is chosen by the results."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tallyveil.accounting import (
    ZCDP,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Filter,
    Gaussian,
    IntegerSubspaceGaussian,
    IntegerSubspaceLaplace,
    InvariantEvent,
    Laplace,
    NonPrivateEvent,
    Odometer,
    PoissonSampled,
    RandomizedResponse,
    SequentialEvent,
    compose,
    zcdp_to_epsilon_textbook,
)
from tallyveil.errors import BudgetError


def test_a_filter_stops_before_its_rho_is_exceeded() -> None:
    found = Filter(rho="1/2", neighbours="bounded")
    found.spend(DiscreteGaussian(2))
    found.spend(SequentialEvent((Laplace(2), InvariantEvent("total"))))
    assert found.spent == (Fraction(3, 8),)
    assert found.left == (Fraction(1, 8),)
    with pytest.raises(BudgetError, match=r"costs rho 1/4 .*Nothing was entered") as caught:
        found.spend(DiscreteGaussian(2))
    assert caught.value.code == "filter-spent"
    assert found.spent == (Fraction(3, 8),)
    found.spend(DiscreteGaussian(4))
    assert found.left == (0,)
    assert len(found.events) == 3
    with pytest.raises(BudgetError, match="0 is left"):
        found.spend(DiscreteGaussian(10**9))
    assert found.event == ZCDP("1/2")
    assert compose(found.event, neighbours=found.neighbours).epsilon("1e-6").upper < 6


def test_a_filter_of_epsilon_and_delta_adds_both() -> None:
    found = Filter(epsilon=1, delta="1e-6", neighbours="unbounded")
    found.spend(ApproximateDP("1/4", "2e-7", 2))
    found.spend(SequentialEvent((RandomizedResponse("1/10"), ApproximateDP(0, "1e-7"), DiscreteLaplace(10))))
    assert found.spent == (Fraction(7, 10), Fraction("5e-7"))
    with pytest.raises(BudgetError, match="costs delta"):
        found.spend(ApproximateDP(0, "6e-7"))
    with pytest.raises(BudgetError, match="costs epsilon"):
        found.spend(Laplace(1))
    assert found.event == ApproximateDP(1, "1e-6")
    with pytest.raises(BudgetError, match="no finite pure epsilon"):
        found.spend(Gaussian(100))


def test_a_filter_of_mu_takes_normal_noise_alone() -> None:
    found = Filter(mu=1, neighbours="unbounded")
    found.spend(Gaussian(2))
    found.spend(SequentialEvent((Gaussian(4), InvariantEvent("total"))))
    with pytest.raises(BudgetError, match="Gaussian events alone"):
        found.spend(DiscreteGaussian(100))
    with pytest.raises(BudgetError, match="costs mu squared 1/2"):
        found.spend(Gaussian(2))
    found.spend(Gaussian(4))
    assert found.left == (0,)
    promised = compose(found.event, neighbours="unbounded")
    assert promised.log_delta(1) == compose(*found.events, neighbours="unbounded").log_delta(1)


@pytest.mark.parametrize("mu", ["1/2", "1", "3"])
def test_a_filter_of_mu_promises_its_mu(mu) -> None:
    """Normal noise of variance 1 / mu^2 on an answer that moves by 1 has exactly this mu."""
    promised = compose(Filter(mu=mu, neighbours="unbounded").event, neighbours="unbounded")
    bounds = promised.mu()
    assert bounds.lower <= Fraction(mu) <= bounds.upper < bounds.lower * 1.000001


@pytest.mark.parametrize(
    "event",
    [
        PoissonSampled(Gaussian(1), "1/2"),
        ApproximateDP(1, "1e-9"),
        NonPrivateEvent("a look"),
        IntegerSubspaceGaussian(100, 2, (), "1e-9"),
        IntegerSubspaceLaplace("1e-3", "l1", 1),
        [DiscreteGaussian(1)],
        "1/2",
    ],
)
def test_what_has_no_rho_is_refused_and_not_entered(event) -> None:
    for found in (
        Filter(rho=10, neighbours="bounded"),
        Odometer(delta="1e-6", neighbours="bounded"),
    ):
        with pytest.raises(BudgetError):
            found.spend(event)
        assert found.events == ()


def test_budgets_are_exact_and_one() -> None:
    for given in (
        {},
        {"rho": 1, "mu": 1},
        {"rho": 1, "delta": "1e-6"},
        {"rho": 0},
        {"epsilon": -1},
        {"mu": 0.5},
    ):
        with pytest.raises(BudgetError):
            Filter(neighbours="bounded", **given)
    for delta in (0, 1, "-1e-6", 1e-6):
        with pytest.raises(BudgetError):
            Odometer(neighbours="bounded", delta=delta)
    with pytest.raises(BudgetError, match="takes one budget, got rho, epsilon, mu") as caught:
        Filter(rho=1, epsilon=1, mu=1, neighbours="bounded")
    assert caught.value.code == "filter-budget"
    with pytest.raises(BudgetError) as caught:
        Odometer(delta=0, neighbours="bounded")
    assert caught.value.code == "filter-budget"
    with pytest.raises(BudgetError, match="neighbours must be"):
        Filter(rho=1, neighbours="both")


def mixture_in_decimals(loss: mpmath.mpf, rho: Fraction, delta: Fraction) -> mpmath.mpf:
    """Docs/proofs/filters.md, section 4, in 60 digits: the value that a bound must bring to 1 / delta."""
    best, wanted = mpmath.sqrt(-mpmath.log(mpmath.mpf(delta.numerator) / delta.denominator)), mpmath.mpf(0)
    weights = mpmath.fsum(mpmath.mpf(1) / (2 + abs(k)) ** 2 for k in range(-32, 33))
    for k in range(-32, 33):
        x = best * mpmath.sqrt(2) ** k
        exponent = x * (loss - (1 + x) * mpmath.mpf(rho.numerator) / rho.denominator)
        wanted += mpmath.exp(exponent) / (2 + abs(k)) ** 2 / weights
    return wanted


@pytest.mark.parametrize("delta", ["1e-300", "1e-10", "1e-3", "999/1000"])
@pytest.mark.parametrize("rho", ["1e-12", "1/100", "1/2", "7", "9000"])
def test_the_bound_of_an_odometer_is_where_its_mixture_is_one_over_delta(rho, delta) -> None:
    found = Odometer(delta=delta, neighbours="unbounded")
    found.spend(ZCDP(rho))
    with mpmath.workdps(60):
        bound, most = mpmath.mpf(found.epsilon), 1 / mpmath.mpf(Fraction(delta).numerator)
        most *= Fraction(delta).denominator
        # The x of the package are floats, so that the mixture is the same up to about their relative error.
        for change, exceeds in ((1e-13, True), (-1e-13, False)):
            value = mixture_in_decimals(bound * (1 + change), Fraction(rho), Fraction(delta))
            assert (value >= most) is exceeds


@pytest.mark.nightly
def test_an_odometer_is_little_above_the_bound_of_noise_fixed_in_advance() -> None:
    found = Odometer(delta="1e-10", neighbours="unbounded")
    assert found.epsilon == 0
    for step in range(1, 101):
        found.spend(Gaussian(5))
        textbook = zcdp_to_epsilon_textbook(Fraction(step, 10), Fraction("1e-10"))
        assert textbook < found.epsilon < 1.07 * textbook
    assert found.rho == 10


def bound_at(rho: float, delta: float) -> float:
    odometer = Odometer(delta=str(delta), neighbours="unbounded")
    odometer.spend(ZCDP(Fraction(rho)))
    return odometer.epsilon


@pytest.mark.nightly
def test_noise_chosen_by_the_results_keeps_the_promises() -> None:
    """An analyst who spends more after each result in favour of P, and stops at the largest loss.

    For delta = 0.1, with 40,000 runs, three standard errors are 0.0045. The share above the bound is far below delta;
    the loss itself has the mean and spread of the whole budget at most.
    """
    draw, runs, delta = np.random.default_rng(3), 40_000, 0.1
    budget = Filter(rho="1/2", neighbours="unbounded")
    log_ratio, left = np.zeros(runs), np.full(runs, float(budget.budget[0]))
    # The bounds on a grid of rho, each at its lower end: the check is then stricter than the odometer.
    # All that is spent stands on it.
    grid = [0.01 * step for step in range(1, 51)]
    bounds = [bound_at(rho, delta) for rho in grid]
    exceeded = np.zeros(runs, dtype=bool)
    for _ in range(30):
        wanted = np.where(log_ratio > 0, 0.08, 0.01)
        rho = np.where(wanted <= left, wanted, 0.0)
        log_ratio += rho + np.sqrt(2 * rho) * draw.standard_normal(runs)
        left -= rho
        exceeded |= log_ratio > np.interp(0.5 - left, grid, bounds)
    assert exceeded.mean() <= delta + 0.0045
    promised = compose(budget.event, neighbours="unbounded")
    for epsilon in (0.0, 0.5, 1.5):
        found = np.maximum(0, 1 - np.exp(epsilon - log_ratio)).mean()
        assert found <= promised.delta(epsilon).upper + 0.0075
