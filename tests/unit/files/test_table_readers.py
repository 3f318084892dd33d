"""Anybody reads all tables of a release in one line, with the same rows, whatever the names are."""

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.dataset
import pytest
from tests.samples import few

from tallyveil.errors import SchemaError
from tallyveil.files import tables
from tallyveil.files.intervals import (
    BESIDE,
    INTERVALS_MANIFEST,
    README,
    clear_other_tables,
    exchange_tables,
    start_tables,
)
from tallyveil.files.tables import table_folder, table_tags, write_table
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.names import check_areas, check_factor_name, check_table_name
from tallyveil.schema.schema import Schema
from tallyveil.storage.write import write_parquet

LEVELS = ("Land: 100 %", "County Sub=division", "町", "Block 2020")
CODES = [f"0{i}{j}{k}" for i in range(2) for j in range(2) for k in range(3)]
SPINE = spine_from_prefixes(CODES, LEVELS, (0, 2, 3, 4))
SCHEMA = Schema(
    "odd",
    (Attribute("sex", ("f", "m")), Attribute("age group, in years", ("0-17", "18+", "?"))),
    (
        Recode("d'âge", "age group, in years", (("minor", ("0-17",)), ("other", ("18+", "?")))),
        Recode(
            "up_to",
            "age group, in years",
            (("0-17", ("0-17",)), ("all", ("0-17", "18+", "?"))),
            overlapping=True,
        ),
        Recode("50%25", "sex", (("everybody", ("f", "m")),)),
        Recode("n" * 200, "sex", (("f", ("f",)),)),
    ),
)
QUERIES = ("total", "sex", "sex*age group, in years", "d'âge*sex", "up_to", "50%25", "n" * 200, "detailed")
COLUMNS = ["geolevel", "query", "geocode", *SCHEMA.attribute_names, "count"]
Row = tuple[Any, ...]


@pytest.fixture
def release(tmp_path, monkeypatch):
    """A folder whose tables are in several parts, and of which some leave zeros out."""
    monkeypatch.setattr(tables, "ANSWERS_WITH_ZEROS", 4)
    monkeypatch.setattr(tables, "ROWS_PER_PART", 8)
    rng = np.random.default_rng(1)
    rows, cells = rng.integers(0, len(CODES), 40), rng.integers(0, SCHEMA.size, 40)
    for level in range(SPINE.n_levels):
        offsets = SPINE.finest_offsets(level)
        places = np.searchsorted(offsets, rows, side="right") - 1
        sparse = compress_rows(SPINE.n_geounits(level), places, cells, np.ones(40, np.int64))
        for query in QUERIES:
            counts = PublicCounts(LEVELS[level], *sparse)
            assert list(write_table(tmp_path, counts, SCHEMA.query(query), SPINE, {"run": "0"}))
    return tmp_path


def polars_rows(folder, columns) -> list[Row]:
    return pl.read_parquet(folder / "**/*.parquet", hive_partitioning=True).select(columns).rows()


def duckdb_rows(folder, columns) -> list[Row]:
    source = f"read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
    wanted = ", ".join(f'"{name}"' for name in columns)
    return duckdb.sql(f"SELECT {wanted} FROM {source}").fetchall()


def pandas_rows(folder, columns) -> list[Row]:
    frame = pd.read_parquet(folder)[columns].astype(object)
    return list(frame.where(frame.notna(), None).itertuples(index=False, name=None))


def arrow_rows(folder, columns) -> list[Row]:
    table = pyarrow.dataset.dataset(folder, partitioning="hive").to_table(columns=columns)
    return [tuple(row.values()) for row in table.to_pylist()]


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


READERS = {"duckdb": duckdb_rows, "pandas": pandas_rows, "pyarrow": arrow_rows}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_the_same_rows(release, reader):
    expected = polars_rows(release / "tables", COLUMNS)
    assert {row[0] for row in expected} == set(LEVELS)
    assert {row[1] for row in expected} == set(QUERIES)
    assert sum(row[-1] for row in expected if row[:2] == (LEVELS[0], "total")) == 40
    assert ordered(READERS[reader](release / "tables", COLUMNS)) == ordered(expected)


@pytest.mark.parametrize("reader", READERS)
def test_the_readme_and_the_manifest_of_intervals_are_left_out(release, reader):
    """Names that begin with an underscore: the line that reads `tables` reads `intervals`, too."""
    folder = (release / "tables").rename(release / "intervals")
    expected = polars_rows(folder, COLUMNS)
    for name in (README, INTERVALS_MANIFEST):
        (folder / name).write_text("no table")
    assert polars_rows(folder, COLUMNS) == expected
    assert ordered(READERS[reader](folder, COLUMNS)) == ordered(expected)


def test_all_files_have_the_same_columns_and_types(release):
    schemas = {
        str(pyarrow.parquet.read_schema(path).remove_metadata()) for path in release.rglob("*.parquet")
    }
    assert len(schemas) == 1
    assert "dictionary" not in schemas.pop()


@pytest.mark.parametrize("reader", few(1, READERS))
def test_tables_with_and_without_intervals_are_read_as_one(release, reader):
    staging = start_tables(release)
    for level in LEVELS:
        for part in table_folder(release, level, "sex").glob("*.parquet"):
            made = pl.read_parquet(part, hive_partitioning=False).with_columns(
                (pl.col("count") / 2).cast(kind).alias(name) for name, kind in BESIDE.items()
            )
            tags = table_tags(level, "sex", zeros=True)
            write_parquet(table_folder(staging, level, "sex") / part.name, made, tags)
    clear_other_tables(release, staging, [SCHEMA.query(name) for name in QUERIES if name != "sex"])
    exchange_tables(release, staging)
    columns = [*COLUMNS, *BESIDE]
    expected = polars_rows(release / "tables", columns)
    assert {row[1] for row in expected if row[-1] is not None} == {"sex"}
    assert ordered(READERS[reader](release / "tables", columns)) == ordered(expected)


@pytest.mark.parametrize(
    "name",
    [
        "7",
        "007",
        "1.5",
        "1e5",
        "-1",
        "2020-01-01",
        "2020-01-01T10:00:00",
        "12:30",
        "True",
        "NaN",
        "inf",
        "NULL",
    ],
)
def test_names_that_readers_take_for_something_else_are_refused(name):
    with pytest.raises(SchemaError, match="looks like a number"):
        check_table_name(name, "query")
    with pytest.raises(SchemaError):
        check_areas([name, "Block"])


def test_names_that_are_too_long_for_a_folder_are_refused():
    check_table_name("n" * 240, "query")
    for name in ("n" * 241, "町" * 27, "*" * 81):
        with pytest.raises(SchemaError, match="at most 240"):
            check_table_name(name, "query")


@pytest.mark.parametrize(
    "name",
    [
        "geolevel",
        "geocode",
        "query",
        "count",
        "Count",
        "estimate",
        "standard_error",
        "lower",
        "UPPER",
        "value",
        "variance",
    ],
)
def test_attributes_are_not_called_like_other_columns(name):
    with pytest.raises(SchemaError, match="reserved for columns of published tables"):
        check_factor_name(name, "attribute")
