"""The housing-unit product of the 2020 redistricting data: its budget, typed here from its tables, and a run of it."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from tallyveil.accounting import rho_of, zcdp_to_epsilon
from tallyveil.budget.presets import load_strategy_preset
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.run import run_release

RHO = Fraction(12343, 3379) ** -2
SIGMAS = {"US": 52.3, "State": 52.3, "County": 12.5, "Tract": 6.1, "Block_Group": 5.6, "Block": 10.5}

RELEASE = """
[release]
name = "units"
[records]
path = "units.parquet"
count = "count"
[geography]
path = "blocks.parquet"
geolevels = ["State", "County", "Tract", "Block_Group", "Block"]
prefix_lengths = [1, 2, 3, 4, 6]
[schema]
preset = "pl94-units"
[privacy]
neighbours = "bounded"
mechanism = "discrete_gaussian"
rho = "11417641/152349649"
[strategy]
preset = "redistricting-units-state-rooted"
[[invariants]]
query = "total"
geolevels = ["Block"]
"""


def test_sigmas_and_epsilon_are_those_published():
    strategy = load_strategy_preset("redistricting-units-us").strategy
    assert rho_of(strategy.event()) == RHO
    for geolevel, sigma in SIGMAS.items():
        assert round(float(strategy.law(geolevel, "detailed").variance) ** 0.5, 1) == sigma
    assert round(zcdp_to_epsilon(RHO, Fraction(1, 10**10)), 2) == 2.47


@pytest.mark.parametrize("name", ["redistricting-units-us", "redistricting-units-state-rooted"])
def test_the_whole_budget_is_spent(name):
    assert rho_of(load_strategy_preset(name).strategy.event()) == RHO


def test_every_block_keeps_its_housing_units(tmp_path):
    blocks = [
        f"A{county}{tract}{group}{block:02d}"
        for county in "12"
        for tract in "12"
        for group in "12"
        for block in range(8)
    ]
    rng = np.random.default_rng(8)
    rows = [(block, level, int(rng.integers(0, 40))) for block in blocks for level in ("vacant", "occupied")]
    units = pl.DataFrame(rows, schema=["geocode", "h1", "count"], orient="row")
    units.write_parquet(tmp_path / "units.parquet")
    pl.DataFrame({"geocode": blocks}).write_parquet(tmp_path / "blocks.parquet")
    (tmp_path / "release.toml").write_text(RELEASE)
    outcome = run_release(
        load_plan(tmp_path / "release.toml"), tmp_path / "out", test_key=insecure_key("units")
    )
    published = pl.read_parquet(outcome.path / "histogram" / "Block.parquet")
    totals = [
        frame.group_by("geocode")
        .agg(pl.col("count").sum())
        .filter(pl.col("count") > 0)
        .sort("geocode")
        .rows()
        for frame in (units, published)
    ]
    assert totals[0] == totals[1]
    occupied = [frame.filter(pl.col("h1").cast(pl.String) == "occupied") for frame in (units, published)]
    assert occupied[0].sort("geocode").rows() != occupied[1].sort("geocode").rows()  # noise was added
