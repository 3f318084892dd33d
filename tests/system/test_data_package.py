"""`datapackage.json` describes every file of a release as it is, before and after intervals are made."""

import json

import polars as pl
import pytest
from frictionless import Package

from tallyveil.files.manifest_files import read_manifest
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.postprocess.measured import open_measurements
from tallyveil.products.topdown.run.run import measure_release, run_release
from tallyveil.storage.write import file_digest

KINDS = {
    "string": (pl.String, pl.Enum),
    "integer": (pl.Int64, pl.Int32),
    "number": (pl.Float64,),
    "array": (pl.List,),
}


@pytest.fixture
def plan(edit):
    """A release with a licence and a citation."""
    return load_plan(
        edit("[release]\n", '[release]\nlicence = "CC-BY-4.0"\ncitation = "Office: Example (2026)."\n')
    )


def described(root) -> dict:
    """The resources by path, once the whole is known to be valid and every file is as described."""
    content = json.loads((root / "datapackage.json").read_text())
    Package.from_descriptor(content)  # raises where the standard is broken
    found = {item["path"]: item for item in content["resources"]}
    assert len({item["name"] for item in found.values()}) == len(content["resources"]) == len(found)
    for path, item in found.items():
        assert (item["bytes"], item["hash"]) == (
            (root / path).stat().st_size,
            f"sha256:{file_digest(root / path)}",
        )
        if item["format"] == "parquet":
            stored = pl.read_parquet_schema(root / path)
            fields = item["schema"]["fields"]
            assert [field["name"] for field in fields] == list(stored)
            assert all(stored[field["name"]] in KINDS[field["type"]] for field in fields)
    return found


def test_every_file_is_described(plan, tmp_path):
    root = tmp_path / "out"
    manifest = run_release(plan, root, test_key=bytes(32), workers=1).manifest
    content, files = json.loads((root / "datapackage.json").read_text()), described(root)
    assert content["title"] == plan.name
    assert content["licenses"] == [{"name": "CC-BY-4.0"}]
    assert content["citation"] == "Office: Example (2026)."
    assert "must not be published" in content["description"]
    assert {*files, "datapackage.json"} == set(manifest.digests)
    table = files["tables/geolevel=Town/query=age/part-00000.parquet"]
    assert (table["geolevel"], table["query"]) == ("Town", "age")
    fields = {field["name"]: field for field in table["schema"]["fields"]}
    assert fields["age"]["constraints"] == {"required": True, "enum": ["young", "middle", "old"]}
    assert "constraints" not in fields["home"]
    assert fields["home"]["title"] == "home"
    assert fields["count"]["unit"] == plan.schema.unit.many
    people = {field["name"]: field for field in files["histogram/Town.parquet"]["schema"]["fields"]}
    assert people["home"]["constraints"]["enum"] == list(plan.schema.attribute("home").levels)


@pytest.mark.nightly
def test_it_follows_the_tables_when_intervals_are_made(plan, tmp_path):
    root = tmp_path / "out"
    run_release(plan, root, test_key=bytes(32), workers=1)
    before = described(root)
    make_intervals(root, tables=["age", "grown"], workers=1)
    after = described(root)
    assert set(before) < set(after)
    new = {path for path in after if path not in before}
    assert {path.split("/")[0] for path in new} == {"intervals"}
    recoded = after["intervals/geolevel=Town/query=grown/part-00000.parquet"]
    enums = [field["constraints"]["enum"] for field in recoded["schema"]["fields"] if "constraints" in field]
    assert enums == [list(plan.query("grown").factors[0].labels)]
    assert {*before, "datapackage.json"} == set(read_manifest(root).digests)
    assert read_manifest(root).digests["datapackage.json"] == file_digest(root / "datapackage.json")


@pytest.mark.nightly
def test_files_that_were_removed_are_no_obstacle(plan, tmp_path):
    root = tmp_path / "out"
    run_release(plan, root, test_key=bytes(32), workers=1)
    removed = "microdata/part-00000.parquet"
    (root / removed).unlink()
    make_intervals(root, tables=["age"], workers=1)
    content = json.loads((root / "datapackage.json").read_text())
    assert "schema" not in next(item for item in content["resources"] if item["path"] == removed)


@pytest.mark.nightly
def test_measuring_and_estimating_apart_describes_the_same(plan, tmp_path):
    run_release(plan, tmp_path / "whole", test_key=bytes(32), workers=1)
    measure_release(plan, tmp_path / "measured", test_key=bytes(32))
    estimate_release(open_measurements(tmp_path / "measured"), tmp_path / "later", workers=1)
    whole, later = described(tmp_path / "whole"), described(tmp_path / "later")
    same = [{path: item.get("schema") for path, item in files.items()} for files in (whole, later)]
    assert same[0] == same[1]
