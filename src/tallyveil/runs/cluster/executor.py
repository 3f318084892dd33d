"""Does chunks of work on a Ray cluster: gives them to worker processes, and reads the results.

Results do not travel through Ray, only addresses, numbers and digests. A chunk whose result is on disk, from
this driver or from one before it, is not done again.

Each worker process is hired, greeted, checked, given the secret, and used until it dies. It goes through the
steps hello and confirm, and then waits until the run is served. It opens the run, and is then free or busy.
One that dies is replaced, and Ray starts the replacement when it has a processor for it. One that is
dismissed, because its machine cannot write, is not replaced.
"""

import json
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

from tallyveil.errors import ClusterError, TallyveilError
from tallyveil.runs.cluster.channel import DriverEnd
from tallyveil.runs.cluster.chunk_files import ChunkFiles, make_private, settle
from tallyveil.runs.cluster.connection import Connection
from tallyveil.runs.cluster.failures import UnwrittenError, result_of
from tallyveil.runs.cluster.worker import this_installation
from tallyveil.runs.executor import Chunks, ClusterSettings, Executor, Site
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.paths import inside
from tallyveil.storage.write import store_error, write_text

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


Result = TypeVar("Result")

RESULTS: Final = "chunks"
SHARED: Final = "shared"
"""Folders of the results, and of what worker processes read."""

# With 1, one lost machine would end a run of hours. With 6, a chunk that needs too much memory kills twice as many.
ATTEMPTS: Final = 3
"""How often a chunk may kill its worker process, or fail to be written, before the run ends."""
# Twice as long delays every start on a busy cluster; with half, a version that differs is often seen after the spend.
GATHER_SECONDS: Final = 15.0
"""How long a run waits for its other worker processes once the first one can be used, before anything is spent."""
# At half of it the driver wakes twice as often for nothing; at twice, a dead worker process is replaced later.
_LOOK_SECONDS: Final = 1.0
"""Longest wait for a message before the run looks again whether worker processes are missing."""
_STALE_SECONDS: Final = 60.0
"""How long a shared file system may hide a file that another machine wrote. NFS keeps what it knows for up to 60 s."""


