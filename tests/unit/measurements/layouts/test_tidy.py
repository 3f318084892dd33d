"""One row for each noisy answer, with what it counts; every reader of the published tables reads them, too."""

import polars as pl
import pyarrow.parquet
import pytest
from tests.unit.files.test_table_readers import READERS, ordered, polars_rows

from tallyveil.errors import SchemaError
from tallyveil.measurements.layouts import tidy
from tallyveil.schema.presets import load_preset

SCHEMA = load_preset("pl94-persons")
TOTAL, RECODE, PRODUCT = (SCHEMA.query(name) for name in ("total", "hhinstlevels", "votingage*hispanic"))
GEOLEVELS = ("County Sub=division: 100 %", "Tract")
NAMES = ["geocode", "hhgq", "votingage", "hispanic", "cenrace", "value", "variance"]


def part(group):
    values = [[10 * row + answer for answer in range(group.size)] for row in range(3)]
    return pl.DataFrame({"geocode": ["a", "b/c", "d"], "values": values, "variance": [1.5, 2.5, 3.5]})


def written(root, group, geolevel="Tract"):
    assert tidy.write_tidy(root, geolevel, group, part(group), 4, {"x": "y"}) > 4
    paths = sorted((root / "measurements" / f"geolevel={geolevel}").rglob("*.parquet"))
    assert paths[0].name == "part-00004.parquet"
    assert pl.read_parquet_metadata(paths[0])["tallyveil.query"] == group.name
    return pl.concat([pl.read_parquet(path, hive_partitioning=False) for path in paths])


@pytest.mark.parametrize("rows_at_once", [1, 5, 100])
def test_rows_of_a_product(tmp_path, monkeypatch, rows_at_once):
    monkeypatch.setattr(tidy, "ROWS_AT_ONCE", rows_at_once)
    found = written(tmp_path, PRODUCT)
    assert found.columns == NAMES
    assert found["value"].to_list() == [10 * row + answer for row in range(3) for answer in range(4)]
    assert found["geocode"].to_list() == [code for code in ("a", "b/c", "d") for _ in range(4)]
    assert found["variance"].unique().to_list() == [1.5, 2.5, 3.5]
    assert found[["votingage", "hispanic"]].rows()[:4] == [
        ("under_18", "not_hispanic"),
        ("under_18", "hispanic"),
        ("18_plus", "not_hispanic"),
        ("18_plus", "hispanic"),
    ]
    assert found["hhgq"].null_count() == 12


def test_a_recode_is_in_the_column_of_its_attribute(tmp_path):
    found = written(tmp_path, RECODE)
    assert found["hhgq"][:3].to_list() == list(RECODE.factors[0].labels)
    assert written(tmp_path / "total", TOTAL)["hhgq"].null_count() == 3


def test_answers_on_the_support_are_those_of_all_answers():
    every = tidy.tidy_rows(PRODUCT, part(PRODUCT))
    kept = pl.DataFrame(
        {"answers": [[0, 3], [], [1]], "values": [[0, 3], [], [21]]},
        schema={"answers": pl.List(pl.Int32), "values": pl.List(pl.Int32)},
    )
    found = tidy.tidy_rows(PRODUCT, part(PRODUCT).select("geocode", "variance").hstack(kept))
    assert found.equals(every[[0, 3, 9]])


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_the_same_rows(tmp_path, reader):
    for geolevel in GEOLEVELS:
        for group in (TOTAL, RECODE, PRODUCT):
            tidy.write_tidy(tmp_path, geolevel, group, part(group), 0, {})
    columns = ["geolevel", "query", *NAMES]
    expected = polars_rows(tmp_path / "measurements", columns)
    assert {row[0] for row in expected} == set(GEOLEVELS)
    assert {row[1] for row in expected} == {"total", "hhinstlevels", "votingage*hispanic"}
    assert len(expected) == 2 * 3 * (1 + RECODE.size + 4)
    assert ordered(READERS[reader](tmp_path / "measurements", columns)) == ordered(expected)
    schemas = {
        str(pyarrow.parquet.read_schema(path).remove_metadata()) for path in tmp_path.rglob("*.parquet")
    }
    assert len(schemas) == 1


@pytest.mark.parametrize(("geolevels", "queries"), [(["2020"], []), (["Tract"], ["total", "7"])])
def test_names_that_readers_take_for_something_else_are_refused(geolevels, queries):
    with pytest.raises(SchemaError, match="looks like a number") as caught:
        tidy.require_names(geolevels, queries)
    assert caught.value.code == "layout-unsuited"
    tidy.require_names(GEOLEVELS, ["total", "votingage*hispanic"])
