"""Executors do numbered chunks of work: `Threads`, or worker processes of a cluster (`cluster/executor.py`).

An executor may begin and complete chunks in any order and on any machine, because noise is addressed and no
chunk depends on another. `gathered` puts the results in the order of the numbers, so that nothing that
follows depends on the executor.

There is one way to a piece of work: whoever holds a run makes the chunks of an address (`Workplace.chunks`).
The run's own process does so and hands them to its executor. Threads call their work. Other processes are
told the address and the number of a chunk, make the same chunks from the run's folder, and write the result
to a file, which the run's own process reads.

The settings of a cluster say which one does the work, and an `Opener` what opens the run in a worker process.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from tallyveil.errors import ClusterError, ConfigError
from tallyveil.exact import as_given
from tallyveil.storage.json_files import JsonObject

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Chunks(Generic[Result]):
    """Numbered chunks of one piece of work.

    Attributes:
        address: Names the work within its run. The same address in another process of the run names the same work.
        work: Does the chunk of a number; several calls may run at the same time.
        write: Writes the result of the chunk of a number to a new file.
        read: Reads the result that `write` wrote.
        at_once: Most chunks that a process with threads does at the same time, where a chunk needs much memory or has
            threads of its own; None for as many as there are threads.
    """

    address: JsonObject
    work: Callable[[int], Result]
    write: Callable[[int, Result, Path], None]
    read: Callable[[Path], Result]
    at_once: int | None = None


class Workplace(Protocol):
    """What holds a run in one of its processes."""

    def chunks(self, address: JsonObject) -> Chunks[Any]:
        """The work of an address; the same in every process of the run."""
        ...


@dataclass(frozen=True, slots=True)
class Site:
    """A run, as other processes are told of it.

    Attributes:
        opener: A function that these processes import, as "package.module:function". It takes the description and the
            secret, and returns the `Workplace` there.
        description: What the opener needs and everybody may know.
        secret: What the opener needs and only processes of the run may know. It leaves this process encrypted.
        files_key: Authenticates files of results; the same whenever the run is resumed. Confidential, 32 bytes.
    """

    opener: str
    description: JsonObject
    secret: bytes = field(repr=False)
    files_key: bytes = field(repr=False)


class Executor(Protocol):
    """Does chunks of work."""

    @property
    def is_remote(self) -> bool:
        """Whether other processes do the work. Then it pays to divide it further than threads need it."""
        ...

    @property
    def threads(self) -> int:
        """Threads of the run's own process that its work may use."""
        ...

    def serve(self, site: Callable[[], Site]) -> None:
        """Tell other processes of the run. The work of a run is given to them after that.

        Args:
            site: Makes the site, and writes what they need to open it; called only if there are other processes.
        Raises:
            TallyveilError: they cannot open the run.
        """
        ...

    def share(self, name: str, write: Callable[[Path], None]) -> None:
        """Let other processes read a file that this process writes; what they do not need is not written.

        Args:
            name: Of the file, without a folder.
            write: Writes it.
        """
        ...

    def completed(self, chunks: Chunks[Result], numbers: Sequence[int]) -> Iterator[tuple[int, Result]]:
        """Do every chunk once, and yield its number and result when it is complete, in any order.

        Args:
            chunks: The work.
            numbers: The chunks, in the order in which to begin them.
        Raises:
            Exception: what the work raises. Chunks that have not begun are then left out.
        """
        ...


