"""A whole release on a small population: what is promised is in the written files."""

import hashlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.files.histograms import read_histogram
from tallyveil.measurements.store import StoredMeasurements
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.families.level import FamilyBuilder, estimate_level
from tallyveil.postprocess.families.tree_values import prepared_sweep, swept_values
from tallyveil.products.topdown.run.inputs import read_histograms, read_spine
from tallyveil.products.topdown.run.preparation import compile_constraints
from tallyveil.products.topdown.run.public import read_public
from tallyveil.products.topdown.run.run import run_release
from tallyveil.runs.executor import Threads
from tallyveil.runs.observer import SilentObserver
from tallyveil.storage.write import file_digest

KEY = insecure_key("system test")


def files_of(out: Path) -> dict[str, bytes]:
    """Every published file that must not depend on when or how often a run was interrupted."""
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def outcome(make_small_inputs, tmp_path_factory):
    """A finished release, which no test changes."""
    folder = tmp_path_factory.mktemp("release")
    return run_release(load_plan(make_small_inputs(folder / "inputs")), folder / "out", test_key=KEY)


def histogram(out: Path, geolevel: str) -> pl.DataFrame:
    return pl.read_parquet(out / "histogram" / f"{geolevel}.parquet")


def test_children_add_up_to_their_parent_in_every_cell(outcome):
    for above, below, length in (("Region", "Town", 1), ("Town", "Block", 3)):
        sums = (
            histogram(outcome.path, below)
            .group_by(pl.col("geocode").str.head(length), "age", "home")
            .agg(pl.col("count").sum())
        )
        parents = histogram(outcome.path, above)
        keys = ["geocode", "age", "home"]
        assert sums.sort(keys).rows() == parents.sort(keys).rows()
        assert (parents["count"] > 0).all()


def test_invariants_bounds_and_structural_zeros_hold(outcome, small_release):
    truth = pl.read_parquet(small_release.parent / "people.parquet")
    totals = truth.group_by(pl.col("geocode").str.head(1)).agg(pl.col("count").sum()).sort("geocode")
    published = (
        histogram(outcome.path, "Region").group_by("geocode").agg(pl.col("count").sum()).sort("geocode")
    )
    assert published.rows() == totals.rows()
    blocks = histogram(outcome.path, "Block").with_columns(pl.col("age", "home").cast(pl.String))
    assert blocks.filter((pl.col("age") == "young") & (pl.col("home") == "barracks")).is_empty()
    bounds = pl.read_parquet(small_release.parent / "barracks.parquet")
    people = blocks.group_by("geocode", "home").agg(pl.col("count").sum())
    assert people.join(bounds, on=["geocode", "home"], how="anti").is_empty()
    joined = bounds.join(people, on=["geocode", "home"], how="left").fill_null(0)
    assert (joined["count"] >= joined["lower"]).all()


def test_microdata_are_the_finest_counts(outcome):
    microdata = pl.read_parquet(outcome.path / "microdata" / "*.parquet")
    counted = microdata.group_by("geocode", "age", "home").len("count").sort("geocode", "age", "home")
    blocks = histogram(outcome.path, "Block").sort("geocode", "age", "home")
    assert counted.with_columns(pl.col("count").cast(pl.Int64)).rows() == blocks.rows()
    assert microdata.height == outcome.manifest.body["sizes"]["records"]


def test_tables_hold_every_geounit_and_answer(outcome):
    tables = pl.read_parquet(outcome.path / "tables" / "**" / "*.parquet", hive_partitioning=True)
    assert tables.columns == ["geocode", "age", "home", "count", "geolevel", "query"]
    assert set(tables["query"]) == {"total", "age", "home"}
    table = tables.filter(query="age")
    assert table.height == (2 + 8 + 48) * 3
    assert set(table["age"]) == {"young", "middle", "old"}
    assert set(table["home"]) == {None}
    persons = table.group_by("geolevel").agg(pl.col("count").sum())
    assert set(persons["count"]) == {outcome.manifest.body["sizes"]["records"]}


def test_measurements_are_readable_without_our_code(outcome):
    for query, width in (("total", 1), ("grown", 2), ("age.home", 6)):
        frame = pl.read_parquet(outcome.path / "measurements" / "Block" / query / "*.parquet")
        assert frame.columns == ["geocode", "values", "variance"]
        assert frame.height == 48
        assert (frame["values"].list.len() == width).all()
    labels = pl.read_parquet(outcome.path / "measurements" / "answers.parquet")
    assert labels.filter(query="age*home")["label"][0] == "age=young * home=house"


