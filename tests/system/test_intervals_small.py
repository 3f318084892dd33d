"""Intervals of releases that write only their small queries: each table has a model of its own, with merged cells.

The same noise is written twice, in full and by small queries. If all queries are small, both give the same estimates.
"""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.outer_worlds import write_persons, write_units
from tests.samples import nightly

from tallyveil.errors import ConfigError, SchemaError, StoreError
from tallyveil.estimation.intervals.questions import n_distinct_blocks
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.derived.district import district_answers
from tallyveil.postprocess.derived.quantities import ChosenCount, quantities_of
from tallyveil.postprocess.draws.model import posterior_of
from tallyveil.postprocess.exchange.exported import noisy_answers
from tallyveil.postprocess.intervals import fits as interval_fits
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.postprocess.intervals.model import open_release, release_measured
from tallyveil.products.topdown.page.release import write_report
from tallyveil.products.topdown.run.run import run_release

KEY = insecure_key("small queries")
GEOLEVELS = ("Region", "Town", "Block")
NUMBERS = ["estimate", "standard_error", "lower", "upper"]


def edited(folder: Path, name: str, *pairs: tuple[str, str]) -> Path:
    """The release file of that world with some changes."""
    text = (folder / f"{name}.toml").read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path = folder / f"edited-{name}.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module", params=["persons", nightly("units")])
def releases(request, tmp_path_factory):
    """A release that wrote all noisy answers, and the same one with small queries, both with intervals."""
    folder = tmp_path_factory.mktemp(request.param)
    write = write_persons if request.param == "persons" else write_units
    coarse, _ = write(folder)
    run_release(load_plan(coarse), folder / "coarse", test_key=KEY, workers=1)
    made = []
    for which in ("full", "small"):
        change = 'measurements = "none"', f'measurements = "{which}"\nintervals = "0.95"'
        path = edited(folder, request.param, change)
        made.append(run_release(load_plan(path), folder / which, test_key=KEY, workers=1).path)
    return made


def table(root: Path, geolevel: str, query: str) -> pl.DataFrame:
    folder = root / "intervals" / f"geolevel={geolevel}" / f"query={query.replace('*', '%2A')}"
    return pl.read_parquet(folder, hive_partitioning=False)


def test_estimates_are_those_of_all_cells_together(releases):
    full, small = releases
    plan = json.loads((small / "manifest.json").read_text())["body"]["plan"]
    for query in plan["tables"]:
        for geolevel in GEOLEVELS:
            one, other = table(full, geolevel, query), table(small, geolevel, query)
            assert one.drop(NUMBERS).equals(other.drop(NUMBERS))
            for name in NUMBERS[:2]:
                np.testing.assert_allclose(one[name].to_numpy(), other[name].to_numpy(), atol=2e-6)
            assert one["standard_error"].max() > 0


def test_the_manifest_says_what_each_table_is_estimated_from(releases):
    full, small = releases
    assert "estimated_from" not in json.loads((full / "intervals" / "_manifest.json").read_text())
    made = json.loads((small / "intervals" / "_manifest.json").read_text())
    plan = json.loads((small / "manifest.json").read_text())["body"]["plan"]
    assert [one["query"] for one in made["estimated_from"]] == plan["tables"]
    for one in made["estimated_from"]:
        for geolevel in GEOLEVELS:
            assert one["used"][geolevel] + one["unused"][geolevel]
    areas = [(one["area"], one["query"]) for one in made["compared"]]
    assert areas == [(area, query) for area in dict.fromkeys(a for a, _ in areas) for query in plan["tables"]]
    write_report(small)


def test_districts_have_the_same_answers(releases):
    full, small = releases
    blocks = pl.read_parquet(full / "geography.parquet")["Block"].cast(pl.String)[::3]
    one, other = district_answers(full, blocks).to_frame(), district_answers(small, blocks).to_frame()
    for name in ("estimate", "standard_error"):
        np.testing.assert_allclose(one[name].to_numpy(), other[name].to_numpy(), atol=1e-4)


def test_counts_of_different_tables_have_one_model(releases):
    full, small = releases
    release = open_release(small)
    blocks = pl.read_parquet(small / "geography.parquet")["Block"].cast(pl.String)
    chosen = [
        ChosenCount(f"{query} {number}", area, release.schema.query(query), 0)
        for query in release.plan["tables"]
        for number, area in enumerate((blocks, blocks[::3]))
    ]
    together, apart = quantities_of(full, chosen, workers=1), quantities_of(small, chosen, workers=1)
    np.testing.assert_allclose(apart.covariance, together.covariance, atol=1e-6)
    np.testing.assert_allclose(apart.estimates, together.estimates, atol=1e-3)
    with pytest.raises(ConfigError) as caught:
        posterior_of(release)
    assert caught.value.code == "tables-apart"


