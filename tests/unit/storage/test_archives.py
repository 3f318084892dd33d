"""Archives give back what was put into them, and nothing of another origin."""

import zipfile
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tallyveil.errors import StoreError
from tallyveil.storage.archives import (
    archived,
    content_of,
    extract_files,
    read_archive,
    write_archive,
)

RECORDS = st.dictionaries(
    st.text(max_size=8), st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
)
ARRAYS = st.dictionaries(
    st.text("abcxyz_", min_size=1, max_size=8),
    npst.arrays(st.sampled_from(["<i4", "<i8", "<f8", "?"]), npst.array_shapes(min_side=0, max_side=4)),
    max_size=4,
)


@settings(max_examples=60)
@given(RECORDS, ARRAYS)
def test_records_and_arrays_come_back(tmp_path_factory, record, arrays):
    path = tmp_path_factory.mktemp("archive") / "one"
    write_archive(path, record, arrays)
    found = read_archive(path)
    assert found.record == record
    assert found.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found.arrays[name].dtype == array.dtype
        assert found.arrays[name].tobytes() == array.tobytes()
        assert found.arrays[name].shape == array.shape
        # Kernels take a read-only array as one of another type.
        assert found.arrays[name].flags.writeable


def test_files_go_into_the_readers_folder(tmp_path):
    made = tmp_path / "made"
    (made / "a" / "b").mkdir(parents=True)
    (made / "a" / "b" / "one").write_bytes(b"1" * 5_000_000)
    (made / "two").write_bytes(b"2")
    write_archive(tmp_path / "archive", {}, {}, made)
    extract_files(tmp_path / "archive", tmp_path / "release")
    assert (tmp_path / "release" / "a" / "b" / "one").read_bytes() == b"1" * 5_000_000
    assert (tmp_path / "release" / "two").read_bytes() == b"2"
    assert sorted(path.name for path in (tmp_path / "release").rglob("*")) == ["a", "b", "one", "two"]


@pytest.mark.parametrize("name", ["files/../outside", "files//etc/outside", "files/a/../../outside"])
def test_a_file_that_would_leave_the_folder_is_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.writestr("record.json", "{}")
        archive.writestr(name, "planted")
    (tmp_path / "release").mkdir()
    with pytest.raises(StoreError) as refused:
        extract_files(tmp_path / "archive", tmp_path / "release")
    assert refused.value.code == "path-outside"
    assert not (tmp_path / "outside").exists()


def test_arrays_of_python_objects_are_not_read(tmp_path):
    path = tmp_path / "archive"
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("record.json", "{}")
        archive.write(tmp_path / "objects.npy", "arrays/objects.npy")
    with pytest.raises(StoreError) as refused:
        read_archive(path)
    assert refused.value.code == "run-damaged"


@pytest.mark.parametrize("keep", [0, 10, 60])
def test_half_an_archive_is_refused(tmp_path, keep):
    path = tmp_path / "archive"
    write_archive(path, {"a": 1}, {"b": np.arange(4)})
    path.write_bytes(path.read_bytes()[:keep])
    for read in (read_archive, lambda path: extract_files(path, tmp_path)):
        with pytest.raises(StoreError) as refused:
            read(path)
        assert refused.value.code == "run-damaged"


def test_what_cannot_be_read_or_written_is_said(tmp_path):
    with pytest.raises(StoreError):
        read_archive(tmp_path / "absent")
    with pytest.raises(StoreError):
        write_archive(tmp_path / "absent" / "archive", {}, {})


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "archive"
    write_archive(path, {"families": 3}, {"counts": np.arange(4)})
    return path


def _refused(path):
    with pytest.raises(StoreError) as refused:
        read_archive(path)
    assert refused.value.code == "run-damaged"


def test_an_archive_that_claims_another_version_is_damaged(archive):
    """The version stands 6 bytes behind the signature of each entry of the directory at the end."""
    content = bytearray(archive.read_bytes())
    place = content.index(b"PK\x01\x02")
    content[place + 6] = 96
    archive.write_bytes(content)
    _refused(archive)


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_that_says_it_is_compressed_is_damaged(archive, kind):
    """The bytes are stored as they are, so that each way to decompress them would fail with an error of its own."""
    content = bytearray(archive.read_bytes())
    content[content.index(b"PK\x01\x02") + 10] = kind
    archive.write_bytes(content)
    _refused(archive)


def test_an_archive_that_says_it_is_encrypted_is_damaged(archive):
    content = bytearray(archive.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(content)
    _refused(archive)


def test_a_record_that_is_nested_too_deeply_is_damaged(tmp_path):
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.writestr("record.json", "[" * 100_000 + "]" * 100_000)
    _refused(tmp_path / "archive")


class Shade(Enum):
    """An enumeration whose members travel by value."""

    DARK = "dark"
    PALE = "pale"


class Pair(NamedTuple):
    """A named tuple with an array."""

    left: np.ndarray
    right: int


@dataclass(frozen=True)
class Outcome:
    """What a chunk may give."""

    shades: tuple[Shade, ...]
    counted: "Counter[str]"
    pair: Pair
    pieces: dict[tuple[int, int], np.ndarray]
    gap: float


def test_a_result_is_the_same_after_it_was_written_and_read(tmp_path):
    result = Outcome(
        (Shade.PALE, Shade.DARK),
        Counter({"a": 2}),
        Pair(np.arange(3), 7),
        {(1, 0): np.zeros((2, 2), np.int32), (1, 2): np.zeros(0)},
        0.1,
    )
    path = tmp_path / "result"
    write_archive(path, *archived([result, result]))
    for again in content_of(list[Outcome], read_archive(path)):
        assert (again.shades, again.counted, again.gap) == (result.shades, result.counted, result.gap)
        assert isinstance(again.counted, Counter)
        assert (again.pair.left.tolist(), again.pair.right) == ([0, 1, 2], 7)
        assert again.pieces.keys() == result.pieces.keys()
        assert again.pieces[1, 0].dtype == np.int32


def test_numbers_and_texts_are_results_too(tmp_path):
    for kind, result in ((int, 5), (list[str], ["passed"])):
        write_archive(tmp_path / "result", *archived(result))
        assert content_of(kind, read_archive(tmp_path / "result")) == result
