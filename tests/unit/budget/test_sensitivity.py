"""Queries whose groups overlap: what they cost, against the worst change of one record found by hand."""

import dataclasses
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tallyveil.accounting import Neighbours, epsilon_of, rho_of
from tallyveil.budget.queries import is_fixed, require_sensitivities, sensitivities_of
from tallyveil.budget.spine.variance import answers_summed, precision_of
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema

AGES = ("child", "adult", "elder")
SCHEMA = Schema(
    "people",
    (Attribute("age", AGES), Attribute("home", ("house", "dormitory", "street"))),
    (
        Recode("up_to", "age", tuple((AGES[n], AGES[: n + 1]) for n in range(3)), overlapping=True),
        Recode(
            "roof",
            "home",
            (("roof", ("house", "dormitory")), ("shared", ("dormitory", "street"))),
            overlapping=True,
        ),
        Recode("grown", "age", (("yes", AGES[1:]), ("no", AGES[:1]))),
    ),
)
QUERIES = ("total", "up_to", "roof", "up_to*roof", "grown*roof")


def strategy(mechanism: Mechanism, neighbours: Neighbours) -> Strategy:
    shares = tuple((name, Fraction(1, len(QUERIES))) for name in QUERIES)
    return Strategy(
        mechanism,
        neighbours,
        Fraction(3, 2),
        (("Town", Fraction(1)),),
        (("Town", shares),),
        sensitivities_of(SCHEMA, QUERIES),
    )


def changes(query: str, neighbours: Neighbours) -> np.ndarray:
    """Changes of the answers of two towns by each addition of a record, or by each move between any two cells."""
    columns = SCHEMA.query(query).apply_dense(np.eye(SCHEMA.size, dtype=np.int64))
    nothing = np.zeros_like(columns)
    both = np.concatenate([np.hstack([columns, nothing]), np.hstack([nothing, columns])])
    if neighbours is Neighbours.UNBOUNDED:
        return both
    return np.array([one - other for one, other in product(both, repeat=2)])


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_gaussian_noise_costs_what_the_worst_change_costs(neighbours: Neighbours) -> None:
    made = strategy(Mechanism.DISCRETE_GAUSSIAN, neighbours)
    assert rho_of(made.event()) == made.total
    for query, event in zip(QUERIES, made.events(), strict=True):
        worst = int((changes(query, neighbours) ** 2).sum(axis=1).max())
        assert made.answers_moved(query) == worst
        assert made.law("Town", query).variance == worst / (2 * made.share("Town", query))
        assert rho_of(event) == made.share("Town", query)
    assert made.geolevel_event("Town") == made.event()


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_laplace_noise_costs_what_the_worst_change_costs(neighbours: Neighbours) -> None:
    made = strategy(Mechanism.DISCRETE_LAPLACE, neighbours)
    assert epsilon_of(made.event()) == made.total
    assert made.geolevel_event("Town") == made.event()
    for query in QUERIES:
        worst = int(np.abs(changes(query, neighbours)).sum(axis=1).max())
        assert made.law("Town", query).scale == worst / made.share("Town", query)


def test_only_overlapping_queries_are_named() -> None:
    assert sensitivities_of(SCHEMA, (*QUERIES, "up_to")) == (
        ("grown*roof", 2),
        ("roof", 2),
        ("up_to", 3),
        ("up_to*roof", 6),
    )
    assert sensitivities_of(load_preset("pl94-persons"), ["racecomb*hispanic"]) == (("racecomb*hispanic", 6),)


@pytest.mark.parametrize("sensitivities", [(), (("up_to", 2),), (("total", 5),)])
def test_a_strategy_that_pays_for_another_number_of_answers_is_refused(
    sensitivities: tuple[tuple[str, int], ...],
) -> None:
    made = strategy(Mechanism.DISCRETE_GAUSSIAN, Neighbours.BOUNDED)
    require_sensitivities(made, SCHEMA)
    wrong = dataclasses.replace(made, sensitivities=sensitivities)
    with pytest.raises(BudgetError, match="pays for"):
        require_sensitivities(wrong, SCHEMA)


def test_a_sensitivity_below_one_is_refused() -> None:
    made = strategy(Mechanism.DISCRETE_GAUSSIAN, Neighbours.BOUNDED)
    for wrong in (0, -1, 1.0, Fraction(2)):
        with pytest.raises(BudgetError, match="wanted an integer of 1 or more"):
            dataclasses.replace(made, sensitivities=(("up_to", wrong),))
    assert dataclasses.replace(made, sensitivities=(("up_to", 1),)).answers_moved("up_to") == 2


def test_the_total_is_a_running_sum_and_no_sum_of_races_alone_or_in_combination() -> None:
    total = SCHEMA.query("total")
    assert answers_summed(SCHEMA.query("up_to"), total) == 1
    assert answers_summed(SCHEMA.query("roof"), total) == 0
    made = dataclasses.replace(
        strategy(Mechanism.DISCRETE_GAUSSIAN, Neighbours.BOUNDED),
        query_shares=(("Town", (("up_to", Fraction(1)),)),),
    )
    assert precision_of(made, "Town", Fraction(1), {"up_to": 1}) == 1 / made.law("Town", "up_to").variance


def test_a_query_is_fixed_if_all_its_groups_are() -> None:
    assert is_fixed(SCHEMA.query("up_to"), [SCHEMA.query("age")], SCHEMA)
    assert not is_fixed(SCHEMA.query("up_to"), [SCHEMA.query("grown")], SCHEMA)
    assert not is_fixed(SCHEMA.query("up_to*roof"), [SCHEMA.query("age")], SCHEMA)
