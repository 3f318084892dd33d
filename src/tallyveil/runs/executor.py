"""Executors do numbered chunks of work: `Threads`, or any other class that implements the protocol `Executor`.

An executor may begin and complete chunks in any order and on any machine, because noise is addressed and no chunk
depends on another. `gathered` puts the results in the order of the numbers, so that nothing that follows depends on
the executor.

Threads call the work itself. Other processes cannot: they are told the address of the work and the number of a chunk,
make the same work from the run's folder, and write its result to a file. So a result can be written and read.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tallyveil.storage.json_files import JsonObject

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Chunks(Generic[Result]):
    """Numbered chunks of one piece of work.

    Attributes:
        address: Names the work within its run. The same address in another process of the run names the same work.
        work: Does the chunk of a number; several calls may run at the same time.
        write: Writes a result to a new file.
        read: Reads the result that `write` wrote.
    """

    address: JsonObject
    work: Callable[[int], Result]
    write: Callable[[Result, Path], None]
    read: Callable[[Path], Result]


class Executor(Protocol):
    """Does chunks of work."""

    def completed(self, chunks: Chunks[Result], numbers: Sequence[int]) -> Iterator[tuple[int, Result]]:
        """Do every chunk once, and yield its number and result when it is complete, in any order.

        Args:
            chunks: The work.
            numbers: The chunks, in the order in which to begin them.
        Raises:
            Exception: what the work raises. Chunks that have not begun are then left out.
        """
        ...


@dataclass(frozen=True, slots=True)
class Threads:
    """Threads of this process.

    Attributes:
        workers: Largest number of threads.
    """

    workers: int = 1

    def completed(self, chunks: Chunks[Result], numbers: Sequence[int]) -> Iterator[tuple[int, Result]]:
        """As `Executor.completed`."""
        return self.each(chunks.work, numbers)

    def each(self, work: Callable[[int], Result], numbers: Sequence[int]) -> Iterator[tuple[int, Result]]:
        """As `completed`, for work that only this process does.

        Args:
            work: Does the chunk of a number.
            numbers: The chunks, in the order in which to begin them.
        """
        with ThreadPoolExecutor(max_workers=max(1, min(self.workers, len(numbers)))) as pool:
            running = {pool.submit(work, number): number for number in numbers}
            try:
                for finished in as_completed(running):
                    yield running[finished], finished.result()
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
    if results.keys() != set(numbers):
        raise ValueError("the executor did not complete the chunks that it was given")
    return [results[number] for number in sorted(results)]
