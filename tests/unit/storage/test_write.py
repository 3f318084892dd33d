"""Writes are complete or absent."""

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import GeographyError, StoreError
from tallyveil.storage import write
from tallyveil.storage.write import (
    file_digest,
    store_error,
    write_file,
    write_json,
    write_parquet,
    write_parquet_chunks,
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


def test_a_link_at_the_temporary_name_is_not_written_through(tmp_path):
    elsewhere = tmp_path / "of somebody else"
    elsewhere.write_text("theirs")
    (tmp_path / "file.partial").symlink_to(elsewhere)
    write_text(tmp_path / "file", "ours")
    assert elsewhere.read_text() == "theirs"
    assert (tmp_path / "file").read_text() == "ours"
    assert not (tmp_path / "file").is_symlink()


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


def pieces(rows: int, size: int) -> Iterator[pl.DataFrame]:
    whole = pl.DataFrame({"a": np.arange(rows), "b": [f"word {row % 7}" for row in range(rows)]})
    for start in range(0, rows, size):
        yield whole[start : start + size]


def test_a_file_of_many_chunks_is_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "ROWS_PER_GROUP", 100)
    path = tmp_path / "new" / "table.parquet"
    write_parquet_chunks(path, pieces(1_000, 130), {"run": "abc"})
    read = pl.read_parquet(path)
    assert read.equals(next(pieces(1_000, 1_000)))
    assert pl.read_parquet_metadata(path)["tallyveil.run"] == "abc"
    assert [entry.name for entry in path.parent.iterdir()] == ["table.parquet"]


def test_the_same_chunks_give_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        write_parquet_chunks(tmp_path / name, pieces(50_000, 7_000), {})
    assert file_digest(tmp_path / "one") == file_digest(tmp_path / "two")


def test_one_empty_chunk_is_an_empty_table(tmp_path):
    write_parquet_chunks(tmp_path / "table.parquet", [pl.DataFrame({"a": [1]}).clear()], {})
    assert pl.read_parquet(tmp_path / "table.parquet").shape == (0, 1)


def test_what_goes_wrong_in_a_chunk_is_told_unchanged(tmp_path):
    def broken() -> Iterator[pl.DataFrame]:
        yield from pieces(10, 5)
        raise GeographyError("a bad chunk")

    with pytest.raises(GeographyError, match="a bad chunk"):
        write_parquet_chunks(tmp_path / "table.parquet", broken(), {})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_named_like_the_home_folder_is_only_a_folder(tmp_path, monkeypatch):
    """polars takes a path that begins with ~ for the home folder."""
    home, here = tmp_path / "home", tmp_path / "here"
    for folder in (home, here):
        folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    frame = pl.DataFrame({"a": [1]})
    write_parquet(Path("~/one.parquet"), frame, {})
    write_parquet_chunks(Path("~/two.parquet"), [frame], {})
    write_file(Path("~/three.csv"), frame.write_csv)
    assert list(home.iterdir()) == []
    assert sorted(path.name for path in (here / "~").iterdir()) == ["one.parquet", "three.csv", "two.parquet"]
