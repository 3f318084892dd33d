"""What is said of a spine before a run spends."""

from fractions import Fraction

import numpy as np
import pytest

import tallyveil.budget.allocation as module
from tallyveil.budget.allocation import allocation_of
from tallyveil.errors import BudgetError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.spine import GeounitShares
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.guarantee import check_paths
from tallyveil.products.topdown.run.inputs import read_hierarchies
from tallyveil.products.topdown.run.run import run_release
from tallyveil.products.topdown.run.spine_making import spine_record


def test_every_path_is_summed_exactly(small_release):
    plan = load_plan(small_release)
    allocation = allocation_of(plan.strategy, read_hierarchies(plan).spine)
    assert "sum to exactly 1, for all 48" in check_paths(allocation)
    assert spine_record(plan, read_hierarchies(plan)) is None


def test_a_spine_of_other_geolevels_is_refused(small_release):
    spine = spine_from_prefixes(["a1", "a2"], ("Region", "Block"), (1, 2))
    with pytest.raises(BudgetError, match="Region, Block"):
        allocation_of(load_plan(small_release).strategy, spine)


def test_a_path_that_differs_stops_the_run_before_anything_is_written(small_release, tmp_path, monkeypatch):
    def unequal(spine, shares):
        positions = [np.ones(spine.n_geounits(level), dtype=np.int32) for level in range(spine.n_levels)]
        positions[-1][3] = 0
        return GeounitShares((Fraction(0), Fraction(1, 3)), tuple(positions))

    monkeypatch.setattr(module, "uniform_shares", unequal)
    with pytest.raises(BudgetError, match="must have the same sum") as caught:
        run_release(load_plan(small_release), tmp_path / "out", test_key=insecure_key("paths"))
    assert caught.value.code == "unequal-paths"
    assert not (tmp_path / "out").exists()
