"""Parquet files are read in batches, in order, and damage becomes one kind of error."""

import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.storage.read import scan_parquet, stream_parquet


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
