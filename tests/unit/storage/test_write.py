"""Writes are complete or absent."""

import errno
import json

import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.storage.write import (
    file_digest,
    store_error,
    write_file,
    write_json,
    write_parquet,
    write_text,
)


def test_a_write_that_fails_leaves_nothing(tmp_path):
    def fail(path):
        path.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StoreError) as caught:
        write_file(tmp_path / "out.txt", fail)
    assert caught.value.code == "disk-full"
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_keeps_what_was_there(tmp_path):
    path = tmp_path / "out.txt"
    write_text(path, "before")

    def fail(path):
        path.write_text("half")
        raise OSError(errno.EIO, "broken")

    with pytest.raises(StoreError, match="failed"):
        write_file(path, fail)
    assert path.read_text() == "before"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "disk-full"),
        (errno.EDQUOT, "disk-full"),
        (errno.EROFS, "not-writable"),
        (errno.EIO, "write-failed"),
    ],
)
def test_errors_say_what_to_do(tmp_path, number, code):
    assert store_error(tmp_path / "x", OSError(number, "text")).code == code


def test_parquet_carries_its_tags(tmp_path):
    path = tmp_path / "table.parquet"
    write_parquet(path, pl.DataFrame({"a": [1, 2]}), {"run": "abc"})
    tags = pl.read_parquet_metadata(path)
    assert tags["tallyveil.run"] == "abc"
    assert tags["tallyveil.format"] == "1"


def test_json_keeps_the_order_of_keys(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"b": 1, "a": 2})
    assert list(json.loads(path.read_text())) == ["b", "a"]


def test_digest_is_of_the_bytes(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    assert file_digest(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
