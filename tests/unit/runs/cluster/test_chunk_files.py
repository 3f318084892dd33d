"""Only files that a holder of the key finished count as finished."""

import json
import os
import stat

import pytest

from tallyveil.errors import ClusterError, StoreError
from tallyveil.runs.cluster import chunk_files as module
from tallyveil.runs.cluster.chunk_files import ChunkFiles
from tallyveil.runs.cluster.failures import UnwrittenError
from tallyveil.storage.write import write_text

KEY = b"k" * 32
AT = {"stage": "a", "level": 2}


@pytest.fixture
def files(tmp_path):
    return ChunkFiles(tmp_path / "chunks", KEY)


def kept(files, text="result", number=5, address=AT):
    return files.keep(address, number, lambda path: write_text(path, text))


def test_what_is_kept_is_finished_for_its_own_chunk_alone(files):
    digest = kept(files)
    path = files.finished(AT, 5)
    assert path.read_text() == "result"
    assert files.awaited(AT, 5, digest, seconds=0) == path
    assert files.finished(dict(reversed(AT.items())), 5) == path
    assert files.finished(AT, 6) is None
    assert files.finished(AT | {"level": 3}, 5) is None


def test_files_are_for_this_user_alone(files, tmp_path):
    kept(files)
    found = list((tmp_path / "chunks").iterdir())
    assert len(found) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
    assert stat.S_IMODE((tmp_path / "chunks").stat().st_mode) == 0o700


def test_another_version_finds_what_this_one_wrote(files, tmp_path):
    """Names and records stay the same between versions, so that a run that is resumed does no chunk twice."""
    name = "88fa3239b6bf413ae50ce62d5c50a6a684d3c6b337a9ac8e27beae1fe3215678"
    digest = kept(files, "result", 5, {"stage": "a", "level": 2})
    assert {path.name for path in (tmp_path / "chunks").iterdir()} == {
        f"{name}.{digest[:32]}",
        f"{name}.json",
    }
    assert json.loads((tmp_path / "chunks" / f"{name}.json").read_text()) == {
        "sha256": "f6a214f7a5fcda0c2cee9660b7fc29f5649e3c68aad48e20e950137c98913a68",
        "mac": "28c03eeeeaf90419ce3ffd4dfe54bd26c571a78e4be07f2526dfcb6d98b2446f",
    }


@pytest.mark.parametrize("replaces", [False, True])
def test_a_file_is_private_from_the_start_whatever_the_umask(tmp_path, replaces):
    """Also where what writes it puts another file in its place."""
    files, modes = ChunkFiles(tmp_path / "new" / "chunks", KEY), []

    def write(path):
        modes.append(stat.S_IMODE(path.stat().st_mode))
        if replaces:
            path.unlink()
        path.write_text("result")

    before = os.umask(0)
    try:
        files.keep(AT, 5, write)
    finally:
        os.umask(before)
    modes += [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new" / "chunks").iterdir()]
    assert modes == [0o600] * 3
    assert stat.S_IMODE((tmp_path / "new" / "chunks").stat().st_mode) == 0o700


def test_the_same_chunk_may_be_kept_twice(files):
    first = kept(files, "one")
    assert kept(files, "one") == first
    other = kept(files, "other")
    assert files.finished(AT, 5).read_text() == "other"
    with pytest.raises(ClusterError):
        files.awaited(AT, 5, first, seconds=0)
    assert other != first


def test_a_forged_or_damaged_chunk_is_not_finished(files, tmp_path):
    kept(files)
    path = files.finished(AT, 5)
    record = next((tmp_path / "chunks").glob("*.json"))
    content = record.read_text()
    path.write_text("forged")
    assert files.finished(AT, 5) is None
    path.write_text("result")
    assert files.finished(AT, 5) == path
    for damaged in (
        "",
        "[]",
        "{}",
        content[:-20],
        "\udcff",
        json.dumps(json.loads(content) | {"mac": "é" * 64}),
        json.dumps(json.loads(content) | {"sha256": "0" * 64}),
    ):
        record.write_bytes(damaged.encode("utf-8", "surrogateescape"))
        assert files.finished(AT, 5) is None, damaged
    record.write_text(content)
    path.unlink()
    assert files.finished(AT, 5) is None


def test_a_record_of_another_chunk_or_key_is_not_taken(files, tmp_path):
    kept(files)
    kept(files, "another", number=6)
    five, six = (name_of(files, number) for number in (5, 6))
    five.write_text(six.read_text())
    assert files.finished(AT, 5) is None
    assert ChunkFiles(tmp_path / "chunks", b"l" * 32).finished(AT, 6) is None


def name_of(files, number):
    path = files.finished(AT, number)
    return path.with_name(path.name.split(".")[0] + ".json")


def test_a_chunk_that_cannot_be_written_leaves_nothing(files, tmp_path):
    def fail(path):
        raise OSError(28, "No space left on device")

    with pytest.raises(UnwrittenError) as caught:
        files.keep(AT, 5, fail)
    assert caught.value.cause.code == "disk-full"
    assert isinstance(caught.value.cause, StoreError)
    assert str(tmp_path / "chunks") in str(caught.value.cause)
    assert list((tmp_path / "chunks").iterdir()) == []


def test_an_error_of_what_writes_a_chunk_stays_as_it_is(files):
    error = StoreError("the disk is full.", code="disk-full")

    def fail(path):
        raise error

    with pytest.raises(UnwrittenError) as caught:
        files.keep(AT, 5, fail)
    assert caught.value.cause is error


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnwrittenError) as caught:
        kept(ChunkFiles(tmp_path / "file" / "chunks", KEY))
    assert str(tmp_path / "file") in str(caught.value.cause)


class Clock:
    """Time passes while somebody sleeps."""

    now = 50.0

    def __init__(self) -> None:
        self.slept = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += 0.25


@pytest.mark.parametrize(("hidden", "appears"), [(0, True), (1, True), (5, True), (6, False)])
def test_a_file_is_waited_for_as_long_as_it_may_take_and_no_longer(files, monkeypatch, hidden, appears):
    """Each look takes a quarter of a second here. The sixth is the first one after the second that it may take."""
    digest, looks = kept(files), []
    found = files.finished

    def finished(address, number):
        looks.append((address, number))
        return found(address, number) if len(looks) > hidden else None

    clock = Clock()
    monkeypatch.setattr(files, "finished", finished)
    monkeypatch.setattr(module, "time", clock)
    if appears:
        assert files.awaited(AT, 5, digest, seconds=1) == found(AT, 5)
    else:
        with pytest.raises(ClusterError, match="does not see it") as caught:
            files.awaited(AT, 5, digest, seconds=1)
        assert caught.value.code == "cluster-folder"
        assert f"chunk 5 of {json.dumps(AT)} to {found(AT, 5).parent}, but 1 seconds later" in str(
            caught.value
        )
    assert clock.slept == [0.05] * min(hidden, 5)
    assert looks == [(AT, 5)] * min(hidden + 1, 6)
