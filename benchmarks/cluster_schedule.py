"""A release of the whole United States on a cluster, simulated from the chunks of finished runs on a small cluster.

    python benchmarks/cluster_schedule.py RELEASE ... [--workers 16 64 256] [--wanted 24 256 1024] [--tract-groups]

RELEASE is a folder that `benchmarks/cluster.py --keep` or `tallyveil run --executor ray` made; several of one product
and of different sizes are better. `cluster_runs.py` says how costs are fitted, and `cluster_country.py` what the
country is. Cells of a support follow from people as in the runs, on a straight line of logarithms beyond the largest
geounit of the runs.

Chunks are cut by the code of the release itself. Two schedules are simulated, both begun with the largest chunk or with
the longest way to the end:

- barriers: a geolevel is done when all of its chunks are, as in the program;
- none: a chunk may begin when the chunks with its parents are done, and those with its counts in the pass before.

The run's own process reads results while chunks are under way, and works alone after each geolevel, at the beginning
and at the end. Its seconds are scaled with the published counts. They are processor seconds of all its threads.
`--state 42` takes the counties of one State only, in the same proportions. `--tract-groups` puts groups of tracts
between a county and its tracts, of about as many as the square root of the county's tracts.
"""

import argparse
import heapq
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cluster_country import COUNTIES, Geolevel, country, supports
from cluster_runs import ESTIMATES, MEASURE, Costs, MeasuredChunk, Run, fitted, spans_of

