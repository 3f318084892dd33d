"""What finished runs on a cluster say of the cost of a chunk, for `cluster_schedule.py`.

A file beside the release gives the seconds of every chunk, and its published counts give the families of every chunk.
The file has the processor seconds that `cluster.py --keep` writes to NAME-processor.jsonl, or else the wall times that
`tallyveil run --timings NAME-timings.jsonl` writes.
A chunk costs a rate times its unknowns (children times cells of the parent's support), plus a constant. The
first chunk that a worker process does of a piece of work also costs a rate times the counts that the process reads for
it. All rates are fitted together, none below zero.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from tallyveil.arrays import Floats, Integers
from tallyveil.files.finished import PLAN
from tallyveil.files.geography import read_geography
from tallyveil.files.histograms import read_histogram
from tallyveil.measurements.store import n_parts
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.outer import sources_of_groups
from tallyveil.plans.release import StatedPlan
from tallyveil.postprocess.families.level import cut
from tallyveil.schema.counts import PublicCounts

MEASURE = ("measure",)
ESTIMATES = ("families", "pass")
"""Kinds of work whose chunks are families."""
Rates = Mapping[tuple[Any, ...], float]


@dataclass(frozen=True, slots=True)
class MeasuredChunk:
    """One chunk of a run.

    Attributes:
        kind: "measure", or the number of the pass that it belongs to; 0 for a release without outer passes.
        geolevel: Of the children.
        unknowns: Children times cells of the parent's support, summed over families; noisy values of "measure".
        read: Counts that the worker process read for it; 0 if it had read them before.
        seconds: What it took.
    """

    kind: str | int
    geolevel: str
    unknowns: float
    read: int
    seconds: float


@dataclass
class Run:
    """A finished release, and what its run took.

    Attributes:
        root: Its folder.
        counts: Published counts of every geolevel, root first.
    """

    root: Path
    plan: StatedPlan = field(init=False)
    counts: list[PublicCounts] = field(init=False)
    events: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        stated = json.loads((self.root / PLAN).read_text(encoding="utf-8"))
        self.plan = stated_plan(self.root / PLAN, stated)
        self.spine = read_geography(self.root)
        schema = self.plan.schema
        self.counts = [read_histogram(self.root, name, schema, self.spine) for name in self.spine.geolevels]
        processor = self.root.with_name(f"{self.root.name}-processor.jsonl")
        timings = self.root.with_name(f"{self.root.name}-timings.jsonl")
        self.is_processor = processor.is_file()
        text = (processor if self.is_processor else timings).read_text(encoding="utf-8")
        self.events = [json.loads(line) for line in text.splitlines()]

    spine: Any = field(init=False)
    is_processor: bool = field(init=False)
    _supports: dict[int, list[Integers]] = field(default_factory=dict)

    @property
    def n_passes(self) -> int:
        return max(1, len(self.plan.outer))

    def supports(self, number: int) -> list[Integers]:
        """Cells above zero of every geounit in a pass, by geolevel."""
        if number not in self._supports:
            self._supports[number] = [self._support(number, counts) for counts in self.counts]
        return self._supports[number]

    def _support(self, number: int, counts: PublicCounts) -> Integers:
        if not self.plan.outer:
            return np.diff(counts.offsets)
        query = self.plan.query(self.plan.outer[number].cells)
        answers = query.answers_of(counts.cells)
        keys = np.unique(counts.geounits[answers >= 0] * query.size + answers[answers >= 0])
        return np.bincount(keys // query.size, minlength=counts.n_geounits)

    def read_for(self, number: int, level: int) -> int:
        """Counts that a worker process reads before its first chunk of a pass at a geolevel."""
        total = int(self.supports(number)[level - 1].sum())
        if number > 0:
            source = sources_of_groups([self.plan.query(group.cells) for group in self.plan.outer])[number]
            total += sum(int(support.sum()) for support in self.supports(source))
        return total

    def chunks(self) -> Iterator[MeasuredChunk]:
        """Every chunk that the run finished."""
        seen: set[tuple[str, int]] = set()
        for event in self.events:
            if event["event"] != "chunk finished":
                continue
            address = event["address"]
            place = json.dumps(address), event["pid"]
            is_first = place not in seen
            seen.add(place)
            if address["work"] in ESTIMATES:
                yield self._families(event, is_first)
            elif address["work"] == "measure":
                yield self._measured(event)

    def _families(self, event: dict[str, Any], is_first: bool) -> MeasuredChunk:
        number = event["address"].get("number", 0)
        geolevel = event["address"]["geolevel"]
        level = self.spine.level_index(geolevel)
        span = spans_of(self.supports(number)[level - 1], self.spine.child_offsets[level - 1])[
            event["number"]
        ]
        read = self.read_for(number, level) if is_first else 0
        return MeasuredChunk(number, geolevel, span.unknowns, read, event["seconds"])

    def _measured(self, event: dict[str, Any]) -> MeasuredChunk:
        geolevel, group = event["address"]["geolevel"], self.plan.query(event["address"]["query"])
        level = self.spine.level_index(geolevel)
        values = self.spine.n_geounits(level) * group.size / n_parts(self.spine, geolevel, group)
        return MeasuredChunk("measure", geolevel, values, 0, event["seconds"])

    def driver(self) -> dict[str, float]:
        """Seconds of the run's own process by stage, without what it did while chunks were under way."""
        stages = {
            event["stage"]: event["seconds"] for event in self.events if event["event"] == "stage finished"
        }
        for stage, seconds in self._during_chunks():
            stages[stage] = max(0.0, stages[stage] - seconds)
        return stages

    def reading(self, works: Collection[str]) -> float:
        """Seconds of the run's own process while chunks of such works were under way; 0 if only the log is there."""
        readings = [event for event in self.events if event["event"] == "chunks read"]
        return float(sum(event["seconds"] for event in readings if event["address"]["work"] in works))

    def _during_chunks(self) -> Iterator[tuple[str, float]]:
        if self.is_processor:
            for event in self.events:
                if event["event"] == "chunks read":
                    yield stage_of(event["address"]), event["seconds"]
            return
        times: dict[str, list[float]] = defaultdict(list)
        for event in self.events:
            if event["event"].startswith("chunk "):
                times[json.dumps(event["address"])].append(
                    np.datetime64(event["time"][:-6], "ms").astype(float) / 1e3
                )
        for address, ends in times.items():
            yield stage_of(json.loads(address)), max(ends) - min(ends)

    def opened(self) -> float | None:
        """Processor seconds of a worker process before its first chunk."""
        seconds = [event["seconds"] for event in self.events if event["event"] == "worker opened"]
        return max(seconds) if seconds else None

    @cached_property
    def people(self) -> list[Floats]:
        """People in every geounit, by geolevel."""
        return [
            np.add.reduceat(np.append(c.counts, 0), c.offsets[:-1]) * (np.diff(c.offsets) > 0)
            for c in self.counts
        ]


