"""The part of a plan that a release folder tells is the part that the plan was written from."""

import json
from pathlib import Path

import pytest

from tallyveil.config.load import load_plan
from tallyveil.plan.estimating import estimation_plan_of

EXAMPLES = Path(__file__).parents[3] / "examples"


def assert_told(plan):
    """From the text of `plan.json`, the same estimation plan, its queries in the same order."""
    told = estimation_plan_of(json.loads(json.dumps(plan.to_mapping())))
    assert told == plan.estimating
    for geolevel in plan.geolevels:
        assert told.strategy.queries(geolevel) == plan.strategy.queries(geolevel)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/*.toml")), ids=lambda path: path.stem)
def test_plans_of_the_examples_are_told(path):
    assert_told(load_plan(path))


def test_the_order_of_queries_is_that_of_the_strategy_not_of_the_passes(edit):
    assert_told(load_plan(edit('[["total"], ["*"]]', '[["age*home"], ["grown", "total"]]')))


def test_outputs_are_told(edit):
    assert_told(load_plan(edit("[outputs]", '[outputs]\nmicrodata = false\nintervals = "0.9"')))
