"""Published tables of rho as strategies: which geolevel gets which budget, and what is refused."""

from fractions import Fraction
from typing import Any

import pytest

from tallyveil.accounting import Neighbours, rho_of
from tallyveil.budget.presets import load_rho_table, strategy_of_rho
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import BudgetError, ConfigError

TABLE: dict[str, Any] = {
    "geolevels": ["US", "State", "Block"],
    "unit": "1/10",
    "total": "21/10",
    "queries": {"total": [1, 2, 3], "age": [4, 5, 6]},
}


def spent(strategy):
    return {
        (geolevel, query): strategy.share(geolevel, query)
        for geolevel in strategy.geolevels
        for query in strategy.queries(geolevel)
    }


def test_every_query_gets_its_number_of_units():
    made = strategy_of_rho("mine", TABLE)
    assert made.mechanism is Mechanism.DISCRETE_GAUSSIAN
    assert made.neighbours is Neighbours.BOUNDED
    assert made.geolevels == ("US", "State", "Block")
    assert rho_of(made.event()) == made.total == Fraction(21, 10)
    assert spent(made) == {
        (geolevel, query): Fraction(row[place], 10)
        for place, geolevel in enumerate(TABLE["geolevels"])
        for query, row in TABLE["queries"].items()
    }


def test_a_geolevel_may_get_the_budgets_of_several_and_more_on_top():
    made = strategy_of_rho(
        "mine", TABLE, {"State": ["US", "State"], "Block": ["Block"]}, {"Block": {"size": "1/5"}}
    )
    assert made.total == Fraction(23, 10)
    assert spent(made) == {
        ("State", "total"): Fraction(3, 10),
        ("State", "age"): Fraction(9, 10),
        ("Block", "total"): Fraction(3, 10),
        ("Block", "age"): Fraction(6, 10),
        ("Block", "size"): Fraction(2, 10),
    }


@pytest.mark.parametrize(
    "merged",
    [{"State": ["US", "State"]}, {"State": ["US", "State"], "Block": ["Block", "US"]}, {"Block": ["B"]}],
)
def test_no_budget_of_a_geolevel_is_lost_or_given_twice(merged):
    with pytest.raises(BudgetError, match=r"mine: .*would lose its budget"):
        strategy_of_rho("mine", TABLE, merged)


def test_numbers_that_are_not_exact_are_named_by_their_place():
    for table, more, place in (
        ({**TABLE, "unit": 0.1}, None, "mine: unit"),
        ({**TABLE, "total": 2.1}, None, "mine: total"),
        (TABLE, {"Block": {"size": 0.2}}, "mine: Block.size"),
    ):
        with pytest.raises(ConfigError, match=f"{place} is the float"):
            strategy_of_rho("mine", table, None, more)


def test_files_are_found_by_name():
    assert load_rho_table("dhc-units-us")["record"] == "housing unit"
