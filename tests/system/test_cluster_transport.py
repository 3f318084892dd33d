"""The executor on real Ray clusters: one of this machine, and one of two nodes that lose workers, a node and the head.

Time limits are generous, because a machine may be busy; what is asserted of times is in docs/cluster.md.
"""

import hashlib
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from tests.cluster_nodes import PROJECT, Nodes
from tests.cluster_site import OPENER, open_site
from tests.found_secrets import files_with, keys_as_found

from tallyveil.errors import ClusterError, ConstraintError, StoreError
from tallyveil.runs.cluster.executor import RayExecutor
from tallyveil.runs.executor import ClusterSettings, Site, Threads

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra cluster"),
    pytest.mark.skipif(sys.platform != "linux", reason="other systems have no second address of their own"),
]

SECRET, FILES_KEY = (hashlib.sha256(name).digest() for name in (b"canary", b"another canary"))
N = range(12)


@pytest.fixture
def site(tmp_path):
    return Site(OPENER, {"folder": str(tmp_path)}, SECRET, FILES_KEY)


@pytest.fixture
def events():
    return []


@pytest.fixture
def joined(site, events, tmp_path, monkeypatch):
    """A function: an executor on these nodes."""

    @contextmanager
    def made(nodes, folder=tmp_path / "cluster", **changes):
        for name, text in nodes.environment.items():
            monkeypatch.setenv(name, text)
        with RayExecutor(ClusterSettings(nodes.address, **changes), folder, events.append) as executor:
            executor.serve(lambda: site)
            yield executor

    return made


def chunks_of(site, **address):
    return open_site(site.description, site.secret).chunks(address)


def by_threads(site, **address):
    return dict(Threads(2).completed(chunks_of(site, **address), N))


@pytest.mark.nightly
def test_two_nodes(nodes, joined, site, events, tmp_path):
    """The results of threads, through the loss of a worker process, errors and forgery; no trace of the secret."""
    with joined(nodes) as executor:
        assert dict(executor.completed(chunks_of(site, name="all"), N)) == by_threads(site, name="all")
        assert {event["pid"] for event in events} <= {one.pid for k in (0, 1) for one in nodes.processes(k)}
        require_no_trace(nodes, site, tmp_path)

        slow = executor.completed(chunks_of(site, seconds=0.3), N)
        first = dict([next(slow)])
        os.kill(events[-1]["pid"], signal.SIGKILL)
        assert first | dict(slow) == by_threads(site)
        assert {event["why"] for event in events if event["event"] == "chunk repeated"} == {
            "its worker process died"
        }

        with pytest.raises(ConstraintError, match="too large"):
            dict(executor.completed(chunks_of(site, at={"3": "refuse"}), N))
        with pytest.raises(ClusterError, match=r"chunk 4 of .* was begun 3 times"):
            dict(executor.completed(chunks_of(site, at={"4": "kill"}), [4, 5]))
        require_no_trace(nodes, site, tmp_path)


@pytest.mark.soak
def test_two_nodes_that_are_left_and_lost(joined, site, events, tmp_path, monkeypatch):
    """What another run of the same work does not do again, refusals, and the loss of a node and of the head."""
    with Nodes() as nodes:
        with joined(nodes) as executor:
            assert dict(executor.completed(chunks_of(site), N)) == by_threads(site)
            assert dict(executor.completed(chunks_of(site, name="all"), N)) == by_threads(site)
        require_a_restart_skips_what_is_done(joined, nodes, site, events)
        require_refusals(joined, nodes, tmp_path, monkeypatch)
        require_no_trace(nodes, site, tmp_path)
        require_losses(joined, nodes, site, monkeypatch)


def require_no_trace(nodes, site, tmp_path):
    folders = (nodes.temporary, tmp_path, "/dev/shm", *Path("/tmp").glob("tv-*"))
    assert any(path.suffix == ".log" for path in nodes.temporary.rglob("*"))
    for secret in (site.secret, site.files_key):
        needles = keys_as_found(secret)
        assert files_with(needles, *folders) == []
        for needle in needles:
            planted = tmp_path / "planted"
            planted.write_bytes(b"before" + needle + b"after")
            assert files_with(needles, tmp_path) == [planted]
            planted.unlink()


