"""Strategies that come with the package."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from tallyveil.budget.presets import _measured_steps, _strategy, load_strategy_preset, strategy_preset_names
from tallyveil.budget.spine.presets import spine_preset_names
from tallyveil.errors import BudgetError, ConfigError
from tallyveil.schema.presets import load_preset

DHC = (
    "dhc-persons-state-rooted",
    "dhc-persons-us",
    "dhc-persons-us-agree",
    "dhc-persons-us-agree-sizes",
    "dhc-persons-us-from-state",
    "dhc-persons-us-from-state-agree",
    "dhc-persons-us-from-state-agree-sizes",
    "dhc-units-state-rooted",
    "dhc-units-us",
    "dhc-units-us-agree",
    "dhc-units-us-agree-sizes",
    "dhc-units-us-from-state",
    "dhc-units-us-from-state-agree",
    "dhc-units-us-from-state-agree-sizes",
)
CHAINS = {
    **{name: [2, 0] if "persons" in name else [0, 1, 0] for name in DHC},
    **{name: [0, 0, 0, 2, 0] for name in DHC if "persons" in name and "agree" in name},
    **{name: [0, 1, 0, 0] for name in DHC if "units" in name and "agree" in name},
    **{name: [0, 0, 0, 0, 0, 0, 1, 0, 0] for name in DHC if "units" in name and name.endswith("sizes")},
}
"""Number of queries of the rounding chain of each outer pass; lift passes have none."""
SCHEMAS = {name: name[: name.index("s-") + 1] for name in DHC} | {
    name: "dhc-units-sizes" for name in DHC if "units" in name and name.endswith("sizes")
}
SPINES = {
    "dhc-persons-state-rooted": "dhc-state-rooted",
    "dhc-persons-us": "dhc-us",
    **dict.fromkeys(("dhc-persons-us-agree", "dhc-persons-us-agree-sizes"), "dhc-us"),
    "dhc-units-state-rooted": "dhc-state-rooted",
    "dhc-units-us": "dhc-us",
    **dict.fromkeys(("dhc-units-us-agree", "dhc-units-us-agree-sizes"), "dhc-us"),
    "redistricting-state-rooted": "redistricting-persons-state-rooted",
    "redistricting-units-state-rooted": "redistricting-units-state-rooted",
    "redistricting-units-us": "redistricting-units-us",
    "redistricting-us": "redistricting-persons-us",
    "redistricting-us-from-state": "redistricting-persons-state-rooted",
}
"""The spine preset of each strategy that production used, or of the one most similar to it."""
REDISTRICTING = [name for name in strategy_preset_names() if name not in DHC]


def test_the_presets_are_listed() -> None:
    assert strategy_preset_names() == (
        *DHC,
        "redistricting-state-rooted",
        "redistricting-units-state-rooted",
        "redistricting-units-us",
        "redistricting-us",
        "redistricting-us-from-state",
    )


@pytest.mark.parametrize("name", strategy_preset_names())
def test_every_measured_query_is_in_exactly_one_pass(name: str) -> None:
    preset = load_strategy_preset(name)
    assert preset.name == name
    assert preset.summary
    assert preset.source
    for geolevel in preset.strategy.geolevels:
        measured = [query for step in dict(preset.passes)[geolevel] for query in step]
        assert sorted(measured) == sorted(preset.strategy.queries(geolevel))
        finest = "detailed" if "dhc-units" not in name else "sex*hhage*hisp*race*elderly*ten3*hhtype"
        assert dict(preset.rounding)[geolevel][-1][-1] == finest


@pytest.mark.parametrize("name", strategy_preset_names())
def test_every_query_fits_its_schema(name: str) -> None:
    preset = load_strategy_preset(name)
    schema = load_preset(SCHEMAS.get(name, "pl94-persons"))
    for geolevel in preset.strategy.geolevels:
        rounded = [query for step in dict(preset.rounding)[geolevel] for query in step]
        for query in (*preset.strategy.queries(geolevel), *rounded):
            assert schema.query(query).size >= 1


@pytest.mark.parametrize("name", DHC)
def test_outer_passes_and_their_chains_are_nested(name: str) -> None:
    preset = load_strategy_preset(name)
    schema = load_preset(SCHEMAS[name])
    assert [len(one.rounding) for one in preset.outer] == CHAINS[name]
    for geolevel in preset.strategy.geolevels:
        stages = [(*one.rounding, one.cells) for one in preset.outer]
        assert dict(preset.rounding)[geolevel] == tuple(stages)
        assert dict(preset.passes)[geolevel] == (preset.strategy.queries(geolevel),)
    cells = np.random.default_rng(1).integers(0, schema.size, 20_000)
    for one in preset.outer:
        for coarse, fine in pairwise((*one.rounding, one.cells)):
            pairs = np.stack([schema.query(fine).answers_of(cells), schema.query(coarse).answers_of(cells)])
            pairs = pairs[:, pairs[0] >= 0]  # units that are not occupied have no household
            assert len(np.unique(pairs, axis=1).T) == len(np.unique(pairs[0]))
            assert (pairs[1] >= 0).all()


def test_presets_without_outer_passes_have_none() -> None:
    assert all(load_strategy_preset(name).outer == () for name in REDISTRICTING)


@pytest.mark.parametrize("name", strategy_preset_names())
def test_how_estimates_are_made_and_which_spine_they_are_made_on(name: str) -> None:
    preset = load_strategy_preset(name)
    assert preset.values == "own"
    assert preset.rounding_target == ("fraction" if name in DHC else "nearest")
    assert preset.slack == (0 if name in DHC else Fraction(1, 10))
    assert preset.spine == SPINES.get(name)
    assert preset.spine is None or preset.spine in spine_preset_names()


def test_a_number_that_is_not_exact_is_named_by_its_place() -> None:
    table = {
        "mechanism": "discrete_gaussian",
        "neighbours": "bounded",
        "total": "2",
        "geolevel_shares": {"State": "1/2", "Block": "1/2"},
        "query_shares": {"State": {"total": "1"}, "Block": {"total": "1/4", "detailed": "3/4"}},
    }
    made = _strategy("mine", table)
    assert made.total == 2
    assert made.share("Block", "detailed") == Fraction(3, 4)
    for wrong, place in (
        ({"total": 2.5}, "mine: total"),
        ({"geolevel_shares": {"State": 0.5, "Block": "1/2"}}, "mine: geolevel_shares.State"),
        ({"query_shares": {"State": {"total": 1.5}}}, "mine: query_shares.State.total"),
    ):
        with pytest.raises(ConfigError, match=f"{place} is the float"):
            _strategy("mine", {**table, **wrong})


def test_the_order_of_estimation_and_its_slack() -> None:
    preset = load_strategy_preset("redistricting-us")
    assert preset.slack == Fraction(1, 10)
    assert preset.delta == Fraction(1, 10**10)
    cells = ("hhgq*votingage*hispanic*cenrace", "detailed")  # one query, counted twice as in production
    chain = ("hhgq", "hhgq*hispanic", "hhgq*hispanic*cenrace", *cells)
    for geolevel in ("State", "County", "Tract", "Block_Group"):
        first, second = dict(preset.passes)[geolevel]
        assert first == ("total",)
        assert len(second) == 10
        assert dict(preset.rounding)[geolevel] == (("total",), chain)
    for geolevel, n_queries in (("US", 10), ("Block", 11)):
        (only,) = dict(preset.passes)[geolevel]
        assert len(only) == n_queries
        assert dict(preset.rounding)[geolevel] == (("total", *chain),)


@pytest.mark.parametrize("passes", [[["total"]], [["total"], ["total", "*"]], [["*"], ["nothing"]], []])
def test_passes_that_do_not_hold_every_measured_query_once_are_refused(passes: list[list[str]]) -> None:
    strategy = load_strategy_preset("redistricting-us").strategy
    with pytest.raises(BudgetError, match="wanted every measured query once"):
        _measured_steps("mine", {"passes": {"State": passes}}, strategy, "State")


def test_one_state_by_itself_is_estimated_as_in_the_national_run() -> None:
    national, alone = (
        load_strategy_preset(name) for name in ("redistricting-us", "redistricting-us-from-state")
    )
    assert alone.strategy.geolevels == national.strategy.geolevels[1:]
    for geolevel in alone.strategy.geolevels:
        assert dict(alone.passes)[geolevel] == dict(national.passes)[geolevel]
        assert dict(alone.rounding)[geolevel] == dict(national.rounding)[geolevel]
        for query in alone.strategy.queries(geolevel):
            assert alone.strategy.share(geolevel, query) == national.strategy.share(geolevel, query)
    assert (alone.slack, alone.delta) == (national.slack, national.delta)


@pytest.mark.parametrize(("of", "parts"), [("us-from-state", {}), ("us", {"US": 2, "State": 2, "Prim": 3})])
def test_sizes_cost_what_the_product_does_not_measure(of: str, parts: dict[str, int]) -> None:
    """Geolevels that the strategy of one state takes together share what that one measures."""
    parts = parts | {level: 3 for level in ("Tract_Subset_Group", "Tract_Subset") if parts}
    strategy = load_strategy_preset(f"dhc-units-{of}-agree-sizes").strategy
    product = load_strategy_preset(f"dhc-units-{of}-agree").strategy
    assert strategy.total == product.total + Fraction(81, 2000)
    levels, shares = dict(strategy.geolevel_shares), dict(strategy.query_shares)
    for geolevel, queries in product.query_shares:
        spent = {
            query: share * dict(product.geolevel_shares)[geolevel] * product.total for query, share in queries
        }
        whole = Fraction(1, 2000) if geolevel == "Block" else Fraction(1, 100)
        spent["hhsize_all"] = whole / parts.get(geolevel, 1)
        own = {query: share * levels[geolevel] * strategy.total for query, share in shares[geolevel]}
        assert own == spent
