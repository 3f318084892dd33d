"""What a Ray cluster costs and gives: a whole release beside threads, the overhead of a chunk, and the start.

    python benchmarks/cluster.py [--release FILE ...] [--blocks 20000] [--workers 2] [--rounds 1] [--chunks 400]

Needs `pip install 'tallyveil[cluster]'`. The cluster is of this machine and lasts for one measurement.

- Release: each release is made by threads and by a cluster, one after the other, `--rounds` times. Without
  `--release`, the release is redistricting data of a made-up state of `--blocks` blocks. `--keep FOLDER` keeps the
  releases, for `benchmarks/cluster_schedule.py`. Beside the release of a cluster it writes `NAME-processor.jsonl`:
  lines like those of the release's log, with processor seconds of every chunk, and those of the run's own process in
  every stage.
- Chunk: many chunks that do nothing but make, write and read a result of 200 kB; the same files without a cluster
  beside them.
- Start: from nothing to the first worker process that is ready for a chunk.

Wall times say little on a machine that other jobs share. So the load is printed, and processor seconds stand beside
every wall time: those of the chunks, and those of all processes together. The efficiency is the wall time that chunks
took in their processes, divided by the number of workers times the wall time of their stages.
"""

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import headline
import psutil
from cluster_overhead import (
    FLOOR_MS,
    Overhead,
    overhead,
    plain_files,
    print_overheads,
    processor_seconds,
)

from tallyveil.api.beginning import write_country
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.warm_up import compile_kernels
from tallyveil.products.topdown.run.run import run_release
from tallyveil.runs.cluster.executor import Cluster
from tallyveil.runs.executor import Chunks, ClusterSettings, Executors, Site, Threads
from tallyveil.runs.executors import executors_of
from tallyveil.runs.observer import SilentObserver
from tallyveil.storage.json_files import JsonObject

EFFICIENCY = 0.85
"""Wanted with two workers on two idle cores."""
KEY = insecure_key("benchmark")


@dataclass(slots=True)
class Stage:
    """The chunks of one kind of work.

    Attributes:
        chunks: Their number.
        stages: Number of pieces of work that they belong to.
        work: Seconds that they took in their threads or processes, added up.
        work_processor: Processor seconds of these threads or processes.
        wall: Seconds of the stages.
        processor: Processor seconds of all processes during the stages.
    """

    chunks: int = 0
    stages: int = 0
    work: float = 0.0
    work_processor: float = 0.0
    wall: float = 0.0
    processor: float = 0.0

    def efficiency(self, workers: int) -> float:
        return self.work / (workers * self.wall)


@dataclass(slots=True)
class Found:
    """One release by one executor; `before` are the processor seconds that each worker process had used before its
    first chunk, and `memory` the most bytes that one of them had."""

    wall: float = 0.0
    processor: float = 0.0
    load: float = 0.0
    kinds: dict[str, Stage] = field(default_factory=dict)
    before: list[float] = field(default_factory=list)
    memory: int = 0
    lines: list[JsonObject] = field(default_factory=list)

    @property
    def all_chunks(self) -> Stage:
        total = Counter[str]()
        for stage in self.kinds.values():
            total.update(asdict(stage))
        return Stage(**total)


class StageClock(SilentObserver):
    """Notes the processor seconds of this process in every stage."""

    def __init__(self, lines: list[JsonObject]) -> None:
        self._lines = lines
        self._begun = 0.0

    def stage_started(self, stage: str, total: int) -> None:
        self._begun = time.process_time()

    def stage_finished(self, stage: str, seconds: float) -> None:
        used = time.process_time() - self._begun
        self._lines.append({"event": "stage finished", "stage": stage, "seconds": used})


