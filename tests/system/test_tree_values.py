"""Releases whose families are fitted to what is measured in or below each geounit: `[estimation] values = "tree"`."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.samples import nightly

from tallyveil.errors import ConfigError
from tallyveil.estimation.intervals import upward
from tallyveil.files.histograms import read_histogram
from tallyveil.measurements.store import StoredMeasurements
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import estimation_from_mapping, load_estimation, load_plan
from tallyveil.plans.release import ReleasePlan, SubspaceQuery
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.families import level as chunks
from tallyveil.postprocess.families import tree_values
from tallyveil.postprocess.measured import open_measurements
from tallyveil.products.topdown.run.inputs import read_hierarchies, read_histograms
from tallyveil.products.topdown.run.run import measure_release, run_release

from .test_measure_estimate import SUBSPACE, assert_same_numbers, with_bypassing, with_spine
from .test_overlapping_queries import UP_TO
from .test_release_bypass import laplace
from .test_release_sums import BRANCH, write_reserve

KEY = insecure_key("tree")
TREE = '[estimation]\nvalues = "tree"\n\n[estimation.passes]'
OWN = TREE.replace("tree", "own")


OLDER = "5f38b7e980587ed1d5d43a25d1be32290e60e8be72fc338a14b6eded65b5151e"
"""Digest of the small release's plan since before plans named values."""

LARGER = 'mechanism = "discrete_gaussian"\nrho = "3"'


@pytest.fixture
def tree_release(edit) -> Path:
    """The small release with values of the tree."""
    return edit("[estimation.passes]", TREE)


def estimation_in(root: Path) -> Any:
    """How the plan of a release says that it is estimated."""
    return json.loads((root / "plan.json").read_text())["estimation"]


def test_no_number_depends_on_threads_chunks_or_files(tree_release, tmp_path, monkeypatch):
    plan = load_plan(tree_release)
    run_release(plan, tmp_path / "usual", test_key=KEY, workers=1)
    for place, name, value in (
        (upward, "GEOUNITS_AT_ONCE", 1),
        (upward, "FINEST_AT_ONCE", 5),
        (chunks, "SMALLEST", 1),
        (chunks, "LARGEST", 40),
    ):
        monkeypatch.setattr(place, name, value)
    run_release(plan, tmp_path / "other", test_key=KEY, workers=2)
    assert_same_numbers(tmp_path / "usual", tmp_path / "other")
    measured = measure_release(plan, tmp_path / "measured", test_key=KEY).path
    estimate_release(open_measurements(measured), tmp_path / "estimated", workers=2)
    assert_same_numbers(tmp_path / "usual", tmp_path / "estimated")
    for folder in ("usual", "estimated"):
        stated = estimation_in(tmp_path / folder)
        assert {level: item.get("values") for level, item in stated.items()} == {
            "Region": "tree",
            "Town": "tree",
            "Block": None,
        }


@pytest.mark.nightly
def test_an_interrupted_run_ends_with_the_same_numbers(tree_release, tmp_path, killed_at):
    """The values of the tree are not kept: the process that goes on makes them again if a geolevel still needs them."""
    plan = load_plan(tree_release)
    whole = run_release(plan, tmp_path / "whole", test_key=KEY).path
    finished = set()
    for number in (14, 15, 16):
        out = tmp_path / f"killed-{number}"
        assert killed_at(number, lambda out=out: run_release(plan, out, test_key=KEY))
        finished.add(len(list(out.glob("histogram/*.parquet"))))
        run_release(plan, out, test_key=KEY)
        assert_same_numbers(whole, out)
    assert finished == {0, 1, 2}


def test_the_plan_says_so(tree_release, command):
    words = "values      above Block, the counts of an area are made from all measurements in it"
    assert words in command("plan", tree_release, "--details")
    stated = json.loads(command("plan", tree_release, "--json"))["values"]
    assert stated == {"Region": "tree", "Town": "tree", "Block": "own"}


def test_the_tree_is_the_default_without_a_preset(small_release, tree_release, edit, command):
    """The file that says nothing and the file that says "tree" are one plan; with own values it is the older plan."""
    assert load_plan(tree_release).uses_tree
    said = load_plan(tree_release).digest()
    assert load_plan(edit(TREE, "[estimation.passes]")).digest() == said
    own = load_plan(edit("[estimation.passes]", OWN))
    assert not any("values" in item for item in own.to_mapping()["estimation"].values())
    assert own.digest().hex() == OLDER
    words = (
        "values      the counts of an area are made from its measurements and the counts of the area above\n"
    )
    assert words in command("plan", small_release, "--details")