def require_a_restart_skips_what_is_done(joined, nodes, site, events):
    events.clear()
    with joined(nodes, workers=1) as executor:
        executor._files.finished({"name": "all"}, 3).write_text("forged")
        assert dict(executor.completed(chunks_of(site, name="all"), N)) == by_threads(site)
        assert dict(executor.completed(chunks_of(site), N)) == by_threads(site)
        assert [(event["event"], event["number"]) for event in events] == [
            ("chunk begun", 3),
            ("chunk finished", 3),
        ]
        with pytest.raises(StoreError) as caught:
            dict(executor.completed(chunks_of(site, full=1), N))
        assert caught.value.code == "disk-full"


def require_refusals(joined, nodes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClusterError) as caught, joined(nodes, Path("/proc/self/cwd/cluster")):
        pass
    assert caught.value.code == "cluster-folder"

    monkeypatch.setattr("tallyveil.runs.cluster.connection.read_token", lambda: b"another")
    with pytest.raises(ClusterError, match="was given nothing") as caught, joined(nodes):
        pass
    assert caught.value.code == "cluster-token"
    monkeypatch.undo()


def require_losses(joined, nodes, site, monkeypatch):
    """The second node's chunk is done by the first one. Without a head the run ends, and this process goes on."""
    monkeypatch.setattr("tallyveil.runs.cluster.connection.LOST_SECONDS", 4.0)
    with joined(nodes) as executor:
        slow = executor.completed(chunks_of(site, seconds=0.4), N)
        results = dict([next(slow)])
        nodes.kill(1)
        results |= dict(slow)
        assert results == by_threads(site)

        endless = executor.completed(chunks_of(site, seconds=0.2), range(1000))
        next(endless)
        nodes.kill(0)
        begun = time.monotonic()
        with pytest.raises(ClusterError, match="the cluster is lost") as caught:
            dict(endless)
        assert caught.value.code == "cluster-lost"
        assert time.monotonic() - begun < 60


@pytest.mark.nightly
def test_an_open_cluster_is_refused_unless_it_is_allowed(joined, site):
    with Nodes(1, is_open=True) as nodes:
        with pytest.raises(ClusterError, match="demands no token") as caught, joined(nodes):
            pass
        assert caught.value.code == "cluster-open"
        with joined(nodes, open_allowed=True) as executor:
            assert dict(executor.completed(chunks_of(site), N)) == by_threads(site)


ONE_MACHINE = """
import sys
from contextlib import contextmanager
from pathlib import Path
from tallyveil.runs.cluster.executor import RayExecutor
from tallyveil.runs.executor import ClusterSettings
from tallyveil.runs.executor import Site
from tests.cluster_site import OPENER, open_site
from tests.found_secrets import files_with, keys_as_found
folder = Path(sys.argv[1])
site = Site(OPENER, {"folder": str(folder)}, b"s" * 32, b"k" * 32)
with RayExecutor(ClusterSettings(workers=1), folder / "cluster") as executor:
    executor.serve(lambda: site)
    chunks = open_site(site.description, site.secret).chunks({"seconds": 0.1})
    for number, square in executor.completed(chunks, range(999)):
        print(number, square, executor._connection._temporary, flush=True)
"""


@pytest.mark.nightly
def test_one_machine(tmp_path):
    """A cluster of this machine does chunks, and ends with its driver, however that ends."""
    command = [sys.executable, "-c", ONE_MACHINE, str(tmp_path)]
    environment = dict(os.environ, PYTHONPATH=str(PROJECT))
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    said = [driver.stdout.readline().split() for _ in range(4)]
    folder = said[0][2]
    assert [(number, square) for number, square, _ in said] == [(str(n), str(n * n * 32)) for n in range(4)]
    assert Path(folder).stat().st_mode & 0o077 == 0
    assert len(naming(folder)) > 2
    driver.kill()
    driver.wait()
    end = time.monotonic() + 40
    while (left := naming(folder)) or Path(folder).exists():
        assert time.monotonic() < end, left
        time.sleep(0.2)


def naming(folder):
    """Command lines of processes that name a folder."""
    lines = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    return [line for line in lines if folder in line]


def test_a_wrong_address_is_said(tmp_path):
    executor = RayExecutor(ClusterSettings("127.0.0.1:1"), tmp_path / "cluster")
    with pytest.raises(ClusterError, match="no Ray cluster answers") as caught, executor:
        pass
    assert caught.value.code == "cluster-unreachable"