from tallyveil.measurements.store import VALUES_PER_PART
from tallyveil.postprocess.families import level as cutting


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of the country: its stage, the geounits of the geolevel above from `first` to `last`, and its seconds."""

    stage: int
    first: int
    last: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Stage:
    """The chunks of a geolevel in a pass, or noisy values of one query.

    Attributes:
        name: For people.
        chunks: Largest first.
        read: Seconds that each worker process reads before its first chunk.
        beside: Seconds of the run's own process while chunks are under way.
        alone: Seconds of the run's own process afterwards.
        level: Number of the children's geolevel.
        largest: Seconds of the largest family, and its unknowns.
    """

    name: str
    chunks: list[Chunk]
    read: float
    beside: float
    alone: float
    level: int
    largest: tuple[float, int] = (0.0, 0)


class Country:
    """The stages of a release of the country, from what runs cost."""

    def __init__(self, runs: Sequence[Run], levels: list[Geolevel], costs: Costs, overhead: float) -> None:
        self.runs, self.levels, self.costs = runs, levels, costs
        passes = range(runs[0].n_passes)
        above = levels[:-1]
        self.cells = [[supports(runs, number, level.people) for level in above] for number in passes]
        entries = sum(int(c[-1]) for run in runs for c in [run.counts[-1].offsets])
        blocks = sum(run.counts[-1].n_geounits for run in runs)
        finest = entries * len(levels[-1].parent) // blocks
        self.entries = [[*(int(sizes.sum()) for sizes in cells), finest] for cells in self.cells]
        self.finest = finest
        self.alone, self.roots = self._driver()
        self.overhead = overhead
        self.reading, self.measure_read = self._reading()

    def _driver(self) -> tuple[dict[str, float], float]:
        """Seconds of the run's own process: of stages in the country, of a count after a geolevel, and of the root."""
        rates: dict[str, list[float]] = defaultdict(list)
        root = 0.0
        for run in self.runs:
            for stage, seconds in run.driver().items():
                if stage.endswith(f" {run.spine.geolevels[0]}") and not stage.startswith("measure"):
                    root += seconds / len(self.runs)
                else:
                    kind = "count" if stage.startswith(("estimate", "pass")) else stage.split()[0]
                    rates[stage if kind not in ("count", "measure") else kind].append(seconds)
        entries = sum(int(run.counts[-1].offsets[-1]) for run in self.runs)
        every = sum(
            int(support.sum())
            for run in self.runs
            for n in range(run.n_passes)
            for support in run.supports(n)[1:]
        )
        seconds_by_part = {
            stage: sum(seconds) * (1 / every if stage == "count" else self.finest / entries)
            for stage, seconds in rates.items()
            if stage != "compile kernels"
        }
        return seconds_by_part, root

    def _reading(self) -> tuple[float, float]:
        """Seconds of the run's own process to read a count of a chunk's result, and a noisy value."""
        every = sum(
            int(support.sum())
            for run in self.runs
            for n in range(run.n_passes)
            for support in run.supports(n)[1:]
        )
        values = sum(chunk.unknowns for run in self.runs for chunk in run.chunks() if chunk.kind == "measure")
        measuring = sum(run.reading(MEASURE) for run in self.runs)
        return sum(run.reading(ESTIMATES) for run in self.runs) / every, measuring / max(values, 1.0)

    def stages(self) -> Iterator[Stage]:
        """Every stage, in order."""
        measured = any(chunk.kind == "measure" for run in self.runs for chunk in run.chunks())
        place = 0
        for number in range(self.runs[0].n_passes):
            for level in range(1, len(self.levels)):
                if measured:
                    for stage in self._measuring(place, level):
                        yield stage
                        place += 1
                yield self._families(place, number, level)
                place += 1

    def _measuring(self, place: int, level: int) -> Iterator[Stage]:
        plan, geolevel = self.runs[0].plan, self.levels[level].name
        known = (
            plan.strategy.geolevels if hasattr(plan.strategy, "geolevels") else self.runs[0].spine.geolevels
        )
        queries = plan.strategy.queries(geolevel if geolevel in known else known[1])
        rate = self.costs.unknown_of("measure", geolevel)
        for query in queries:
            size, n = plan.query(query).size, len(self.levels[level].parent)
            at_once = max(1, VALUES_PER_PART // size)
            parts = [
                Chunk(
                    place, b, min(b + at_once, n), self.costs.chunk + rate * size * (min(b + at_once, n) - b)
                )
                for b in range(0, n, at_once)
            ]
            yield Stage(
                f"measure {geolevel} / {query}",
                parts,
                0.0,
                self._beside(parts, self.measure_read * size * n),
                0.0,
                level,
            )
            place += 1

    def _families(self, place: int, number: int, level: int) -> Stage:
        cells, geolevel = self.cells[number], self.levels[level]
        begin = geolevel.child_begin(len(cells[level - 1]))
        rate = self.costs.unknown_of(number, geolevel.name)
        chunks = [
            Chunk(place, s.first, s.last, self.costs.chunk + rate * s.unknowns)
            for s in spans_of(cells[level - 1], begin)
        ]
        read = int(cells[level - 1].sum()) + (sum(self.entries[number - 1]) if number else 0)
        unknowns = int((np.diff(begin) * cells[level - 1]).max())
        alone = self.alone.get("count", 0.0) * self.entries[number][level]
        name = f"{geolevel.name}" if self.runs[0].n_passes == 1 else f"pass {number + 1} of {geolevel.name}"
        chunks.sort(key=lambda chunk: -chunk.seconds)
        beside = self._beside(chunks, self.reading * self.entries[number][level])
        return Stage(name, chunks, self.costs.read * read, beside, alone, level, (rate * unknowns, unknowns))

    def _beside(self, chunks: Sequence[Chunk], reading: float) -> float:
        return self.overhead * len(chunks) + reading

    def last_seconds(self) -> float:
        """Seconds of the run's own process before the first chunk and after the last."""
        return self.roots + sum(seconds for stage, seconds in self.alone.items() if stage != "count")


def with_barriers(stages: Iterable[Stage], workers: int) -> float:
    """Seconds until the last stage is done, its own process's work after each stage included."""
    total = 0.0
    for stage in stages:
        ends = [stage.read] * workers
        for chunk in stage.chunks:
            heapq.heappush(ends, heapq.heappop(ends) + chunk.seconds)
        total += max(*ends, stage.beside) + stage.alone
    return total


def without_barriers(stages: Sequence[Stage], country: Country, workers: int) -> tuple[float, float]:
    """Seconds until the last chunk is done, if each begins when what it needs is there; and of the longest chain.

    The longest way to the end goes first. No time is counted for reading: a process would read only what its chunk
    needs.
    """
    families = [stage for stage in stages if not stage.name.startswith("measure")]
    nodes = [chunk for stage in families for chunk in sorted(stage.chunks, key=lambda c: c.first)]
    free = [chunk.seconds for stage in stages if stage not in families for chunk in stage.chunks]
    begin = np.concatenate([[0], np.cumsum([len(stage.chunks) for stage in families])])
    n_levels = len(country.levels) - 1
    needs: list[Iterable[int]] = []
    seconds = []
    for place, stage in enumerate(families):
        firsts = {
            p: [nodes[i].first for i in range(begin[p], begin[p + 1])]
            for p in (place - 1, place - n_levels)
            if p >= 0
        }
        for chunk in nodes[begin[place] : begin[place + 1]]:
            earlier: set[int] = set()
            if stage.level > 1:  # the chunks whose children are the parents of this one
                parent = country.levels[stage.level - 1].parent
                earlier |= _between(
                    firsts[place - 1], int(begin[place - 1]), parent[chunk.first], parent[chunk.last - 1]
                )
            if place >= n_levels:
                earlier |= _between(
                    firsts[place - n_levels], int(begin[place - n_levels]), chunk.first, chunk.last - 1
                )
            needs.append(earlier)
            seconds.append(chunk.seconds)
    return _listed([*seconds, *free], [*needs, *([] for _ in free)], workers)


def _between(firsts: list[int], begin: int, first: int, last: int) -> set[int]:
    low, high = np.searchsorted(firsts, [first, last], side="right") - 1
    return set(range(begin + int(low), begin + int(high) + 1))


def _listed(seconds: Sequence[float], needs: Sequence[Iterable[int]], workers: int) -> tuple[float, float]:
    """The end of a list schedule, the longest way to the end first, and the longest way."""
    then: list[list[int]] = [[] for _ in seconds]
    open_needs = [0] * len(seconds)
    for node, earlier in enumerate(needs):
        for need in earlier:
            then[need].append(node)
            open_needs[node] += 1
    way = [0.0] * len(seconds)
    for node in reversed(range(len(seconds))):
        way[node] = seconds[node] + max((way[later] for later in then[node]), default=0.0)
    ready = [(-way[node], node) for node in range(len(seconds)) if not open_needs[node]]
    heapq.heapify(ready)
    running: list[tuple[float, int]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < workers:
            node = heapq.heappop(ready)[1]
            heapq.heappush(running, (now + seconds[node], node))
        now, done = heapq.heappop(running)
        for node in then[done]:
            open_needs[node] -= 1
            if not open_needs[node]:
                heapq.heappush(ready, (-way[node], node))
    return now, max(way)


def in_words(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{seconds / 60:.1f} min"


def print_costs(runs: Sequence[Run], measured: Sequence[MeasuredChunk], costs: Costs) -> None:
    kind = "processor seconds" if all(run.is_processor for run in runs) else "seconds by the clock"
    print(
        f"{len(measured)} chunks of {len(runs)} runs, {kind}; "
        f"mean error of the fit {100 * costs.error:.0f} % of the seconds"
    )
    for (name, geolevel), rate in sorted(costs.unknown.items(), key=str):
        what = "noisy values" if name == "measure" else f"pass {name + 1}"
        of = [chunk for chunk in measured if (chunk.kind, chunk.geolevel) == (name, geolevel)]
        print(
            f"  {what:<14}{geolevel:<12}{1e6 * rate:>8.3f} us each, from {len(of)} chunks, "
            f"{sum(o.unknowns for o in of):,.0f}"
        )
    print(f"  a chunk {1e3 * costs.chunk:.1f} ms; a count read {1e6 * costs.read:.3f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("releases", type=Path, nargs="+")
    parser.add_argument("--workers", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument(
        "--wanted", type=int, nargs="+", default=[24, 96, 384, 1536], help="values of CHUNKS_WANTED"
    )
    parser.add_argument("--largest", type=int, nargs="+", default=[21], help="LARGEST as powers of 2")
    parser.add_argument("--counties", type=Path, default=COUNTIES)
    parser.add_argument("--state", help="two digits: only this State, and no geolevel above it")
    parser.add_argument("--tract-groups", action="store_true")
    parser.add_argument(
        "--overhead", type=float, default=0.005, help="seconds of a chunk in the run's own process"
    )
    parser.add_argument("--stages", action="store_true", help="print the stages of each division")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    given = parser.parse_args()
    runs = [Run(folder) for folder in given.releases]
    measured = [chunk for run in runs for chunk in run.chunks()]
    costs = fitted(measured)
    print_costs(runs, measured, costs)
    levels = country(given.counties, groups=given.tract_groups, state=given.state)
    whole = Country(runs, levels, costs, given.overhead)
    print(", ".join(f"{len(geolevel.parent):,} {geolevel.name}" for geolevel in levels))
    for number, entries in enumerate(whole.entries):
        print(f"counts of pass {number + 1}: " + ", ".join(f"{n:,}" for n in entries))
    print(
        f"the run's own process alone: {in_words(whole.last_seconds())}, of which "
        + ", ".join(
            f"{stage} {in_words(seconds)}" for stage, seconds in whole.alone.items() if stage != "count"
        )
    )
    schedules = [
        line
        for n_chunks in given.wanted
        for power in given.largest
        for line in divided(whole, given, n_chunks, power)
    ]
    if given.json:
        given.json.write_text(json.dumps(schedules, indent=1))


def divided(
    whole: Country, given: argparse.Namespace, chunks_wanted: int, power: int
) -> list[dict[str, float]]:
    """Print and return the schedules with one division into chunks."""
    cutting.CHUNKS_WANTED, cutting.LARGEST = chunks_wanted, 1 << power
    stages = list(whole.stages())
    n_chunks = sum(len(stage.chunks) for stage in stages)
    work = sum(chunk.seconds for stage in stages for chunk in stage.chunks)
    beside = sum(stage.beside for stage in stages)
    alone = sum(stage.alone for stage in stages) + whole.last_seconds()
    print(
        f"\nCHUNKS_WANTED {chunks_wanted}, LARGEST 2^{power}: {n_chunks:,} chunks, {in_words(work)} of work; "
        f"the run's own process: {in_words(beside)} beside the chunks, {in_words(alone)} alone; "
        f"each worker process reads for {in_words(sum(stage.read for stage in stages))}"
    )
    if given.stages:
        print(
            f"{'stage':<46}{'chunks':>7}{'work':>10}{'largest':>10}{'family':>10}{'unknowns':>15}{'read':>9}{'alone':>9}"
        )
        for stage in stages:
            times = [c.seconds for c in stage.chunks]
            print(
                f"{stage.name:<46}{len(times):>7}{sum(times):>10.1f}{max(times):>10.2f}{stage.largest[0]:>10.1f}"
                f"{stage.largest[1]:>15,}{stage.read:>9.1f}{stage.alone:>9.1f}"
            )
    print(
        f"{'workers':>8} {'barriers':>10} {'efficiency':>11} {'none':>10} {'efficiency':>11} {'barriers cost':>14}"
    )
    lines = []
    for workers in given.workers:
        held = with_barriers(stages, workers) + whole.last_seconds()
        end, chain = without_barriers(stages, whole, workers)
        flows = max(end, beside) + alone
        lines.append(
            {
                "wanted": chunks_wanted,
                "largest": power,
                "workers": workers,
                "barriers": held,
                "none": flows,
                "work": work,
            }
        )
        print(
            f"{workers:>8} {in_words(held):>10} {work / workers / held:>11.2f} {in_words(flows):>10} "
            f"{work / workers / flows:>11.2f} {in_words(held - flows):>14}"
        )
    print(f"longest chain of chunks, each of which needs the one before: {in_words(chain)}")
    return lines


if __name__ == "__main__":
    main()