class Executors(Protocol):
    """Makes the executor of a run."""

    def begin(self, folder: Path) -> AbstractContextManager[Executor]:
        """Make sure that the work can be done, before anything is spent.

        Args:
            folder: For files of the work, inside the private folder of the run; it need not exist.
        Raises:
            TallyveilError: the work could not be done.
        """
        ...


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads of this process: both an `Executor` and, as nothing has to begin, the `Executors` that makes it.

    Attributes:
        workers: Largest number of threads.
    """

    workers: int = 1

    @property
    def is_remote(self) -> bool:
        """As `Executor.is_remote`."""
        return False

    @property
    def threads(self) -> int:
        """As `Executor.threads`."""
        return self.workers

    def begin(self, folder: Path) -> AbstractContextManager[Executor]:
        """As `Executors.begin`."""
        return nullcontext(self)

    def serve(self, site: Callable[[], Site]) -> None:
        """As `Executor.serve`: threads are in the process that holds the run."""

    def share(self, name: str, write: Callable[[Path], None]) -> None:
        """As `Executor.share`: threads read what the process holds."""

    def completed(self, chunks: Chunks[Result], numbers: Sequence[int]) -> Iterator[tuple[int, Result]]:
        """As `Executor.completed`."""
        if chunks.at_once == 1:
            # Lazy: the next chunk begins when the caller has taken the last one, so only one result is held.
            return ((number, chunks.work(number)) for number in numbers)
        most = self.workers if chunks.at_once is None else min(self.workers, chunks.at_once)
        return Threads(most).each(chunks.work, numbers)

    def each(self, work: Callable[[int], Result], numbers: Sequence[int]) -> Iterator[tuple[int, Result]]:
        """As `completed`, for work that only this process does.

        Args:
            work: Does the chunk of a number.
            numbers: The chunks, in the order in which to begin them.
        """
        if len(numbers) == 1:  # a thread would gain nothing
            yield numbers[0], work(numbers[0])
            return
        with ThreadPoolExecutor(max_workers=max(1, min(self.workers, len(numbers)))) as pool:
            # All chunks are submitted at once; the pool begins them in this order, so the longest should come first.
            running = {pool.submit(work, number): number for number in numbers}
            try:
                for finished in as_completed(running):
                    yield running[finished], finished.result()
            # Also when the caller stops iterating (GeneratorExit): what has not begun is dropped, what runs is waited
            # for.
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def gathered(
    executor: Executor,
    chunks: Chunks[Result],
    numbers: Sequence[int],
    done: Callable[[int], None] = lambda number: None,
) -> list[Result]:
    """The results of all chunks in the order of their numbers, whatever the order of completion.

    Args:
        executor: Does the chunks.
        chunks: The work.
        numbers: The chunks, in the order in which to begin them.
        done: Told the number of each chunk when it is complete.
    Raises:
        ValueError: the executor did not give exactly one result for each chunk.
    """
    results: dict[int, Result] = {}
    for number, result in executor.completed(chunks, numbers):
        if number in results:
            raise ValueError(f"the executor completed chunk {number} twice")
        results[number] = result
        done(number)
    # An executor that loses a chunk must not pass for one that has finished: a release would lack geounits.
    if results.keys() != set(numbers):
        raise ValueError("the executor did not complete the chunks that it was given")
    return [results[number] for number in sorted(results)]


WANTED_ADDRESS: Final = "the address of the cluster's head with its port, such as 10.0.0.1:6379"
_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")


def is_address(text: str) -> bool:
    """Whether a text names a machine and a port of it."""
    match = _ADDRESS.fullmatch(text)
    # A port is 16 bits; port 0 means "any", and nobody listens there.
    return match is not None and 1 <= int(match[1]) <= 65535


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Which cluster does the work.

    Attributes:
        address: Of the cluster's head, such as "10.0.0.1:6379". None starts a cluster on this machine, for this run.
        workers: Number of worker processes. None asks for one on each processor of the cluster.
        open_allowed: Whether a cluster is used that demands no token, where everybody who reaches its ports can run
            programs and read what its worker processes hold.

    Raises:
        ConfigError: the address names no machine and port, or the number of worker processes is no positive integer.
    """

    address: str | None = None
    workers: int | None = None
    open_allowed: bool = False

    def __post_init__(self) -> None:
        if self.address is not None and not (isinstance(self.address, str) and is_address(self.address)):
            raise ConfigError(
                f"the address of a cluster is {as_given(self.address)}, wanted {WANTED_ADDRESS}. Leave it out for a "
                "cluster of this machine alone.",
                code="bad-argument",
            )
        if self.workers is not None and not (type(self.workers) is int and self.workers >= 1):
            raise ConfigError(
                f"the number of worker processes is {as_given(self.workers)}, wanted 1 or more, or nothing for one on "
                "each processor of the cluster.",
                code="bad-argument",
            )


Opener: TypeAlias = Callable[[JsonObject, bytes], Workplace]


def opener_of(name: str) -> Opener:
    """The function that a text such as "package.module:function" names.

    Raises:
        ClusterError: there is no such module or function on this machine.
    """
    module, _, function = name.partition(":")
    try:
        # By name, since functions that were pickled would bring code and state of the driver with them.
        opener: Opener = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ClusterError(
            f"a worker process cannot import '{name}' ({type(error).__name__}). Install the same packages on every "
            "machine of the cluster.",
            code="cluster-version",
        ) from error
    return opener
