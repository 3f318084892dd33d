"""Strategies: exact shares, laws and events."""

import dataclasses
from fractions import Fraction

import pytest

from tallyveil.accounting import DiscreteGaussian as DiscreteGaussianEvent
from tallyveil.accounting import DiscreteLaplace as DiscreteLaplaceEvent
from tallyveil.accounting import Neighbours, SequentialEvent, epsilon_of, rho_of
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
STRATEGY = Strategy(
    mechanism=Mechanism.DISCRETE_GAUSSIAN,
    neighbours=Neighbours.BOUNDED,
    total=Fraction(5, 2),
    geolevel_shares=(("State", THIRD), ("Block", 1 - THIRD)),
    query_shares=(
        ("State", (("total", HALF), ("detailed", HALF))),
        ("Block", (("detailed", Fraction(1)),)),
    ),
)


def changed(**fields: object) -> Strategy:
    return dataclasses.replace(STRATEGY, **fields)


def test_a_share_is_the_product_of_three_fractions() -> None:
    assert STRATEGY.geolevels == ("State", "Block")
    assert STRATEGY.queries("State") == ("total", "detailed")
    assert STRATEGY.share("State", "total") == Fraction(5, 12)
    assert STRATEGY.share("Block", "detailed") == Fraction(5, 3)


@pytest.mark.parametrize(
    ("mechanism", "neighbours", "law", "event"),
    [
        (
            "discrete_gaussian",
            "bounded",
            DiscreteGaussian(Fraction(12, 5)),
            DiscreteGaussianEvent(Fraction(12, 5), multiplicity=2),
        ),
        (
            "discrete_gaussian",
            "unbounded",
            DiscreteGaussian(Fraction(6, 5)),
            DiscreteGaussianEvent(Fraction(6, 5), multiplicity=1),
        ),
        (
            "discrete_laplace",
            "bounded",
            DiscreteLaplace(Fraction(24, 5)),
            DiscreteLaplaceEvent(Fraction(24, 5), multiplicity=2),
        ),
        (
            "discrete_laplace",
            "unbounded",
            DiscreteLaplace(Fraction(12, 5)),
            DiscreteLaplaceEvent(Fraction(12, 5), multiplicity=1),
        ),
    ],
)
def test_law_event_and_cost_of_each_mechanism_and_relation(mechanism, neighbours, law, event) -> None:
    strategy = changed(mechanism=Mechanism(mechanism), neighbours=Neighbours(neighbours))
    assert strategy.law("State", "total") == law
    assert strategy.events()[0] == event
    assert len(strategy.events()) == 3
    assert strategy.event() == SequentialEvent(strategy.events())
    assert strategy.budget_unit == ("rho" if mechanism == "discrete_gaussian" else "epsilon")
    cost = rho_of if strategy.budget_unit == "rho" else epsilon_of
    assert cost(strategy.event()) == strategy.total
    assert cost(event) == strategy.share("State", "total")


def test_names_of_the_mechanism_and_relation_may_be_given_as_text() -> None:
    strategy = changed(mechanism="discrete_laplace", neighbours="unbounded")
    assert strategy.mechanism is Mechanism.DISCRETE_LAPLACE
    assert strategy.neighbours is Neighbours.UNBOUNDED


def test_geolevel_shares_that_miss_one_say_by_how_much() -> None:
    shares = (("State", Fraction(2000, 4099)), ("Block", Fraction(2098, 4099)))
    with pytest.raises(BudgetError) as caught:
        changed(geolevel_shares=shares)
    assert "geolevel shares sum to 4098/4099 (0.9997561), 1/4099 (0.000243962) short of 1" in str(
        caught.value
    )


def test_query_shares_that_exceed_one_say_by_how_much() -> None:
    shares = (STRATEGY.query_shares[0], ("Block", (("total", HALF), ("detailed", Fraction(501, 1000)))))
    with pytest.raises(
        BudgetError, match=r"geolevel Block sum to 1001/1000 \(1.001\), 1/1000 \(0.001\) over 1"
    ):
        changed(query_shares=shares)


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1, 3), 0.5, 1])
def test_a_share_is_a_fraction_above_zero(share) -> None:
    with pytest.raises(BudgetError, match=r"State has .*; wanted a Fraction above 0"):
        changed(geolevel_shares=(("State", share), ("Block", 1 - share)))


@pytest.mark.parametrize("total", [Fraction(0), Fraction(-1), 2.5])
def test_the_total_is_a_fraction_above_zero(total) -> None:
    with pytest.raises(BudgetError, match="total rho must be a Fraction above 0"):
        changed(total=total)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"query_shares": STRATEGY.query_shares[:1]}, "given for geolevels State; wanted State, Block"),
        (
            {"query_shares": STRATEGY.query_shares[::-1]},
            "given for geolevels Block, State; wanted State, Block",
        ),
        ({"query_shares": ()}, "given for geolevels none"),
        ({"geolevel_shares": (("State", HALF), ("State", HALF))}, "name State more than once"),
        (
            {"query_shares": (STRATEGY.query_shares[0], ("Block", (("total", HALF), ("total", HALF))))},
            "name total more than once",
        ),
        ({"geolevel_shares": (), "query_shares": ()}, "geolevel shares sum to 0, 1 short of 1"),
        (
            {"mechanism": "gaussian"},
            "mechanism is 'gaussian'; wanted one of discrete_gaussian, discrete_laplace",
        ),
        ({"neighbours": "related"}, "neighbours is 'related'; wanted one of bounded, unbounded"),
    ],
)
def test_shares_must_fit_together(fields: dict, words: str) -> None:
    with pytest.raises(BudgetError, match=words):
        changed(**fields)


def test_what_is_not_measured_is_refused_by_name() -> None:
    with pytest.raises(BudgetError, match="geolevel County is not measured; measured are State, Block"):
        STRATEGY.queries("County")
    with pytest.raises(BudgetError, match="'total' is not measured at geolevel Block; measured are detailed"):
        STRATEGY.law("Block", "total")
