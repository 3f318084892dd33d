"""Locks, files and memory on every system. What Windows does differently is tested on files that behave as there."""

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import filelock
import psutil
import pytest

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.errors import StoreError
from tallyveil.runs.folder import RunFolder
from tallyveil.storage import system
from tallyveil.storage.outputs import new_file, own_folder
from tallyveil.storage.paths import refuse_long_paths
from tallyveil.storage.write import Claim, write_text

HOLDER = """
import sys, time
from pathlib import Path
from tallyveil.storage.system import take_lock
held = take_lock(Path(sys.argv[1]))
print("free" if held is None else "held", flush=True)
time.sleep(60)
"""


def test_a_lock_is_held_once_and_ends_with_its_process(tmp_path):
    place = tmp_path / "lock"
    other = subprocess.Popen([sys.executable, "-c", HOLDER, str(place)], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    assert system.take_lock(place) is None
    other.kill()
    other.wait()
    other.stdout.close()
    held = system.take_lock(place)
    assert held is not None
    assert system.take_lock(place) is None
    system.remove_locked(place, held)
    assert not place.exists()


def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch):
    def none(descriptor, *, blocking):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(filelock, "lock_descriptor", none)
    holders = (
        lambda: Claim(tmp_path / "a", "synth").__enter__(),
        lambda: RunFolder(tmp_path / "b").__enter__(),
        lambda: Ledger(tmp_path / "ledger.jsonl", None, "run"),
        lambda: new_file(tmp_path / "file", []).__enter__(),
    )
    for holder in holders:
        before = len(list(Path("/proc/self/fd").iterdir()))
        with pytest.raises(StoreError) as caught:
            holder()
        assert caught.value.code == "no-locks"
        assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_lock_that_fails_otherwise_is_told(tmp_path, monkeypatch):
    def fails(descriptor, *, blocking):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(filelock, "lock_descriptor", fails)
    with pytest.raises(StoreError) as caught, own_folder(tmp_path, "synth"):
        pass
    assert caught.value.code == "write-failed"


def test_memory_is_in_mebibytes_on_every_system(monkeypatch):
    class Usage:
        ru_maxrss = 300 * 1024

    assert system.peak_memory_mib() > 10
    monkeypatch.setattr(resource, "getrusage", lambda _: Usage)
    assert system.peak_memory_mib() == 300
    monkeypatch.setattr(sys, "platform", "darwin")
    Usage.ru_maxrss *= 1024
    assert system.peak_memory_mib() == 300


def test_the_memory_of_the_machine():
    assert (
        system.whole_memory()
        == psutil.virtual_memory().total
        == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    )


def test_a_limit_on_addresses_leaves_what_is_not_mapped_for_nothing(monkeypatch):
    used = psutil.Process().memory_info()
    mapped = used.vms - used.rss
    monkeypatch.setattr(resource, "getrlimit", lambda _: (mapped + (3 << 30), resource.RLIM_INFINITY))
    found = system.limited_memory()
    assert found is not None
    assert abs(found - (3 << 30)) < 1 << 28
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, 1 << 20))
    assert system.limited_memory() == 0
    monkeypatch.setattr(sys, "platform", "darwin")
    assert system.limited_memory() is None


def test_no_limit_on_addresses_is_none(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert system.limited_memory() is None


@pytest.mark.usefixtures("windows")
class TestWindows:
    """The same promises where no folder can be opened and no open file removed."""

    def test_a_run_folder(self, tmp_path):
        with RunFolder(tmp_path / "out") as folder:
            folder.write("run.json", b"{}")
            folder.write("run.json", b"{ }")
            assert folder.read("run.json") == b"{ }"
            with pytest.raises(StoreError) as caught, RunFolder(tmp_path / "out"):
                pass
            assert caught.value.code == "folder-locked"
            folder.seal(b"{}")
            folder.publish()
            assert folder.read("run.json") is None
            folder.remove_private()
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["manifest.json"]

    def test_a_run_that_fails_leaves_no_lock(self, tmp_path):
        def fails():
            with RunFolder(tmp_path / "out") as folder:
                folder.write("run.json", b"{}")
                raise StoreError("refused")

        with pytest.raises(StoreError, match="refused"):
            fails()
        assert [path.name for path in (tmp_path / "out" / "private").iterdir()] == ["run.json"]
        with RunFolder(tmp_path / "out") as folder:
            folder.abandon()
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize("name", ["private", "private/lock", "private/run.json"])
    def test_links_are_refused(self, tmp_path, name):
        link = tmp_path / "out" / name
        link.parent.mkdir(parents=True)
        (tmp_path / "elsewhere").mkdir()
        link.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StoreError) as caught, RunFolder(tmp_path / "out"):
            pass
        assert caught.value.code == "private-folder"
        assert not list((tmp_path / "elsewhere").iterdir())

    def test_a_claim(self, tmp_path):
        with own_folder(tmp_path / "out", "study x"):
            with pytest.raises(StoreError) as caught, own_folder(tmp_path / "out", "study x"):
                pass
            assert caught.value.code == "folder-locked"
            write_text(tmp_path / "out" / "a.txt", "one")
            write_text(tmp_path / "out" / "a.txt", "two")
        assert (tmp_path / "out" / "a.txt").read_text() == "two"
        assert not (tmp_path / "out" / ".tallyveil-unfinished").exists()

    def test_a_file(self, tmp_path):
        with new_file(tmp_path / "a.toml", []):
            write_text(tmp_path / "a.toml", "text")
        assert [path.name for path in tmp_path.iterdir()] == ["a.toml"]

    def test_a_lock_file_that_another_process_has_opened_is_left_to_it(self, tmp_path):
        place = tmp_path / "lock"
        held = system.take_lock(place)
        assert held is not None
        with place.open("rb"):
            system.remove_locked(place, held)
            assert place.exists()
        again = system.take_lock(place)
        assert again is not None
        system.remove_locked(place, again)
        assert not place.exists()

    def test_paths_that_are_too_long(self, tmp_path):
        with pytest.raises(StoreError) as caught:
            refuse_long_paths(tmp_path, ["x" * 250], ".partial")
        assert caught.value.code == "path-too-long"

    def test_memory_and_cores(self):
        assert system.peak_memory_mib() == 300
        assert system.usable_cores() == os.cpu_count()


@pytest.mark.parametrize(
    ("platform", "environment", "folder"),
    [
        ("linux", {}, "/home/ann/.cache"),
        ("linux", {"XDG_CACHE_HOME": "/scratch/ann"}, "/scratch/ann"),
        ("linux", {"XDG_CACHE_HOME": "scratch"}, "/home/ann/.cache"),
        ("darwin", {"XDG_CACHE_HOME": "/scratch/ann"}, "/home/ann/Library/Caches"),
        ("win32", {"LOCALAPPDATA": "/Users/Ann/AppData/Local"}, "/Users/Ann/AppData/Local"),
        ("win32", {}, "/home/ann/AppData/Local"),
    ],
)
def test_the_folder_is_the_one_that_the_platform_has_for_what_can_be_made_again(
    platform, environment, folder
):
    assert system.cache_folder(environment, platform, Path("/home/ann")) == Path(folder)
