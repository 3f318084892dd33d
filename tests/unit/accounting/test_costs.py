"""Costs of events in rho and in epsilon."""

import math
from fractions import Fraction

import pytest

from tallyveil.accounting import (
    AdaptiveEvent,
    DiscreteGaussian,
    DiscreteLaplace,
    InvariantEvent,
    Laplace,
    ParallelEvent,
    PrivacyEvent,
    SequentialEvent,
    WorstEvent,
    epsilon_of,
    rho_of,
)
from tallyveil.accounting.costs import delta_with_total_variation, total_variation_of
from tallyveil.accounting.events import IntegerSubspaceGaussian, IntegerSubspaceLaplace
from tallyveil.errors import BudgetError

GAUSSIAN = DiscreteGaussian(Fraction(7, 3), multiplicity=2)
LAPLACE = DiscreteLaplace(Fraction(5, 2), 2, 3)
INVARIANT = InvariantEvent("total")


def test_gaussian_noise_costs_half_the_squared_sensitivity_over_the_variance() -> None:
    assert rho_of(GAUSSIAN) == Fraction(3, 7)
    assert rho_of(DiscreteGaussian(Fraction(7, 3))) == Fraction(3, 14)
    assert rho_of(DiscreteGaussian(Fraction(7, 3), 1, 10)) == Fraction(15, 7)
    assert rho_of(DiscreteGaussian(Fraction(7, 3), 3, 2)) == 9 * Fraction(3, 7)


def test_laplace_noise_costs_sensitivity_over_scale() -> None:
    assert epsilon_of(LAPLACE) == Fraction(12, 5)
    assert epsilon_of(DiscreteLaplace(Fraction(5, 2), 1)) == Fraction(2, 5)


def test_laplace_noise_counts_in_rho_only_when_asked() -> None:
    with pytest.raises(BudgetError, match=r"discrete Laplace noise of scale .* cost in epsilon, not in rho"):
        rho_of(SequentialEvent((GAUSSIAN, LAPLACE)))
    with pytest.raises(BudgetError, match=r"^Laplace noise of scale 5/2 "):
        rho_of(Laplace("5/2"))
    assert rho_of(LAPLACE, laplace_as_zcdp=True) == 3 * Fraction(4, 5) ** 2 / 2
    both = SequentialEvent((GAUSSIAN, LAPLACE))
    assert rho_of(both, laplace_as_zcdp=True) == Fraction(3, 7) + Fraction(24, 25)


@pytest.mark.parametrize(("cost", "leaf"), [(rho_of, GAUSSIAN), (epsilon_of, LAPLACE)])
def test_sequential_adds_parallel_takes_the_largest_invariants_are_free(cost, leaf: PrivacyEvent) -> None:
    one = cost(leaf)
    twice = SequentialEvent((leaf, leaf))
    assert cost(SequentialEvent((leaf, leaf, INVARIANT))) == 2 * one
    assert cost(ParallelEvent((leaf, twice, INVARIANT))) == 2 * one
    assert cost(ParallelEvent((leaf, twice), degree=9)) == 18 * one
    assert cost(ParallelEvent((leaf,), degree=9)) == 9 * one
    assert cost(AdaptiveEvent((leaf, leaf, leaf))) == one
    assert cost(WorstEvent((leaf, twice, INVARIANT))) == 2 * one
    assert cost(SequentialEvent((leaf, ParallelEvent((leaf, leaf))))) == 2 * one
    assert cost(SequentialEvent(())) == cost(ParallelEvent((), 3)) == cost(INVARIANT) == 0


def test_total_variations_add_up_as_releases_do() -> None:
    one = IntegerSubspaceLaplace("1/2", "l1", 2, (), "1e-9")
    two = IntegerSubspaceGaussian(3, 2, (), "1e-7")
    tiny, small = Fraction(1, 10**9), Fraction(1, 10**7)
    assert total_variation_of(one) == tiny
    assert total_variation_of(GAUSSIAN) == total_variation_of(INVARIANT) == 0
    assert total_variation_of(SequentialEvent((one, GAUSSIAN, two, one))) == small + 2 * tiny
    assert total_variation_of(WorstEvent((one, two, GAUSSIAN))) == small
    assert total_variation_of(AdaptiveEvent((GAUSSIAN, GAUSSIAN))) == 0
    # Both parts that a record is in, before and after a change.
    assert total_variation_of(ParallelEvent((one, two, GAUSSIAN), 3)) == 6 * small
    assert total_variation_of(ParallelEvent((), 3)) == total_variation_of(SequentialEvent(())) == 0


def test_a_total_variation_adds_to_delta_for_both_neighbours() -> None:
    found = delta_with_total_variation("3/2", "1e-5", "1e-6")
    exact = 1e-5 + (1 + math.exp(1.5)) * 1e-6
    assert exact <= found <= exact * (1 + 1e-14)
    assert delta_with_total_variation(0, "1e-5", 0) == pytest.approx(1e-5, rel=1e-15, abs=0)
    assert delta_with_total_variation(0, "1e-5", 0) >= 1e-5
    assert delta_with_total_variation(30, "1e-5", "1e-6") == 1