def test_a_table_that_does_not_fit_into_memory_is_refused(releases):
    _, small = releases
    measured = release_measured(open_release(small))
    asked = measured.schema.query("total")
    with pytest.raises(SchemaError, match="sets of cells") as caught:
        interval_fits.table_model(measured, asked, memory=10_000)
    assert caught.value.code == "blocks-too-large"
    assert interval_fits.table_model(measured, asked, memory=1 << 34).atoms.n > 0


def test_the_blocks_of_the_answers_count(releases):
    """Every answer may need a matrix of its own, whose size is that of the atoms."""
    _, small = releases
    release = open_release(small)
    measured, asked = release_measured(release), release.schema.query(release.plan["tables"][-1])
    model = interval_fits.table_model(measured, asked, memory=1 << 34)
    entries, queries = (
        model.tree.algebra.n_block_entries,
        max(len(level.measured) for level in model.tree.levels),
    )
    without = interval_fits.needed_bytes(measured.spine, model.atoms.n, entries, queries)
    answers = 8 * entries * n_distinct_blocks(model.tree.algebra, [model.asked])
    assert answers > 0
    share = interval_fits.LARGEST_SHARE
    with pytest.raises(SchemaError, match="answers") as caught:
        interval_fits.table_model(measured, asked, memory=int((without + answers) / share) - 1)
    assert caught.value.code == "blocks-too-large"
    assert interval_fits.table_model(measured, asked, memory=int((without + answers) / share) + 1).atoms.n


def test_tables_of_one_model_are_refused_when_their_answers_do_not_fit(releases, monkeypatch):
    full, _ = releases
    release = open_release(full)
    asked = [release.schema.query("total")]
    assert interval_fits.fits_of(release, asked, with_bounds=True)
    monkeypatch.setattr(interval_fits, "machine_memory", lambda: 8)
    with pytest.raises(SchemaError, match="'total' would need") as caught:
        interval_fits.fits_of(release, asked, with_bounds=True)
    assert caught.value.code == "blocks-too-large"


@pytest.fixture
def coarse_only(tmp_path, monkeypatch):
    """A world in which only "sex" and "relation*sex" are small."""
    monkeypatch.setattr("tallyveil.plans.release.SMALL_QUERY", 10)
    monkeypatch.setattr("tallyveil.plans.release.MOST_NUMBERS", 100)
    coarse, _ = write_persons(tmp_path)
    run_release(load_plan(coarse), tmp_path / "coarse", test_key=KEY, workers=1)
    return tmp_path


@pytest.mark.nightly
def test_large_queries_are_written_where_they_are_few(coarse_only):
    path = edited(coarse_only, "persons", ('measurements = "none"', 'measurements = "small"'))
    made = run_release(load_plan(path), coarse_only / "out", test_key=KEY, workers=1)
    folders = {
        path.parent.relative_to(made.path / "measurements").as_posix()
        for path in (made.path / "measurements").rglob("part-*")
    }
    # 2 regions, 6 towns, 24 blocks: 48 answers of "detailed" in two regions are 96 numbers
    assert {name for name in folders if name.startswith("Block/")} == {
        "Block/sex",
        "Block/relation.sex",
        "Block/ages.sex",
    }
    assert "Region/detailed" in folders
    assert "Town/detailed" not in folders
    with pytest.raises(StoreError, match="too many"):
        noisy_answers(made.path, made.manifest, "Town", "detailed")
    assert noisy_answers(made.path, made.manifest, "Town", "sex").height == 12
    # the age of people is determined where "detailed" is written
    make_intervals(made.path, tables=["age"], in_tables=False, workers=1)
    assert table(made.path, "Region", "age")["estimate"].null_count() == 0
    assert table(made.path, "Town", "age")["estimate"].null_count() == 6 * 6


def test_a_table_that_nothing_determines_is_refused_before_the_spend(coarse_only, monkeypatch):
    monkeypatch.setattr("tallyveil.plans.release.MOST_NUMBERS", 20)
    change = 'measurements = "none"', 'measurements = "small"\nintervals = "0.95"'
    path = edited(
        coarse_only, "persons", change, ('tables = ["total", "sex*age"]', 'tables = ["total", "age"]')
    )
    plan = load_plan(path)
    with pytest.raises(ConfigError) as caught:
        run_release(plan, coarse_only / "out", test_key=KEY, workers=1)
    assert caught.value.code == "table-undetermined"
    assert not list((coarse_only / "out").rglob("measurements"))