@pytest.mark.nightly
def test_counts_drawn_on_a_lattice_have_own_values(small_release, edit, command):
    drawn = edit("[[bounds]]", SUBSPACE.replace("1/4", "1/100"))
    drawn.write_text(drawn.read_text().replace('mechanism = "discrete_gaussian"\nrho = "2"', LARGER))
    assert not load_plan(drawn).uses_tree
    reason = "the area above, because the sweep up the spine cannot use counts that are drawn on a lattice"
    stated = json.loads(command("plan", drawn, "--json"))
    assert set(stated["values"].values()) == {"own"}
    assert stated["values_in_words"].endswith(reason)


@pytest.mark.nightly
def test_an_older_folder_of_measurements_is_estimated_as_it_was_planned(edit, tmp_path):
    """Its plan names no values. A table in the place of the planned one has the default of a release file."""
    plan = load_plan(edit("[estimation.passes]", OWN))
    measured = measure_release(plan, tmp_path / "measured", test_key=KEY).path
    assert all("values" not in item for item in estimation_in(measured).values())
    opened = open_measurements(measured)
    assert not opened.plan.uses_tree
    assert_same_numbers(
        run_release(plan, tmp_path / "run", test_key=KEY).path,
        estimate_release(opened, tmp_path / "estimated").path,
    )
    drawn = replace(opened.plan, subspace=(SubspaceQuery("total", "Town", Fraction(1, 100)),))
    for stated, values in ((opened.plan, "tree"), (drawn, "own")):
        levels = estimation_from_mapping({"slack": "1/2"}, stated)
        assert [item.values for _, item in levels] == [values, values, "own"]


@pytest.mark.nightly
def test_measurements_of_a_plan_without_it_can_be_estimated_with_it(edit, tmp_path):
    """Noise on the support alone, and the constraints, are as before; only counts above the finest geolevel change."""
    plan = load_plan(edit("[estimation.passes]", OWN))
    measured = measure_release(plan, tmp_path / "measured", test_key=KEY).path
    own = run_release(plan, tmp_path / "run", test_key=KEY).path
    opened = open_measurements(measured)
    settings = tmp_path / "estimation.toml"
    settings.write_text(
        f'{TREE}\n"*" = [["total"], ["*"]]\n[estimation.rounding]\n"*" = [["total"], ["home", "age*home"]]\n'
    )
    estimation = load_estimation(settings, opened.plan)
    assert [item.values for _, item in estimation] == ["tree", "tree", "own"]
    tree = estimate_release(opened, tmp_path / "tree", estimation).path
    same = estimate_release(opened, tmp_path / "own").path
    assert_same_numbers(own, same)
    schema, spine = opened.plan.schema, opened.hierarchies.spine
    totals = [read_histogram(root, "Region", schema, spine).counts.sum() for root in (own, tree)]
    assert totals[0] == totals[1]  # the exact total
    changed = [(one / "histogram" / "Town.parquet").read_bytes() for one in (own, tree)]
    assert changed[0] != changed[1]
    assert "values" not in estimation_in(own)["Town"]


def test_support_measurements_are_the_noisy_answers(tree_release, tmp_path):
    """What is published as measured is what was drawn, whatever the families are fitted to."""
    plan = load_plan(tree_release)
    full = run_release(plan, tmp_path / "full", test_key=KEY).path
    some = run_release(replace(plan, measurements="support"), tmp_path / "support", test_key=KEY).path
    spine = read_hierarchies(plan).spine
    one, other = (StoredMeasurements(root, spine) for root in (full, some))
    asked = ("Town", "total", 0, spine.n_geounits(1), np.zeros(1, np.int64))
    assert np.array_equal(one.measure(*asked).values, other.measure(*asked).values)


def with_overlapping(release: Path) -> None:
    text = release.read_text().replace("[[schema.structural_zeros]]", UP_TO)
    release.write_text(text.replace('grown = "1/4"', '"up_to*home" = "1/8"\nup_to = "1/8"'))


def with_laplace(release: Path) -> None:
    release.write_text(laplace(release.read_text()))


def with_sums(release: Path) -> None:
    """The regions are cut, and the invariant is on the sums of their parts."""
    write_reserve(release.parent)
    release.write_text(release.read_text() + BRANCH)


@pytest.mark.parametrize(
    "change",
    [
        nightly(with_overlapping),
        nightly(with_laplace),
        nightly(with_sums),
        # `test_measure_estimate.py` compares run and estimate on these
        pytest.param(with_spine, marks=pytest.mark.soak),
        pytest.param(with_bypassing, marks=pytest.mark.soak),
    ],
)
def test_every_kind_of_release_can_have_it(tree_release, tmp_path, change):
    """Its values are those of dense least squares in the tests of the sweep; here each family is certified."""
    change(tree_release)
    plan = load_plan(tree_release)
    outcome = run_release(plan, tmp_path / "out", test_key=KEY)
    statuses = {name for level in outcome.manifest.body["solver"].values() for name in level["estimate"]}
    assert statuses <= {"certified", "certified_by_more_sweeps", "copied", "empty"}
    measured = measure_release(plan, tmp_path / "measured", test_key=KEY).path
    estimate_release(open_measurements(measured), tmp_path / "estimated", workers=2)
    assert_same_numbers(tmp_path / "out", tmp_path / "estimated")


