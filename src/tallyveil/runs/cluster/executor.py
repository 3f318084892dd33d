"""Does chunks of work on a Ray cluster: gives them to worker processes, and reads the results that they wrote.

Results do not travel through Ray, only addresses, numbers and digests. A chunk whose result is on disk, from this
driver or from one before it, is not done again.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from tallyveil.errors import ClusterError
from tallyveil.runs.cluster.chunk_files import ChunkFiles, make_private, settle
from tallyveil.runs.cluster.connection import Connection
from tallyveil.runs.cluster.crew import Answered, Crew, Worker
from tallyveil.runs.cluster.failures import UnwrittenError, result_of
from tallyveil.runs.cluster.site import ClusterSettings
from tallyveil.runs.executor import Chunks, Executor, Site
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.paths import inside
from tallyveil.storage.write import store_error

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
