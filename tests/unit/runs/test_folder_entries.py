"""How the private folder is written and locked, call by call of the operating system."""

import errno
import os
from types import SimpleNamespace

import pytest

from tallyveil.errors import StoreError
from tallyveil.runs import folder as module
from tallyveil.runs.folder import RunFolder
from tallyveil.storage.system import open_for_lock


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def test_only_the_manifest_can_be_read_by_others(out):
    """It leaves the private folder with the mode that other files of the user have."""
    before = os.umask(0o027)
    try:
        with RunFolder(out) as folder:
            folder.write("run.json", b"{}")
            folder.seal(b"{}")
            modes = {path.name[:7]: path.stat().st_mode & 0o777 for path in folder.private.iterdir()}
            folder.publish()
            folder.remove_private()
    finally:
        os.umask(before)
    assert modes == {"lock": 0o600, "run.jso": 0o600, "sealed-": 0o640}
    assert (out / "manifest.json").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("lasting", [True, False])
def test_what_is_to_last_is_on_disk_before_it_has_its_name_and_so_is_the_name(out, monkeypatch, lasting):
    with RunFolder(out) as folder:
        done, fsync, replace = [], os.fsync, os.replace

        def synced(descriptor):
            done.append(os.fstat(descriptor).st_ino)
            fsync(descriptor)

        def replaced(*arguments, **named):
            done.append("named")
            replace(*arguments, **named)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", synced)
            patch.setattr(os, "replace", replaced)
            folder.write("x.json", b"{}", lasting=lasting)
        place = folder.private / "x.json"
        if lasting:
            assert done == [place.stat().st_ino, "named", folder.private.stat().st_ino]
        else:
            assert done == ["named"]
        assert place.read_bytes() == b"{}"


def test_what_is_written_takes_the_place_of_whatever_is_there(out):
    with RunFolder(out) as folder:
        elsewhere = out / "elsewhere"
        elsewhere.write_text("mine")
        for name in ("x.json", "x.json.partial"):
            (folder.private / name).mkdir()
            (folder.private / name / "inner").write_text("")
            folder.write("x.json", b"{}")
            assert folder.read("x.json") == b"{}"
            folder.remove("x.json")
            (folder.private / name).symlink_to(elsewhere)
            folder.write("x.json", b"{}")
            folder.remove("x.json")
        folder.remove("x.json")
        assert elsewhere.read_text() == "mine"
        assert [path.name for path in folder.private.iterdir()] == ["lock"]


def test_a_folder_that_another_process_makes_meanwhile_is_used(out, monkeypatch):
    def made_meanwhile(path):
        path.mkdir()
        return (path,)

    monkeypatch.setattr(module, "absent_folders", made_meanwhile)
    with RunFolder(out) as folder:
        assert folder.is_held


ATTEMPTS = {
    "taken for a moment": (["taken", "taken", "free"], None),
    "taken": (["taken", "taken", "taken"], "another process is running in"),
    "removed again and again": (["gone"] * 99 + ["free"], None),
    "removed for ever": (["gone"] * 100, "No such file"),
    "removed and taken": (["gone", "taken", "gone", "taken", "taken"], "another process is running in"),
    "replaced and taken": (["replaced", "taken", "replaced", "taken", "free"], None),
    "taken and removed for ever": (["taken"] + ["gone"] * 99, "No such file"),
    "replaced for ever": (["replaced"] * 100, "another process is running in"),
}


@pytest.mark.parametrize("how", ATTEMPTS)
def test_a_lock_is_tried_three_times_where_it_is_taken_and_more_often_where_it_vanishes(
    out, monkeypatch, how
):
    """Whoever asks for the status has the lock for a moment; whoever ends a run removes it."""
    happens, said = ATTEMPTS[how]
    left, pauses = iter(happens), []

    def opened(*arguments, **named):
        now = next(left)
        if now == "gone":
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        happening.append(now)
        return open_for_lock(*arguments, **named)

    happening = []
    monkeypatch.setattr(module, "open_for_lock", opened)
    monkeypatch.setattr(module, "lock", lambda *_: happening[-1] != "taken")
    monkeypatch.setattr(RunFolder, "_is_current", lambda folder: happening[-1] == "free")
    monkeypatch.setattr(module, "time", SimpleNamespace(sleep=pauses.append))
    folder = RunFolder(out)
    if said is None:
        with folder:
            assert folder.is_held
    else:
        with pytest.raises(StoreError, match=said) as caught, folder:
            pass
        assert (caught.value.code == "folder-locked") == ("another" in said)
    assert next(left, "tried as often") == "tried as often"
    assert pauses == [0.02] * min(2, happens.count("taken"))
    assert not folder.is_held
