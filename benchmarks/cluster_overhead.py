"""The overhead of a chunk on a Ray cluster of this machine, and the start of the cluster, for `cluster.py`."""

import os
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tallyveil.runs.cluster.executor import Cluster
from tallyveil.runs.executor import Chunks, ClusterSettings, Executor, Site
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.system import flush

FLOOR_MS = 5.0
"""Wanted: a chunk takes at most so many milliseconds beyond its work."""
RESULT_BYTES = 200_000


def processor_seconds() -> float:
    """Of this process and of all processes below it that live."""
    process_here = psutil.Process()
    total = sum(process_here.cpu_times()[:2])
    for process in process_here.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:2])
    return total


class Tiny:
    """What a worker process opens: chunks that make a result of `RESULT_BYTES` bytes."""

    def chunks(self, address: JsonObject) -> Chunks[bytes]:
        def write(number: int, result: bytes, path: Path) -> None:
            path.write_bytes(result)

        return Chunks(address, lambda number: bytes([number % 256]) * RESULT_BYTES, write, Path.read_bytes)


def open_tiny(description: JsonObject, secret: bytes) -> Tiny:
    """The opener of these chunks."""
    return Tiny()


@dataclass(slots=True)
class Overhead:
    """Milliseconds of each chunk: by the clock, in all processes, and of the chunk itself in its worker process."""

    workers: int
    wall: float
    processor: float
    inside: float
    start: float
    leave: float


def overhead(folder: Path, workers: int, n_chunks: int) -> Overhead:
    """Start a cluster, do chunks without work, and leave it."""
    inside: list[float] = []

    def told(event: JsonObject) -> None:
        if "seconds" in event:
            inside.append(event["seconds"])

    begun = time.perf_counter()
    with Cluster(ClusterSettings(workers=workers), told).begin(folder) as executor:
        site = Site(f"{open_tiny.__module__}:{open_tiny.__name__}", {}, bytes(32), bytes(32))
        executor.serve(lambda: site)
        start = time.perf_counter() - begun
        warm(executor, 4 * workers)
        inside.clear()
        first, processor = time.perf_counter(), processor_seconds()
        chunks = Tiny().chunks({"work": "tiny"})
        assert len(list(executor.completed(chunks, range(n_chunks)))) == n_chunks
        wall, used = time.perf_counter() - first, processor_seconds() - processor
        left = time.perf_counter()
    leave = time.perf_counter() - left
    return Overhead(
        workers, 1e3 * wall / n_chunks, 1e3 * used / n_chunks, 1e3 * statistics.fmean(inside), start, leave
    )


def warm(executor: Executor, n_chunks: int) -> None:
    """Wait until all worker processes are there: they start one after the other."""
    time.sleep(5.0)
    list(executor.completed(Tiny().chunks({"work": "warm"}), range(n_chunks)))


def plain_files(folder: Path, n_chunks: int) -> float:
    """Milliseconds of a chunk's files without a cluster: a result and a record, flushed and renamed, and read."""
    folder.mkdir()
    begun = time.perf_counter()
    for number in range(n_chunks):
        for name, content in (("result", bytes(RESULT_BYTES)), ("record", bytes(200))):
            temporary = folder / "temporary"
            temporary.write_bytes(content)
            flush(temporary)
            temporary.replace(folder / f"{number}.{name}")
        flush(folder)
        (folder / f"{number}.result").read_bytes()
    return 1e3 * (time.perf_counter() - begun) / n_chunks


def print_overheads(overheads: Sequence[Overhead], files: float) -> None:
    print(
        f"\nChunks of {RESULT_BYTES // 1000} kB without work, ms a chunk; floor {FLOOR_MS:g}. "
        f"Load {os.getloadavg()[0]:.1f}."
    )
    print(
        f"{'workers':<8} {'wall':>6} {'processor':>10} {'in the worker process':>22} {'start, s':>9} {'leave, s':>9}"
    )
    for measured in overheads:
        print(
            f"{measured.workers:<8} {measured.wall:>6.2f} {measured.processor:>10.2f} "
            f"{measured.inside:>22.2f} {measured.start:>9.2f} "
            f"{measured.leave:>9.2f}"
        )
    print(f"the same files written, flushed and read by one process, without a cluster: {files:.2f}")
