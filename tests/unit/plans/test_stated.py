"""The plan that a release folder tells is the one it was written from; any other is refused."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from tests.samples import few

from tallyveil.errors import StoreError
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.release import StatedPlan

EXAMPLES = Path(__file__).parents[3] / "examples"


def assert_told(plan):
    """From the text of `plan.json`, all of the plan but the paths of inputs, its queries in the same order."""
    stated = stated_plan(Path("manifest.json"), json.loads(json.dumps(plan.to_mapping())))
    assert stated.to_mapping() == plan.to_mapping()
    for item in fields(StatedPlan):
        if item.name not in ("records", "bounds", "spine"):
            assert getattr(stated, item.name) == getattr(plan, item.name)
    assert stated.strategy == plan.strategy
    assert stated.event() == plan.event()
    assert stated.may_bypass == plan.may_bypass
    for geolevel in plan.geolevels:
        assert stated.strategy.queries(geolevel) == plan.strategy.queries(geolevel)


RELEASE_FILES = [path for path in sorted(EXAMPLES.glob("*/*.toml")) if "[strategy]" in path.read_text()]


@pytest.mark.parametrize("path", few(4, RELEASE_FILES), ids=lambda path: path.stem)
def test_plans_of_the_examples_are_told(path):
    assert_told(load_plan(path))


def test_the_order_of_queries_is_that_of_the_strategy_not_of_the_passes(edit):
    assert_told(load_plan(edit('[["total"], ["*"]]', '[["age*home"], ["grown", "total"]]')))


def test_outputs_are_told(edit):
    assert_told(load_plan(edit("[outputs]", '[outputs]\nmicrodata = false\nintervals = "0.9"')))


def test_values_of_the_tree_are_told_and_held_to_the_rest(edit):
    plan = load_plan(edit("[estimation.passes]", '[estimation]\nvalues = "tree"\n\n[estimation.passes]'))
    assert_told(plan)
    stated = plan.to_mapping()
    drawn = {"mechanism": "integer-subspace", "query": "total", "geolevel": "Town", "budget": "1/100"}
    wrong = [
        changed(stated, ("estimation", "Block"), {**stated["estimation"]["Block"], "values": "tree"}),
        changed(stated, ("estimation", "Town", "values"), "twig"),
        changed(stated, ("estimation", "Town", "values"), "own"),  # a run leaves this out
        {**stated, "subspace": [drawn], "declared": "3"},
    ]
    assert [refusal(one) for one in wrong] == ["release-damaged"] * len(wrong)


def mutated(value, place=()):
    """Every plan that differs from one in a single place: a key lost, added or given another value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for other in (None, 0, -1, True, 1.5, "", "x", "2/0", "-1/2", [], {}, ["x"], {"x": {}}, [[]]):
        if json.dumps(other) != json.dumps(value):
            yield place, other
    if isinstance(value, dict):
        yield place, {**value, "x": "y"}
        yield place, dict(reversed(value.items()))
    if isinstance(value, list) and value:
        yield place, value * 2
    for key, item in parts:
        yield from (((key, *at), other) for at, other in mutated(item))
        rest = {k: v for k, v in value.items() if k != key} if isinstance(value, dict) else None
        if rest is not None:
            yield place, rest


def changed(plan, place, other):
    whole = json.loads(json.dumps({"plan": plan}))
    part, keys = whole, ("plan", *place)
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = other
    return whole["plan"]


def refusal(plan) -> str | None:
    """The code of the error that a plan meets; None if it is read."""
    try:
        stated_plan(Path("manifest.json"), plan)
    except StoreError as error:
        return error.code
    return None


FREE = {"name", "records", "schema", "query_shares", "invariants", "bounds", "estimation"}
"""Keys with other values that a plan may have by itself; the ledger and the files beside a plan decide the rest."""


def test_whatever_stands_in_a_plan_it_is_read_or_refused_by_name(edit):
    """Every key of a real plan, lost, added to or with another value."""
    edit('[outputs]\ntables = ["total"', '[outputs]\nintervals = "0.9"\ntables = ["total"')
    path = edit("[[bounds]]", '[[subspace]]\nquery = "total"\ngeolevel = "Town"\nrho = "1/4"\n\n[[bounds]]')
    path.write_text(path.read_text().replace('rho = "2"', 'rho = "9/4"', 1))
    plan = json.loads(json.dumps(load_plan(path).to_mapping()))
    refused, read = 0, []
    for place, other in mutated(plan):
        if place == () and not isinstance(other, dict):
            continue  # the reader of manifests refuses it
        code = refusal(changed(plan, place, other))
        assert code in (None, "release-damaged"), (place, other, code)
        refused += code is not None
        if code is None:
            read.append((place, other))
    assert refused > 900
    assert len(read) < 80, read
    free = {place[0] for place, _ in read if place}
    assert free <= FREE


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("geolevels", ["Region", "Town"]),
        ("geolevels", ["Town", "Region", "Block"]),
        ("spent", "4/2"),
        ("spent", "3"),
        ("delta", "2"),
        ("mechanism", "gaussian"),
        ("tables", ["total", "total"]),
        ("tables", ["nothing"]),
        ("entities", ["place"]),
        ("intervals", "1/3"),
        ("spine", {}),
        ("geolevel_shares", {"Region": "1/4", "Town": "1/4", "Block": "1/4"}),
        ("query_shares", {"Region": {"total": "1"}, "Town": {"total": "1"}, "Block": {"x": "1"}}),
    ],
)
def test_a_plan_that_cannot_be_is_refused(small_release, key, other):
    plan = {**json.loads(json.dumps(load_plan(small_release).to_mapping())), key: other}
    with pytest.raises(StoreError, match="is damaged") as caught:
        stated_plan(Path("manifest.json"), plan)
    assert caught.value.code == "release-damaged"
