"""The strategies of the Demographic and Housing Characteristics against production's rho by geolevel and query."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from tallyveil.budget.presets import load_rho_table, load_strategy_preset, strategy_of_rho
from tallyveil.errors import BudgetError

BUDGETS = json.loads((Path(__file__).parent / "dhc" / "dhc_budgets.json").read_text())
UNIT = Fraction(1, 10_000)
# Production's names of factors and of the units' finest query.
NAMES = {"hhtenshort_2lev": "ten2", "hhtenshort_3lev": "ten3"}
FINEST = {"dhch": "sex*hhage*hisp*race*elderly*ten3*hhtype", "dhcp": "detailed"}
MERGED = {"State": ("US", "State"), "Tract": ("Prim", "Tract_Subset_Group", "Tract_Subset")}


def rho_of_production(name: str) -> dict[str, dict[str, int]]:
    """Rho in units of 1/10000 by geolevel and query, with our names."""
    found = {}
    for geolevel, parts in BUDGETS[name]["levels"].items():
        queries = {query: rho for part in ("main", "unit") for query, rho in parts[part].items()}
        found[geolevel] = {
            FINEST[name[:4]]
            if query == "detailed"
            else "*".join(NAMES.get(word, word) for word in query.split(" * ")): rho
            for query, rho in queries.items()
        }
    return found


def rho_of_preset(name: str) -> dict[str, dict[str, Fraction]]:
    strategy = load_strategy_preset(name).strategy
    return {
        geolevel: {query: strategy.share(geolevel, query) for query in strategy.queries(geolevel)}
        for geolevel in strategy.geolevels
    }


@pytest.mark.parametrize(
    ("preset", "production", "total"),
    [
        ("dhc-persons-us", "dhcp_us", 49_622),
        ("dhc-persons-us-agree", "dhcp_us", 49_622),
        ("dhc-persons-state-rooted", "dhcp_pr", 49_622),
        ("dhc-units-us", "dhch_us", 77_005),
        ("dhc-units-us-agree", "dhch_us", 77_005),
        ("dhc-units-state-rooted", "dhch_pr", 77_005),
    ],
)
def test_every_query_has_production_s_rho(preset: str, production: str, total: int):
    wanted = rho_of_production(production)
    assert rho_of_preset(preset) == {
        geolevel: {query: rho * UNIT for query, rho in queries.items()}
        for geolevel, queries in wanted.items()
    }
    assert sum(rho for queries in wanted.values() for rho in queries.values()) == total
    assert load_strategy_preset(preset).strategy.total == total * UNIT


@pytest.mark.parametrize(
    ("preset", "production"),
    [
        ("dhc-persons-us-from-state", "dhcp_us"),
        ("dhc-persons-us-from-state-agree", "dhcp_us"),
        ("dhc-units-us-from-state", "dhch_us"),
        ("dhc-units-us-from-state-agree", "dhch_us"),
    ],
)
def test_five_geolevels_have_the_rho_of_eight(preset: str, production: str):
    wanted = rho_of_production(production)
    found = rho_of_preset(preset)
    assert list(found) == ["State", "County", "Tract", "Block_Group", "Block"]
    for geolevel, queries in found.items():
        for query, rho in queries.items():
            assert rho == UNIT * sum(wanted[own][query] for own in MERGED.get(geolevel, (geolevel,)))


def test_no_geolevel_s_budget_is_lost_or_spent_twice():
    table = load_rho_table("dhc-persons-us")
    whole = {level: [level] for level in table["geolevels"]}
    for parts in (
        {**whole, "Block": ["Block_Group", "Block"]},
        {k: v for k, v in whole.items() if k != "US"},
    ):
        with pytest.raises(BudgetError, match="wanted every geolevel of US"):
            strategy_of_rho("mine", table, parts)