def test_counts_drawn_on_a_lattice_are_refused(tree_release, edit, tmp_path):
    edit(
        'neighbours = "bounded"\nmechanism = "discrete_gaussian"\nrho = "2"',
        'neighbours = "bounded"\nmechanism = "discrete_gaussian"\nrho = "3"',
    )
    with pytest.raises(ConfigError, match="drawn on a lattice") as refused:
        load_plan(edit("[[bounds]]", SUBSPACE.replace("1/4", "1/100")))
    assert refused.value.code == "tree-values"


def test_where_blocks_are_too_large_the_sweep_goes_query_by_query(tree_release, tmp_path, monkeypatch):
    plan = load_plan(tree_release)
    full = run_release(plan, tmp_path / "full", test_key=KEY)
    monkeypatch.setattr(tree_values, "LARGEST_BLOCK", 1)
    alone = run_release(plan, tmp_path / "alone", test_key=KEY, workers=1)
    for outcome, name in ((full, "full"), (alone, "query by query")):
        stated = {level: one.get("values") for level, one in outcome.manifest.body["solver"].items()}
        assert stated == {"Region": name, "Town": name, "Block": None}
    monkeypatch.setattr(upward, "GEOUNITS_AT_ONCE", 1)
    monkeypatch.setattr(upward, "FINEST_AT_ONCE", 5)
    run_release(plan, tmp_path / "again", test_key=KEY, workers=2)
    assert_same_numbers(tmp_path / "alone", tmp_path / "again")
    changed = [(tmp_path / name / "histogram" / "Town.parquet").read_bytes() for name in ("full", "alone")]
    assert changed[0] != changed[1]


def errors(plan: ReleasePlan, out: Path, key: bytes) -> dict[str, float]:
    """Mean absolute error of cells and totals of towns."""
    run_release(replace(plan, microdata=False, tables=("total",)), out, test_key=key)
    hierarchies = read_hierarchies(plan)
    truth = read_histograms(plan, hierarchies.spine)[1]
    found = read_histogram(out, "Town", plan.schema, hierarchies.spine)
    tables = []
    for counts in (truth, found):
        table = np.zeros((counts.n_geounits, plan.schema.size))
        rows, cells, persons = counts.rows(0, counts.n_geounits)
        table[rows, cells] = persons
        tables.append(table)
    wrong = tables[1] - tables[0]
    return {"cells": float(abs(wrong).mean()), "total": float(abs(wrong.sum(axis=1)).mean())}


@pytest.mark.nightly
def test_errors_of_the_middle_geolevel_fall(edit, tmp_path, monkeypatch):
    """The keys are fixed, so the outcome is: the ratios are 0.65 for cells and 0.55 for totals."""
    own, keys = load_plan(edit("[estimation.passes]", OWN)), range(8)
    tree = replace(
        own,
        estimation=tuple(
            (name, item if name == "Block" else replace(item, values="tree")) for name, item in own.estimation
        ),
    )
    shared = own.measuring_digest()
    monkeypatch.setattr(ReleasePlan, "measuring_digest", lambda plan: shared)  # the same noise for both
    found = {
        name: [errors(plan, tmp_path / f"{name}{k}", insecure_key(f"middle {k}")) for k in keys]
        for name, plan in (("own", own), ("tree", tree))
    }
    ratios = {
        what: sum(one[what] for one in found["tree"]) / sum(one[what] for one in found["own"])
        for what in ("cells", "total")
    }
    assert ratios["cells"] < 0.75
    assert ratios["total"] < 0.75


def test_next_to_no_noise_leaves_the_true_counts(edit, tmp_path):
    """Variances from 1e-3 down to 1e-40: as floats, their precisions could not be added up."""
    edit("[estimation.passes]", TREE)
    edit('tables = ["total", "age", "home"]', 'tables = ["age"]\nmeasurements = "full"\nintervals = "0.95"')
    made = run_release(load_plan(edit('rho = "2"', 'rho = "900"')), tmp_path / "out", test_key=KEY)
    people = pl.read_parquet(tmp_path / "inputs" / "people.parquet")
    for geolevel, length in (("Region", 1), ("Town", 3), ("Block", 5)):
        table = pl.read_parquet(made.path / "tables" / f"geolevel={geolevel}" / "query=age")
        truth = people.group_by(pl.col("geocode").str.head(length), "age").agg(pl.col("count").sum())
        both = table.join(truth, on=["geocode", "age"], how="left", suffix="_true").fill_null(0)
        assert both["count"].to_list() == both["count_true"].to_list()
        intervals = pl.read_parquet(made.path / "intervals" / f"geolevel={geolevel}" / "query=age")
        assert intervals["lower"].to_list() == intervals["upper"].to_list() == table["count"].to_list()
