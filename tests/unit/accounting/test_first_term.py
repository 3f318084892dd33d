"""The first term alone: its published values, and that it is an upper bound."""

from fractions import Fraction

import pytest
from tests.oracles.first_term import first_term_delta, first_term_epsilon

from tallyveil.accounting import (
    DiscreteGaussian,
    DiscreteLaplace,
    InvariantEvent,
    Neighbours,
    compose,
)
from tallyveil.errors import BudgetError

RHO = Fraction("3.65")
SHARES = ("0.02", "0.274", "0.085", "0.131", "0.238", "0.118", "0.003")
ANSWERS = (10, 10, 10, 20, 10, 10, 10)
CENSUS = compose(
    *(
        DiscreteGaussian(10 / (2 * Fraction(share) * RHO), multiplicity=n)
        for share, n in zip(SHARES, ANSWERS, strict=True)
    ),
    neighbours=Neighbours.UNBOUNDED,
)


def test_the_published_census_values() -> None:
    first = first_term_delta(CENSUS, Fraction("20.838545"))
    assert first.lower == pytest.approx(9.980295360747e-11, rel=1e-11)
    assert first.upper == pytest.approx(9.980295360747e-11, rel=1e-11)
    assert CENSUS.delta("20.838545").upper == pytest.approx(2.891656952691e-11, rel=1e-11)
    found = first_term_epsilon(CENSUS, "1e-10")
    assert found.lower == pytest.approx(20.83712, abs=5e-6)
    assert found.width < 1e-12
    assert CENSUS.epsilon("1e-10").upper < found.lower


@pytest.mark.parametrize("event", [DiscreteGaussian(3, 2, 2), DiscreteLaplace(2, 3, 4)])
def test_it_is_the_least_epsilon_of_its_delta_and_never_below_the_exact_one(event) -> None:
    guarantee = compose(event, neighbours=Neighbours.BOUNDED)
    for delta in ("1e-3", "1e-7"):
        found = first_term_epsilon(guarantee, delta)
        assert guarantee.epsilon(delta).lower <= found.upper
        assert first_term_delta(guarantee, found.upper).upper <= float(delta) * (1 + 1e-12)
        assert first_term_delta(guarantee, found.lower - 1e-6).lower >= float(delta)
    assert first_term_delta(guarantee, 0.5).lower >= guarantee.delta(0.5).lower


def test_one_laplace_answer_has_two_losses() -> None:
    guarantee = compose(DiscreteLaplace(2), neighbours=Neighbours.UNBOUNDED)
    assert first_term_epsilon(guarantee, "1/10").upper == 0.5
    assert first_term_epsilon(guarantee, "9/10").upper == 0.0


def test_nothing_released_needs_no_epsilon() -> None:
    guarantee = compose(InvariantEvent("total"), neighbours=Neighbours.BOUNDED)
    assert first_term_epsilon(guarantee, "1e-10").upper == 0.0
    assert first_term_delta(guarantee, 0.0).upper == 0.0


@pytest.mark.parametrize("delta", [0, 1, 1e-10, "x"])
def test_deltas_are_exact_and_inside_the_unit_interval(delta) -> None:
    with pytest.raises(BudgetError):
        first_term_epsilon(CENSUS, delta)
