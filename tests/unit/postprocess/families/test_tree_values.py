"""A sweep of a schema with many cells stays within the memory that a plan predicts, whatever its public zeros are."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from tallyveil.estimation.intervals import upward
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.areas import plain_hierarchies, stated_geounits
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.plans.from_toml.load import plan_from_mapping
from tallyveil.plans.resources import BASE_BYTES, predict, sizes_of_spine
from tallyveil.postprocess.constraints import constraint_table
from tallyveil.postprocess.families.tree_values import prepared_sweep, swept_values
from tallyveil.runs.executor import Threads
from tallyveil.runs.observer import SilentObserver

SIDE = 48
PLAIN = ("total", "a*b", "detailed")
CROSSING = ("a_tens*b_tens*c_tens", "a_ones*b_ones*c_ones", "detailed")
"""No two levels of an attribute are alike for these queries, so that covariances would be one large block."""

BLOCKS = [f"{town:02d}{block:03d}" for town in range(3) for block in range(20)]


class Nothing:
    """A source of noisy answers that are all zero."""

    def measure_families(self, wanted):
        return np.zeros(wanted.n_values, np.int64)


def groups_of(number_of):
    groups = {}
    for number in range(SIDE):
        groups.setdefault(f"group {number_of(number)}", []).append(str(number))
    return groups


def plan_of(queries, folder):
    """A plan of three geolevels and SIDE**3 cells, whose attributes have two recodes each."""
    levels = [str(number) for number in range(SIDE)]
    recodes = [
        {"name": f"{name}_{ending}", "attribute": name, "groups": groups_of(number_of)}
        for name in "abc"
        for ending, number_of in (("tens", lambda n: n // 7), ("ones", lambda n: n % 7))
    ]
    schema = {"attributes": [{"name": name, "levels": levels} for name in "abc"], "recodes": recodes}
    geolevels = {"All": 0, "Town": 2, "Block": 5}
    lengths = {"geolevels": list(geolevels), "prefix_lengths": list(geolevels.values())}
    shares = dict.fromkeys(geolevels, "1/3")
    content = {
        "release": {"name": "many cells"},
        "records": {"path": "people.parquet"},
        "geography": {"path": "geography.parquet", **lengths},
        "schema": {"name": "people", **schema},
        "privacy": {"neighbours": "bounded", "mechanism": "discrete_gaussian", "rho": "1"},
        "strategy": {"rho": "1", "geolevels": shares, "queries": {"*": dict.fromkeys(queries, "1/3")}},
    }
    return plan_from_mapping(content, folder)


def zeros_of_blocks(plan, hierarchies, *, differ):
    """Bounds that keep one answer of each block at zero: the same one, or another one in each block."""
    query = plan.query("a*b")
    upper = np.full((len(BLOCKS), query.size), UNBOUNDED)
    upper[np.arange(len(BLOCKS)), np.arange(len(BLOCKS)) if differ else 0] = 0
    stated = stated_geounits(hierarchies, "Block", "the zeros")
    return constraint_table("zeros", query, (np.zeros_like(upper), upper), stated, hierarchies.spine)


def peak_of(plan, hierarchies, constraints):
    """Most bytes that a sweep holds at once, with two threads, and what the manifest calls it."""
    tracemalloc.start()
    try:
        sweep = prepared_sweep(plan, hierarchies, constraints)
        name = swept_values(sweep, Nothing(), SilentObserver(), Threads(2)).name
        return tracemalloc.get_traced_memory()[1], name
    finally:
        tracemalloc.stop()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("queries", "differ", "called"),
    [
        (PLAIN, False, "full"),
        (PLAIN, True, "full, without the zeros of bounds"),
        (CROSSING, False, "query by query"),
    ],
)
def test_many_cells_stay_within_the_prediction(tmp_path, monkeypatch, queries, differ, called):
    """110,592 cells. Beside libraries and counts, a plan predicts the work on a piece and what the sweep needs."""
    plan = plan_of(queries, tmp_path)
    hierarchies = plain_hierarchies(spine_from_prefixes(BLOCKS, plan.geolevels, (0, 2, 5)))
    constraints = [zeros_of_blocks(plan, hierarchies, differ=differ)]
    estimation = tuple((level, replace(item, values="own")) for level, item in plan.estimation)
    own, tree = (
        predict(one, sizes_of_spine(hierarchies.spine)).memory
        for one in (replace(plan, estimation=estimation), plan)
    )
    peak, name = peak_of(plan, hierarchies, constraints)
    assert name == called
    assert peak < tree - BASE_BYTES
    for limit in (
        "GEOUNITS_AT_ONCE",
        "ANSWERS_AT_ONCE",
    ):  # what a geounit needs by itself, as with more cells
        monkeypatch.setattr(upward, limit, 1)
    alone, _ = peak_of(plan, hierarchies, constraints)
    assert alone < tree - own
