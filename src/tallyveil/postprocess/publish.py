"""Write the files that follow from the estimated counts, and take the last look at the release.

The files are microdata, tables, and the sizes for the manifest. The last look is taken by threads of the
run's own process, or in parts by worker processes. These read the published files themselves, and answer with
the names of the checks that have passed. The address of their work holds a digest of all files that they
read. So where a run is started again with another file, nothing that passed before is believed.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tallyveil.errors import StoreError
from tallyveil.files.checks import (
    Agreeing,
    Part,
    Promises,
    check_release,
    described,
    part_of,
    parts_of,
    require,
    require_no_other_files,
)
from tallyveil.files.data_package import DATA_PACKAGE, data_package
from tallyveil.files.histograms import (
    HISTOGRAM,
    MICRODATA,
    n_record_pieces,
    read_histogram,
    tabulated,
    write_microdata,
)
from tallyveil.files.marks import release_marks
from tallyveil.files.tables import TABLES, n_table_parts, table_size, write_table
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.measurements.names import ANSWER_LABELS
from tallyveil.measurements.store import write_answer_labels
from tallyveil.plans.release import StatedPlan
from tallyveil.postprocess.constraint_files import TakenOver
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.passes.groups import FixedGroups
from tallyveil.postprocess.passes.part_limits import check_parts
from tallyveil.runs.executor import Chunks, gathered
from tallyveil.runs.product import Run
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import await_file, write_json, write_text

Stage = Callable[[str, str, int, Callable[[], Iterable[int]]], None]
"""A function that runs a named stage, which writes one folder and has a size, unless it is finished already."""


FILES_AT_ONCE: Final = 2
"""Number of files of microdata or tables that are made at the same time. While polars writes one file with all threads,
one thread puts the rows of the next together. A file of microdata takes half a GiB of memory, so there are only two."""


def publish(
    run: Run,
    plan: StatedPlan,
    hierarchies: Hierarchies,
    counts: Sequence[PublicCounts],
    stage: Stage,
) -> None:
    """Write everything that follows from the counts.

    Args:
        run: The run.
        plan: What is published.
        hierarchies: Its spine and the areas off the spine.
        counts: Counts of every geolevel of the spine, root first.
        stage: Function that runs a stage once.
    """
    folders = ChunkFolders(run.path, tags=run.tags)

    def done(chunks: Chunks[int], numbers: Sequence[int]) -> Iterator[int]:
        return (finished for _, finished in run.executor.completed(chunks, numbers))

    if plan.microdata:
        chunks, n_parts = microdata_chunks(folders, plan, hierarchies.spine, counts[-1])
        stage(MICRODATA, MICRODATA, counts[-1].total, lambda: done(chunks, range(n_parts)))
    tables, n_tables, rows = table_chunks(folders, plan, hierarchies, counts)
    stage(TABLES, TABLES, rows, lambda: done(tables, range(n_tables)))


def microdata_chunks(
    folders: ChunkFolders, plan: StatedPlan, spine: Spine, finest: PublicCounts
) -> tuple[Chunks[int], int]:
    """The writing of microdata as chunks, one for each file, and their number."""

    def write(part: int) -> int:
        root, tags = folders.root(part), folders.tags
        return sum(write_microdata(root, finest, plan.schema, spine, tags, [part]))

    return folders.chunks({"work": MICRODATA}, int, write, at_once=FILES_AT_ONCE), n_record_pieces(finest)


def table_chunks(
    folders: ChunkFolders, plan: StatedPlan, hierarchies: Hierarchies, counts: Sequence[PublicCounts]
) -> tuple[Chunks[int], int, int]:
    """The writing of tables as chunks, one for each file; their number, and the rows of all tables."""
    groups = [plan.query(name) for name in plan.tables]
    # Areas off the spine are sums over finest geounits, made once for all tables.
    published = tabulated(hierarchies, counts, plan.entity_families, plan.schema.size) if groups else ()
    files = [
        (area, level, group, part)
        for area, level in published
        for group in groups
        for part in range(n_table_parts(level, group))
    ]

    def write(number: int) -> int:
        area, level, group, part = files[number]
        return sum(write_table(folders.root(number), level, group, area, folders.tags, [part]))

    rows = sum(table_size(level, group) for _, level in published for group in groups)
    return folders.chunks({"work": TABLES}, int, write, at_once=FILES_AT_ONCE), len(files), rows


def write_package(run: Run, plan: JsonObject) -> None:
    """Write `datapackage.json`, which describes all files that the run has written.

    Args:
        run: The run, with all its files.
        plan: Content of `plan.json`.
    """
    warnings = release_marks(protected=run.secrets.protected)

    def write() -> None:
        content = data_package(run.path, plan, run.run_id, warnings, run.listed())
        write_json(run.path / DATA_PACKAGE, content)

    # Every process makes it again, because it lists the files that all stages have written.
    run.make([DATA_PACKAGE], write)


def write_labels(run: Run, plan: StatedPlan, spine: Spine) -> None:
    """Write the labels of all answers that are measured at any geolevel, next to the measurements."""
    run.make([ANSWER_LABELS], lambda: write_answer_labels(run.path, measured_groups(plan, spine), run.tags))


def measured_groups(plan: StatedPlan, spine: Spine) -> list[QueryGroup]:
    """The queries that are measured at any geolevel, by name."""
    measured = {name for level in spine.geolevels for name in plan.strategy.queries(level)}
    return [plan.query(name) for name in sorted(measured)]


def published_sizes(counts: Sequence[PublicCounts]) -> dict[str, Any]:
    """Sizes of the published files."""
    return {
        "records": counts[-1].total,
        "geolevels": {
            level.geolevel: {
                "geounits": level.n_geounits,
                "empty_geounits": int((np.diff(level.offsets) == 0).sum()),
                "nonzero_cells": len(level.cells),
            }
            for level in counts
        },
    }


CHECKS: Final = "checks"
"""Name in addresses of the last look, and of the file that says what its parts are."""
READ: Final = frozenset({HISTOGRAM, MICRODATA, TABLES})
"""Folders of a release that are looked at."""

Passed = list[str]
"""Names of checks."""


@dataclass(frozen=True, slots=True, eq=False)
class FinalChecks:
    """What a release is held to.

    Attributes:
        plan: How its counts were estimated, and what was written.
        hierarchies: The spine and the areas off the spine.
        constraints: Every constraint.
        taken_over: What is taken over from finished releases.
        groups: The groups of the first outer pass before the spend, if the plan has outer passes. No limit depends on
            how measurements divide them.
    """

    plan: StatedPlan
    hierarchies: Hierarchies
    constraints: Sequence[ConstraintTable]
    taken_over: TakenOver
    groups: FixedGroups | None

    @property
    def promises(self) -> Promises:
        """What the counts, tables and microdata are held to; the limits of lift passes come on top."""
        plan = self.plan
        # The counts that outer passes keep; without outer passes they are constraints like the others.
        # With outer passes, agreements are no constraints of families, so they are checked as promises of their own.
        agreed = self.taken_over.agreed if plan.outer else ()
        return Promises(
            plan.schema,
            self.hierarchies.spine,
            [plan.query(name) for name in plan.tables],
            [table.promise for table in self.constraints],
            microdata=plan.microdata,
            areas=(*self.hierarchies.replaced, *map(self.hierarchies.family, plan.entity_families)),
            agreed=[Agreeing(counts.name, counts.query, counts.counts) for counts in agreed],
        )

    def here(self, root: Path, workers: int) -> Passed:
        """Check a release folder in this process, with so many threads; returns the names of the checks.

        Raises:
            SolverError: a check failed; the release must not be published.
            StoreError: a file is missing or damaged.
        """
        return check_release(root, self.promises, workers) + self.limits(root)

    def parts(self, counts: Sequence[PublicCounts]) -> list[Part]:
        """The parts of the last look at files of these counts."""
        return parts_of(self.promises, counts)

    def elsewhere(self, run: Run, parts: Sequence[Part], done: Callable[[int], None]) -> Passed:
        """As `here`, by worker processes.

        Args:
            run: The run, with everything that it publishes.
            parts: As `parts` says.
            done: Told of each part that is complete.
        """
        promises = self.promises
        # A file that is not listed would be published unchecked.
        require_no_other_files(run.path, promises, parts)
        # The digest of this text is in the address: other files are another piece of work.
        text = json.dumps(
            {
                "files": {file.path: file.sha256 for file in run.listed() if file.path.split("/")[0] in READ},
                "constraints": [table.digest().hex() for table in self.constraints],
                "parts": [described(part) for part in parts],
            }
        )
        run.executor.share(CHECKS, lambda path: write_text(path, text))
        chunks = self._chunks(run.path, text)
        # It alone reads all finest counts. It is begun first, so that no core waits for it at the end.
        limits = [len(parts)] if self.has_limits else []
        passed = gathered(run.executor, chunks, [*limits, *range(len(parts))], done)
        names_passed = {name for names in passed for name in names}
        # The names are compared with what was promised: a worker process that leaves out a check does not pass it.
        for name in promises.names():
            require(name, name in names_passed)
        return promises.names() + [name for number in limits for name in passed[number]]

    def chunks(self, folders: ChunkFolders, address: JsonObject) -> Chunks[Passed]:
        """The parts of the last look as chunks, in a worker process.

        Raises:
            StoreError: the file that says what the parts are is not the one of this address, or the constraints in the
                release folder are not those of the run.
        """
        text = folders.shared(CHECKS).read_text(encoding="utf-8")
        digests = [table.digest().hex() for table in self.constraints]
        # The constraints are compared as well, since they are read from files that somebody may have changed.
        if _address(text) != address or json.loads(text)["constraints"] != digests:
            raise StoreError(
                f"{folders.shared(CHECKS)} is not what the run wrote on another machine. Run the same command again.",
                code="run-damaged",
            )
        return self._chunks(folders.finished, text)

    def _chunks(self, root: Path, text: str) -> Chunks[Passed]:
        said = json.loads(text)
        parts, files = [part_of(part) for part in said["parts"]], said["files"]
        promises = self.promises
        # Each process waits once for a file, and hashes it once, however many parts read it.
        seen: set[str] = set()

        def work(number: int) -> Passed:
            reads = [HISTOGRAM] if number == len(parts) else parts[number].reads(promises)
            for path in _among(files, reads):
                if path not in seen:
                    await_file(root / path, files[path])
                    seen.add(path)
            return self.limits(root) if number == len(parts) else parts[number].check(root, promises)

        return ChunkFolders(None).chunks(_address(text), Passed, work)

    @property
    def has_limits(self) -> bool:
        """Whether a pass is a lift, which has limits."""
        return any(outer.part is not None for outer in self.plan.outer)

    def limits(self, root: Path) -> Passed:
        """Hold the finest counts to the limits of lift passes."""
        if self.groups is None or not self.has_limits:
            return []
        spine = self.hierarchies.spine
        finest = read_histogram(root, spine.geolevels[-1], self.plan.schema, spine)
        return check_parts(self.plan, self.groups, self.taken_over, finest, spine)


def _among(files: JsonObject, places: Sequence[str]) -> list[str]:
    """The files at some places, each a file or a folder."""
    return [path for path in files if any(path == place or path.startswith(f"{place}/") for place in places)]


def _address(text: str) -> JsonObject:
    return {"work": CHECKS, "of": hashlib.sha256(text.encode()).hexdigest()}
