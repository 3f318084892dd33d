"""CSV files have the rows of the tables, whatever stands in them."""

import json

import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.files.whole_tables import publish_csv
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.products.topdown.run.run import run_release
from tallyveil.storage.write import file_digest


def stacked(root):
    return pl.read_parquet(root / "tables/**/*.parquet", hive_partitioning=True)


def test_csv_files_have_the_rows_of_the_tables(edit, small_release, tmp_path, command):
    root, out = tmp_path / "out", tmp_path / "csv"
    edit("[geography]\n", '[geography]\nnames = "names.csv"\n')
    names = pl.DataFrame({"geolevel": ["Town"], "geocode": ["P01"], "name": ['"Sand", ü']})
    names.write_csv(small_release.parent / "names.csv")
    run_release(load_plan(small_release), root, test_key=bytes(32), workers=1)
    make_intervals(root, tables=["age"], workers=1)
    assert "9 files" in command("publish", "csv", root, "--out", out)
    stated = json.loads((out / "publication.json").read_text())
    assert stated["release"]["manifest_sha256"] == file_digest(root / "manifest.json")
    assert not stated["protected"]
    written = {file["path"]: file for file in stated["files"]}
    assert {*written, "publication.json"} == {
        path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()
    }
    assert all(file["sha256"] == file_digest(out / path) for path, file in written.items())
    tables = [out / path for path, file in written.items() if "query" in file]
    assert pl.read_csv(out / "names.csv").equals(names)
    expected = stacked(root)
    columns = ["geolevel", "query", *(name for name in expected.columns if name not in ("geolevel", "query"))]
    found = pl.concat(pl.read_csv(path, schema_overrides=expected.schema) for path in tables)
    assert found.columns == columns
    keys = ["geolevel", "query", "geocode", "age", "home"]
    assert found.sort(keys).equals(expected.select(columns).sort(keys))
    assert "NOT PRIVATE" in (out / "README.txt").read_text()
    with pytest.raises(StoreError):
        publish_csv(root, out)
    with pytest.raises(StoreError):
        publish_csv(root, root / "csv")
    part = root / "tables" / "geolevel=Town" / "query=age" / "part-00000.parquet"
    pl.read_parquet(part, hive_partitioning=False).write_parquet(part)
    with pytest.raises(StoreError):
        publish_csv(root, tmp_path / "again")
