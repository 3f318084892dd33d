"""A Ray cluster on this machine, for tests: nodes of one processor each, at 127.0.0.2 (the head), 127.0.0.3, and on.

The cluster lives in a process of its own, because Ray keeps settings for the whole life of a process. Its folders are
in one private folder. `Nodes` is a context manager.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

PROJECT = Path(__file__).parents[1]

STARTS = """
import json, sys
from pathlib import Path
from ray.cluster_utils import Cluster
Path("/tmp/ray").mkdir(exist_ok=True)  # where Ray writes the address of the last cluster
settings = json.loads(sys.stdin.readline())
node = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
head = {**node, "node_ip_address": "127.0.0.2", "temp_dir": settings["temporary"]}
cluster = Cluster(initialize_head=True, head_node_args=head)
others = [
    cluster.add_node(**node, node_ip_address=f"127.0.0.{3 + number}", env_vars=settings["others"])
    for number in range(settings["nodes"] - 1)
]
pids = [
    [one.process.pid for kind in started.all_processes.values() for one in kind]
    for started in (cluster.head_node, *others)
]
print(json.dumps({"address": cluster.address, "pids": pids}), flush=True)
sys.stdin.read()
"""


class Nodes:
    """Running nodes.

    Args:
        number: How many.
        is_open: Whether they demand no token.
        others: What the environment of the nodes but the head holds besides.

    Attributes:
        temporary: Ray's folder, for sessions, logs and spilled objects.
        token: The file of the token that the nodes demand.
        environment: What a driver of the cluster needs in its environment.
        address: Of the head.
    """

    def __init__(
        self, number: int = 2, *, is_open: bool = False, others: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._number = number
        self._others = dict(others)
        self._root = tempfile.TemporaryDirectory(prefix="tv-", dir="/tmp")
        self.temporary = Path(self._root.name, "r")
        self.token = Path(self._root.name, "token")
        self.token.write_text("5e" * 32 + "\n")
        self.environment = {
            "RAY_AUTH_MODE": "disabled" if is_open else "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": str(PROJECT),
            "RAY_health_check_period_ms": "1000",
            "RAY_health_check_timeout_ms": "2000",
            "RAY_health_check_failure_threshold": "3",
        }

    def __enter__(self) -> "Nodes":
        self._process = subprocess.Popen(
            [sys.executable, "-c", STARTS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(os.environ, **self.environment),
            text=True,
            start_new_session=True,
        )
        settings = {"temporary": str(self.temporary), "nodes": self._number, "others": self._others}
        self._process.stdin.write(json.dumps(settings) + "\n")
        self._process.stdin.flush()
        started = next(line for line in self._process.stdout if line.startswith("{"))
        found: dict[str, Any] = json.loads(started)
        self.address: str = found["address"]
        self._pids: list[list[int]] = found["pids"]
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        for number in reversed(range(self._number)):
            self.kill(number)
        self._process.wait(timeout=30)
        self._root.cleanup()

    def kill(self, number: int) -> None:
        """End all processes of a node at once."""
        for process in self.processes(number):
            _kill(process)

    def processes(self, number: int) -> list[psutil.Process]:
        """All processes of a node that live."""
        found = []
        for pid in self._pids[number]:
            try:
                one = psutil.Process(pid)
                found += [one, *one.children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
        return found


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return
