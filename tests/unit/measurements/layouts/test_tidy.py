"""One row for each answer, with the level or the group that it counts."""

import polars as pl
import pytest

from tallyveil.errors import SchemaError
from tallyveil.measurements.layouts import tidy
from tallyveil.universe.attribute import Attribute
from tallyveil.universe.presets import load_preset
from tallyveil.universe.schema import Schema

SCHEMA = load_preset("pl94-persons")
QUERIES = [SCHEMA.query(name) for name in ("total", "hhinstlevels", "votingage*hispanic")]
WORDS = tidy.words_of(QUERIES)


def written(root, group, rows_at_once, monkeypatch):
    monkeypatch.setattr(tidy, "ROWS_AT_ONCE", rows_at_once)
    values = [[10 * row + answer for answer in range(group.size)] for row in range(3)]
    frame = pl.DataFrame({"geocode": ["a", "b/c", "d"], "values": values, "variance": [1.5, 2.5, 3.5]})
    assert tidy.write_tidy(root, "Tract", group, WORDS, frame, 4, {"x": "y"}) > 4
    paths = sorted((root / "Tract").rglob("*.parquet"))
    assert paths[0].name == "part-00004.parquet"
    return pl.concat([pl.read_parquet(path) for path in paths])


@pytest.mark.parametrize("rows_at_once", [1, 5, 100])
def test_rows_of_a_product(tmp_path, monkeypatch, rows_at_once):
    found = written(tmp_path, QUERIES[2], rows_at_once, monkeypatch)
    names = ["hhgq", "votingage", "hispanic", "cenrace"]
    assert found.columns == ["geolevel", "geocode", "query", *names, "value", "variance"]
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


def test_a_recode_is_in_the_column_of_its_attribute(tmp_path, monkeypatch):
    found = written(tmp_path, QUERIES[1], 100, monkeypatch)
    assert found["hhgq"][:3].to_list() == list(QUERIES[1].factors[0].labels)
    total = written(tmp_path / "total", QUERIES[0], 100, monkeypatch)
    assert total.schema == found.schema  # so that all files can be read together
    assert total["hhgq"].null_count() == 3


def test_names_that_are_taken():
    schema = Schema("s", (Attribute("value", ("a", "b")),))
    with pytest.raises(SchemaError, match="an attribute 'value'") as caught:
        tidy.require_columns(schema)
    assert caught.value.code == "layout-unsuited"
