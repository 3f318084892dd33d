"""The child process that speaks with Ray for a driver, because Ray ends a process that loses its cluster.

`python -m tallyveil.runs.cluster.relay` reads one JSON object a line from its standard input, and writes one a line to
its standard output. It passes on text that it does not understand: secrets are encrypted by the driver and decrypted by
worker processes. It ends when its standard input ends, also because the driver was killed, and then removes its folder.
If that happens before it has joined, which may take long, it ends its own processes and does not wait.

Requests: the first says what to join, {"address", "workers", "folder"}. Then {"do": "hire", "worker"},
{"do": "call", "call", "worker", "method", "arguments"} and {"do": "dismiss", "worker"}.
Reports: {"event": "joined", "cpus", "ray"}, {"event": "answer", "call", "text"}, {"event": "died", "call"}, and
{"event": "pulse"} every two seconds while the cluster's head answers and this machine's node is alive.
"""

import json
import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

from tallyveil.runs.cluster.worker import ClusterWorker
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.system import kill_children

# Fifteen of them fit into `LOST_SECONDS`, so a few that are lost or late end no run.
PULSE_SECONDS: Final = 2.0
RAY_FOLDER: Final = "r"
"""Ray's folder in that of the relay; a short name, because systems allow about 100 bytes for a path of a socket."""
# Shorter than `LOST_SECONDS` by far, so that a slow answer delays a pulse and is not taken for a lost cluster.
_ANSWER_SECONDS: Final = 5.0
# With `_PAUSE`, up to 5 seconds. Processes that are ended write for less; what is left then is left for good.
_REMOVALS: Final = 50
_PAUSE: Final = 0.1
"""How often the folder is removed, with a pause, while processes that are being ended may still write to it."""
_STORE_BYTES: Final = 100 << 20
"""Ray's object store on a cluster of this machine. Ray takes no less, and nothing of ours is in it."""


class Reports:
    """Writes reports, one line each, from any thread."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def write(self, report: JsonObject) -> None:
        """Write one report. A driver that is gone hears nothing."""
        # Lines of several threads must not mix.
        with self._lock:
            self._stream.write(json.dumps(report) + "\n")
            self._stream.flush()


class Requests:
    """Lines of the standard input, which are read from the start.

    Args:
        stream: The standard input.
        gone: Called if it ends before `joined` was called.
    """

    def __init__(self, stream: IO[str], gone: Callable[[], None]) -> None:
        self._gone = gone
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._is_joined = threading.Event()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def joined(self) -> None:
        """From now on the end of the input is the end of `lines`."""
        self._is_joined.set()

    def lines(self) -> Iterator[str]:
        """Lines as they come, until the input ends."""
        return iter(self._lines.get, None)

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.put(line)
        self._lines.put(None)
        # The driver died while Ray was still joining: nobody will ever read what comes.
        if not self._is_joined.is_set():
            self._gone()


class Relay:
    """Worker processes of one driver by number, and the calls of them."""

    def __init__(self, ray: Any, reports: Reports) -> None:
        self._ray = ray
        self._reports = reports
        self._made = ray.remote(ClusterWorker)
        self._workers: dict[int, Any] = {}

    def obey(self, request: JsonObject) -> None:
        """Do what a request says."""
        doing: dict[str, Callable[[JsonObject], None]] = {
            "hire": self._hire,
            "call": self._call,
            "dismiss": self._dismiss,
        }
        doing[request["do"]](request)

    def _hire(self, request: JsonObject) -> None:
        # No restart by Ray: a fresh process would have lost the run and its channel. The driver hires a new one
        # instead.
        asked = self._made.options(num_cpus=1, max_restarts=0, max_task_retries=0)
        self._workers[request["worker"]] = asked.remote()

    def _call(self, request: JsonObject) -> None:
        method = getattr(self._workers[request["worker"]], request["method"])
        reference = method.remote(*request["arguments"])
        # In a thread of Ray's; the relay itself goes on reading requests.
        reference.future().add_done_callback(partial(self._answered, request["call"]))

    def _dismiss(self, request: JsonObject) -> None:
        self._ray.kill(self._workers.pop(request["worker"]), no_restart=True)

    def _answered(self, call: int, future: Any) -> None:
        error = future.exception()
        if error is None:
            self._reports.write({"event": "answer", "call": call, "text": future.result()})
        else:
            # The class alone; the message of an exception could quote what the process held.
            self._reports.write({"event": "died", "call": call, "why": type(error).__name__})


def pulses(ray: Any, reports: Reports) -> None:
    """Report that the cluster's head answers and that this node is alive, again and again, as long as both are so."""
    context = ray.get_runtime_context()
    head = import_module("ray._raylet").GcsClient(address=context.gcs_address)
    node = ray.NodeID.from_hex(context.get_node_id())
    while True:
        # A head that cannot be asked gives no pulse; whether it is lost is for the driver to decide.
        with suppress(ray.exceptions.RpcError):
            if head.check_alive([node], _ANSWER_SECONDS) == [True]:
                reports.write({"event": "pulse"})
        time.sleep(PULSE_SECONDS)


def join(ray: Any, asked: JsonObject) -> None:
    """Join a cluster, or start one on this machine."""
    # Ray's own logging would write on the standard streams.
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    if asked["address"] is not None:
        ray.init(address=asked["address"], **quiet)
        return
    ray.init(
        address="local",
        num_cpus=asked["workers"],
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=_STORE_BYTES,
        _temp_dir=str(Path(asked["folder"], RAY_FOLDER)),
        _node_ip_address="127.0.0.1",
        **quiet,
    )


def give_up(folder: Path) -> None:
    """End this process and those that it started, and remove its folder."""
    for _ in range(_REMOVALS):
        # Ray's children go first: they would write into the folder while it is removed.
        kill_children()
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
        time.sleep(_PAUSE)
    # At once: Ray's threads and exit handlers could wait for a cluster that is not there.
    os._exit(1)


def main() -> None:
    """Relay between the driver, on the standard streams, and Ray."""
    # The standard output is kept aside for reports before Ray is imported.
    reports = Reports(os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)  # whatever Ray prints goes to the standard error
    asked = json.loads(sys.stdin.readline())
    # Reads from the start, so that the end of the driver is noticed while Ray joins.
    requests = Requests(sys.stdin, partial(give_up, Path(asked["folder"])))
    ray = import_module("ray")
    join(ray, asked)
    requests.joined()
    threading.Thread(target=pulses, args=(ray, reports), daemon=True).start()
    reports.write(
        {"event": "joined", "cpus": int(ray.cluster_resources().get("CPU", 0)), "ray": ray.__version__}
    )
    relay = Relay(ray, reports)
    for line in requests.lines():
        relay.obey(json.loads(line))
    ray.shutdown()
    shutil.rmtree(asked["folder"], ignore_errors=True)


if __name__ == "__main__":
    main()
