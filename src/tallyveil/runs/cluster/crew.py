"""The worker processes of a run: each is hired, greeted, checked, given the secret, and used until it dies.

A worker process goes through the steps hello and confirm, and then waits until the run is served. It opens the run, and
is then free or busy. One that dies is replaced,
and Ray starts the replacement when it has a processor for it. One that is dismissed, because its machine cannot write,
is not replaced.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

from tallyveil.errors import ClusterError, TallyveilError
from tallyveil.runs.cluster.channel import DriverEnd
from tallyveil.runs.cluster.connection import Connection
from tallyveil.runs.cluster.failures import UnwrittenError, result_of
from tallyveil.runs.cluster.worker import this_installation
from tallyveil.runs.executor import Site
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.paths import inside
from tallyveil.storage.write import write_text

START_SECONDS: Final = 300.0
"""How long a run waits while it has no worker process at all."""
_EARLY_DEATHS: Final = 3
"""How often, for each worker process wanted, one may end before it could do anything until the run gives up."""


class Step(Enum):
    """What a worker process is doing."""

    HELLO = "hello"
    CONFIRM = "confirm"
    CONFIRMED = "confirmed"
    OPEN = "open"
    FREE = "free"
    BUSY = "do"


@dataclass(slots=True, eq=False)
class Worker:
    """A worker process, as the driver sees it.

    Attributes:
        number: Names it to the relay.
        end: The driver's end of its channel.
        step: What it is doing.
        public: Public key of its end of the channel.
        confirmation: Its proof that it knows the token.
        host: Name of its machine, once it has said so.
        pid: Number of the process there.
        call: The call that it is to answer.
    """

    number: int
    end: DriverEnd
    step: Step = Step.HELLO
    public: str = ""
    confirmation: str = ""
    host: str = ""
    pid: int = 0
    call: int = -1


@dataclass(frozen=True, slots=True)
class Answered:
    """A worker process has answered a call to do a chunk, and is free."""

    worker: Worker
    call: int
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Died:
    """A worker process died, which had this call to answer."""

    worker: Worker
    call: int


class Crew:
    """All worker processes of a run.

    Args:
        connection: The joined cluster.
        folder: A folder that all machines share.
        size: Number of worker processes wanted.
        told: Is told of every worker process that is set aside, for the log.

    Attributes:
        size: Number of worker processes wanted, less those that were dismissed.

    Raises:
        StoreError: the folder cannot be written to.
    """

    def __init__(
        self, connection: Connection, folder: Path, size: int, told: Callable[[JsonObject], None]
    ) -> None:
        self._connection = connection
        self._folder = folder
        self._told = told
        self._served: tuple[Site, Path] | None = None
        self.size = size
        # New for every driver: a file that an earlier one left in the folder proves nothing.
        self._nonce = os.urandom(16).hex()
        self._nonce_file = inside(folder, f"nonce-{self._nonce[:8]}")
        write_text(self._nonce_file, self._nonce)
        self._workers: dict[int, Worker] = {}
        self._hired = 0
        self._called = 0
        self._early_deaths = 0
        self._waits_since = time.monotonic()

    def close(self) -> None:
        """Remove the file by which worker processes show that they see the folder."""
        self._nonce_file.unlink(missing_ok=True)

    def fill(self) -> None:
        """Hire worker processes for those that died."""
        # Dead ones are replaced, dismissed ones are not: `size` shrank with them.
        while len(self._workers) < self.size:
            worker = Worker(self._hired, DriverEnd(self._connection.token))
            self._hired += 1
            self._workers[worker.number] = worker
            self._connection.send({"do": "hire", "worker": worker.number})
            self._call(worker, Step.HELLO, [str(self._nonce_file), int(self._connection.token is None)])

    def n_confirmed(self) -> int:
        """How many worker processes can be used: their versions are ours, they see the folder, and know the token."""
        return sum(worker.step not in (Step.HELLO, Step.CONFIRM) for worker in self._workers.values())

    def serve(self, site: Site, results: Path) -> None:
        """Let worker processes open a run: those that wait for it now, and later ones when they come.

        Args:
            site: The run.
            results: Folder of the files of results.
        Raises:
            ClusterError: a worker process cannot be trusted.
        """
        self._served = site, results
        for worker in self._workers.values():
            if worker.step is Step.CONFIRMED:
                # Confirmed before the run was served; those that come later are opened as they confirm (`_advance`).
                self._open(worker)

    def free(self) -> list[Worker]:
        """Worker processes that have nothing to do."""
        return [worker for worker in self._workers.values() if worker.step is Step.FREE]

    def hosts(self) -> set[str]:
        """Machines of the worker processes that have opened the run."""
        return {worker.host for worker in self._workers.values() if worker.step in (Step.FREE, Step.BUSY)}

    def begin(self, worker: Worker, address: str, number: int) -> int:
        """Give a free worker process a chunk; the number of the call is returned."""
        return self._call(worker, Step.BUSY, [address, number])

    def dismiss(self, worker: Worker, why: TallyveilError) -> None:
        """End a worker process whose machine cannot read or write files, and hire none in its place."""
        self._told({"event": "worker set aside", "host": worker.host, "pid": worker.pid, "why": str(why)})
        self.size -= 1
        del self._workers[worker.number]
        self._connection.send({"do": "dismiss", "worker": worker.number})

    def next(self, seconds: float) -> Answered | Died | None:
        """What happens next to a chunk; None if nothing does in the given time, or if it concerned no chunk.

        Raises:
            ClusterError: the cluster is lost; a worker process cannot be trusted or used; none can be had.
            TallyveilError: a worker process could not open the run.
        """
        report = self._connection.report(seconds)
        # At every report and every wait: a cluster without processors must not be waited for without end.
        self._require_workers()
        # A report about a worker process that was dismissed meanwhile concerns nobody.
        if report is None or (worker := self._caller(report["call"])) is None:
            return None
        if report["event"] == "died":
            return self._died(worker)
        if worker.step is Step.BUSY:
            worker.step = Step.FREE
            # Free again before the caller reads the result, so that it can be given the next chunk at once.
            return Answered(worker, worker.call, report["text"])
        self._advance(worker, report["text"])
        return None

    def _caller(self, call: int) -> Worker | None:
        return next((worker for worker in self._workers.values() if worker.call == call), None)

    def _call(self, worker: Worker, step: Step, arguments: list[Any]) -> int:
        # Calls are numbered over all worker processes, so that a late answer is never taken for another call's.
        self._called += 1
        worker.call, worker.step = self._called, step
        self._connection.send(
            {
                "do": "call",
                "call": worker.call,
                "worker": worker.number,
                "method": step.value,
                "arguments": arguments,
            }
        )
        return worker.call

    def _advance(self, worker: Worker, text: str) -> None:
        """Take the next step towards a worker process that has opened the run."""
        try:
            result = result_of(text)
        except UnwrittenError as error:
            self.dismiss(worker, error.cause)
            # The last machine that could write is gone: waiting would not bring another.
            if self.size == 0:
                raise error.cause from None
            return
        if worker.step is Step.HELLO:
            self._greeted(worker, result)
            self._call(worker, Step.CONFIRM, [worker.end.public])
        elif worker.step is Step.CONFIRM:
            # Before `_open`: the secret is sealed only for an end that has proved that it knows the token.
            worker.end.require_confirmed(worker.public, result)
            worker.confirmation, worker.step = result, Step.CONFIRMED
            self._open(worker)
        else:
            worker.step = Step.FREE
            # Counted in a row: worker processes that die now and then are replaced as long as some succeed.
            self._early_deaths = 0

    def _open(self, worker: Worker) -> None:
        """Send a confirmed worker process the run, if there is one already."""
        if self._served is None:
            return
        site, results = self._served
        sealed = worker.end.sealed(worker.public, worker.confirmation, site.files_key + site.secret)
        description = json.dumps(site.description)
        self._call(worker, Step.OPEN, [worker.end.public, sealed, site.opener, str(results), description])

    def _greeted(self, worker: Worker, said: JsonObject) -> None:
        """Take what a worker process says of itself. Raises ClusterError if it cannot be used."""
        worker.host, worker.pid, worker.public = said["host"], said["pid"], said["public"]
        # Another version might compute other numbers for the same address, and two chunks would not fit together.
        for name, wanted in this_installation().items():
            if said[name] != wanted:
                raise ClusterError(
                    f"a worker process on {worker.host} has {name} {said[name] or '(none)'}, and the driver has "
                    f"{wanted}. Install the same versions on every machine of the cluster.",
                    code="cluster-version",
                )
        # The path exists on many machines; only the content shows that it is the same folder.
        if said["nonce"] != self._nonce:
            raise ClusterError(
                f"a worker process on {worker.host} does not see a file that the driver wrote in {self._folder}. "
                "Use a folder of a file system that every machine of the cluster has at the same path.",
                code="cluster-folder",
            )

    def _died(self, worker: Worker) -> Died | None:
        del self._workers[worker.number]
        if worker.step is Step.BUSY:
            return Died(worker, worker.call)
        self._early_deaths += 1
        if self._early_deaths >= _EARLY_DEATHS * self.size:
            raise ClusterError(
                f"{self._early_deaths} worker processes in a row ended before they could do anything. Check that "
                "Tallyveil is installed on every machine, with the versions of this one, and that there is memory.",
                code="cluster-no-workers",
            )
        return None

    def _require_workers(self) -> None:
        """Refuse to wait for ever for the first worker process. Raises ClusterError."""
        if any(worker.step is not Step.HELLO for worker in self._workers.values()):
            self._waits_since = time.monotonic()
        elif time.monotonic() - self._waits_since > START_SECONDS:
            raise ClusterError(
                f"the cluster has started no worker process for {START_SECONDS:g} seconds. Wanted {self.size}, on one "
                "processor each. Look with `ray status` for what keeps its processors.",
                code="cluster-no-workers",
            )
