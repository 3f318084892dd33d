"""The classical accountants side by side."""

from fractions import Fraction

import pytest

from tallyveil.accounting import (
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Neighbours,
    PoissonSampled,
    SequentialEvent,
    compose,
    epsilon_of,
    rho_of,
    zcdp_to_epsilon,
)
from tallyveil.accounting.proved import classical_epsilons

DELTA = Fraction(1, 10**10)
GAUSSIAN, LAPLACE = DiscreteGaussian(5, multiplicity=10), DiscreteLaplace(8, multiplicity=40)


@pytest.mark.parametrize("event", [GAUSSIAN, LAPLACE, SequentialEvent((GAUSSIAN, LAPLACE))])
def test_every_bound_is_above_the_exact_epsilon(event) -> None:
    bounds = classical_epsilons(event, DELTA)
    exact = compose(event, neighbours=Neighbours.UNBOUNDED).epsilon(DELTA)
    assert all(bound >= exact.upper for bound in bounds.values())
    assert bounds["renyi"] <= bounds["renyi_mironov"]
    assert bounds["renyi"] <= bounds["zcdp"] * (1 + 1e-12)
    assert bounds["zcdp"] <= bounds["zcdp_textbook"]


def test_of_samples_only_renyi_divergences_are_known() -> None:
    event = SequentialEvent((PoissonSampled(Gaussian(1), "1/10", 50), DiscreteLaplace(3)))
    bounds = classical_epsilons(event, DELTA)
    assert set(bounds) == {"renyi_mironov", "renyi"}
    assert bounds["renyi_mironov"] > bounds["renyi"]
    assert bounds["renyi"] >= compose(event, neighbours=Neighbours.UNBOUNDED).epsilon(DELTA).upper
    assert classical_epsilons(ApproximateDP(1, "1e-9"), DELTA) == {}


def test_pure_epsilon_stands_where_it_is_finite() -> None:
    pure = classical_epsilons(LAPLACE, DELTA)["pure"]
    assert Fraction(pure) >= epsilon_of(LAPLACE)
    assert pure == pytest.approx(5.0, rel=1e-15)
    assert set(classical_epsilons(GAUSSIAN, DELTA)) == {"zcdp_textbook", "zcdp", "renyi_mironov", "renyi"}
    assert classical_epsilons(GAUSSIAN, DELTA)["zcdp"] == zcdp_to_epsilon(rho_of(GAUSSIAN), DELTA)
