"""All outer passes of a release, each over the whole spine, then the published counts of every geolevel.

A pass estimates coarser or finer cells than the one before. Cells that an earlier pass gave one count together are a
group: a later pass divides this count among them and never changes it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.budget.allocation import Allocation
from tallyveil.files.histograms import HISTOGRAM, histogram_path, read_histogram, write_histogram
from tallyveil.geography.spine import Spine
from tallyveil.measurements.answers import MeasurementSource, answers_on_support
from tallyveil.measurements.names import measurement_name
from tallyveil.measurements.store import write_support_measurements
from tallyveil.plans.lifts import PartCells
from tallyveil.plans.outer import early_answers, measured_by_pass, sources_of_groups
from tallyveil.plans.release import StatedPlan
from tallyveil.postprocess.constraint_files import TakenOver
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.families.level import cut
from tallyveil.postprocess.other_releases import summed_to_root
from tallyveil.postprocess.passes.groups import (
    PASSES,
    WHOLE_CELLS,
    FixedGroups,
    groups_at,
    groups_of_earlier_pass,
    pass_place,
    pass_stage,
    read_pass,
    support_stage,
    write_pass,
)
from tallyveil.postprocess.passes.level import PassBuilder, estimate_pass, pass_chunks
from tallyveil.postprocess.passes.lifts import (
    LIFT,
    Lift,
    PartQueries,
    PartTargets,
    lift_chunks,
    lift_pass,
    part_groups,
)
from tallyveil.postprocess.passes.part_limits import PartLimits, cells_of_part, part_limits, part_weights
from tallyveil.postprocess.passes.whole_cells import whole_counts
from tallyveil.runs.executor import Chunks
from tallyveil.runs.observer import Observer, Stopwatch
from tallyveil.runs.product import Run
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.nested_queries import meet
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.json_files import JsonObject

SUPPORT: Final = "support"
"""Name in addresses of the writing of noisy answers."""


@dataclass(frozen=True, slots=True, eq=False)
class _LiftPass:
    """What all geolevels of a lift pass have in common.

    Attributes:
        number: Number of the pass, from 0.
        groups: What is fixed in every geounit.
        cells: The cells of each group.
        limits: Limits of the total of the part.
        weights: Of each finest geounit, what counts are divided in proportion to; None for the fixed counts.
        of_part: Queries that measure the part by the columns of the pass.
        of_rest: Queries that measure the others by the same columns.
        of_total: Queries that measure the total of the part.
    """

    number: int
    groups: FixedGroups
    cells: PartCells
    limits: PartLimits
    weights: Floats | None
    of_part: PartQueries
    of_rest: PartQueries
    of_total: PartQueries


@dataclass(slots=True)
class TreePasses:
    """The outer passes of one process. Everything that must last is in the run folder.

    Attributes:
        plan: The release, with outer passes.
        allocation: The share of the budget of each geounit.
        source: Source of the noisy answers.
        groups: The groups of the first pass.
        taken_over: What is taken over from finished releases.
        observer: Receives reports of progress.
        watch: Times the stages.
        records: What each finished stage contributes to the manifest, by its name.
    """

    plan: StatedPlan
    allocation: Allocation
    source: MeasurementSource
    groups: FixedGroups
    taken_over: TakenOver
    observer: Observer
    watch: Stopwatch
    records: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def spine(self) -> Spine:
        """The spine that is measured."""
        return self.allocation.spine

    def release(self, run: Run) -> list[PublicCounts]:
        """Make all passes, and write the published counts of every geolevel, root first.

        The counts of the passes are kept in the run folder until the published counts are written.

        Raises:
            SolverError: a rounding failed its proof, or passes contradict each other: a defect.
            StoreError: a file cannot be written or read.
        """
        published: list[PublicCounts] = []  # empty where an earlier process has written them

        def work() -> dict[str, Any]:
            finest = self._finest_counts(run)
            with self.watch.stage(WHOLE_CELLS, self.spine.n_levels):
                whole = whole_counts(self.plan.schema, self._cells, finest)
                for counts in summed_to_root(whole, self.spine, self.plan.schema.size):
                    write_histogram(run.path, counts, self.plan.schema, self.spine, run.tags)
                    published.append(counts)
                    self.observer.advanced(1)
            return {"passes": dict(self.records)}

        places = [f"{HISTOGRAM}/{histogram_path(run.path, name).name}" for name in self.spine.geolevels]
        self.records[WHOLE_CELLS] = run.stage(WHOLE_CELLS, places, work)
        self.records |= self.records[WHOLE_CELLS]["passes"]
        # Only now: the checkpoint above says that the published counts are written.
        run.remove([PASSES])
        counts = published or [
            read_histogram(run.path, name, self.plan.schema, self.spine) for name in self.spine.geolevels
        ]
        # On the support of the published counts, which is known only now. At the root every answer is written.
        if self.plan.measurements == "support":
            for level in range(1, self.spine.n_levels):
                self._write_support(run, level, counts[level - 1])
        return counts

    def solver(self) -> dict[str, Any]:
        """By geolevel, how the families of all passes were solved."""
        by_geolevel = {}
        for geolevel in self.spine.geolevels:
            numbers = range(1, len(self.plan.outer) + 1)
            records = [self.records[pass_stage(number, geolevel)]["solver"] for number in numbers]
            passes = zip(self.plan.outer, records, strict=True)
            by_geolevel[geolevel] = {
                "families": sum(record["families"] for record in records),
                "estimate": _added([record["estimate"] for record in records]),
                "rounding": _added([record["rounding"] for record in records]),
                "rounding_widened": sum(record["rounding_widened"] for record in records),
                "largest_residual": max(record["largest_residual"] for record in records),
                "passes": [{"cells": outer.cells, **record} for outer, record in passes],
            }
        return by_geolevel

    @property
    def _cells(self) -> list[QueryGroup]:
        """The cells of each pass."""
        return [self.plan.query(outer.cells) for outer in self.plan.outer]

    def _finest_counts(self, run: Run) -> list[PublicCounts]:
        """Make every pass on the whole spine; returns the counts of each in the finest geounits."""
        groups, finest = self.groups, []
        sources = sources_of_groups(self._cells)
        every: list[list[PublicCounts]] = []
        for number in range(len(self._cells)):
            if number > 0:
                groups = self._groups_after(number, every[sources[number]])
            lift = None if self.plan.outer[number].part is None else self._lift_pass(number, groups)
            counts: list[PublicCounts] = []
            for level in range(self.spine.n_levels):
                above = counts[-1] if counts else None
                counts.append(self._level(run, number, level, groups, lift, above))
            finest.append(counts[-1])
            # The counts of a pass stay in memory for as long as a later pass divides them.
            every = [
                levels if place in sources[number + 1 :] else []
                for place, levels in enumerate([*every, counts])
            ]
        return finest

    def _groups_after(self, number: int, counts: Sequence[PublicCounts]) -> FixedGroups:
        """The groups of a pass after the first, from the counts of the pass that it divides."""
        source = sources_of_groups(self._cells)[number]
        return groups_of_earlier_pass(self._cells[number], self._cells[source], counts)

    def chunks(self, folders: ChunkFolders, address: JsonObject) -> Chunks[Any]:
        """The work of an address, for a process that is not the run's own.

        Args:
            folders: The release folder, with what the run has written before this work, and where the chunks write.
            address: As in the chunks that the run's own process gives to its executor.
        Raises:
            StoreError: a file of an earlier stage cannot be read.
        """
        level = self.spine.level_index(address["geolevel"])
        if address["work"] == SUPPORT:
            above = read_histogram(
                folders.finished, self.spine.geolevels[level - 1], self.plan.schema, self.spine
            )
            return self._support_chunks(level, above, folders)[0]
        number, root = address["number"], folders.finished
        above = self._written(root, number, level - 1)
        groups, is_lift = self.groups, address["work"] == LIFT
        if number > 0:
            source = sources_of_groups(self._cells)[number]
            # A lift needs counts of all geolevels, because its flows reach down to the finest.
            if is_lift:
                levels = [self._written(root, source, place) for place in range(self.spine.n_levels)]
                groups = self._groups_after(number, levels)
            else:  # a pass from measurements asks for the groups of its own geolevel alone
                counts = self._written(root, source, level)
                groups = groups_at(self._cells[number], self._cells[source], level, counts)
        if is_lift:
            return lift_chunks(self._lift(self._lift_pass(number, groups), level), above)[0]
        return pass_chunks(self._builder(number, level, groups), above, number)[0]

    def _written(self, root: Path, number: int, level: int) -> PublicCounts:
        """The counts of a pass, by number from 0, that the run has written."""
        geolevel, n_geounits = self.spine.geolevels[level], self.spine.n_geounits(level)
        return read_pass(root, number + 1, geolevel, n_geounits, self.plan.schema.size)

    def _builder(self, number: int, level: int, groups: FixedGroups) -> PassBuilder:
        plan, geolevel = self.plan, self.spine.geolevels[level]
        every = plan.strategy.queries(geolevel)
        measured = measured_by_pass(plan.schema, plan.outer, every)[number]
        whole = [layer for name in measured for layer in plan.query(name).layers]
        return PassBuilder(
            schema=plan.schema,
            allocation=self.allocation,
            source=self.source,
            level=level,
            cells=plan.query(plan.outer[number].cells),
            groups=groups,
            queries=(*whole, *early_answers(plan.schema, plan.outer, number, every)),
            chain=tuple(plan.query(name) for name in plan.outer[number].rounding),
        )

    def _lift_pass(self, number: int, groups: FixedGroups) -> _LiftPass:
        """What all geolevels of a lift pass have in common."""
        outer, schema, columns = self.plan.outer[number], self.plan.schema, self._cells[number]
        part = self.plan.query(str(outer.part))
        cells = cells_of_part(schema, outer, groups)
        of_columns = part_groups(cells)
        # Nothing here depends on the geolevel, so the run's own process makes it once for the pass.
        return _LiftPass(
            number=number,
            groups=groups,
            cells=cells,
            limits=part_limits(schema, outer, groups, cells, self.taken_over, self.spine),
            weights=part_weights(schema, outer, groups, cells, self.taken_over),
            of_part=PartQueries(schema, meet(columns, part), cells.part[of_columns]),
            of_rest=PartQueries(schema, columns, cells.rest[of_columns]),
            of_total=PartQueries(schema, part, cells.part[of_columns][:1]),
        )

    def _lift(self, lift: _LiftPass, level: int) -> Lift:
        """A lift pass at a geolevel."""
        weights = None
        if lift.weights is not None:  # of the finest geounits; those of others are sums over them
            weights = np.zeros(self.spine.n_geounits(level))
            np.add.at(weights, self.spine.ancestors(level), lift.weights)
        return Lift(
            number=lift.number,
            spine=self.spine,
            level=level,
            groups=lift.groups,
            cells=lift.cells,
            limits=lift.limits,
            targets=self._targets(lift, level),
            n_cells=self.plan.schema.size,
            weights=weights,
        )

    def _targets(self, lift: _LiftPass, level: int) -> PartTargets:
        """What the counts of the part should be near in the geounits of a geolevel."""
        geolevel = self.spine.geolevels[level]
        measured = self.plan.strategy.queries(geolevel)
        answers = lift.of_part.at(geolevel, measured, self.allocation)
        rest = None if answers is None else lift.of_rest.at(geolevel, [answers.query], self.allocation)
        # The rest is measured by the same query, so that both have the same variance of an answer.
        if answers is not None and rest is not None and not rest.as_few_as(answers):
            rest = None  # it would tell less about a column than the answers for the part do
        total = lift.of_total.at(geolevel, measured, self.allocation)
        # The same noisy answers must not count as two independent measurements.
        if total is not None and answers is not None and total.query == answers.query:
            total = None  # it would be used twice
        return PartTargets(self.source, answers, rest, total, self.plan.outer[lift.number].prior or "shares")

    def _level(
        self,
        run: Run,
        number: int,
        level: int,
        groups: FixedGroups,
        lift: _LiftPass | None,
        above: PublicCounts | None,
    ) -> PublicCounts:
        """One pass, by number from 0, at one geolevel, unless an earlier process has done it.

        Args:
            run: The run.
            number: Number of the pass.
            level: Number of the geolevel.
            groups: What is fixed in every geounit.
            lift: The pass, if it is a lift pass; None where counts are estimated from measurements.
            above: Counts of this pass at the geolevel above; None at the root.
        """
        geolevel = self.spine.geolevels[level]
        name = pass_stage(number + 1, geolevel)
        counts: list[PublicCounts] = []  # empty where an earlier process has written them

        def work() -> dict[str, Any]:
            with self.watch.stage(name, self.spine.n_geounits(max(level - 1, 0))):
                if lift is None:
                    builder = self._builder(number, level, groups)
                    outcome = estimate_pass(builder, above, number, self.observer, run.executor)
                else:
                    outcome = lift_pass(self._lift(lift, level), above, self.observer, run.executor)
                write_pass(run.path, number + 1, outcome.counts, run.tags)
            counts.append(outcome.counts)
            return {"solver": outcome.solver}

        # Under another name than in earlier versions, whose passes may have begun with other groups.
        stage = f"{name}, after measured kinds"
        self.records[name] = run.stage(stage, [pass_place(number + 1, geolevel)], work)
        return counts[0] if counts else self._written(run.path, number, level)

    def _write_support(self, run: Run, level: int, above: PublicCounts) -> None:
        """Write the noisy answers of a geolevel on the support of its parents' published counts.

        The noise of an answer belongs to its address, so these are the answers that the passes were fitted to.
        """
        geolevel = self.spine.geolevels[level]
        name = support_stage(geolevel)
        chunks, n_chunks = self._support_chunks(level, above, ChunkFolders(run.path, tags=run.tags))

        def work() -> dict[str, Any]:
            with self.watch.stage(name, self.spine.n_geounits(level - 1)):
                for _, finished in run.executor.completed(chunks, range(n_chunks)):
                    self.observer.advanced(finished)
            return {}

        places = [measurement_name(geolevel, query) for query in self.plan.strategy.queries(geolevel)]
        run.stage(name, places, work)

    def _support_chunks(
        self, level: int, above: PublicCounts, folders: ChunkFolders
    ) -> tuple[Chunks[int], int]:
        """The writing of noisy answers as chunks; each tells how many families it had."""
        geolevel = self.spine.geolevels[level]
        names = self.plan.strategy.queries(geolevel)
        queries = tuple(layer for name in names for layer in self.plan.query(name).layers)
        children = self.spine.child_offsets[level - 1]
        spans = cut(above, children)

        def write(number: int) -> int:
            span = spans[number]
            offsets, cells, _ = above.slice(span.first, span.last)
            child_begin = children[span.first : span.last + 1].copy()
            # A single child and an empty parent need no measurements; the same rule as in the estimates.
            settled = (np.diff(child_begin) == 1) | (np.diff(offsets) == 0)
            wanted = answers_on_support(geolevel, queries, child_begin, offsets, cells, settled)
            variances = self._variances(queries, geolevel, int(child_begin[0]), int(child_begin[-1]))
            noisy = self.source.measure_families(wanted)
            root = folders.root(number)
            write_support_measurements(root, number, wanted, noisy, variances, self.spine, folders.tags)
            return span.last - span.first

        return folders.chunks({"work": SUPPORT, "geolevel": geolevel}, int, write), len(spans)

    def _variances(self, queries: Sequence[QueryGroup], geolevel: str, start: int, stop: int) -> Floats:
        variances = [self.allocation.variances(geolevel, group.name, start, stop) for group in queries]
        return np.array(variances, dtype=np.float64).reshape(len(queries), stop - start)


def _added(counted: Sequence[dict[str, int]]) -> dict[str, int]:
    """Sums by name, in the order in which the names first appear."""
    total: Counter[str] = Counter()
    for counts in counted:
        total.update(counts)
    return dict(total)
