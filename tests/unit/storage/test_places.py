"""The files of a release, in a folder or in a store, are found, read and written by the same names."""

import io

import pytest
from tests.object_store import ObjectStore

from tallyveil.errors import StoreError
from tallyveil.storage.addresses import addressed
from tallyveil.storage.object_store import FolderPlace, StorePlace, digest_at

NAMES = ("manifest.json", "tables/geolevel=A%2A/query=a b/part-0.parquet", "intervals/é [1].parquet")
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.fixture(params=["folder", "store"])
def place(request, tmp_path, monkeypatch):
    if request.param == "folder":
        yield FolderPlace(tmp_path / "release")
        return
    with ObjectStore("bucket") as store:
        for name, value in store.environment().items():
            monkeypatch.setenv(name, value)
        yield StorePlace(addressed("s3://bucket/a release"))


def test_what_is_put_is_there(place):
    assert isinstance(place, FolderPlace | StorePlace)
    assert place.names() == {}
    for size, name in enumerate(NAMES):
        place.put(name, io.BytesIO(b"x" * size))
    assert place.names() == {name: size for size, name in enumerate(NAMES)}
    assert digest_at(place, NAMES[0]) == EMPTY
    place.put(NAMES[0], io.BytesIO(b"another"))
    with place.open(NAMES[0]) as stream:
        assert stream.read() == b"another"


def test_links_are_no_files_of_a_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "nowhere").symlink_to(tmp_path / "none")
    assert FolderPlace(tmp_path).names() == {"file": 1}


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out", "a//b", ""])
def test_nothing_is_written_outside_a_folder(tmp_path, name):
    place = FolderPlace(tmp_path / "inside")
    with pytest.raises(StoreError):
        place.put(name, io.BytesIO(b"x"))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
