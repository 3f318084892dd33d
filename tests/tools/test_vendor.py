"""The JavaScript libraries of the pages are those that their makers published."""

import hashlib
import importlib.util
import json
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("vendor", PROJECT / "tools" / "vendor.py")
vendor = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(vendor)


def copied():
    folders = [vendor.VENDOR / library["name"] for library in vendor.libraries()]
    return {
        file.relative_to(vendor.VENDOR).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for folder in folders
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_no_copied_file_was_edited():
    lines = vendor.SUMS.read_text().splitlines()
    assert copied() == {path: digest for digest, path in (line.split("  ") for line in lines)}


def test_every_folder_is_listed_and_has_its_licence():
    folders = {path.name for path in vendor.VENDOR.iterdir() if path.is_dir()}
    assert folders == {library["name"] for library in vendor.libraries()}
    for name in folders:
        assert list((vendor.VENDOR / name).glob("LICENSE*")), name


def test_types_are_those_of_the_same_versions():
    checked = json.loads((PROJECT / "tools" / "js" / "package.json").read_text())["devDependencies"]
    for library in vendor.libraries():
        assert checked[library["name"]] == library["version"]


def test_another_archive_is_refused(monkeypatch):
    class Answer:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def read(self):
            return b"another archive"

    monkeypatch.setattr(vendor, "urlopen", lambda address, timeout: Answer())
    with pytest.raises(SystemExit, match=r"hyparquet .*: the archive has the hash sha512-.*wants sha512-"):
        vendor.fetch(vendor.libraries()[0])