def test_stored_measurements_are_those_the_estimate_used(outcome, small_release):
    """A run from the measurement files alone, without records or key, gives the same counts."""
    assert_estimates_follow(outcome.path, load_plan(small_release))


def assert_estimates_follow(out: Path, plan: ReleasePlan) -> None:
    """Estimating from the measurement files gives the counts that were published with them."""
    public = read_public(plan)
    hierarchies, allocation = public.hierarchies, public.allocation
    spine = hierarchies.spine
    constraints = compile_constraints(plan, hierarchies, read_histograms(plan, spine), public.bounds)
    stored = StoredMeasurements(out, spine)
    sweep, above = prepared_sweep(plan, hierarchies, constraints), None
    tree = None if sweep is None else swept_values(sweep, stored, SilentObserver(), Threads())
    for level, geolevel in enumerate(spine.geolevels):
        queries = tuple(plan.query(name) for name in plan.strategy.queries(geolevel))
        rounding = tuple(
            tuple(plan.query(name) for name in stage) for stage in plan.estimation_of(geolevel).rounding
        )
        own = plan.estimation_of(geolevel).values == "own"
        builder = FamilyBuilder(
            plan, allocation, level, stored, constraints, queries, rounding, None if own else tree
        )
        above = estimate_level(builder, above, SilentObserver()).counts
        written = read_histogram(out, geolevel, plan.schema, spine)
        assert np.array_equal(above.cells, written.cells)
        assert np.array_equal(above.counts, written.counts)


def test_the_folder_holds_nothing_confidential_when_the_run_has_ended(outcome):
    assert not (outcome.path / "private").exists()
    names = {p.name for p in outcome.path.iterdir()}
    assert names == {
        "manifest.json", "plan.json", "ledger.jsonl", "geography.parquet",
        "bounds", "invariants", "measurements", "histogram", "microdata", "tables", "datapackage.json",
    }  # fmt: skip


def test_a_test_key_is_marked_everywhere(outcome):
    assert outcome.manifest.protected is False
    assert outcome.manifest.warnings
    assert "insecure test key" in (outcome.path / "ledger.jsonl").read_text()
    for path in outcome.path.rglob("*.parquet"):
        assert "insecure test key" in pl.read_parquet_metadata(path)["tallyveil.protected"]


def test_a_real_key_is_protected_and_gives_other_noise(small_release, tmp_path, outcome):
    real = run_release(load_plan(small_release), tmp_path / "real")
    assert real.manifest.protected is True
    assert real.manifest.warnings == ()
    path = "measurements/Block/age.home/part-00000.parquet"
    assert pl.read_parquet(tmp_path / "real" / path)["values"].to_list() != (
        pl.read_parquet(outcome.path / path)["values"].to_list()
    )


def test_the_same_key_gives_the_same_release(outcome, small_release, tmp_path):
    again = run_release(load_plan(small_release), tmp_path / "again", test_key=KEY)
    assert files_of(again.path) == files_of(outcome.path)


def test_one_changed_record_meets_unrelated_noise(outcome, small_release, tmp_path):
    """Two runs with one noise would show their difference exactly; the key is bound to the records."""
    records = small_release.parent / "people.parquet"
    frame = pl.read_parquet(records)
    frame.with_columns(pl.col("count") + pl.Series([1] + [0] * (frame.height - 1))).write_parquet(records)
    other = run_release(load_plan(small_release), tmp_path / "other", test_key=KEY)
    path = "measurements/Block/age.home/part-00000.parquet"
    values = [np.array(pl.read_parquet(out / path)["values"].to_list()) for out in (outcome.path, other.path)]
    assert (values[0] != values[1]).mean() > 0.5
    assert other.manifest.run != outcome.manifest.run
    assert (
        other.manifest.body["inputs"]["records_keyed_hash"]
        != outcome.manifest.body["inputs"]["records_keyed_hash"]
    )


def measured(out: Path, query: str) -> pl.DataFrame:
    return pl.read_parquet(out / "measurements" / "Block" / query / "*.parquet")


@pytest.mark.nightly
def test_another_strategy_meets_unrelated_noise(outcome, edit, tmp_path):
    """The shares of two queries change hands: the blocks' `age*home` has the variance it had, other noise."""
    plan = load_plan(edit('total = "1/4"\ngrown = "1/4"', 'total = "1/8"\ngrown = "3/8"'))
    other = run_release(plan, tmp_path / "other", test_key=KEY)
    values = [np.array(measured(out, "age.home")["values"].to_list()) for out in (outcome.path, other.path)]
    assert (values[0] != values[1]).mean() > 0.5


