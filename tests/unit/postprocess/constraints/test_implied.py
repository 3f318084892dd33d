"""Bounds of a parent that follow from two constraints of its children, against all counts that children may have."""

from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.constraints import ConstraintTable, summed_upward, with_implied_bounds
from tallyveil.products.topdown.run.run import run_release
from tallyveil.schema.schema import schema_from_mapping

MOST = 7
"""Largest total of a child."""


def schema(n_kinds):
    kinds = [f"k{i}" for i in range(n_kinds)]
    return schema_from_mapping(
        {
            "name": "people",
            "attributes": [{"name": "kind", "levels": kinds}, {"name": "sex", "levels": ["f", "m"]}],
            "recodes": [],
            "structural_zeros": [],
        }
    )


def table(name, query, spine, lower, upper, groups=None):
    level = spine.finest
    low, high = (summed_upward(np.array(side), level, spine, groups) for side in (lower, upper))
    return ConstraintTable(name, query, low, high, groups, None if groups is None else "stated")


def possible(limits):
    """All counts by kind that one child may have."""
    (low, high), (least, most) = limits
    ranges = [range(a, min(b, MOST) + 1) for a, b in zip(low, high, strict=True)]
    return {counts for counts in product(*ranges) if least <= sum(counts) <= most}


def sums(sets):
    found = {(0,) * len(next(iter(sets[0])))}
    for one in sets:
        found = {tuple(np.add(a, b).tolist()) for a in found for b in one}
    return found


@st.composite
def families(draw, n_kinds):
    """Two to three children, whose bounds leave some counts."""
    children = []
    for _ in range(draw(st.integers(2, 3))):
        truth = draw(st.lists(st.integers(0, 2), min_size=n_kinds, max_size=n_kinds))
        low = [draw(st.integers(0, count)) for count in truth]
        high = [draw(st.sampled_from((count, count + 1, UNBOUNDED))) for count in truth]
        total = draw(st.integers(0, sum(truth))), draw(st.integers(sum(truth), MOST))
        children.append(((low, high), total))
    return children


def implied(children, n_kinds):
    people = schema(n_kinds)
    spine = spine_from_prefixes([f"A{i}" for i in range(len(children))], ("Region", "Block"), (1, 2))
    kinds = table("kinds", people.query("kind"), spine, *zip(*(one[0] for one in children), strict=True))
    wholes = [[[bound] for bound in side] for side in zip(*(one[1] for one in children), strict=True)]
    found = with_implied_bounds([kinds, table("total", people.query("total"), spine, *wholes)], spine, people)
    return [tuple(side[0] for side in one.bounds_of(0, 0, 1)) for one in found]


@settings(max_examples=60)
@given(families(3))
def test_no_bound_of_one_answer_could_be_better(children):
    (low, high), (least, most) = implied(children, 3)
    reached = np.array(sorted(sums([possible(one) for one in children])))
    assert low.tolist() == reached.min(axis=0).tolist()
    assert high.tolist() == reached.max(axis=0).tolist()
    assert [least.tolist(), most.tolist()] == [[reached.sum(axis=1).min()], [reached.sum(axis=1).max()]]


@settings(max_examples=60)
@given(families(2))
def test_with_two_answers_all_that_a_parent_may_have_can_be_divided(children):
    (low, high), (least, most) = implied(children, 2)
    reached = sums([possible(one) for one in children])
    allowed = product(*(range(a, b + 1) for a, b in zip(low.tolist(), high.tolist(), strict=True)))
    assert {counts for counts in allowed if least[0] <= sum(counts) <= most[0]} == reached


def test_bounds_of_the_children_stay_and_contradictions_are_left_to_their_family():
    people = schema(2)
    spine = spine_from_prefixes(["A1", "A2"], ("Region", "Block"), (1, 2))
    kinds = table("kinds", people.query("kind"), spine, [[5, 0], [0, 0]], [[UNBOUNDED] * 2] * 2)
    total = table("total", people.query("total"), spine, [[3], [4]], [[3], [4]])
    found, _ = with_implied_bounds([kinds, total], spine, people)
    assert np.array_equal(found.upper[1], kinds.upper[1])
    assert np.array_equal(found.lower[1], kinds.lower[1])
    assert [side.tolist() for side in found.bounds_of(0, 0, 1)] == [[[5, 0]], [[UNBOUNDED, UNBOUNDED]]]


def test_totals_of_sums_of_siblings_bound_their_parent():
    people = schema(2)
    spine = spine_from_prefixes(["A1", "A2", "A3"], ("Region", "Block"), (1, 2))
    kinds = table(
        "kinds", people.query("kind"), spine, [[0, 1]] * 3, [[UNBOUNDED, 0], [0, 7], [UNBOUNDED, 1]]
    )
    groups = np.array([0, 0, 1])
    total = table("total", people.query("total"), spine, [[6], [4]], [[6], [4]], groups)
    found, _ = with_implied_bounds([kinds, total], spine, people)
    # The first two children have from 2 to 6 of the second kind together, and the third has one.
    assert [side.tolist() for side in found.bounds_of(0, 0, 1)] == [[[3, 3]], [[7, 7]]]


@pytest.mark.long
def test_the_nation_gets_no_more_people_in_barracks_than_the_regions_with_barracks_have(edit, tmp_path):
    edit('["Region", "Town", "Block"]', '["Nation", "Region", "Town", "Block"]')
    edit("prefix_lengths = [1, 3, 5]", "prefix_lengths = [0, 1, 3, 5]")
    edit('[strategy.geolevels]\nRegion = "1/4"', '[strategy.geolevels]\nNation = "1/8"\nRegion = "1/8"')
    release = edit('rho = "2"', 'rho = "1/10000"')
    folder = release.parent
    blocks = pl.read_parquet(folder / "geography.parquet")["geocode"].to_list()
    inside = [block for block in blocks if block[0] == "Q"]
    rows = [(block, "old", "house", 40) for block in blocks if block[0] == "P"]
    rows += [(inside[0], "old", "barracks", 8), (inside[1], "old", "house", 2)]
    pl.DataFrame(rows, schema=["geocode", "age", "home", "count"], orient="row").write_parquet(
        folder / "people.parquet"
    )
    open_ended = [(block, "house") for block in blocks] + [(block, "barracks") for block in inside]
    pl.DataFrame(
        [(*pair, 0, None) for pair in open_ended],
        schema={"geocode": pl.String, "home": pl.String, "lower": pl.Int64, "upper": pl.Int64},
        orient="row",
    ).write_parquet(folder / "barracks.parquet")
    out = run_release(load_plan(release), tmp_path / "out", test_key=insecure_key("2"))
    homes = pl.read_parquet(out.path / "tables" / "geolevel=Nation" / "query=home" / "*.parquet")
    # The noise asks for far more; the two regions have 960 and 10 people.
    assert homes.filter(home="barracks")["count"].to_list() == [10]
