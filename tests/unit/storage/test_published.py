"""Parquet files of a release that somebody damaged: one error that names the file, whatever is wrong with it."""

import os
import random
from contextlib import suppress

import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.storage.read import (
    names_of_tag,
    published_columns,
    published_height,
    published_tags,
    read_published,
)

READERS = [read_published, published_columns, published_height, published_tags]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "table[1].parquet"  # a path is no pattern
    pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}).write_parquet(path, metadata={"names": '["a"]'})
    return path


def test_a_sound_file_is_read(path):
    assert read_published(path, ["b"])["b"].to_list() == ["x", "y"]
    assert published_columns(path) == ("a", "b")
    assert published_height(path) == 2
    assert names_of_tag(path, published_tags(path)["names"]) == ("a",)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("content", [None, b"", b"PAR1", b"\0" * 100])
def test_a_missing_or_damaged_file_is_named(path, reader, content):
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreError, match=r"table\[1\]\.parquet cannot be read") as caught:
        reader(path)
    assert caught.value.code == "release-unreadable"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("planted", ["folder", "pipe"])
def test_what_is_no_file_is_refused_and_not_waited_for(path, reader, planted):
    path.unlink()
    if planted == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(StoreError, match=r"table\[1\]\.parquet cannot be read") as caught:
        reader(path)
    assert caught.value.code == "release-unreadable"


def test_a_missing_column_is_no_traceback(path):
    with pytest.raises(StoreError):
        read_published(path, ["c"])


def test_flipped_bytes_are_read_or_refused(path):
    sound, rng = path.read_bytes(), random.Random(4)
    for _ in range(150):
        damaged = bytearray(sound)
        for _ in range(rng.choice([1, 3, 10])):
            damaged[rng.randrange(4, len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged[: rng.choice([len(damaged), rng.randrange(len(damaged))])])
        for reader in READERS:
            with suppress(StoreError):
                reader(path)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '"a"', "[" * 100_000, "null"])
def test_a_tag_that_is_no_list_of_names_is_refused(path, text):
    with pytest.raises(StoreError):
        names_of_tag(path, text)
