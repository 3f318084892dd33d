"""Intervals beside the published counts: in the tables, of areas off the spine, and as part of a run."""

import contextlib
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.reserve_spine import ENTITIES, STEPS, entities_of, with_shares
from tests.samples import every

from tallyveil.cli.main import main
from tallyveil.errors import (
    ConfigError,
    ConstraintError,
    GeographyError,
    SolverError,
    StoreError,
)
from tallyveil.files.manifest_files import read_manifest
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.derived.district import district_answers
from tallyveil.postprocess.intervals.expected_deviations import expected_deviations
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.products.topdown.page.release import write_report
from tallyveil.products.topdown.run.inputs import read_hierarchies
from tallyveil.products.topdown.run.run import run_release
from tallyveil.storage.write import Claim, file_digest, is_unfinished, write_parquet

PLAIN = ["geocode", "age", "home", "count"]
BESIDE = ["estimate", "standard_error", "lower", "upper"]


@pytest.fixture
def run(small_run):
    """Folder of a finished release."""
    return small_run


@pytest.fixture
def spine_release(small_release):
    """A release whose steps cut towns, with tables of places."""
    folder = small_release.parent
    entities_of(folder).write_parquet(folder / "entities.parquet")
    text = with_shares(small_release.read_text())
    small_release.write_text(text + 'entities = ["place"]\n' + ENTITIES + STEPS)
    return small_release


