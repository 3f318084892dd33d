"""The one door for true counts: the ledger knows first, and what comes out is the truth."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.confidential import declassify as door
from tallyveil.confidential.declassify import declassify_truth
from tallyveil.errors import BudgetError, SchemaError, StoreError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.lattice.confidential import declassify_table
from tallyveil.products.safetab.confidential.declassify import (
    declassify_groups,
    declassify_households,
    exact_group_measurer,
    exact_household_measurer,
)
from tallyveil.products.safetab.public.ages import STARTS_23
from tallyveil.products.topdown.run.inputs import read_histograms, read_spine
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema


def entries(tmp_path):
    return read_ledger(tmp_path / "ledger.jsonl")[1]


def truth_of(plan, spine, ledger, reason="evaluation"):
    records = plan.records
    return declassify_truth(
        records.path, geocode=records.geocode, count=records.count, columns=dict(records.columns),
        schema=plan.schema, spine=spine, ledger=ledger, reason=reason,
    )  # fmt: skip


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


def test_nothing_is_handed_out_when_the_ledger_cannot_be_written(small_release, ledger, monkeypatch):
    plan = load_plan(small_release)
    spine = read_spine(plan.geography)
    summed = []
    monkeypatch.setattr(door, "aggregate_all", lambda *_: summed.append(1))
    ledger.close()
    with pytest.raises((BudgetError, StoreError, ValueError)):
        truth_of(plan, spine, ledger)
    assert not summed


def test_every_reason_is_entered_by_itself(small_release, ledger, tmp_path):
    plan = load_plan(small_release)
    spine = read_spine(plan.geography)
    for reason in ("one", "another", "one"):
        truth_of(plan, spine, ledger, reason)
    assert [entry.event.reason for entry in entries(tmp_path)] == ["one", "another", "one"]


def table_of(tmp_path, ledger, levels=("x", "y", "x")):
    path = tmp_path / "table.csv"
    pl.DataFrame({"letter": levels, "n": [4, -1, 2]}).write_csv(path)
    schema = Schema("t", (Attribute("a", ("x", "y")),))
    return declassify_table(
        path, count="n", columns={"a": "letter"}, schema=schema, ledger=ledger, reason="a figure"
    )


def test_a_true_table_is_handed_out_after_the_entry(ledger, tmp_path):
    assert table_of(tmp_path, ledger).tolist() == [6, -1]
    (entry,) = entries(tmp_path)
    assert (entry.kind, entry.event.reason) == ("declassify", "a figure")
    assert "declassified" in entry.description
    with pytest.raises(SchemaError):
        table_of(tmp_path, ledger, ("x", "y", "z"))
    assert len(entries(tmp_path)) == 1
    ledger.close()
    with pytest.raises((BudgetError, StoreError, ValueError)):
        table_of(tmp_path, ledger)


def test_true_counts_of_ages_are_put_into_their_ranges(ledger, tmp_path):
    path = tmp_path / "people.csv"
    pl.DataFrame({"town": ["A1", "B1", "A1"], "years": [17, 18, 64]}).write_csv(path)
    schema = Schema("ages", (Attribute("age", ("0-17", "18-64")),))
    region, town = declassify_truth(
        path,
        geocode="town",
        count=None,
        columns={"age": "years"},
        numbers=("age",),
        schema=schema,
        spine=spine_from_prefixes(["A1", "A2", "B1"], ("Region", "Town"), (1, 2)),
        ledger=ledger,
        reason="ages",
    )
    assert (region.geolevel, town.geolevel) == ("Region", "Town")
    assert (region.offsets.tolist(), region.cells.tolist()) == ([0, 2, 3], [0, 1, 1])
    assert (town.offsets.tolist(), town.cells.tolist()) == ([0, 2, 2, 3], [0, 1, 1])
    assert region.counts.tolist() == town.counts.tolist() == [1, 1, 1]


def test_exact_measurers_are_made_after_the_entry(safetab, safetab_h, ledger, tmp_path):
    makers = (
        lambda run: exact_group_measurer(
            safetab.people[run], safetab.regions[run], ledger=ledger, reason="p"
        ),
        lambda run: exact_household_measurer(
            safetab_h.homes[run], safetab_h.regions[run], ledger=ledger, reason="h"
        ),
    )
    for make in makers:
        for run in ("US", "PR"):
            make(run)
    assert [entry.event.reason for entry in entries(tmp_path)] == ["p", "p", "h", "h"]
    ledger.close()
    for make in makers:
        with pytest.raises((BudgetError, StoreError, ValueError)):
            make("US")


def test_true_groups_are_those_counted_by_hand(safetab, ledger, tmp_path):
    counted = 0
    for run in safetab.plan.runs:
        regions = safetab.regions[run.run]
        pairs = declassify_groups(
            safetab.people[run.run], regions, run.sets, ledger=ledger, reason="evaluation"
        )
        assert entries(tmp_path)[-1].kind == "declassify"  # before the first group is counted
        for one, groups in pairs:
            names = regions.names(one.geography)
            found = {
                (names[int(region)], one.geography, one.view.codes[int(iteration)]): int(total)
                for region, iteration, total in zip(
                    groups.regions, groups.iterations, groups.totals, strict=True
                )
            }
            assert len(found) == len(groups.totals)
            wanted = {
                group: n for group, n in safetab.truth.t1.items()
                if group[1] == one.geography and group[2] in one.view.codes
            }  # fmt: skip
            assert {group: n for group, n in found.items() if n} == wanted
            adaptive = groups.iterations < one.view.n_adaptive
            for region, iteration, cells in zip(
                groups.regions[adaptive], groups.iterations[adaptive], groups.cells[adaptive], strict=True
            ):
                group = names[int(region)], one.geography, one.view.codes[int(iteration)]
                assert cells.tolist() == finest_cells(safetab.truth.people[group])
            assert not groups.cells[~adaptive].any()
            assert groups.cells.dtype == np.int32
            counted += len(wanted)
    assert counted > 100
    assert len(entries(tmp_path)) == len(safetab.plan.runs)


def finest_cells(people):
    """Sex by 23 age groups."""
    cells = [0] * 46
    for (sex, age), n in people.items():
        cells[23 * (int(sex) - 1) + sum(start <= age for start in STARTS_23) - 1] += n
    return cells


def test_true_households_are_counted_after_the_entry(safetab_h, every_group, ledger, tmp_path):
    run = safetab_h.plan.runs[0]
    regions = safetab_h.regions[run.run]
    groups = [(one, every_group(one, regions)) for one in run.sets[:3]]
    made = declassify_households(
        safetab_h.homes[run.run], regions, groups, ledger=ledger, reason="evaluation"
    )
    assert len(entries(tmp_path)) == 1
    for one, own, cells in made:
        names = regions.names(one.geography)
        for number, values in enumerate(cells):
            for place, row in zip(np.flatnonzero(own.detail == number), values, strict=True):
                group = names[int(own.regions[place])], one.geography, one.view.codes[own.iterations[place]]
                assert row.sum() == sum(safetab_h.truth.get(group, {}).values())
