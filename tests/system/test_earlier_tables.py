"""Releases whose tables an earlier version wrote are reported and evaluated; new intervals say what to do."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import tallyveil
from tallyveil.errors import StoreError
from tallyveil.files.histograms import enum_column
from tallyveil.files.manifest import listed_file
from tallyveil.files.manifest_files import read_manifest, write_manifest
from tallyveil.files.tables import table_folder
from tallyveil.files.whole_tables import publish_csv
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.derived.district import district_answers
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.products.topdown.page.release import write_report
from tallyveil.products.topdown.run.evaluate import evaluate_release
from tallyveil.products.topdown.run.run import run_release
from tallyveil.schema.answer_columns import answer_expression
from tallyveil.schema.schema import Schema
from tallyveil.storage.outputs import remove
from tallyveil.storage.paths import file_name
from tallyveil.storage.read import parquet_metadata, read_parquet


def as_before(root: Path, schema: Schema, kind: str, area: str, query: str) -> None:
    """Put a table into the form that versions before this one wrote."""
    folder, group = table_folder(root, area, query, kind), schema.query(query)
    for part in folder.glob("*.parquet"):
        frame, stored = read_parquet(part), parquet_metadata(part)
        tags = {name: text for name, text in stored.items() if name.startswith("tallyveil.")}
        answers = frame.select(answer_expression(group))["answer"].to_numpy()
        labels = enum_column("answer", group.labels(), answers)
        if kind == "tables":
            made = frame.select(
                pl.lit(area).alias("geolevel"), "geocode", pl.lit(query).alias("query"), labels, "count"
            )
        else:
            beside = frame.select("estimate", "standard_error", "lower", "upper")
            made = pl.DataFrame([frame["geocode"], labels, frame["count"].alias("published"), *beside])
        place = root / kind / file_name(area) / file_name(query) / part.name
        place.parent.mkdir(parents=True, exist_ok=True)
        made.write_parquet(place, metadata=tags)


@pytest.fixture
def earlier(small_release, tmp_path):
    """A release with tables and intervals of the earlier form."""
    plan, root = load_plan(small_release), tmp_path / "out"
    run_release(plan, root, test_key=bytes(32), workers=1)
    make_intervals(root, in_tables=False, workers=1)
    for kind in ("tables", "intervals"):
        for area in plan.geolevels:
            for query in plan.tables:
                as_before(root, plan.schema, kind, area, query)
            remove(root / kind / f"geolevel={area}")
    manifest = read_manifest(root)
    kept = [file.path for file in manifest.files if not file.path.startswith("tables/")]
    made = [path.relative_to(root).as_posix() for path in (root / "tables").rglob("*.parquet")]
    write_manifest(root, replace(manifest, files=tuple(listed_file(root, path) for path in [*kept, *made])))
    return root


@pytest.mark.nightly
def test_an_earlier_release_is_reported_evaluated_and_asked_for_districts(earlier, small_release):
    page = write_report(earlier).read_text()
    assert 'id="uncertainty"' in page
    evaluate_release(earlier, small_release.parent / "people.parquet")
    codes = pl.read_parquet(earlier / "geography.parquet")["Block"][3:20]
    before = district_answers(earlier, codes)
    assert all(line.estimate is not None for line in before.answers)
    files = {path for path in earlier.rglob("*.parquet") if "tables" in path.parts}
    with pytest.raises(StoreError, match="--leave-tables") as refused:
        make_intervals(earlier, workers=1)
    assert refused.value.code == "tables-format"
    make_intervals(earlier, in_tables=False, workers=1)
    assert files == {path for path in earlier.rglob("*.parquet") if "tables" in path.parts}
    assert json.loads((earlier / "intervals" / "_manifest.json").read_text())["format"] == 2
    assert write_report(earlier).read_text().count("uncertainty") == page.count("uncertainty")
    for one, other in zip(before.answers, district_answers(earlier, codes).answers, strict=True):
        assert (one.published, one.lower, one.upper) == (other.published, other.lower, other.upper)
        assert one.estimate == pytest.approx(other.estimate, abs=1e-9)


@pytest.mark.nightly
def test_an_earlier_release_opened_from_python_says_what_to_do(earlier, tmp_path):
    (earlier / "intervals" / "_manifest.json").rename(earlier / "intervals" / "manifest.json")
    release = tallyveil.open(earlier)
    assert isinstance(release, tallyveil.Release)
    town = pl.read_parquet(earlier / "geography.parquet")["Town"][0]
    assert release.area(town).estimate(["total"]).answers[0].estimate is not None
    counts = release.quantities({"all": release.area(town).count("total")})
    assert counts.sum("all").lacking is None
    assert release.measurements("Town", "total").height > 0
    for read, advice in (
        (lambda: release.table("Town", "total"), "`tallyveil estimate`"),
        (lambda: release.interval("total", town), "--leave-tables"),
        (release.add_intervals, "--leave-tables"),
        (lambda: publish_csv(earlier, tmp_path / "csv"), "`tallyveil estimate`"),
    ):
        with pytest.raises(StoreError, match=advice) as refused:
            read()
        assert refused.value.code == "tables-format"