def contents(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def tables(run: Path) -> dict[str, pl.DataFrame]:
    folders = sorted(run.glob("tables/*/*"))
    return {folder.relative_to(run).as_posix(): pl.read_parquet(folder / "*.parquet") for folder in folders}


def wrong_tables(path: Path, frame: pl.DataFrame, metadata: dict[str, str]) -> None:
    """Writes tables with other counts than the rest of the release."""
    wrong = frame.with_columns(pl.col("count") + 1) if "tables.partial" in path.parts else frame
    write_parquet(path, wrong, metadata)


def digests_hold(run: Path) -> bool:
    files = json.loads((run / "manifest.json").read_text())["files"]
    there = {p.relative_to(run).as_posix() for p in (run / "tables").rglob("*.parquet")}
    assert there == {item["path"] for item in files if item["path"].startswith("tables/")}
    return all(file_digest(run / item["path"]) == item["sha256"] for item in files)


def test_tables_gain_intervals(run):
    before = tables(run)
    make_intervals(run, workers=1)
    after = tables(run)
    assert list(after) == list(before)
    for name, frame in after.items():
        assert frame.columns == PLAIN + BESIDE
        assert frame.select(PLAIN).equals(before[name])
        area, query = name.split("/")[1:]
        same = pl.read_parquet(run / "intervals" / area / query / "*.parquet").select(BESIDE)
        assert frame.select(BESIDE).equals(same)
    tags = pl.read_parquet_metadata(run / "tables/geolevel=Town/query=age/part-00000.parquet")
    assert tags["tallyveil.zeros"] == "included"
    assert tags["tallyveil.level"] == "0.95"
    assert "privacy noise only" in tags["tallyveil.covers"]
    assert digests_hold(run)
    stated = json.loads((run / "manifest.json").read_text())["body"]["intervals"]
    assert stated["level"] == 0.95
    assert stated["tables"] == ["age", "home", "total"]
    assert stated["manifest_sha256"] == file_digest(run / "intervals/_manifest.json")
    assert not list(run.glob("*.partial"))


@pytest.mark.nightly
def test_zeros_that_were_left_out_come_back_with_estimates_and_go_with_them(edit, tmp_path, monkeypatch):
    """Rows chosen by their counts have estimates that are too high, so a table with estimates has every row."""
    monkeypatch.setattr("tallyveil.files.tables.ANSWERS_WITH_ZEROS", 4)
    path = edit('tables = ["total", "age", "home"]', 'tables = ["total", "age*home"]')
    root, cells = tmp_path / "out", "tables/geolevel=Block/query=age%2Ahome"
    run_release(load_plan(path), root, test_key=bytes(32), workers=1)
    before = tables(root)
    assert before[cells]["count"].min() > 0
    make_intervals(root, workers=1)
    after = tables(root)
    assert all(
        after[name].select(PLAIN).filter(pl.col("count") > 0).equals(frame.filter(pl.col("count") > 0))
        for name, frame in before.items()
    )
    assert after[cells].equals(pl.read_parquet(root / cells.replace("tables", "intervals") / "*.parquet"))
    assert after[cells].height == 6 * after["tables/geolevel=Block/query=total"].height
    tags = pl.read_parquet_metadata(root / cells / "part-00000.parquet")
    assert (tags["tallyveil.zeros"], tags["tallyveil.rows"]) == (
        "included",
        "There is a row for every answer of every area.",
    )
    make_intervals(root, tables=["total"], workers=1)
    again = tables(root)[cells]
    assert again.select(PLAIN).equals(before[cells])
    assert again["estimate"].null_count() == again.height
    tags = pl.read_parquet_metadata(root / cells / "part-00000.parquet")
    assert (tags["tallyveil.zeros"], tags["tallyveil.rows"]) == (
        "left out",
        "An answer of an area that has no row has a published count of 0.",
    )
    assert digests_hold(root)


@pytest.mark.nightly
def test_only_tables_asked_for_have_intervals(run):
    before = tables(run)
    make_intervals(run, workers=1)
    make_intervals(run, tables=["home", "grown"], level=0.5, workers=1)
    after = tables(run)
    for name, frame in after.items():
        assert frame.columns == PLAIN + BESIDE
        assert frame.select(PLAIN).equals(before[name])
        empty = 0 if name.endswith("home") else frame.height
        assert frame["lower"].null_count() == frame["standard_error"].null_count() == empty
    tags = [
        pl.read_parquet_metadata(run / f"tables/geolevel=Town/query={name}/part-00000.parquet")
        for name in ("home", "age")
    ]
    assert tags[0]["tallyveil.level"] == "0.5"
    assert "tallyveil.level" not in tags[1]
    assert tags[1]["tallyveil.query"] == "age"
    assert digests_hold(run)
    assert json.loads((run / "manifest.json").read_text())["body"]["intervals"]["tables"] == ["home"]


@pytest.mark.nightly
def test_tables_can_be_left_as_they_are(run, monkeypatch, capsys):
    before = contents(run / "tables")
    monkeypatch.setattr(sys, "argv", ["tallyveil", "intervals", str(run), "--leave-tables", "--quiet"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert contents(run / "tables") == before
    assert json.loads((run / "manifest.json").read_text())["body"]["intervals"]["tables"] == []


@pytest.mark.parametrize("at", every(4, [1, 2, 5, 9]))
def test_an_interrupted_exchange_is_mended_by_the_next(run, monkeypatch, at):
    make_intervals(run, workers=1)
    wanted = contents(run / "tables")
    make_intervals(run, tables=["total"], workers=1)
    original, calls = Path.rename, [0]

    class Killed(BaseException):
        """Ends the process at once."""

    def rename(self, target):
        calls[0] += "tables" in str(self)
        if calls[0] == at:
            raise Killed
        return original(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", rename)
        with pytest.raises(Killed):
            make_intervals(run, workers=1)
    make_intervals(run, workers=1)
    assert contents(run / "tables") == wanted
    assert digests_hold(run)
    assert not list(run.glob("*.partial"))


def test_a_table_that_does_not_hold_the_counts_is_not_published(run, monkeypatch):
    before = contents(run)
    monkeypatch.setattr("tallyveil.files.intervals.write_parquet", wrong_tables)
    with pytest.raises(SolverError, match="table total agrees"):
        make_intervals(run, workers=1)
    after = contents(run)
    assert all(after[name] == content for name, content in before.items())


def test_areas_off_the_spine_have_intervals_like_all_others(spine_release, tmp_path):
    plan = load_plan(spine_release)
    out = run_release(plan, tmp_path / "out", test_key=bytes(32), workers=1).path
    before = tables(out)
    assert {
        "tables/geolevel=Town/query=age",
        "tables/geolevel=place/query=age",
        "tables/geolevel=Region_Part/query=age",
    } <= set(before)
    manifest = make_intervals(out, workers=1).manifest
    after = tables(out)
    for name, frame in after.items():
        assert frame.columns == PLAIN + BESIDE
        assert frame.select(PLAIN).equals(before[name])
    assert digests_hold(out)
    assert {item["area"] for item in manifest["compared"] if item["is_entity"]} == {"place"}
    # a town that the spine cuts is a district like any other
    spine = read_hierarchies(plan).spine
    codes = spine.geocodes[-1].text
    town = district_answers(out, codes.filter(codes.str.head(3) == "P01"), tables=["age"])
    own = after["tables/geolevel=Town/query=age"].filter(geocode="P01")
    np.testing.assert_allclose([one.standard_error for one in town.answers], own["standard_error"], atol=1e-5)
    np.testing.assert_allclose([one.estimate for one in town.answers], own["estimate"], atol=1e-4)
    assert [one.lower for one in town.answers] == own["lower"].to_list()
    # and so is a place; and a plan says all of this before any data
    planned = expected_deviations(plan, read_hierarchies(plan), read_hierarchies(plan).families, workers=1)
    for area in ("Town", "place", "Region_Part"):
        found = next(item for item in planned if (item.area, item.query) == (area, "age"))
        np.testing.assert_allclose(
            found.deviations.ravel(), after[f"tables/geolevel={area}/query=age"]["standard_error"], atol=2e-6
        )
    assert 'id="uncertainty"' in write_report(out).read_text()


@pytest.mark.nightly
def test_given_entities_may_repeat_released_ones_but_not_change_them(spine_release, tmp_path):
    out = run_release(load_plan(spine_release), tmp_path / "out", test_key=bytes(32), workers=1).path
    entities = pl.read_parquet(spine_release.parent / "entities.parquet")
    manifest = make_intervals(out, tables=["total"], entities=entities, workers=1).manifest
    families = [item["area"] for item in manifest["compared"] if item["is_entity"]]
    assert families == ["place", "reserve"]
    assert not (out / "tables/reserve").exists()
    with pytest.raises(GeographyError) as refused:
        make_intervals(out, entities=entities.with_columns(place=pl.lit("elm")), workers=1)
    assert refused.value.code == "entity-table"


def test_plan_of_the_families_of_the_release_file(spine_release, monkeypatch, capsys):
    arguments = ["tallyveil", "plan", str(spine_release), "--families", "place,reserve", "--queries", "total"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    record = json.loads(capsys.readouterr().out)["deviations"]
    assert {item["area"] for item in record["entities"]} == {"place", "reserve"}
    assert next(item for item in record["summaries"] if item["area"] == "Region")["largest"] == pytest.approx(
        0, abs=1e-6
    )


def test_a_run_makes_the_intervals_its_plan_asks_for(edit, tmp_path):
    path = edit("[outputs]", '[outputs]\nintervals = "9/10"')
    plan = load_plan(path)
    run_release(plan, tmp_path / "out", test_key=bytes(32), workers=1)
    first = contents(tmp_path / "out" / "tables")
    assert all(frame.columns == PLAIN + BESIDE for frame in tables(tmp_path / "out").values())
    assert json.loads((tmp_path / "out/intervals/_manifest.json").read_text())["level"] == 0.9
    assert digests_hold(tmp_path / "out")
    # without intervals the same counts, for what is written does not change the noise
    run_release(load_plan(edit('intervals = "9/10"\n', "")), tmp_path / "bare", test_key=bytes(32), workers=1)
    bare = tables(tmp_path / "bare")
    assert all(frame.select(PLAIN).equals(bare[name]) for name, frame in tables(tmp_path / "out").items())
    # a run that ended before its intervals makes them when it is asked again
    for unfinished in sorted((tmp_path / "out/intervals").rglob("*"), reverse=True):
        unfinished.unlink() if unfinished.is_file() else unfinished.rmdir()
    again = run_release(plan, tmp_path / "out", test_key=bytes(32), workers=1)
    assert again.already_finished
    assert contents(tmp_path / "out" / "tables") == first


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("[outputs]", '[outputs]\nintervals = "1"', "interval-level"),
        ("[outputs]", '[outputs]\nintervals = "0.95"\nmeasurements = "support"', "interval-tables"),
        ('tables = ["total", "age", "home"]', 'intervals = "0.95"\ntables = []', "interval-tables"),
    ],
)
def test_a_plan_that_cannot_have_intervals_is_refused(edit, old, new, code):
    with pytest.raises(ConfigError) as refused:
        load_plan(edit(old, new))
    assert refused.value.code == code


def test_laplace_noise_has_no_intervals(edit):
    edit('mechanism = "discrete_gaussian"\nrho = "2"', 'mechanism = "discrete_laplace"\nepsilon = "2"')
    edit('[strategy]\nrho = "2"', '[strategy]\nepsilon = "2"')
    with pytest.raises(ConfigError) as refused:
        load_plan(edit("[outputs]", '[outputs]\nintervals = "0.95"'))
    assert refused.value.code == "interval-noise"


def test_laplace_noise_has_estimates_and_standard_errors(edit, tmp_path, command):
    """Estimates of finest geounits add up, standard errors are those of the model, and nothing claims an interval."""
    edit('mechanism = "discrete_gaussian"\nrho = "2"', 'mechanism = "discrete_laplace"\nepsilon = "2"')
    path = edit('[strategy]\nrho = "2"', '[strategy]\nepsilon = "2"')
    outcome = run_release(load_plan(path), tmp_path / "out", test_key=bytes(32))
    command("intervals", outcome.path, "-q")
    manifest = json.loads((outcome.path / "intervals" / "_manifest.json").read_text())
    assert manifest["kind"] == "none"
    assert "discrete Laplace" in manifest["covers"]
    table = pl.read_parquet(outcome.path / "intervals" / "geolevel=Block" / "query=age" / "*.parquet")
    inexact = table.filter(pl.col("standard_error") > 1e-5)
    assert inexact.height
    assert inexact["lower"].null_count() == inexact["upper"].null_count() == inexact.height
    shown = json.loads(command("intervals", outcome.path, "--district", _district(tmp_path), "--json"))
    total = next(line for line in shown["answers"] if line["query"] == "total")
    blocks = pl.read_parquet(outcome.path / "intervals" / "geolevel=Block" / "query=total" / "*.parquet")
    parts = blocks.filter(pl.col("geocode").is_in(["P0000", "P0101", "Q0203"]))["estimate"]
    assert total["estimate"] == pytest.approx(parts.sum(), abs=1e-5)
    assert total["standard_error"] > 1
    for line in shown["answers"]:
        given = (line["lower"], line["upper"])
        assert given == ((line["estimate"],) * 2 if line["standard_error"] == 0 else (None, None))
    page = (outcome.path / "report.html").read_text()
    assert "There are no intervals, because the noise is discrete Laplace" in page
    assert "Its interval goes from" not in page


def _district(folder: Path) -> Path:
    path = folder / "district.csv"
    pl.DataFrame({"geocode": ["P0000", "P0101", "Q0203"]}).write_csv(path)
    return path


def test_zeros_that_cannot_be_kept_are_refused_before_anything_is_spent(edit, tmp_path, monkeypatch):
    plan = load_plan(edit("[outputs]", '[outputs]\nintervals = "0.95"'))
    from tallyveil.estimation.intervals import model as modelling
    from tallyveil.estimation.intervals.algebra import derive_algebra

    def small(schema, groups, zeros=None, *, largest_block=64):
        return derive_algebra(schema, groups, zeros, largest_block=3)

    monkeypatch.setattr(modelling, "derive_algebra", small)
    with pytest.raises(ConstraintError) as refused:
        run_release(plan, tmp_path / "out", test_key=bytes(32), workers=1)
    assert refused.value.code == "zeros-not-kept"
    assert not (tmp_path / "out").exists()


def test_a_release_without_tables_asks_for_queries(edit, tmp_path):
    path = edit('tables = ["total", "age", "home"]', "tables = []")
    run_release(load_plan(path), tmp_path / "out", test_key=bytes(32), workers=1)
    with pytest.raises(ConfigError) as refused:
        make_intervals(tmp_path / "out", workers=1)
    assert refused.value.code == "interval-tables"
    make_intervals(tmp_path / "out", tables=["total"], workers=1)
    assert (tmp_path / "out/intervals/geolevel=Town/query=total").is_dir()
    assert not (tmp_path / "out/tables").exists()


@pytest.mark.nightly
def test_planned_intervals_are_made_under_the_lock_of_the_run(edit, tmp_path, monkeypatch):
    """No other process works in the folder meanwhile, or takes the release for finished; a failure gives it up."""
    plan, out = load_plan(edit("[outputs]", '[outputs]\nintervals = "9/10"')), tmp_path / "out"
    seen = []

    def looked_at(root, **given):
        assert not (root / "private" / "run.json").exists()
        with pytest.raises(StoreError) as locked:
            run_release(plan, root, test_key=bytes(32), workers=1)
        with pytest.raises(StoreError) as unfinished:
            read_manifest(root)
        seen.append((locked.value.code, unfinished.value.code))
        if len(seen) == 1:
            raise StoreError("the disk is full", code="no-space")
        return make_intervals(root, **given)

    monkeypatch.setattr("tallyveil.postprocess.intervals.job.make_intervals", looked_at)
    with pytest.raises(StoreError, match="disk is full"):
        run_release(plan, out, test_key=bytes(32), workers=1)
    assert not (out / "private").exists()
    read_manifest(out)
    again = run_release(plan, out, test_key=bytes(32), workers=1)
    assert again.already_finished
    assert seen == [("folder-locked", "release-unfinished")] * 2
    assert "intervals" in again.manifest.body
    assert not (out / "private").exists()


class Killed(BaseException):
    """Ends the process at once, as a kill does."""


@pytest.mark.nightly
def test_planned_intervals_that_were_killed_are_finished_by_the_run(edit, tmp_path, monkeypatch):
    """Also where `intervals/` stood already and the tables did not yet have their columns."""
    plan, out = load_plan(edit("[outputs]", '[outputs]\nintervals = "9/10"')), tmp_path / "out"

    def killed(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("tallyveil.postprocess.intervals.job.exchange_tables", killed)
        with pytest.raises(Killed):
            run_release(plan, out, test_key=bytes(32), workers=1)
    assert (out / "intervals" / "_manifest.json").exists()
    with pytest.raises(StoreError) as refused:
        read_manifest(out)
    assert refused.value.code == "folder-unfinished"
    again = run_release(plan, out, test_key=bytes(32), workers=1)
    assert "intervals" in again.manifest.body
    assert digests_hold(out)
    assert all(frame.columns == PLAIN + BESIDE for frame in tables(out).values())


@pytest.mark.nightly
@pytest.mark.parametrize("killed_in", ["make_intervals", "write_manifest"])
def test_tables_that_somebody_changed_after_a_kill_are_refused(edit, tmp_path, monkeypatch, killed_in):
    """Before any table was exchanged, and after all were. Restored, the same command finishes the run."""
    plan, out = load_plan(edit("[outputs]", '[outputs]\nintervals = "9/10"')), tmp_path / "out"

    def killed(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(f"tallyveil.postprocess.intervals.job.{killed_in}", killed)
        # A kill by the system leaves no time to tidy up.
        patch.setattr("tallyveil.runs.folder.RunFolder.remove_private", lambda self: None)
        patch.setattr("tallyveil.runs.folder.RunFolder.__exit__", lambda self, *_: self._let_go())
        with pytest.raises(Killed):
            run_release(plan, out, test_key=bytes(32), workers=1)
    assert (out / "private").is_dir()
    changed = sorted(out.glob("tables*/**/*.parquet"))
    held = {path: path.read_bytes() for path in changed}
    for path in changed:
        frame = pl.read_parquet(path, hive_partitioning=False)
        frame.with_columns(pl.col("count") + 1).write_parquet(path, metadata=pl.read_parquet_metadata(path))
    ledger = (out / "ledger.jsonl").read_bytes()
    with pytest.raises(StoreError) as refused:
        run_release(plan, out, test_key=bytes(32), workers=1)
    assert refused.value.code == "release-damaged"
    assert (out / "ledger.jsonl").read_bytes() == ledger
    for path, content in held.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    run_release(plan, out, test_key=bytes(32), workers=1)
    whole = run_release(plan, tmp_path / "whole", test_key=bytes(32), workers=1)
    assert digests_hold(out)
    assert {path: frame.to_dicts() for path, frame in tables(out).items()} == {
        path: frame.to_dicts() for path, frame in tables(whole.path).items()
    }
    assert not list(out.glob("*.partial"))


def test_two_processes_do_not_make_intervals_in_one_release(run, command):
    with Claim(run, "intervals"):
        before = contents(run)
        with pytest.raises(StoreError, match="another process is writing in") as locked:
            make_intervals(run, workers=1)
        assert locked.value.code == "folder-locked"
        assert contents(run) == before
        read_manifest(run)  # nothing has changed in it yet
    with contextlib.suppress(Killed), Claim(run, "intervals") as claim:
        claim.begin()
        raise Killed
    with pytest.raises(StoreError, match="`tallyveil intervals` is at work there"):
        write_report(run)
    command("intervals", run, "-q")
    assert digests_hold(run)
    assert not is_unfinished(run)
