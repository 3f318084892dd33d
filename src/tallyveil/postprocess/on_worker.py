"""A run in a worker process on another machine: the same work from the public files of the release folder.

The run's own process tells worker processes where the folder is, and the SHA-256 of the public inputs in it. A worker
process reads these, and makes the work of an address as the run's own process makes it. What depends on the records, if
anything does, comes from the source of noisy answers, which the caller makes.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tallyveil.budget.allocation import Allocation, allocation_of
from tallyveil.files.finished import PRIVATE
from tallyveil.files.geography import GEOGRAPHY, NAMES, read_hierarchies
from tallyveil.geography.areas import Hierarchies
from tallyveil.measurements.answers import MeasurementSource
from tallyveil.measurements.store import FOLDER, StoredMeasurements
from tallyveil.plans.stated import stated_plan
from tallyveil.postprocess.constraints.constraint_files import AGREEMENT, BOUNDS, INVARIANTS
from tallyveil.postprocess.estimation import Estimation
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.families.tree_values import prepared_sweep
from tallyveil.postprocess.other_releases.kept import read_kept
from tallyveil.postprocess.other_releases.residents import RESIDENTS
from tallyveil.postprocess.passes.exact_groups import first_groups
from tallyveil.postprocess.public_inputs import read_constraints
from tallyveil.runs.executor import Chunks, Site
from tallyveil.runs.folder_state import CLUSTER, PLAN
from tallyveil.runs.observer import SilentObserver
from tallyveil.runs.product import Run
from tallyveil.runs.stopwatch import Stopwatch
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import await_file, made_with_patience

READ: Final = (PLAN, GEOGRAPHY, NAMES, BOUNDS, INVARIANTS, AGREEMENT, RESIDENTS, FOLDER)
"""Files and folders of a release that a worker process reads before its first work."""
SHARED: Final = "shared"
STAGED: Final = "staged"

SourceOf = Callable[[Schema, Hierarchies, Allocation], MeasurementSource]


def described(run: Run) -> JsonObject:
    """What worker processes are told of a run; everybody may know it.

    Args:
        run: The run. Its public inputs, and what it drew on a lattice, are written.
    """
    files = {file.path: file.sha256 for file in run.listed() if file.path.split("/", maxsplit=1)[0] in READ}
    return {"release": str(run.path.absolute()), "tags": run.tags, "files": files}


def estimating_site(run: Run, measurements: Path, digests: Mapping[str, str]) -> Site:
    """How worker processes open a run that estimates counts from published measurements.

    Args:
        run: The run, with its public inputs written.
        measurements: The folder of the measurements; it has the same path on every machine.
        digests: SHA-256 of its files.
    """
    source = {"measurements": str(measurements.absolute()), "digests": dict(digests)}
    # By module and name, so that no function has to travel.
    opener = f"{open_estimate.__module__}:{open_estimate.__name__}"
    return Site(opener, {**described(run), **source}, b"", run.secrets.files_key)


def open_estimate(description: JsonObject, secret: bytes) -> "OpenedRun":
    """Open a run that estimates counts from published measurements; the secret is empty."""

    def stored(schema: Schema, hierarchies: Hierarchies, allocation: Allocation) -> StoredMeasurements:
        root = Path(description["measurements"])
        # Checked against these digests whenever a part is read.
        return StoredMeasurements(root, allocation.spine, hierarchies.shares, description["digests"])

    return opened_run(description, stored)


@dataclass(slots=True)
class OpenedRun:
    """A run in a worker process. It does one piece of work after the other.

    Attributes:
        estimation: The work of the run, made from its public files.
        folders: Where the work writes.
    """

    estimation: Estimation
    folders: ChunkFolders
    _last: tuple[str, Chunks[Any]] | None = field(default=None)

    def chunks(self, address: JsonObject) -> Chunks[Any]:
        """The work of an address.

        Raises:
            StoreError: a file that it reads is missing or damaged, also after some seconds.
        """
        name = json.dumps(address, sort_keys=True)
        if self._last is None or self._last[0] != name:
            # Before the new work is made: both together may not fit into the memory of a worker process.
            self._last = None  # frees what it holds
            self._last = name, made_with_patience(lambda: self.estimation.chunks(self.folders, address))
        return self._last[1]


def opened_run(description: JsonObject, source_of: SourceOf) -> OpenedRun:
    """Open a run from the public files of its folder.

    Args:
        description: As `described`.
        source_of: Makes the source of noisy answers.
    Raises:
        StoreError: a file is missing, or is not what the run wrote.
    """
    root = Path(description["release"])
    # Another machine may see files of a shared file system late, so each is waited for.
    for name, digest in description["files"].items():
        await_file(root / name, digest)
    plan = json.loads((root / PLAN).read_text(encoding="utf-8"))
    # The same reading and the same checks as in the run's own process, so that both make the same work.
    stated = stated_plan(root / PLAN, plan)
    hierarchies = read_hierarchies(root)
    spine, schema = hierarchies.spine, stated.estimating.schema
    allocation = allocation_of(stated.terms.strategy, spine, hierarchies.shares)
    constraints = read_constraints(root, plan, schema, hierarchies)
    taken_over = read_kept(root, plan, schema, spine)
    outer = stated.estimating.outer
    estimation = Estimation(
        plan=stated.estimating,
        hierarchies=hierarchies,
        allocation=allocation,
        source=source_of(schema, hierarchies, allocation),
        constraints=constraints,
        observer=SilentObserver(),
        watch=Stopwatch(SilentObserver()),
        tree=prepared_sweep(stated.estimating, hierarchies, constraints),
        taken_over=taken_over,
        groups=first_groups(stated.estimating, constraints, taken_over, spine) if outer else None,
    )
    private = root / PRIVATE / CLUSTER
    # Inside the private folder: staged files are not yet files of the release.
    (private / STAGED).mkdir(mode=0o700, parents=True, exist_ok=True)
    # A folder for each process, since two may do the same chunk.
    staged = Path(tempfile.mkdtemp(dir=private / STAGED))
    return OpenedRun(estimation, ChunkFolders(root, staged, description["tags"], private / SHARED))
