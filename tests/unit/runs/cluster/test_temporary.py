"""A driver's folder outlives it only until the next driver begins, and nobody else's folder is removed."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from tallyveil.runs.cluster import connection
from tallyveil.runs.cluster.connection import HELD, OwnFolder, remove_abandoned

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="clusters are made of machines with Linux")

HOLDS = """
import subprocess, sys
from pathlib import Path
from tallyveil.runs.cluster import connection
connection._parent = lambda: Path(sys.argv[1])
own = connection.OwnFolder.new()
relay = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=own.inherited)
print(own.path, relay.pid, flush=True)
input()
"""


@pytest.fixture
def parent(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "_parent", lambda: tmp_path)
    return tmp_path


def test_a_folder_is_private_and_goes_with_its_driver(parent):
    own = OwnFolder.new()
    assert own.path.stat().st_mode & 0o777 == 0o700
    assert (own.path / HELD).stat().st_mode & 0o777 == 0o600
    remove_abandoned(parent)
    assert own.path.is_dir()
    own.remove()
    assert list(parent.iterdir()) == []


def test_a_folder_that_was_left_is_removed_once_nobody_holds_it(parent, monkeypatch):
    """Only its user removes it."""
    own = OwnFolder.new()
    own.give_up()
    own.give_up()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 12345)
        remove_abandoned(parent)
    assert own.path.is_dir()
    remove_abandoned(parent)
    assert list(parent.iterdir()) == []
    own.remove()


def test_paths_of_sockets_are_short_whatever_the_folder_for_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = OwnFolder.new()
    assert own.path.parent == Path("/tmp")
    own.remove()
    monkeypatch.setattr(Path, "is_dir", lambda path: path != Path("/tmp"))
    own = OwnFolder.new()
    assert own.path.parent == tmp_path
    own.remove()


def test_the_next_driver_removes_it_once_driver_and_relay_are_killed(parent):
    driver = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    said, relay = driver.stdout.readline().split()
    path, process = Path(said), psutil.Process(int(relay))
    remove_abandoned(parent)
    assert path.is_dir()
    # The end of its input would end the relay; a second end of the pipe keeps it alive.
    held_open = os.open(f"/proc/{relay}/fd/0", os.O_WRONLY)
    driver.kill()
    driver.wait()
    remove_abandoned(parent)
    assert path.is_dir()
    process.kill()
    os.close(held_open)
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    own = OwnFolder.new()
    assert not path.exists()
    own.remove()


def test_what_is_not_ours_stays(parent):
    """Folders without our lock, that others can open, links, and files of such names."""
    without, open_to_others, elsewhere = (parent / name for name in ("tv-ray", "tv-open", "elsewhere"))
    for folder in (without, open_to_others, elsewhere):
        folder.mkdir(mode=0o700)
    open_to_others.chmod(0o755)
    for folder in (open_to_others, elsewhere):
        (folder / HELD).touch()
    (parent / "tv-link").symlink_to(elsewhere)
    (parent / "tv-file").touch()
    (without / "linked").symlink_to(elsewhere)
    names = sorted(path.name for path in parent.iterdir())
    remove_abandoned(parent)
    assert sorted(path.name for path in parent.iterdir()) == names
    assert (elsewhere / HELD).exists()


def test_a_link_in_the_place_of_the_lock_is_not_followed(parent):
    folder, other = parent / "tv-x", parent / "other"
    folder.mkdir(mode=0o700)
    other.touch()
    (folder / HELD).symlink_to(other)
    remove_abandoned(parent)
    assert folder.is_dir()