@pytest.mark.parametrize("kept", ["support", "none"])
def test_what_is_written_changes_no_number(outcome, edit, tmp_path, kept):
    """The same noise and the same counts, whatever is written of them."""
    plan = load_plan(edit("[outputs]", f'[outputs]\nmeasurements = "{kept}"\nmicrodata = false'))
    other = run_release(plan, tmp_path / "other", test_key=KEY)
    for geolevel in ("Region", "Town", "Block"):
        assert histogram(other.path, geolevel).equals(histogram(outcome.path, geolevel))
    assert not (other.path / "microdata").exists()
    assert (other.path / "measurements").exists() == (kept == "support")
    assert other.manifest.run != outcome.manifest.run


def test_measurements_on_the_support_are_those_of_the_full_files(edit, tmp_path):
    """Own values, which use the answers on the support alone; those of the tree use all answers."""
    whole = load_plan(edit("[estimation.passes]", '[estimation]\nvalues = "own"\n\n[estimation.passes]'))
    outcome = run_release(whole, tmp_path / "whole", test_key=KEY)
    plan = load_plan(edit("[outputs]", '[outputs]\nmeasurements = "support"'))
    other = run_release(plan, tmp_path / "other", test_key=KEY)
    homes = set(histogram(outcome.path, "Town")["geocode"])
    for query in ("total", "grown", "age.home"):
        full = {row["geocode"]: row["values"] for row in measured(outcome.path, query).to_dicts()}
        kept = measured(other.path, query)
        assert kept.columns == ["geocode", "answers", "values", "variance"]
        assert set(kept["geocode"]) == {code for code in full if code[:3] in homes}
        for row in kept.to_dicts():
            assert row["values"] == [full[row["geocode"]][answer] for answer in row["answers"]]
    assert (measured(other.path, "age.home")["answers"].list.len() < 6).any()
    assert_estimates_follow(other.path, plan)
    stored = StoredMeasurements(other.path, read_spine(plan.geography))
    with pytest.raises(StoreError, match="on the support"):
        stored.measure("Block", "age*home", 0, 1, np.array([1]))  # nobody young in barracks


def test_the_manifest_hashes_every_published_file(outcome):
    listed = outcome.manifest.digests
    written = {p.relative_to(outcome.path).as_posix() for p in outcome.path.rglob("*.parquet")}
    assert set(listed) == written | {"plan.json", "datapackage.json"}
    for path, digest in listed.items():
        assert file_digest(outcome.path / path) == digest


def test_the_input_hash_confirms_no_guess(outcome, small_release):
    """A plain hash would let anybody who guesses the records confirm the guess."""
    plan = load_plan(small_release)
    digest = read_histograms(plan, read_spine(plan.geography))[-1].digest()
    plain = {
        digest.hex(),
        hashlib.sha256(digest).hexdigest(),
        file_digest(small_release.parent / "people.parquet"),
    }
    assert outcome.manifest.body["inputs"]["records_keyed_hash"] not in plain
    assert not any(text in (outcome.path / "manifest.json").read_text() for text in plain)


def test_a_finished_release_is_left_alone(outcome, small_release):
    before = {p: p.stat().st_mtime_ns for p in outcome.path.rglob("*")}
    again = run_release(load_plan(small_release), outcome.path, test_key=KEY)
    assert again.already_finished
    assert {p: p.stat().st_mtime_ns for p in outcome.path.rglob("*")} == before


@pytest.mark.nightly
@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "discrete_laplace"])
def test_more_budget_means_less_error(edit, tmp_path, mechanism):
    release = edit("rho = ", "epsilon = " if mechanism == "discrete_laplace" else "rho = ")
    text = release.read_text().replace("discrete_gaussian", mechanism)
    truth = pl.read_parquet(release.parent / "people.parquet").group_by("geocode").agg(pl.col("count").sum())
    errors = []
    unit = "epsilon" if mechanism == "discrete_laplace" else "rho"
    for budget in ("1/20", "500"):
        release.write_text(text.replace(f'{unit} = "2"', f'{unit} = "{budget}"'))
        out = tmp_path / budget.replace("/", "-")
        run_release(load_plan(release), out, test_key=KEY)
        published = histogram(out, "Block").group_by("geocode").agg(pl.col("count").sum().alias("published"))
        joined = truth.join(published, on="geocode", how="left").fill_null(0)
        errors.append((joined["count"] - joined["published"]).abs().mean())
    assert errors[1] < 0.5 < errors[0]
