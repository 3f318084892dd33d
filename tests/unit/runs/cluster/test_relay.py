"""The relay, with a stand-in for Ray."""

import io
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import psutil
import pytest

from tallyveil.runs.cluster import probe, relay
from tallyveil.runs.cluster.connection import JOIN_SECONDS
from tallyveil.runs.cluster.relay import Relay, Reports, Requests, give_up, join, pulses
from tallyveil.runs.cluster.worker import ClusterWorker


class StandIn:
    """What the relay asks of Ray, done at once."""

    __version__ = "2.60.0"

    def __init__(self) -> None:
        self.options_given, self.killed, self.joined = [], [], []
        self.is_left = False

    def remote(self, made):
        def options(**given):
            self.options_given.append((made, given))
            return SimpleNamespace(remote=lambda: SimpleNamespace(does=SimpleNamespace(remote=self.does)))

        return SimpleNamespace(options=options)

    def does(self, outcome):
        future = Future()
        if outcome == "dies":
            future.set_exception(RuntimeError("with a value"))
        else:
            future.set_result(f"did {outcome}")
        return SimpleNamespace(future=lambda: future)

    def kill(self, worker, *, no_restart):
        self.killed.append(no_restart)

    def init(self, **given):
        self.joined.append(given)
        os.write(1, b"what Ray prints\n")

    def cluster_resources(self):
        return {"CPU": 3.0, "node:10.0.0.1": 1.0}

    def shutdown(self):
        self.is_left = True


@pytest.fixture
def stream():
    return io.StringIO()


def said(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_worker_processes_are_hired_called_and_dismissed(stream):
    ray = StandIn()
    ours = Relay(ray, Reports(stream))
    ours.obey({"do": "hire", "worker": 4})
    assert ray.options_given == [(ClusterWorker, {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0})]
    for call, outcome in ((1, "this"), (2, "dies")):
        ours.obey({"do": "call", "call": call, "worker": 4, "method": "does", "arguments": [outcome]})
    assert said(stream) == [
        {"event": "answer", "call": 1, "text": "did this"},
        {"event": "died", "call": 2, "why": "RuntimeError"},
    ]
    ours.obey({"do": "dismiss", "worker": 4})
    assert ray.killed == [True]
    with pytest.raises(KeyError):
        ours.obey({"do": "dismiss", "worker": 4})


def test_a_cluster_is_joined_or_made():
    ray = StandIn()
    join(ray, {"address": "head:1", "workers": 3, "folder": "/f"})
    join(ray, {"address": None, "workers": 3, "folder": "/f"})
    joined, made = ray.joined
    # What worker processes print would reach the driver's streams and logs, and may quote a value.
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    assert joined == {"address": "head:1", **quiet}
    assert made == {
        "address": "local",
        "num_cpus": 3,
        "num_gpus": 0,
        "include_dashboard": False,  # it is a server that anybody may ask
        "object_store_memory": 100 * 2**20,
        "_temp_dir": "/f/r",
        "_node_ip_address": "127.0.0.1",  # no other machine reaches it
        **quiet,
    }


class EnoughError(BaseException):
    """Ends the endless."""


def test_the_head_and_the_own_node_have_a_pulse(stream, monkeypatch):
    """No pulse while the head does not answer, nor while it says that this node is dead."""
    answers = iter([[True], ConnectionError(), [False], [True]])

    def check_alive(nodes, seconds):
        assert (nodes, seconds) == ([b"\xab"], 5.0)
        found = next(answers, EnoughError())
        if isinstance(found, BaseException):
            raise found
        return found

    def client(address):
        assert address == "head:1"
        return SimpleNamespace(check_alive=check_alive)

    ray = SimpleNamespace(
        get_runtime_context=lambda: SimpleNamespace(gcs_address="head:1", get_node_id=lambda: "ab"),
        NodeID=SimpleNamespace(from_hex=bytes.fromhex),
        exceptions=SimpleNamespace(RpcError=ConnectionError),
    )
    modules, pauses = {"ray._raylet": SimpleNamespace(GcsClient=client)}, []
    monkeypatch.setattr(relay, "import_module", modules.__getitem__)
    monkeypatch.setattr(relay, "time", SimpleNamespace(sleep=pauses.append))
    with pytest.raises(EnoughError):
        pulses(ray, Reports(stream))
    assert said(stream) == [{"event": "pulse"}] * 2
    assert pauses == [relay.PULSE_SECONDS] * 4


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("refuses", [True, False])
def test_the_probe_says_what_the_cluster_did(monkeypatch, host, refuses):
    """It has said so before the driver ends it, whatever the other side does."""

    class RefusedError(Exception):
        pass

    def client(address):
        def check_alive(nodes, seconds):
            assert (address, nodes) == (sys.argv[1], [])
            assert 0 < seconds < JOIN_SECONDS
            if refuses:
                raise RefusedError

        return SimpleNamespace(check_alive=check_alive)

    def connected(place, timeout):
        assert 0 < timeout < JOIN_SECONDS
        return connect(place, timeout=timeout)

    connect = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", connected)
    modules = {
        "ray.exceptions": SimpleNamespace(AuthenticationError=RefusedError),
        "ray._raylet": SimpleNamespace(GcsClient=client),
    }
    monkeypatch.setattr(probe, "import_module", modules.__getitem__)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr("sys.argv", ["probe", f"[{host}]:{port}" if ":" in host else f"{host}:{port}"])
        with pytest.raises(SystemExit) as ended:
            probe.main()
    assert ended.value.code == (probe.REFUSED if refuses else probe.ANSWERED)
    with pytest.raises(ConnectionRefusedError):
        probe.main()


def test_requests_are_read_until_the_input_ends():
    left = []
    requests = Requests(io.StringIO("a\nb\n"), lambda: left.append("gone"))
    assert list(requests.lines()) == ["a\n", "b\n"]
    wait_for(lambda: left == ["gone"])


def test_an_input_that_ends_after_joining_ends_the_lines_alone():
    left, pipe = [], os.pipe()
    with os.fdopen(pipe[0]) as stream:
        requests = Requests(stream, lambda: left.append("gone"))
        requests.joined()
        os.close(pipe[1])
        assert list(requests.lines()) == []
        time.sleep(0.05)
        assert left == []


GIVES_UP = """
import subprocess, sys
from pathlib import Path
from tallyveil.runs.cluster.relay import give_up
child = subprocess.Popen(["sleep", "60"])
print(child.pid, flush=True)
give_up(Path(sys.argv[1]))
"""


def test_giving_up_ends_the_own_processes_and_removes_the_folder(tmp_path):
    folder = tmp_path / "folder"
    (folder / "r").mkdir(parents=True)
    said = subprocess.run(
        [sys.executable, "-c", GIVES_UP, str(folder)], stdout=subprocess.PIPE, text=True, check=False
    )
    assert said.returncode == 1
    assert not folder.exists()
    wait_for(lambda: not psutil.pid_exists(int(said.stdout)))


class EndedError(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("held", [0, 2, 1000])
def test_giving_up_removes_what_ended_processes_still_write(tmp_path, monkeypatch, held):
    """The folder is there again after each of the first removals, and at last the process ends all the same."""
    folder, codes, done, rmtree = tmp_path / "folder", [], [], shutil.rmtree

    def ends(code):
        codes.append(code)
        raise EndedError

    def removes(path, *, ignore_errors):
        assert ignore_errors
        rmtree(path, ignore_errors=True)
        if done.count("removed") < held:
            folder.mkdir()
        done.append("removed")

    folder.mkdir()
    monkeypatch.setattr(os, "_exit", ends)
    monkeypatch.setattr(shutil, "rmtree", removes)
    monkeypatch.setattr(relay, "kill_children", lambda: done.append("ended"))
    monkeypatch.setattr(relay, "time", SimpleNamespace(sleep=done.append))
    with pytest.raises(EndedError):
        give_up(folder)
    assert codes == [1]
    assert folder.exists() == (held == 1000)
    again = ["ended", "removed", 0.1]
    assert done == (again * 50 if held == 1000 else again * held + ["ended", "removed"])


@pytest.fixture
def started(tmp_path, monkeypatch, capfd):
    """A function that runs the whole program on what its driver sends, and gives what it reports and prints."""
    kept = os.dup(1)

    def runs(ray, *requests):
        asked = {"address": None, "workers": 2, "folder": str(tmp_path / "own")}
        (tmp_path / "own").mkdir()
        texts = [json.dumps(request) for request in (asked, *requests)]
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(texts)))
        monkeypatch.setattr(relay, "import_module", {"ray": ray}.__getitem__)
        relay.main()
        found = capfd.readouterr()
        return [json.loads(line) for line in found.out.splitlines()], found.err

    yield runs
    os.dup2(kept, 1)
    os.close(kept)