def stage_of(address: Mapping[str, Any]) -> str:
    """The stage that a piece of work belongs to."""
    if address["work"] == "pass":
        return f"pass {address['number'] + 1} of {address['geolevel']}"
    return f"{'estimate' if address['work'] == 'families' else address['work']} {address['geolevel']}"


def spans_of(support: Integers, child_begin: Integers) -> list[Any]:
    """The chunks of a geolevel, as the release makes them, from the sizes of the supports of the parents."""
    offsets = np.concatenate([[0], np.cumsum(support)]).astype(np.int64)
    empty = np.zeros(0, dtype=np.int32)
    return cut(PublicCounts("", offsets, empty, empty), child_begin)


@dataclass(frozen=True, slots=True)
class Costs:
    """Fitted seconds: of an unknown by kind and geolevel, of a chunk, and of a count read."""

    unknown: Rates
    chunk: float
    read: float
    error: float

    def unknown_of(self, kind: str | int, geolevel: str) -> float:
        """The rate of a geolevel; of one that was not measured, that of the geolevel below it."""
        below = {"US": "State", "State": "County", "Tract_Group": "Tract"}
        while (kind, geolevel) not in self.unknown:
            geolevel = below[geolevel]
        return self.unknown[kind, geolevel]


def fitted(chunks: Sequence[MeasuredChunk]) -> Costs:
    """The costs that fit the chunks best, none below zero; each chunk is weighted by the inverse of its seconds."""
    names: list[tuple[Any, ...]] = sorted({("u", chunk.kind, chunk.geolevel) for chunk in chunks}, key=str)
    names += [("chunk",), ("read",)]
    column = {name: number for number, name in enumerate(names)}
    matrix = np.zeros((len(chunks), len(names)))
    for row, chunk in enumerate(chunks):
        matrix[row, column["u", chunk.kind, chunk.geolevel]] = chunk.unknowns
        matrix[row, column["chunk",]], matrix[row, column["read",]] = 1.0, chunk.read
    seconds = np.array([chunk.seconds for chunk in chunks])
    weights = 1 / np.sqrt(0.02**2 + 0.1 * seconds)
    scale = np.abs(matrix).max(axis=0).clip(1e-300)
    costs, _ = nnls(matrix * weights[:, None] / scale, seconds * weights)
    costs /= scale
    rates = dict(zip(names, costs.tolist(), strict=True))
    return Costs(
        unknown={name[1:]: rate for name, rate in rates.items() if name[0] == "u"},
        chunk=rates["chunk",],
        read=rates["read",],
        error=float(np.abs(matrix @ costs - seconds).sum() / seconds.sum()),
    )
