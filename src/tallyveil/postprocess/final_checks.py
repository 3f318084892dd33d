"""The last look at a release: by threads of the run's own process, or in parts by worker processes.

Worker processes read the published files themselves, and answer with the names of the checks that have passed. The
address of their work holds a digest of all files that they read. So where a run is started again with another file,
nothing that passed before is believed.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallyveil.errors import StoreError
from tallyveil.files.checks import (
    Agreeing,
    Bounded,
    Part,
    Promises,
    check_release,
    described,
    part_of,
    parts_of,
    require,
    require_no_other_files,
)
from tallyveil.files.histograms import HISTOGRAM, MICRODATA, read_histogram
from tallyveil.files.tables import TABLES
from tallyveil.geography.areas import Hierarchies
from tallyveil.plans.estimating import EstimationPlan
from tallyveil.postprocess.constraints.geolevels import ConstraintTable
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.other_releases.kept import TakenOver
from tallyveil.postprocess.passes.groups import FixedGroups
from tallyveil.postprocess.passes.part_limits import check_parts
from tallyveil.runs.executor import Chunks, gathered
from tallyveil.runs.product import Run
from tallyveil.schema.counts import PublicCounts
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import await_file, write_text

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
        groups: The groups of the first outer pass, if the plan has outer passes.
    """

    plan: EstimationPlan
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
            [
                Bounded(table.name, table.query, table.lower, table.upper, table.groups, table.stated)
                for table in self.constraints
            ],
            microdata=plan.microdata,
            areas=(*self.hierarchies.replaced, *map(self.hierarchies.family, plan.entities)),
            agreed=[Agreeing(counts.name, counts.query, counts.counts) for counts in agreed],
        )

    def here(self, root: Path) -> Passed:
        """Check a release folder in this process; returns the names of the checks.

        Raises:
            SolverError: a check failed; the release must not be published.
            StoreError: a file is missing or damaged.
        """
        return check_release(root, self.promises) + self._limits(root)

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
        # It alone reads all finest counts, so that no core waits for it at the end.
        limits = [] if self.groups is None else [len(parts)]  # reads the most, so it is begun first
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
            return self._limits(root) if number == len(parts) else parts[number].check(root, promises)

        return ChunkFolders(None).chunks(_address(text), Passed, work)

    def _limits(self, root: Path) -> Passed:
        """Hold the finest counts to the limits of lift passes."""
        if self.groups is None:
            return []
        spine = self.hierarchies.spine
        finest = read_histogram(root, spine.geolevels[-1], self.plan.schema, spine)
        return check_parts(self.plan, self.groups, self.taken_over, finest, spine)


def _among(files: JsonObject, places: Sequence[str]) -> list[str]:
    """The files at some places, each a file or a folder."""
    return [path for path in files if any(path == place or path.startswith(f"{place}/") for place in places)]


def _address(text: str) -> JsonObject:
    return {"work": CHECKS, "of": hashlib.sha256(text.encode()).hexdigest()}