def test_the_program_joins_reports_obeys_and_leaves(tmp_path, monkeypatch, started):
    """What Ray prints is no report. An endless thread does not hold the program."""
    ray = StandIn()

    def pulse(given, reports):
        assert given is ray
        reports.write({"event": "pulse", "ends with the program": threading.current_thread().daemon})

    monkeypatch.setattr(relay, "pulses", pulse)
    monkeypatch.setattr(relay, "give_up", lambda folder: None)
    call = {"do": "call", "call": 1, "worker": 4, "method": "does", "arguments": ["this"]}
    reports, printed = started(ray, {"do": "hire", "worker": 4}, call)
    reports.sort(key=lambda report: report["event"])
    assert reports == [
        {"event": "answer", "call": 1, "text": "did this"},
        {"event": "joined", "cpus": 3, "ray": "2.60.0"},
        {"event": "pulse", "ends with the program": True},
    ]
    assert printed == "what Ray prints\n"
    assert [given["num_cpus"] for given in ray.joined] == [2]
    assert ray.is_left
    assert not (tmp_path / "own").exists()


def test_a_program_whose_driver_is_gone_before_it_joined_gives_up(tmp_path, monkeypatch, started):
    given_up = threading.Event()

    class Slow(StandIn):
        """Joining takes longer than the driver lives; on a cluster without processors."""

        def init(self, **given):
            assert given_up.wait(20)

        def cluster_resources(self):
            return {}

    def gives_up(folder):
        assert folder == tmp_path / "own"
        given_up.set()

    monkeypatch.setattr(relay, "pulses", lambda ray, reports: None)
    monkeypatch.setattr(relay, "give_up", gives_up)
    assert started(Slow()) == ([{"event": "joined", "cpus": 0, "ray": "2.60.0"}], "")


def wait_for(is_so):
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)
