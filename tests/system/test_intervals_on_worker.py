"""Intervals that worker processes make from the published files are those that threads make, file by file."""

import shutil
from pathlib import Path

import polars as pl
import pytest
from tests.elsewhere import Elsewhere
from tests.samples import nightly

from tallyveil.api.beginning import write_country
from tallyveil.cli.intervals import intervals as command
from tallyveil.errors import ConfigError, SolverError, StoreError
from tallyveil.files import intervals
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.intervals import chunks as interval_chunks
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.products.topdown.run.run import run_release
from tallyveil.storage import write
from tallyveil.storage.write import write_parquet

KEY = insecure_key("intervals on worker")


@pytest.fixture(scope="module", params=["full", nightly("small")])
def release(request, tmp_path_factory):
    """A release whose tables have one model, or a model each."""
    folder = tmp_path_factory.mktemp(request.param)
    write_country(folder, blocks=60, people=2000, schema="race-age", seed=3)
    path = folder / "release.toml"
    parts = [part for part in path.read_text().split("\n\n") if not part.startswith("[outputs]")]
    tables = '[outputs]\ntables = ["total", "voting_age", "detailed"]\n'
    path.write_text("\n\n".join([*parts, f'{tables}measurements = "{request.param}"\n']))
    return run_release(load_plan(path), folder / "out", test_key=KEY).path


@pytest.fixture
def pair(release, tmp_path, monkeypatch):
    """Two copies of the release, whose larger tables get several files."""
    monkeypatch.setattr(intervals, "ROWS_PER_PART", 300)
    return [shutil.copytree(release, tmp_path / name) for name in ("here", "there")]


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_the_files_of_threads(pair):
    here, there = pair
    before = contents(here)
    elsewhere = Elsewhere()
    make_intervals(here, workers=2)
    make_intervals(there, executors=elsewhere)
    assert contents(there) == contents(here) != before
    assert set(elsewhere.works) == {"intervals"}
    assert len(elsewhere.works) >= 3
    assert [site.secret for site in elsewhere.sites] == [b""]


def test_a_large_table_has_several_chunks(pair, monkeypatch):
    here, there = pair
    for module in ("answers", "fit"):
        monkeypatch.setattr(f"tallyveil.estimation.intervals.{module}.FINEST_PER_CHUNK", 40)
    monkeypatch.setattr("tallyveil.estimation.intervals.answers.PAIRS_AT_ONCE", 4)
    elsewhere = Elsewhere()
    make_intervals(here, workers=2)
    make_intervals(there, executors=elsewhere)
    assert contents(there) == contents(here)
    blocks = there / "intervals" / "geolevel=Block" / "query=detailed"
    assert len(list(blocks.iterdir())) > 1


def test_given_entities_and_other_settings(pair, tmp_path):
    here, there = pair
    blocks = pl.read_parquet(here / "geography.parquet")["Block"].unique().sort()
    table = pl.DataFrame({"geocode": blocks, "half": [f"h{n % 2}" for n in range(len(blocks))]})
    asked = {
        "entities": table,
        "tables": ["hispanic"],
        "level": 0.9,
        "simultaneous": True,
        "with_bounds": False,
    }
    elsewhere = Elsewhere()
    make_intervals(here, **asked)
    make_intervals(there, executors=elsewhere, **asked)
    assert contents(there) == contents(here)
    assert (there / "intervals" / "geolevel=half").is_dir()


@pytest.mark.nightly
def test_a_run_makes_its_intervals_there(release, tmp_path):
    path = release.parent / "release.toml"
    asked = path.with_name("with.toml")
    asked.write_text(path.read_text() + 'intervals = "0.95"\n')
    here = run_release(load_plan(asked), tmp_path / "here", test_key=KEY)
    elsewhere = Elsewhere()
    there = run_release(load_plan(asked), tmp_path / "there", test_key=KEY, executors=elsewhere)
    assert "intervals" in elsewhere.works
    assert dict(there.manifest.digests) == dict(here.manifest.digests)
    assert not (there.path / "private").exists()
    assert not (there.path / interval_chunks.CHUNKS).exists()


def test_a_wrong_table_is_refused_by_others(pair, monkeypatch):
    _, there = pair

    def wrong(path, frame, metadata):
        own = frame.with_columns(pl.col("count") + 1) if "tables.partial" in path.parts else frame
        write_parquet(path, own, metadata)

    monkeypatch.setattr(intervals, "write_parquet", wrong)
    before = contents(there)
    with pytest.raises(SolverError, match="agrees with the counts"):
        make_intervals(there, executors=Elsewhere())
    assert contents(there) == before


def test_another_manifest_is_refused_by_others(pair, monkeypatch):
    """A machine that sees another folder at the same path."""
    _, there = pair
    monkeypatch.setattr(write, "PATIENCE_SECONDS", 0.0)

    class Other(Elsewhere):
        def serve(self, make):
            site = make()
            site.description["manifest"] = "0" * 64
            super().serve(lambda: site)

    with pytest.raises(StoreError) as caught:
        make_intervals(there, executors=Other())
    assert caught.value.code == "run-damaged"


@pytest.mark.parametrize("executor", ["ray", "threads"])
def test_the_intervals_of_a_district_take_no_executor(tmp_path, executor):
    with pytest.raises(ConfigError, match="--executor is of no use with --district"):
        command(tmp_path, district=tmp_path / "blocks.csv", executor=executor)


def test_an_executor_that_nobody_knows_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="wanted threads, ray"):
        command(tmp_path, executor="spark")
