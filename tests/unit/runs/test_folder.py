"""What is found under the name of the private folder is not trusted."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from tallyveil.errors import StoreError
from tallyveil.files.manifest_files import read_manifest
from tallyveil.runs.folder import FolderState, RunFolder, folder_state
from tallyveil.runs.once import run_once

from .conftest import KEY, Killed, Toy, contents


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def planted_folder(out):
    (out / "private").mkdir(parents=True)
    (out / "private").chmod(0o777)


def planted_key(out):
    (out / "private").mkdir(parents=True, mode=0o700)
    (out / "private" / "run.json.partial").write_text("")
    (out / "private" / "run.json.partial").chmod(0o666)


def link_to_elsewhere(out):
    out.mkdir()
    (out.parent / "elsewhere").mkdir(mode=0o700)
    (out / "private").symlink_to(out.parent / "elsewhere")


def dangling_link(out):
    out.mkdir()
    (out / "private").symlink_to(out.parent / "nowhere")


def link_inside(out):
    (out / "private").mkdir(parents=True, mode=0o700)
    (out / "private" / "run.json.partial").symlink_to(out.parent / "nowhere")


def lock_as_link(out):
    (out / "private").mkdir(parents=True, mode=0o700)
    (out / "private" / "lock").symlink_to(out.parent / "nowhere")


def folder_inside(out):
    (out / "private" / "sub").mkdir(parents=True)
    (out / "private").chmod(0o700)


def a_file(out):
    out.mkdir()
    (out / "private").write_text("")


PLANTED = {
    planted_folder: "its mode is 0777, so that other users can open it",
    planted_key: "its entry 'run.json.partial' has mode 0666, so that others can open it",
    link_to_elsewhere: "it is a link or a file and not a folder",
    dangling_link: "it is a link or a file and not a folder",
    link_inside: "its entry 'run.json.partial' is a link",
    lock_as_link: "its entry 'lock' is no file",
    folder_inside: "its entry 'sub' was there before any run was started",
    a_file: "it is a link or a file and not a folder",
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_what_was_planted_is_refused(make, out, plant):
    plant(out)
    with pytest.raises(StoreError, match=f"cannot hold the key of a run: {PLANTED[plant]}. No key") as caught:
        make(out)
    assert caught.value.code == "private-folder"
    assert not (out / "ledger.jsonl").exists()
    assert not (out.parent / "nowhere").exists()
    elsewhere = out.parent / "elsewhere"
    assert not elsewhere.exists() or not any(elsewhere.iterdir())


def test_a_foreign_owner_is_refused(make, out, monkeypatch):
    (out / "private").mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(StoreError, match="another user"):
        make(out)


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o277, 0o777])
def test_modes_do_not_depend_on_the_umask(make, out, umask):
    modes = {}

    def working(run):
        private = run.path / "private"
        modes.update({path.name: path.stat().st_mode & 0o777 for path in private.iterdir()})
        modes["private"] = private.stat().st_mode & 0o777
        raise Killed

    before = os.umask(umask)
    try:
        with pytest.raises(Killed):
            run_once(out, Toy(during=working), test_key=KEY)
    except StoreError:  # a folder that its own umask closes cannot hold a run
        assert umask & 0o700
        assert not (out / "ledger.jsonl").exists()
        return
    finally:
        os.umask(before)
    assert modes["private"] == 0o700
    assert modes["run.json"] == 0o600
    assert modes["lock"] & 0o077 == 0
    make(out)


def test_a_folder_left_before_the_key_was_written_is_taken_up(make, out):
    (out / "private").mkdir(parents=True, mode=0o700)
    for name in ("lock", "run.json.partial"):
        (out / "private" / name).touch(0o600)
    make(out)
    assert not (out / "private").exists()


def test_whatever_lies_in_the_folder_of_a_run_is_removed_at_its_end(make, out):
    def killed(run):
        (run.path / "private" / "sub" / "deeper").mkdir(parents=True)
        (run.path / "private" / "sub" / "deeper" / "file").write_text("")
        raise Killed

    with pytest.raises(Killed):
        run_once(out, Toy(during=killed), test_key=KEY)
    make(out)
    assert not (out / "private").exists()


def test_links_put_into_the_folder_of_a_run_are_refused(make, out):
    def killed(run):
        raise Killed

    with pytest.raises(Killed):
        run_once(out, Toy(during=killed), test_key=KEY)
    (out / "private" / "x.json").symlink_to("/dev/null")
    with pytest.raises(StoreError) as caught:
        make(out)
    assert caught.value.code == "private-folder"


def test_a_finished_release_with_a_private_folder_is_finished_by_its_command(make, out):
    make(out)
    before = contents(out)
    (out / "private" / "sub").mkdir(parents=True)
    (out / "private" / "link").symlink_to("nowhere")
    (out / "private").chmod(0o700)
    with pytest.raises(StoreError) as caught:
        read_manifest(out)
    assert caught.value.code == "release-unfinished"
    assert make(out).already_finished
    assert contents(out) == before
    read_manifest(out)


def test_states(out):
    assert folder_state(out) is FolderState.ABSENT
    out.mkdir()
    (out / "private").mkdir()
    assert folder_state(out) is FolderState.ABSENT
    (out / "private" / "run.json").touch()
    assert folder_state(out) is FolderState.STARTED
    (out / "private" / "sealed-0.partial").touch()
    assert folder_state(out) is FolderState.STARTED
    (out / "private" / "sealed-0").touch()
    assert folder_state(out) is FolderState.SEALED
    (out / "manifest.json").touch()
    assert folder_state(out) is FolderState.FINISHED
    (out / "manifest.json").unlink()
    shutil.rmtree(out / "private")
    (out / "ledger.jsonl").touch()
    assert folder_state(out) is FolderState.KEYLESS
    (out / "ledger.jsonl").rename(out / "x")
    assert folder_state(out) is FolderState.FOREIGN
    with pytest.raises(StoreError, match="is a file") as caught:
        folder_state(out / "x")
    assert caught.value.code == "folder-taken"


def test_a_folder_that_cannot_be_made_is_told(make):
    with pytest.raises(StoreError):
        make(Path("/proc/nowhere/out"))
    with pytest.raises(StoreError):
        make(Path("/dev/null/out"))


def test_a_folder_of_the_private_one_replaced_while_waiting(out):
    """A process that let go of the lock must not remove the folder of the one after it."""
    with RunFolder(out) as first:
        first.write("x", b"1")
        shutil.rmtree(first.private)
        with RunFolder(out) as second:
            second.write("run.json", b"{}")
            first.remove_private()
            assert second.read("run.json") == b"{}"


def test_entries_are_read_as_what_they_are(out):
    with RunFolder(out) as folder:
        assert folder.read("nothing") is None
        (folder.private / "sub").mkdir()
        assert folder.read("sub") == b""
        os.mkfifo(folder.private / "pipe")  # and it is not waited for
        assert folder.read("pipe") == b""
        (folder.private / "link").symlink_to("/etc/hostname")
        with pytest.raises(StoreError):
            folder.read("link")


def test_only_a_whole_sealed_manifest_counts(out):
    with RunFolder(out) as folder:
        assert folder.sealed() is None
        with pytest.raises(ValueError, match="no sealed manifest"):
            folder.publish()
        folder.seal(b"{}")
        assert folder.sealed() == b"{}"
        (sealed,) = folder.private.glob("sealed-*")
        sealed.write_bytes(b"{")  # cut short
        assert folder.sealed() is None
        folder.seal(b"{ }")
        assert folder.sealed() == b"{ }"
        assert len(list(folder.private.glob("sealed-*"))) == 1
        folder.unseal()
        assert folder.sealed() is None


@pytest.mark.parametrize("step", ["replace", "unlink"])
def test_a_disk_that_fails_at_the_end_is_told(out, monkeypatch, step):
    def fails(*_, **__):
        raise OSError(errno.EIO, "input/output error")

    with RunFolder(out) as folder:
        folder.write("run.json", b"{}")
        folder.seal(b"{}")
        with monkeypatch.context() as patch:
            patch.setattr(os, step, fails)
            with pytest.raises(StoreError):
                folder.publish()
        assert not (out / "manifest.json").exists()
        folder.publish()
        assert not (out / "private" / "run.json").exists()
        folder.remove_private()
    assert (out / "manifest.json").read_bytes() == b"{}"
    assert not (out / "private").exists()


def test_a_second_process_is_told_that_the_folder_is_taken(out):
    with RunFolder(out), pytest.raises(StoreError) as caught, RunFolder(out):
        pass
    assert caught.value.code == "folder-locked"


def test_an_abandoned_folder_takes_the_folders_above_it_that_it_made(tmp_path):
    (tmp_path / "there").mkdir()
    with RunFolder(tmp_path / "there" / "new" / "er" / "out") as folder:
        folder.abandon()
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


def test_an_abandoned_folder_is_gone_unless_something_is_in_it(out):
    with RunFolder(out) as folder:
        folder.write("run.json", b"{}")
        folder.abandon()
    assert not out.exists()
    with RunFolder(out) as folder:
        (out / "plan.json").write_text("{}")
        folder.abandon()
    assert [path.name for path in out.iterdir()] == ["plan.json"]


def test_a_folder_that_others_may_not_open_cannot_be_looked_into(out, monkeypatch):
    def closed(self):
        raise PermissionError(errno.EACCES, "permission denied", str(self))

    out.mkdir()
    monkeypatch.setattr(Path, "iterdir", closed)
    with pytest.raises(StoreError):
        folder_state(out)


@pytest.mark.parametrize("found", [["sub"], ["lock", "sub"]])
def test_a_private_folder_that_is_refused_is_left_as_it_was(tmp_path, found):
    private = tmp_path / "out" / "private"
    (private / "sub").mkdir(parents=True)
    private.chmod(0o700)
    if "lock" in found:
        (private / "lock").touch(0o600)
    with pytest.raises(StoreError), RunFolder(tmp_path / "out"):
        pass
    assert sorted(path.name for path in private.iterdir()) == found


@pytest.mark.parametrize("found", [["run.json"], ["lock", "run.json"]])
def test_a_run_that_fails_leaves_a_lock_only_if_there_was_one(tmp_path, found):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    for name in found:
        (private / name).touch(0o600)
    for _ in range(2):
        with pytest.raises(StoreError, match="refused"), RunFolder(tmp_path):
            raise StoreError("refused")
        assert sorted(path.name for path in private.iterdir()) == found
    with RunFolder(tmp_path):
        assert (private / "lock").exists()


@pytest.mark.parametrize("there", [[], ["out"], ["out/private"]])
def test_a_refusal_takes_the_empty_folders_that_it_made(tmp_path, there):
    for name in there:
        (tmp_path / name).mkdir(mode=0o700, parents=True)
    found = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError, match="refused"), RunFolder(tmp_path / "out"):
        raise StoreError("refused")
    assert sorted(tmp_path.rglob("*")) == found


def test_a_failed_run_keeps_what_it_wrote(out):
    def fail(folder):
        folder.write("run.json", b"{}")
        raise StoreError("failed")

    with pytest.raises(StoreError, match="failed"), RunFolder(out) as folder:
        fail(folder)
    assert [path.name for path in out.rglob("*")] == ["private", "run.json"]
