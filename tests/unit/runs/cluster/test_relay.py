"""The relay, with a stand-in for Ray."""

import io
import json
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import Future
from types import SimpleNamespace

import psutil
import pytest

from tallyveil.runs.cluster import probe
from tallyveil.runs.cluster.relay import Relay, Reports, Requests, join, pulses
from tallyveil.runs.cluster.worker import ClusterWorker


class StandIn:
    """What the relay asks of Ray, done at once."""

    def __init__(self) -> None:
        self.options_given, self.killed, self.joined = [], [], []

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


@pytest.fixture
def stream():
    return io.StringIO()


def said(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_worker_processes_are_hired_called_and_dismissed(stream):
    ray = StandIn()
    relay = Relay(ray, Reports(stream))
    relay.obey({"do": "hire", "worker": 4})
    assert ray.options_given == [(ClusterWorker, {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0})]
    for call, outcome in ((1, "this"), (2, "dies")):
        relay.obey({"do": "call", "call": call, "worker": 4, "method": "does", "arguments": [outcome]})
    assert said(stream) == [
        {"event": "answer", "call": 1, "text": "did this"},
        {"event": "died", "call": 2, "why": "RuntimeError"},
    ]
    relay.obey({"do": "dismiss", "worker": 4})
    assert ray.killed == [True]
    with pytest.raises(KeyError):
        relay.obey({"do": "dismiss", "worker": 4})


def test_a_cluster_is_joined_or_made():
    ray = StandIn()
    join(ray, {"address": "head:1", "workers": 3, "folder": "/f"})
    join(ray, {"address": None, "workers": 3, "folder": "/f"})
    joined, made = ray.joined
    assert joined["address"] == "head:1"
    assert "num_cpus" not in joined
    assert (made["address"], made["num_cpus"], made["_temp_dir"]) == ("local", 3, "/f/r")
    assert not made["include_dashboard"]


class EnoughError(BaseException):
    """Ends the endless."""


def test_the_head_and_the_own_node_have_a_pulse(stream, monkeypatch):
    """No pulse while the head does not answer, nor while it says that this node is dead."""
    answers = iter([[True], ConnectionError(), [False], [True]])

    def check_alive(nodes, seconds):
        found = next(answers, EnoughError())
        if isinstance(found, BaseException):
            raise found
        return found

    ray = SimpleNamespace(
        get_runtime_context=lambda: SimpleNamespace(gcs_address="head:1", get_node_id=lambda: "ab"),
        NodeID=SimpleNamespace(from_hex=bytes.fromhex),
        exceptions=SimpleNamespace(RpcError=ConnectionError),
    )
    client = SimpleNamespace(GcsClient=lambda address: SimpleNamespace(check_alive=check_alive))
    monkeypatch.setattr("tallyveil.runs.cluster.relay.import_module", lambda name: client)
    monkeypatch.setattr("tallyveil.runs.cluster.relay.PULSE_SECONDS", 0)
    with pytest.raises(EnoughError):
        pulses(ray, Reports(stream))
    assert said(stream) == [{"event": "pulse"}] * 2


@pytest.mark.parametrize("refuses", [True, False])
def test_the_probe_says_what_the_cluster_did(monkeypatch, refuses):
    class RefusedError(Exception):
        pass

    def check_alive(nodes, seconds):
        if refuses:
            raise RefusedError

    modules = {
        "ray.exceptions": SimpleNamespace(AuthenticationError=RefusedError),
        "ray._raylet": SimpleNamespace(GcsClient=lambda address: SimpleNamespace(check_alive=check_alive)),
    }
    monkeypatch.setattr(probe, "import_module", modules.__getitem__)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr("sys.argv", ["probe", f"127.0.0.1:{port}"])
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


def wait_for(is_so):
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)
