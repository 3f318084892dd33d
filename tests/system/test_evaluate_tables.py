"""`tallyveil evaluate --tables`: any queries of the schema, whether the release has tables of them or not."""

import json

import polars as pl
import pytest
from tests.outer_worlds import write_units

from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.run import run_release

FLAG = "--i-understand-this-is-not-private"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A release with outer passes, and its records."""
    folder = tmp_path_factory.mktemp("units")
    coarse, fine = write_units(folder)
    key = insecure_key("evaluated")
    run_release(load_plan(coarse), folder / "coarse", test_key=key, workers=1)
    plan = load_plan(fine)
    run_release(plan, folder / "out", test_key=key, workers=1)
    return folder / "out", plan


def test_the_named_queries_are_compared_and_no_others(world, command):
    out, plan = world
    found = json.loads(
        command("evaluate", out, "--truth", plan.records.path, "--tables", "persons,ten2*sex", FLAG, "--json")
    )
    errors = pl.DataFrame(found["errors"])
    assert errors["query"].unique().sort().to_list() == ["persons", "ten2*sex"]
    assert errors["geolevel"].unique(maintain_order=True).to_list() == list(plan.geolevels)


def test_an_unknown_query_is_refused_before_the_records_are_compared(world, command):
    out, plan = world
    before = (out / "ledger.jsonl").read_bytes()
    said = command("evaluate", out, "--truth", plan.records.path, "--tables", "shoe_size", FLAG, code=3)
    assert "shoe_size" in said
    assert (out / "ledger.jsonl").read_bytes() == before
