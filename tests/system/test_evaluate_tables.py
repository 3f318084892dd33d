"""`tallyveil evaluate --tables`: any queries of the schema, whether the release has tables of them or not."""

import json

import polars as pl
import pytest

from tallyveil.plans.from_toml.load import load_plan

FLAG = "--i-understand-this-is-not-private"


@pytest.fixture
def world(small_run, small_release):
    """A release, and its plan."""
    return small_run, load_plan(small_release)


def test_the_named_queries_are_compared_and_no_others(world, command):
    out, plan = world
    found = json.loads(
        command("evaluate", out, "--truth", plan.records.path, "--tables", "grown,age*home", FLAG, "--json")
    )
    errors = pl.DataFrame(found["errors"])
    assert errors["query"].unique().sort().to_list() == ["age*home", "grown"]
    assert errors["geolevel"].unique(maintain_order=True).to_list() == list(plan.geolevels)


@pytest.mark.nightly
def test_an_unknown_query_is_refused_before_the_records_are_compared(world, command):
    out, plan = world
    before = (out / "ledger.jsonl").read_bytes()
    said = command("evaluate", out, "--truth", plan.records.path, "--tables", "shoe_size", FLAG, code=3)
    assert "shoe_size" in said
    assert (out / "ledger.jsonl").read_bytes() == before
