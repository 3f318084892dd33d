"""Executors do numbered chunks of work: `Threads`, or any other class that implements the protocol `Executor`.

An executor may begin and complete chunks in any order and on any machine, because noise is addressed and no chunk
depends on another. `gathered` puts the results in the order of the numbers, so that nothing that follows depends on
the executor.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class Executor(Protocol):
    """Does chunks of work."""

    def completed(
        self, work: Callable[[int], Result], numbers: Sequence[int]
    ) -> Iterator[tuple[int, Result]]:
        """Do every chunk once, and yield its number and result when it is complete, in any order.

        Args:
            work: Does the chunk of a number; several calls may run at the same time.
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

    def completed(
        self, work: Callable[[int], Result], numbers: Sequence[int]
    ) -> Iterator[tuple[int, Result]]:
        """As `Executor.completed`."""
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
    work: Callable[[int], Result],
    numbers: Sequence[int],
    done: Callable[[int], None] = lambda number: None,
) -> list[Result]:
    """The results of all chunks in the order of their numbers, whatever the order of completion.

    Args:
        executor: Does the chunks.
        work: Does the chunk of a number.
        numbers: The chunks, in the order in which to begin them.
        done: Told the number of each chunk when it is complete.
    Raises:
        ValueError: the executor did not give exactly one result for each chunk.
    """
    results: dict[int, Result] = {}
    for number, result in executor.completed(work, numbers):
        if number in results:
            raise ValueError(f"the executor completed chunk {number} twice")
        results[number] = result
        done(number)
    if results.keys() != set(numbers):
        raise ValueError("the executor did not complete the chunks that it was given")
    return [results[number] for number in sorted(results)]
