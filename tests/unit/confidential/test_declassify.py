"""The one door for true counts: the ledger knows first, and what comes out is the truth."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.confidential import declassify as door
from tallyveil.confidential.declassify import declassify_groups, declassify_households, declassify_truth
from tallyveil.config.load import load_plan
from tallyveil.errors import BudgetError, SchemaError, StoreError
from tallyveil.execution.topdown.inputs import read_histograms, read_spine


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
            assert np.array_equal(groups.cells[adaptive].sum(axis=1), groups.totals[adaptive])
            assert not groups.cells[~adaptive].any()
            counted += len(wanted)
    assert counted > 100
    assert len(entries(tmp_path)) == len(safetab.plan.runs)


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
