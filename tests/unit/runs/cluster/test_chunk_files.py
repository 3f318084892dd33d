"""Only files that a holder of the key finished count as finished."""

import json
import stat

import pytest

from tallyveil.errors import ClusterError, StoreError
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
    assert list((tmp_path / "chunks").iterdir()) == []


def test_a_file_that_does_not_appear_is_an_error(files):
    with pytest.raises(ClusterError, match="does not see it") as caught:
        files.awaited(AT, 5, "0" * 64, seconds=0.1)
    assert caught.value.code == "cluster-folder"
