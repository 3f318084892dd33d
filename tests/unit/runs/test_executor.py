"""Executors may complete chunks in any order; results come in the order of addresses."""

import random
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.runs.executor import Chunks, Site, Threads, gathered


def chunks_of(work):
    """Chunks whose results are never written."""
    return Chunks({"work": "test"}, work, None, None)


class Scrambled:
    """Begins and completes chunks in an order of its own."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def completed(self, chunks, numbers):
        shuffled = list(numbers)
        random.Random(self.seed).shuffle(shuffled)
        for number in shuffled:
            yield number, chunks.work(number)


@settings(max_examples=40)
@given(st.permutations(range(9)), st.integers(0, 5), st.integers(1, 4))
def test_results_come_in_address_order(numbers, seed, workers):
    told: list[int] = []
    for executor in (Scrambled(seed), Threads(workers)):
        told.clear()
        assert gathered(executor, chunks_of(lambda n: n * n), numbers, told.append) == [
            n * n for n in range(9)
        ]
        assert sorted(told) == list(range(9))
    assert gathered(Threads(workers), chunks_of(str), []) == []


def test_threads_complete_a_short_chunk_before_a_long_one():
    """The first chunk waits until the second one was handed over: only completion out of order can end this."""
    handed_over = threading.Event()

    def work(number: int) -> int:
        assert number != 0 or handed_over.wait(30)
        return number

    completed = Threads(2).completed(chunks_of(work), [0, 1])
    first = next(completed)
    handed_over.set()
    assert [first, *completed] == [(1, 1), (0, 0)]
    assert gathered(Threads(2), chunks_of(work), [0, 1]) == [0, 1]


@pytest.mark.parametrize(("workers", "n_chunks"), [(1, 6), (3, 9), (4, 2)])
def test_there_are_no_more_threads_than_wanted(workers, n_chunks):
    """Each chunk waits for as many others as may run beside it, and finds no more."""
    together = min(workers, n_chunks)
    barrier = threading.Barrier(together)
    running, most = [], []

    def work(number: int) -> int:
        running.append(number)
        most.append(len(running))
        barrier.wait(30)
        time.sleep(0.02)
        most.append(len(running))
        barrier.wait(30)
        running.remove(number)
        barrier.wait(30)
        return number

    assert gathered(Threads(workers), chunks_of(work), range(n_chunks)) == [*range(n_chunks)]
    assert max(most) == together


def test_an_error_ends_the_work_and_what_has_not_begun_is_left_out():
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 3:
            raise KeyError(number)
        return number

    with pytest.raises(KeyError):
        gathered(Threads(1), chunks_of(work), [3, *range(100, 200)])
    assert len(begun) < 100


class Forgetful:
    def __init__(self, given: list[int]) -> None:
        self.given = given

    def completed(self, chunks, numbers):
        yield from ((number, chunks.work(number)) for number in self.given)


@pytest.mark.parametrize("given_back", [[], [0], [0, 1, 1], [0, 1, 2]])
def test_an_executor_that_loses_or_repeats_a_chunk_is_noticed(given_back):
    with pytest.raises(ValueError, match="the executor"):
        gathered(Forgetful(given_back), chunks_of(str), [0, 1])


def test_threads_need_not_be_told_what_their_process_knows(tmp_path):
    threads = Threads(2)
    with threads.begin(tmp_path / "cluster") as executor:
        assert executor is threads
        assert not executor.is_remote
        executor.serve(lambda: Site("module:function", {}, b"", b""))
        executor.share("values", lambda path: path.write_text("never"))
    assert list(tmp_path.iterdir()) == []


def test_the_secret_of_a_run_is_not_shown():
    assert "secret" not in repr(Site("module:function", {}, b"very secret", b"secret key"))
