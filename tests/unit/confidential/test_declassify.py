"""The one door for true counts: the ledger knows first, and what comes out is the truth."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.confidential.declassify import read_truth, read_truth_of_units
from tallyveil.errors import BudgetError, SchemaError, StoreError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.inputs import read_histograms, read_spine
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema


def entries(tmp_path):
    return read_ledger(tmp_path / "ledger.jsonl")[1]


def truth_of(plan, spine, ledger, reason="evaluation"):
    records = plan.records
    return read_truth(
        records.path, geocode=records.geocode, count=records.count, columns=dict(records.columns),
        schema=plan.schema, spine=spine, reason=reason,
    ).declassified(ledger)  # fmt: skip


def test_the_truth_of_every_geolevel(small_release, ledger, tmp_path):
    plan = load_plan(small_release)
    spine = read_spine(plan.geography)
    found = truth_of(plan, spine, ledger)
    for public, confidential in zip(found, read_histograms(plan, spine), strict=True):
        assert public.geolevel == confidential.geolevel
        for name in ("offsets", "cells", "counts"):
            assert np.array_equal(getattr(public, name), getattr(confidential, name))
    (entry,) = entries(tmp_path)
    assert entry.kind == "declassify"
    assert entry.cost is None or entry.cost == Fraction(0)


def test_nothing_is_entered_for_records_that_are_refused(small_release, ledger, tmp_path):
    plan = load_plan(small_release)
    people = small_release.parent / "people.parquet"
    pl.read_parquet(people).with_columns(age=pl.lit("ageless")).write_parquet(people)
    with pytest.raises(SchemaError):
        truth_of(plan, read_spine(plan.geography), ledger)
    assert entries(tmp_path) == ()


def test_nothing_is_handed_out_when_the_ledger_cannot_be_written(small_release, ledger):
    plan = load_plan(small_release)
    spine = read_spine(plan.geography)
    handed_out = []
    ledger.close()
    with pytest.raises((BudgetError, StoreError, ValueError)):
        handed_out.append(truth_of(plan, spine, ledger))
    assert not handed_out


def test_every_reason_is_entered_by_itself(small_release, ledger, tmp_path):
    plan = load_plan(small_release)
    spine = read_spine(plan.geography)
    for reason in ("one", "another", "one"):
        truth_of(plan, spine, ledger, reason)
    assert [entry.event.reason for entry in entries(tmp_path)] == ["one", "another", "one"]


def test_true_counts_of_ages_are_put_into_their_ranges(ledger, tmp_path):
    path = tmp_path / "people.csv"
    pl.DataFrame({"town": ["A1", "B1", "A1"], "years": [17, 18, 64]}).write_csv(path)
    schema = Schema("ages", (Attribute("age", ("0-17", "18-64")),))
    region, town = read_truth(
        path,
        geocode="town",
        count=None,
        columns={"age": "years"},
        numbers=("age",),
        schema=schema,
        spine=spine_from_prefixes(["A1", "A2", "B1"], ("Region", "Town"), (1, 2)),
        reason="ages",
    ).declassified(ledger)
    assert (region.geolevel, town.geolevel) == ("Region", "Town")
    assert (region.offsets.tolist(), region.cells.tolist()) == ([0, 2, 3], [0, 1, 1])
    assert (town.offsets.tolist(), town.cells.tolist()) == ([0, 2, 2, 3], [0, 1, 1])
    assert region.counts.tolist() == town.counts.tolist() == [1, 1, 1]


def test_units_are_handed_out_after_the_ledger_knows(small_release, ledger, tmp_path):
    people = small_release.parent / "people.parquet"
    pl.read_parquet(people).with_columns(house=pl.lit("one")).write_parquet(people)
    plan = load_plan(small_release)
    how = {"geocode": "geocode", "columns": dict(plan.records.columns), "schema": plan.schema}
    spine = read_spine(plan.geography)
    read = read_truth_of_units(people, unit="house", spine=spine, reason="households", **how)
    assert not entries(tmp_path)
    assert "units" not in repr(read)
    found = read.declassified(ledger)
    assert len(set(found.units.tolist())) == 1
    (entry,) = entries(tmp_path)
    assert entry.kind == "declassify"
    assert entry.event.reason == "households"
    ledger.close()
    with pytest.raises((BudgetError, StoreError, ValueError)):
        read.declassified(ledger)
