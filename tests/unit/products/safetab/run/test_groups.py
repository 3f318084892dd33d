"""A whole run on records of any kind: the example, from its made-up stays to checked tables."""

import csv
import importlib.util
import shutil
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.renyi import zcdp_to_epsilon
from tallyveil.errors import SolverError, StoreError
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import read_manifest
from tallyveil.noise.key import insecure_key
from tallyveil.products.safetab.page.groups import write_groups_evaluation, write_groups_report
from tallyveil.products.safetab.public.from_toml import load_group_plan
from tallyveil.products.safetab.public.tables import check_group_tables, require_passed, write_group_tables
from tallyveil.products.safetab.run import groups as running
from tallyveil.products.safetab.run.evaluate import evaluate_groups
from tallyveil.products.safetab.run.groups import run_groups

EXAMPLE = Path(__file__).parents[5] / "examples" / "hospital_stays"
KEY = insecure_key("stays")


@pytest.fixture(scope="module")
def plan():
    return load_group_plan(EXAMPLE / "stays.toml")


@pytest.fixture(scope="module")
def stays(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("make_stays", EXAMPLE / "make_stays.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = tmp_path_factory.mktemp("stays") / "stays.csv"
    module.write_stays(path, 6000)
    return path


@pytest.fixture(scope="module")
def finished(plan, stays, tmp_path_factory):
    out = tmp_path_factory.mktemp("stays") / "out"
    return out, run_groups(plan, stays, out, test_key=KEY)


def tables(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.glob("*/*.parquet"))}


def test_a_run_spends_once_and_checks_its_tables(plan, finished, stays):
    out, outcome = finished
    declaration, entries = read_ledger(out / "ledger.jsonl")
    assert (
        [entry.cost for entry in entries] == [None, declaration.total] == [None, Fraction(1)]
    )  # the test key first
    assert len(outcome.manifest.checks) == 2 * len(plan.levels)
    assert not (out / "private").exists()
    assert run_groups(plan, stays, out, test_key=KEY).already_finished


def test_no_name_of_a_grouping_stops_a_run_after_its_spend(plan, stays, tmp_path):
    names = {"chapter": "place", "region": "sum", "code": "n", "only_chapter": "only_chapter"}
    new = {one.name: replace(one, name=names[one.name]) for one in plan.groupings}

    def with_new_names(one):
        rows, within = one.listed.rows, one.listed.within
        named = replace(
            one.listed,
            rows=None if rows is None else new[rows.name],
            within=tuple(new[grouping.name] for grouping in within),
        )
        return replace(one, listed=named)

    levels = tuple(with_new_names(one) for one in plan.levels)
    renamed = replace(plan, groupings=tuple(new.values()), levels=levels)
    out = run_groups(renamed, stays, tmp_path / "out", test_key=KEY).path
    totals = pl.read_parquet(out / "totals" / "chapters.parquet")
    assert totals["place"].to_list() == list(new["chapter"].groups)


def test_totals_lie_within_their_margins(finished, stays):
    out, _ = finished
    with stays.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    with (EXAMPLE / "diagnoses.csv").open(newline="") as stream:
        chapter = {row["code"]: row["chapter"] for row in csv.DictReader(stream)}
    truth = Counter(
        (row["region"], own)
        for row in rows
        for own in {chapter[row[f"diagnosis_{n}"]] for n in (1, 2, 3) if row[f"diagnosis_{n}"]}
    )
    found = pl.read_parquet(out / "totals" / "chapters by region.parquet")
    true = np.array([truth[key] for key in zip(found["region"], found["chapter"], strict=True)])
    for number, margin in (("COUNT", "MARGIN"), ("ESTIMATE", "ESTIMATE_MARGIN")):
        # 90 independent intervals that each cover with 95 % or more: fewer than 78 hits have a chance below 1e-3.
        assert (np.abs(found[number].to_numpy() - true) <= found[margin].to_numpy()).sum() >= 78
    islands = found.filter((pl.col("region") == "Islands") | pl.col("chapter").is_in(["P", "Q"]))
    assert set(islands["DETAIL"]) == {"total only"}
    assert set(islands["METHOD"]) == {"measured"}
    assert {"total", "sex"} <= set(found["DETAIL"])


def test_a_killed_run_goes_on_with_the_same_tables(plan, finished, stays, tmp_path, monkeypatch):
    out = tmp_path / "out"
    write, times = write_group_tables, iter(range(99))

    def fail(*args):
        if next(times) == 2:
            raise KeyboardInterrupt
        write(*args)

    monkeypatch.setattr(running, "write_group_tables", fail)
    with pytest.raises(KeyboardInterrupt):
        run_groups(plan, stays, out, test_key=KEY)
    monkeypatch.undo()
    run_groups(plan, stays, out, test_key=KEY)
    assert tables(out) == tables(finished[0])
    assert [entry.kind for entry in read_ledger(out / "ledger.jsonl")[1]] == ["declassify", "spend"]


def test_a_changed_table_fails_its_check(plan, finished, tmp_path):
    out, _ = finished
    for path in out.glob("*/*.parquet"):
        copy = tmp_path / path.relative_to(out)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
    cells = tmp_path / "cells" / "chapters.parquet"
    pl.read_parquet(cells).with_columns(pl.col("COUNT") + 1).write_parquet(cells)
    totals = tmp_path / "totals" / "codes.parquet"
    pl.read_parquet(totals)[1:].write_parquet(totals)
    with pytest.raises(SolverError, match="fail 3 check") as caught:
        require_passed(check_group_tables(tmp_path, plan))
    assert "chapters: totals are the sums of their cells" in str(caught.value)


@pytest.fixture(scope="module")
def errors(plan, finished, stays, tmp_path_factory):
    """A copy of the finished run, and its errors with those of three further runs."""
    out = tmp_path_factory.mktemp("evaluated") / "out"
    shutil.copytree(finished[0], out)
    return out, evaluate_groups(plan, stays, out, repeats=3)


def test_an_evaluation_is_against_the_truth(plan, errors, stays):
    out, found = errors
    with stays.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    truth = Counter(code for row in rows for code in {row[f"diagnosis_{n}"] for n in (1, 2, 3)} - {""})
    assert dict(pl.read_parquet(out / "evaluation" / "truth-codes.parquet").iter_rows()) == truth
    totals = found["errors-totals"]
    counted = dict(totals.group_by("LEVEL").agg(pl.col("groups").sum()).iter_rows())
    assert counted == {one.name: one.groups for one in plan.levels}
    # The mean square of a total-only group's noise is its variance. 26 groups of 4 runs have 104 terms, whose mean has
    # a standard deviation of 14 %.
    only = totals.filter(TOTAL_ONLY=True, LEVEL="chapters by region")
    square = (only["COUNT: root mean square"] ** 2 * only["groups"]).sum() / only["groups"].sum()
    law = plan.levels[-1].total_only
    assert 0.5 < square / law.standard_deviation() ** 2 < 1.6
    cells = found["errors-cells"].filter(LEVEL="codes")
    inside = (cells["COUNT: within margin"] * cells["rows"]).sum() / cells["rows"].sum()
    assert inside > 0.92
    assert cells["COUNT: mean error"].abs().max() < 3


def test_an_evaluation_names_what_the_accuracy_costs_and_is_marked(plan, errors):
    out, found = errors
    parameters = found["privacy-of-the-measurements"]
    assert parameters["level"].to_list() == [*(one.name for one in plan.levels), "all levels"]
    whole = parameters.row(-1, named=True)
    assert (whole["spent"], whole["accountant"]) == ("1", "zcdp")
    assert whole["epsilon_at_1e-10"] == zcdp_to_epsilon(Fraction(1), Fraction("1e-10"))
    assert whole["epsilon_at_1e-5"] < whole["epsilon_at_1e-10"] < whole["epsilon_at_1e-11"]
    assert read_ledger(out / "ledger.jsonl")[1][-1].kind == "declassify"
    assert "NOT PRIVATE" in read_manifest(out, ReleaseKind.GROUPS).warnings[-1]
    for path in (out / "evaluation").glob("*.parquet"):
        assert pl.read_parquet_metadata(path)["tallyveil.protected"] == "false"


def test_an_evaluation_needs_the_file_of_the_release(plan, finished, stays):
    other = replace(plan, delta=Fraction(1, 1000))
    with pytest.raises(StoreError, match="made with another file"):
        evaluate_groups(other, stays, finished[0])
    assert len(read_ledger(finished[0] / "ledger.jsonl")[1]) == 2


def test_the_page_shows_levels_and_numbers(finished, errors):
    page = write_groups_report(finished[0]).read_text()
    for text in (
        "all diagnoses of one chapter",
        "region × chapter",
        "9.618188",
        "sex × broad age",
        "NOT PRIVATE",
    ):
        assert text in page
    page = write_groups_evaluation(*errors).read_text()
    assert "NOT PRIVATE: computed from the true counts" in page
    assert page.count("10.0344") == 1


def test_the_records_may_not_lie_in_the_output(plan, stays):
    with pytest.raises(StoreError) as caught:
        running.GroupsProduct(plan, stays).refuse(stays.parent)
    assert caught.value.code == "input-in-output"
