"""Noisy answers are copied in parts, whatever the order of their rows."""

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import SchemaError
from tallyveil.measurements.layouts.described import answers, source
from tallyveil.measurements.layouts.described.settings import find_settings
from tallyveil.measurements.layouts.described.spine import read_spine
from tallyveil.measurements.store import StoredMeasurements
from tallyveil.schema.presets import load_preset

from .conftest import write_table
from .test_settings import KNOWN, files_of
from .test_spine import PLAIN

SCHEMA = load_preset("pl94-units")


def copied(files, out, level=4):
    spine = read_spine(files)
    settings = find_settings(files, spine, KNOWN)
    done = sum(answers.copy_answers(files, spine, settings, SCHEMA, level, out, {"run": "r"}))
    return done, StoredMeasurements(out, spine.spine, settings.shares)


@pytest.mark.parametrize("rows_at_once", [1, 2, 100])
def test_batches_and_parts_do_not_show(tmp_path, monkeypatch, rows_at_once):
    monkeypatch.setattr(source, "ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(answers, "VALUES_PER_PART", 4)
    files = files_of(tmp_path / "in")
    path = next((tmp_path / "in" / "Block.parquet" / "DPQuery").iterdir())
    frame = pl.read_parquet(path).with_columns(value=pl.Series([[5, -6], [2**33, 8], [0, 0]]))
    frame.reverse().write_parquet(path)
    done, stored = copied(files, tmp_path / "out")
    assert done == 6
    found = stored.measure("Block", "detailed", 0, 3, np.arange(2))
    assert found.values.tolist() == [[5, -6], [2**33, 8], [0, 0]]


def test_a_geolevel_without_measured_geounits_has_an_empty_part(tmp_path):
    files = files_of(tmp_path / "in", bypassed=True)
    done, _ = copied(files, tmp_path / "out", level=1)
    assert done == 0
    part = tmp_path / "out" / "measurements" / "County" / "detailed" / "part-00000.parquet"
    assert pl.read_parquet(part).height == 0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            [[5, None], [2, 8], [0, 0]],
            "has something else than a whole number of 64 bits as an answer of 'detailed'",
        ),
        ([[5, 1], [2, 8], [0, 2**35]], "has an answer of 'detailed' outside -8,589,934,592 to 8,589,934,592"),
        (
            pl.Series([[5, 1], [2, 2**63], [0, 0]], dtype=pl.List(pl.UInt64)),
            "has something else than a whole number of 64 bits as an answer of 'detailed'",
        ),
        ([[5, 1], [2], [0, 0]], "has 1 answers of 'detailed'; wanted 2"),
    ],
)
def test_lists_that_are_no_answers(tmp_path, values, words):
    files = files_of(tmp_path / "in")
    path = next((tmp_path / "in" / "Block.parquet" / "DPQuery").iterdir())
    pl.read_parquet(path).with_columns(value=pl.Series(values)).write_parquet(path)
    with pytest.raises(SchemaError) as caught:
        copied(files, tmp_path / "out")
    assert words in str(caught.value)


def test_answers_of_some_queries_only(tmp_path):
    files = files_of(tmp_path / "in")
    spine = read_spine(files)
    settings = find_settings(files, spine, KNOWN)
    variance = pl.read_parquet(next((tmp_path / "in" / "Block.parquet" / "DPQuery").iterdir()))["variance"][0]
    rows = [{"geocode": PLAIN[0], "query_name": "detailed_dpq", "value": [1, 2], "variance": variance}]
    write_table(tmp_path / "in", "Block", "DPQuery", rows)
    with pytest.raises(SchemaError, match="none of 'detailed'") as caught:
        list(answers.copy_answers(files, spine, settings, SCHEMA, 4, tmp_path / "out", {}))
    assert caught.value.code == "layout-rows"