class Watched:
    """Executors whose chunks are timed. See `Executors`."""

    def __init__(self, make: Callable[[Callable[[JsonObject], None]], Executors]) -> None:
        self.found = Found()
        self._executors = make(self._told)
        self._seen: dict[int, float] = {}
        self._now = Stage()

    @contextmanager
    def begin(self, folder: Path) -> Iterator["Watched"]:
        with self._executors.begin(folder) as self._executor:
            yield self

    @property
    def is_remote(self) -> bool:
        return self._executor.is_remote

    @property
    def threads(self) -> int:
        return self._executor.threads

    def serve(self, site: Callable[[], Site]) -> None:
        self._executor.serve(site)

    def share(self, name: str, write: Callable[[Path], None]) -> None:
        self._executor.share(name, write)

    def completed(self, chunks: Chunks[Any], numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        stage = self._now = self.found.kinds.setdefault(chunks.address["work"], Stage())
        stage.chunks += len(numbers)
        stage.stages += 1
        begun, processor, driver = time.perf_counter(), processor_seconds(), time.process_time()
        if not self.is_remote:
            chunks = replace(chunks, work=self._timed(chunks.work))
        yield from self._executor.completed(chunks, numbers)
        stage.wall += time.perf_counter() - begun
        stage.processor += processor_seconds() - processor
        read = {"event": "chunks read", "address": chunks.address, "seconds": time.process_time() - driver}
        self.found.lines.append(read)

    def _timed(self, work: Callable[[int], Any]) -> Callable[[int], Any]:
        stage = self._now

        def timed(number: int) -> Any:
            begun, processor = time.perf_counter(), time.thread_time()
            result = work(number)
            stage.work += time.perf_counter() - begun
            stage.work_processor += time.thread_time() - processor
            return result

        return timed

    def _told(self, event: JsonObject) -> None:
        """Count what a worker process used since it was last heard of."""
        process = psutil.Process(event["pid"])
        used = sum(process.cpu_times()[:2])
        if event["pid"] not in self._seen:
            self.found.before.append(used)
            self.found.lines.append({"event": "worker opened", "seconds": used})
        elif "seconds" in event:
            spent = used - self._seen[event["pid"]]
            self._now.work_processor += spent
            self.found.lines.append({**event, "event": f"chunk {event['chunk']}", "seconds": spent})
        self._seen[event["pid"]] = used
        self.found.memory = max(self.found.memory, process.memory_info().rss)
        self._now.work += event.get("seconds", 0.0)


def made(release: Path, out: Path, kind: str, workers: int) -> Found:
    """Make a release with threads or with a cluster."""
    plan = load_plan(release)

    def executors(told: Callable[[JsonObject], None]) -> Executors:
        if kind == "threads":
            return Threads(workers)
        cluster = executors_of(ClusterSettings(), None, workers, None)
        assert isinstance(cluster, Cluster)

        return replace(cluster, told=told)

    watched = Watched(executors)
    clock = StageClock(watched.found.lines)
    begun, processor = time.perf_counter(), processor_seconds()
    run_release(plan, out, test_key=KEY, workers=workers, executors=watched, observer=clock)
    measures = watched.found
    measures.wall, measures.load = time.perf_counter() - begun, os.getloadavg()[0]
    # The processes of the cluster have ended, and what they used is known from the stages alone.
    measures.processor = measures.all_chunks.processor if kind == "ray" else processor_seconds() - processor
    if kind == "ray":
        text = "".join(json.dumps(line) + "\n" for line in measures.lines)
        out.with_name(f"{out.name}-processor.jsonl").write_text(text)
    return measures


def releases(
    paths: Sequence[Path], folder: Path, workers: int, rounds: int, kinds: Sequence[str]
) -> dict[str, list[dict[str, Found]]]:
    """Every release by threads and by a cluster, `rounds` times."""
    return {
        f"{path.parent.name}/{path.stem}": [
            {
                kind: made(path, folder / f"{path.parent.name}-{path.stem}-{kind}-{number}", kind, workers)
                for kind in kinds
            }
            for number in range(rounds)
        ]
        for path in paths
    }


def ratio(by_executor: dict[str, Found], of: Callable[[Found], float]) -> float:
    return of(by_executor["ray"]) / of(by_executor["threads"])


def print_releases(measures: dict[str, list[dict[str, Found]]], workers: int) -> None:
    print(f"Releases, {workers} workers. Seconds by the clock, and processor seconds (p).")
    head = (
        "release, executor",
        "work",
        "chunks",
        "work s",
        "work p",
        "wall s",
        "all p",
        "efficiency",
        "load",
    )
    print("{:<40} {:<9} {:>6} {:>8} {:>8} {:>8} {:>8} {:>10} {:>5}".format(*head))
    for name, rounds in measures.items():
        for by_executor in rounds:
            for kind, made_by in by_executor.items():
                for work, stage in {**made_by.kinds, "all": made_by.all_chunks}.items():
                    print(
                        f"{name + ', ' + kind:<40} {work:<9} {stage.chunks:>6} {stage.work:>8.2f} "
                        f"{stage.work_processor:>8.2f} {stage.wall:>8.2f} {stage.processor:>8.2f} "
                        f"{stage.efficiency(workers):>10.2f} {made_by.load:>5.1f}"
                    )
            ray = by_executor["ray"]
            print(
                f"  Ray: whole run {ray.wall:.1f} s; a worker process used {max(ray.before, default=0):.1f} p "
                f"before its first chunk, and had at most {ray.memory / 2**20:.0f} MiB"
            )
            if "threads" in by_executor:
                print(
                    f"  threads: whole run {by_executor['threads'].wall:.1f} s; stages of chunks, Ray's times theirs: "
                    f"{ratio(by_executor, lambda f: f.all_chunks.wall):.2f} by the clock, "
                    f"{ratio(by_executor, lambda f: f.all_chunks.processor):.2f} in processor seconds"
                )


def summary(
    measures: dict[str, list[dict[str, Found]]], overheads: Sequence[Overhead], workers: int
) -> list[headline.Headline]:
    lines = []
    for name, rounds in measures.items():
        best = max(by_executor["ray"].all_chunks.efficiency(workers) for by_executor in rounds)
        lines.append(
            headline.Headline(f"efficiency, {name}", f"{best:.2f}", f"floor {EFFICIENCY}", best / EFFICIENCY)
        )
    for chunk_cost in overheads:
        what = f"overhead of a chunk, {chunk_cost.workers} workers"
        lines.append(
            headline.Headline(
                what, f"{chunk_cost.wall:.1f} ms", f"floor {FLOOR_MS:g} ms", FLOOR_MS / chunk_cost.wall
            )
        )
    lines += [headline.Headline("start", f"{chunk_cost.start:.1f} s") for chunk_cost in overheads[:1]]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--release", type=Path, nargs="*", help="release files; default: one of a made-up state"
    )
    parser.add_argument("--blocks", type=int, default=20_000, help="size of the made-up state")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--chunks", type=int, default=400, help="number of chunks without work; 0 for none")
    parser.add_argument("--keep", type=Path, help="keep the releases in this folder, which is not there yet")
    parser.add_argument("--only-cluster", action="store_true", help="no threads beside the cluster")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    headline.add_option(parser)
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    compile_kernels()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        keep = given.keep or folder / "releases"
        keep.mkdir(parents=True)
        paths = given.release
        if paths is None:
            write_country(folder / "state", blocks=given.blocks, schema="pl94-persons")
            paths = [folder / "state" / "release.toml"]
        kinds = ("ray",) if given.only_cluster else ("threads", "ray")
        measures = releases(paths, keep, given.workers, given.rounds, kinds)
        print_releases(measures, given.workers)
        sizes = sorted({1, given.workers}) if given.chunks else []
        overheads = [overhead(folder / f"tiny-{size}", size, given.chunks) for size in sizes]
        if overheads:
            print_overheads(overheads, plain_files(folder / "plain", given.chunks))
    if given.json:
        releases_found = {
            name: [{k: asdict(f) for k, f in by_executor.items()} for by_executor in r]
            for name, r in measures.items()
        }
        every = {"releases": releases_found, "chunks": [asdict(chunk_cost) for chunk_cost in overheads]}
        given.json.write_text(json.dumps(every, indent=1))
    headline.write(given.headline, summary(measures, overheads, given.workers))


if __name__ == "__main__":
    main()
