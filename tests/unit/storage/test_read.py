"""Parquet files are read in batches, in order, and damage becomes one kind of error."""

import os

import polars as pl
import pytest

from tallyveil.errors import ConfigError, SchemaError, StoreError
from tallyveil.schema.names import check_name
from tallyveil.storage.read import collect, collect_batches, scan_parquet, scan_table, stream_parquet


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_batches_have_the_order_of_the_file(tmp_path, rows):
    path = tmp_path / "long.parquet"
    frame = pl.DataFrame({"n": range(40), "list": [[n] * (n % 5) for n in range(40)]})
    frame.write_parquet(path, row_group_size=7)
    batches = list(stream_parquet(scan_parquet(path).filter(pl.col("n") != 3), path, "test", rows))
    assert all(0 < batch.height <= rows for batch in batches)
    assert pl.concat(batches).equals(frame.filter(pl.col("n") != 3))


def test_a_damaged_file_is_no_traceback(tmp_path):
    path = tmp_path / "cut.parquet"
    pl.DataFrame({"n": range(4000)}).write_parquet(path, compression="uncompressed", statistics=False)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(StoreError, match="reading the test file") as caught:
        list(stream_parquet(scan_parquet(path), path, "test", 10))
    assert caught.value.code == "input-unreadable"


@pytest.mark.parametrize("read", [collect, lambda *of: list(collect_batches(*of))])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, read):
    path = tmp_path / "pipe.parquet"
    os.mkfifo(path)
    with pytest.raises(StoreError, match="reading the test file") as caught:
        read(scan_parquet(path), path, "test")
    assert caught.value.code == "input-unreadable"


def test_the_refusal_wants_what_the_name_says(tmp_path):
    """A GeoParquet file, for one, is never CSV."""
    for name, wanted in {"a.parquet": "a Parquet file.", "a.csv": "a CSV file with a header line."}.items():
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(StoreError) as caught:
            scan_table(tmp_path / name, ["geocode"], "geometry")
        assert str(caught.value).endswith(f"what it should be: {wanted}")


@pytest.mark.parametrize("name", ["^a$", "*", "^.*$"])
def test_a_column_whose_name_stands_for_others_is_refused(tmp_path, name):
    """Polars would read column `a` in the place of `^a$`, which is in the table, too."""
    pl.DataFrame({name: ["1"], "a": ["2"]}).write_csv(tmp_path / "a.csv")
    with pytest.raises(SchemaError) as caught:
        scan_table(tmp_path / "a.csv", ["a", name], "records")
    assert caught.value.code == "bad-name"
    assert name in str(caught.value)
    assert scan_table(tmp_path / "a.csv", ["a"], "records").collect()["a"].to_list() == ["2"]
    if name != "*":
        with pytest.raises(SchemaError, match="pattern"):
            check_name(name, "attribute")


def test_a_header_of_any_length_leaves_the_message_short(tmp_path):
    """A header may be of any length, and a file of another kind may have anything in its first line."""
    path = tmp_path / "blocks.csv"
    path.write_text(",".join(["x" * 100_000, "geocod", *(f"column{n}" for n in range(3000))]) + "\n")
    with pytest.raises(ConfigError) as caught:
        scan_table(path, ["geocode"], "geography")
    assert caught.value.code == "column-missing"
    assert f"{'x' * 77}..., geocod, column0" in str(caught.value)
    assert len(str(caught.value)) < 5000


@pytest.mark.parametrize(
    "line", [b"geocode,n,secret\r1101,75431\r", b"geocode,n\r1101\n", b"geocode," + b"secret" * 30_000]
)
def test_a_header_line_that_is_none_is_refused(tmp_path, line):
    """Some old programs end a line with a carriage return alone. The whole file is then one line of records."""
    path = tmp_path / "records.csv"
    path.write_bytes(line)
    with pytest.raises(StoreError, match="must end with a line feed") as caught:
        scan_table(path, ["geocode"], "records", confidential=True)
    assert caught.value.code == "input-unreadable"
    assert not any(word in str(caught.value) for word in ("secret", "1101", "75431"))