class RayExecutor:
    """An executor on a Ray cluster; a context manager. See `Executor`.

    Args:
        settings: Which cluster.
        folder: For files of the work. It has the same path on every machine, and need not exist.
        told: Is told of every chunk that is begun, finished or repeated, and of every worker process that is set aside,
            for the log.
    """

    def __init__(
        self, settings: ClusterSettings, folder: Path, told: Callable[[JsonObject], None] = lambda event: None
    ) -> None:
        self._settings = settings
        self._folder = folder.absolute()
        self._told = told
        self._files: ChunkFiles | None = None
        self._connection: Connection | None = None
        self._crew: Crew | None = None

    def __enter__(self) -> "RayExecutor":
        """Join the cluster, and wait until worker processes can be used. No secret is given to them yet.

        One of them must come. The others are waited for `GATHER_SECONDS`; their processors may be taken.

        Raises:
            ClusterError: the cluster cannot be used; see docs/errors.md.
            StoreError: the folder cannot be written to.
        """
        self._connection = Connection(self._settings)
        try:
            self._make_folder()
            size = self._settings.workers or max(1, self._connection.cpus)
            self._crew = Crew(self._connection, self._folder, size, self._told)
            self._gather(self._crew, self._connection.cpus)
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        """Leave the cluster, and remove the folder if it holds no results."""
        # The relay first: no worker process may look for the nonce file after it is gone.
        if self._connection is not None:
            self._connection.__exit__(kind)
        if self._crew is not None:
            self._crew.close()
        # Only an empty folder goes: results are what a resumed run goes on from.
        with suppress(OSError):
            self._folder.rmdir()
        self._connection = self._crew = None

    @property
    def is_remote(self) -> bool:
        """As `Executor.is_remote`."""
        return True

    @property
    def threads(self) -> int:
        """As `Executor.threads`: this process reads results and writes what follows from them."""
        return 1

    def serve(self, site: Callable[[], Site]) -> None:
        """As `Executor.serve`: wait until one worker process has opened the run."""
        crew, served = self._joined(), site()
        results = inside(self._folder, RESULTS)
        # The key follows from the run's own secrets, so a resumed run believes the results of the one before it.
        self._files = ChunkFiles(results, served.files_key)
        crew.serve(served, results)
        self._advance_until(crew, lambda: bool(crew.free()))

    def share(self, name: str, write: Callable[[Path], None]) -> None:
        """As `Executor.share`. Raises StoreError if the file cannot be written."""
        folder = inside(self._folder, SHARED)
        temporary, path = inside(folder, f"{name}.partial"), inside(folder, name)
        try:
            make_private(folder)
            write(temporary)
            settle(temporary, lambda digest: path)
        except OSError as error:
            raise store_error(path, error) from error

    def completed(
        self, chunks: Chunks[Result], numbers: Sequence[int]
    ) -> Generator[tuple[int, Result], None, None]:
        """As `Executor.completed`: first the chunks that are finished on disk.

        A caller that stops early leaves worker processes with the chunks that they have begun. Each is free for other
        work when it has finished its chunk.

        Raises:
            ClusterError: the cluster is lost; a chunk killed its worker process three times; a result is not seen.
            TallyveilError: what the work raised.
            WorkerDefectError: a worker process met another exception.
        """
        crew, files = self._joined(), self._files
        if files is None:
            raise ValueError("RayExecutor was given work before it was told of the run")
        pending: list[int] = []
        for number in numbers:
            path = files.finished(chunks.address, number)
            # Not finished, or its record is not authentic: it is simply done again.
            if path is None:
                pending.append(number)
            else:
                # Yielded one by one, so that results are not all held in memory.
                yield number, chunks.read(path)
        chunks_left = _Round(crew, files, chunks.address, pending, self._told)
        for number, path in chunks_left.completed():
            yield number, chunks.read(path)

    def _make_folder(self) -> None:
        try:
            make_private(self._folder)
        except OSError as error:
            raise store_error(self._folder, error) from error

    def _joined(self) -> Crew:
        if self._crew is None:
            raise ValueError("RayExecutor was used outside its `with` statement")
        return self._crew

    def _gather(self, crew: Crew, cpus: int) -> None:
        """Wait for the first worker process, and then some time for the others, to find what is wrong with them."""
        self._advance_until(crew, lambda: crew.n_confirmed() > 0)
        end = time.monotonic() + GATHER_SECONDS
        # A cluster with fewer processors than were asked for never gets all of them, so these are not waited for.
        self._advance_until(
            crew, lambda: crew.n_confirmed() >= min(crew.size, cpus) or time.monotonic() > end
        )

    def _advance_until(self, crew: Crew, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            crew.fill()
            crew.next(_LOOK_SECONDS)


@dataclass(slots=True)
class _Given:
    """A chunk that a worker process has."""

    number: int
    worker: Worker
    begun: float = field(default_factory=time.monotonic)


class _Round:
    """The chunks of one piece of work that are still to be done."""

    def __init__(
        self,
        crew: Crew,
        files: ChunkFiles,
        address: JsonObject,
        numbers: Sequence[int],
        told: Callable[[JsonObject], None],
    ) -> None:
        self._crew = crew
        self._files = files
        self._address = address
        self._pending = deque(numbers)
        self._told = told
        self._given: dict[int, _Given] = {}
        self._deaths: dict[int, int] = {}
        self._unwritten: dict[int, list[str]] = {}

    def completed(self) -> Iterator[tuple[int, Path]]:
        """Numbers and files of the chunks, as they are finished."""
        while self._pending or self._given:
            # Replacements are hired at every turn, so that a dead process costs its own chunk and no more.
            self._crew.fill()
            self._give()
            happened = self._crew.next(_LOOK_SECONDS)
            # A call that is not known was given by a caller that stopped early; its answer is left alone.
            task = self._given.pop(happened.call, None) if happened is not None else None
            if task is None:
                continue
            if not isinstance(happened, Answered):
                self._repeat_after_death(task)
            elif (digest := self._digest(task, happened.text)) is not None:
                # A worker process with nothing to do costs more than a result that is read a moment later.
                self._give()  # before this process is busy with reading
                yield (
                    task.number,
                    self._files.awaited(self._address, task.number, digest, seconds=_STALE_SECONDS),
                )

    def _give(self) -> None:
        """Give every free worker process the first chunk that it may have."""
        for worker in self._crew.free():
            number = next((waiting for waiting in self._pending if self._may_have(worker, waiting)), None)
            if number is not None:
                self._pending.remove(number)
                call = self._crew.begin(worker, json.dumps(self._address), number)
                self._given[call] = _Given(number, worker)
                self._say("begun", self._given[call])

    def _may_have(self, worker: Worker, number: int) -> bool:
        """A chunk that a machine could not write goes to another one, as long as there is another one."""
        failed = set(self._unwritten.get(number, ()))
        # Where all machines have failed, any may try again; `_digest` counts the attempts.
        return worker.host not in failed or not self._crew.hosts() - failed

    def _digest(self, task: _Given, text: str) -> str | None:
        """The SHA-256 of a finished chunk; None if it was not written, and another worker process is to do it."""
        try:
            said = result_of(text)
        except UnwrittenError as error:
            self._crew.dismiss(task.worker, error.cause)
            failed = self._unwritten.setdefault(task.number, [])
            failed.append(task.worker.host)
            if len(failed) >= ATTEMPTS or self._crew.size == 0:
                raise error.cause from None
            self._repeat(task, "not written")
            return None
        self._say("finished", task, seconds=said["seconds"])
        return str(said["sha256"])

    def _repeat_after_death(self, task: _Given) -> None:
        deaths = self._deaths[task.number] = self._deaths.get(task.number, 0) + 1
        if deaths >= ATTEMPTS:
            raise ClusterError(
                f"chunk {task.number} of {json.dumps(self._address)} was begun {deaths} times, and each time its "
                f"worker process died, the last one on {task.worker.host}. Most often it needs more memory than a "
                "machine has: use fewer worker processes on each machine, or larger ones. Finished chunks are kept.",
                code="chunk-kills-workers",
            )
        self._repeat(task, "its worker process died")

    def _repeat(self, task: _Given, why: str) -> None:
        # In front: what has cost time already must not be the last chunk that everybody waits for.
        self._pending.appendleft(task.number)
        self._say("repeated", task, seconds=round(time.monotonic() - task.begun, 3), why=why)

    def _say(self, what: str, task: _Given, **more: float | str) -> None:
        worker = task.worker
        self._told(
            {
                "event": f"chunk {what}",
                "number": task.number,
                "address": self._address,
                "host": worker.host,
                "pid": worker.pid,
                **more,
            }
        )


@dataclass(frozen=True, slots=True)
class Cluster:
    """Makes the executor of a run on a cluster. See `Executors`.

    Attributes:
        settings: Which cluster.
        told: Is told of what happens, for the log. See `RayExecutor`.
    """

    settings: ClusterSettings
    told: Callable[[JsonObject], None]

    def begin(self, folder: Path) -> AbstractContextManager[Executor]:
        """As `Executors.begin`: one worker process has shown that it can be used. It has no secret yet."""
        return RayExecutor(self.settings, folder, self.told)
