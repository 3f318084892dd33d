"""A folder of measurements: the public inputs beside them, and how it is opened to estimate counts.

The public inputs are the plan, the geography and the constraints. Every file that the estimation reads is
checked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from tallyveil.accounting.ledger.lines import LEDGER, Declaration, LedgerEntry, first_lines, parse_ledger
from tallyveil.budget.allocation import Allocation, allocation_of
from tallyveil.declared import read_written
from tallyveil.errors import SolverError, StoreError, TallyveilError
from tallyveil.files.finished import MANIFEST, PLAN, ledger_bytes, record_of
from tallyveil.files.geography import (
    GEOGRAPHY,
    GEOMETRY,
    NAMES,
    read_geometry,
    read_hierarchies,
    write_geography,
)
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_manifest
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.measurements.names import FOLDER
from tallyveil.measurements.store import StoredMeasurements
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.release import StatedPlan, SubspaceQuery
from tallyveil.postprocess.constraint_files import (
    AGREEMENT,
    BOUNDS,
    INVARIANTS,
    TakenOver,
    read_kept,
    stated_constraints,
)
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.families.lattice_measurements import drawn_constraint, read_drawn
from tallyveil.postprocess.other_releases import RESIDENTS
from tallyveil.runs.key_file import Earlier
from tallyveil.runs.product import Run
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import JsonObject, digest_of
from tallyveil.storage.paths import inside
from tallyveil.storage.write import file_digest, write_json

NOTHING: Final = TakenOver()
PUBLIC_CHECK = "the geography and the constraints are read back as they were written"


def write_public_inputs(
    run: Run,
    plan: Mapping[str, Any],
    hierarchies: Hierarchies,
    constraints: Sequence[ConstraintTable],
    taken_over: TakenOver = NOTHING,
) -> None:
    """Write the files that are needed, together with the measurements, to estimate the counts.

    Args:
        run: The run.
        plan: Content of `plan.json`.
        hierarchies: The spine and the areas off the spine.
        constraints: The plan's invariants, then its bounds, each in the order of the plan. Further ones are ignored.
        taken_over: What is taken over from finished releases.
    Raises:
        StoreError: a file cannot be written.
    """
    root, tags = run.path, run.tags

    def write() -> None:
        write_json(root / PLAN, plan)
        write_geography(root, hierarchies, tags)
        for item, table in zip(stated_constraints(plan, hierarchies), constraints, strict=False):
            item.write(root, table, tags)
        taken_over.write(root, hierarchies.spine, tags)

    # All places are named, also those that this plan leaves empty, so that files of an earlier attempt go.
    run.make([PLAN, GEOGRAPHY, NAMES, GEOMETRY, BOUNDS, INVARIANTS, AGREEMENT, RESIDENTS], write)


def read_constraints(
    root: Path, plan: Mapping[str, Any], schema: Schema, hierarchies: Hierarchies
) -> tuple[ConstraintTable, ...]:
    """Read every constraint of a release from its folder, in the order in which it was compiled.

    These are invariants, public bounds, agreements (unless the plan has outer passes), and counts drawn on a lattice.

    Args:
        root: Release folder.
        plan: Content of its `plan.json`.
        schema: The universe.
        hierarchies: The spine that is measured, and the areas beside it.
    Raises:
        StoreError: a file is missing, unreadable, or of another geography.
    """
    spine = hierarchies.spine
    # With outer passes, agreements fix groups of the first pass and are not constraints of families.
    agreed = () if "outer" in plan else read_kept(root, plan, schema, spine).agreed
    # The order is part of the interface: `write_public_inputs` and the drawn counts rely on it.
    return (
        *(item.read(root, schema, spine) for item in stated_constraints(plan, hierarchies)),
        *(counts.table() for counts in agreed),
        *(
            drawn_constraint(item, schema, spine, read_drawn(root, item, schema, spine))
            for item in (read_written(SubspaceQuery, stated) for stated in plan.get("subspace", ()))
        ),
    )


def check_public_inputs(
    root: Path,
    plan: Mapping[str, Any],
    schema: Schema,
    spine: Spine,
    constraints: Sequence[ConstraintTable],
    taken_over: TakenOver = NOTHING,
) -> str:
    """Read geography and constraints back and compare them with what was written.

    Returns:
        The name of the check, for the manifest.
    Raises:
        SolverError: the files differ from what was written; the folder must not be published.
        StoreError: a file is missing or damaged.
    """
    hierarchies = read_hierarchies(root)
    same = hierarchies.spine.digest() == spine.digest()
    # Digests are compared, not files: what matters is that reading gives back what was compiled.
    read = [table.digest() for table in read_constraints(root, plan, schema, hierarchies)]
    same = same and read == [table.digest() for table in constraints]
    same = same and read_kept(root, plan, schema, hierarchies.spine).digests() == taken_over.digests()
    if not same:
        raise SolverError(
            f"final check failed: {PUBLIC_CHECK}. Nothing must be published; please report this.",
            code="check-failed",
        )
    return PUBLIC_CHECK


READ = (FOLDER, BOUNDS, INVARIANTS, AGREEMENT, RESIDENTS, GEOGRAPHY, NAMES, GEOMETRY)
"""Files and folders that the estimation reads."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Everything that is needed to estimate a release, read from a folder.

    Attributes:
        root: The folder.
        manifest: Content of its `manifest.json`.
        plan: Its own plan. What this does to privacy is what the ledger shows.
        hierarchies: The spine and the areas off the spine.
        allocation: The share of the budget of each geounit.
        constraints: Invariants, public bounds, agreements (without outer passes), and counts drawn on a lattice.
        taken_over: What is taken over from finished releases.
        source: The noisy answers.
        declaration: The budget that its ledger declares.
        spend: The ledger's entry of the one spend.
        earlier: The run that drew the measurements.
    """

    root: Path
    manifest: Manifest
    plan: StatedPlan
    hierarchies: Hierarchies
    allocation: Allocation
    constraints: tuple[ConstraintTable, ...]
    taken_over: TakenOver
    source: StoredMeasurements
    declaration: Declaration
    spend: LedgerEntry
    earlier: Earlier

    @property
    def estimated_from(self) -> JsonObject:
        """The entry about these measurements in the manifest of a release that is estimated from them."""
        ledger = self.earlier.ledger
        return {
            "run": self.earlier.run,
            "ledger": asdict(record_of(ledger, ledger.count(b"\n"))),
            "statement": (
                f"The counts are post-processing of the noisy measurements of run {self.earlier.run}. Estimating them "
                "read no record and spent nothing; the guarantee is that of the run."
            ),
        }

    def digest(self) -> bytes:
        """SHA-256 of everything on which an estimate depends, except its settings."""
        files = {path: digest for path, digest in self.manifest.digests.items() if _is_read(path)}
        # Only files that an estimate reads; reports and tables of the old release may change without changing the
        # estimate.
        return digest_of({**self.estimated_from, "files": files})


def open_measurements(root: Path) -> Measured:
    """Open a folder that `tallyveil measure` has written, or a finished release that kept all its measurements.

    Raises:
        StoreError: the folder is not finished or holds another product; it does not have all noisy answers; a file
            is missing or is not what its manifest says.
    """
    manifest = read_manifest(root, ReleaseKind.MEASUREMENTS, ReleaseKind.TOPDOWN)
    plan = stated_plan(root / MANIFEST, manifest.body["plan"])
    if plan.measurements != "full":
        raise StoreError(
            f'{root} does not have all its noisy answers (measurements = "{plan.measurements}"), so counts '
            'cannot be estimated from it. Only a release made with measurements = "full", or the folder of '
            "`tallyveil measure`, has them.",
            code="measurements-missing",
        )
    read = {name: digest for name, digest in manifest.digests.items() if _is_read(name)}
    # Compared before they are read, so that a damaged file is reported as damaged and not as strange.
    _require_files(root, read)
    _refuse_others(root, manifest.digests)
    try:
        opened = _opened(root, manifest, plan)
    except StoreError:
        raise
    except TallyveilError as error:
        raise _bad_folder(root, f"its geography or its constraints do not fit its plan: {error}") from None
    # Noisy answers are checked again when they are read (`StoredMeasurements`). All else has been read by now.
    # And once more after they were read: a file that changed in between would otherwise have passed.
    _require_files(root, {name: digest for name, digest in read.items() if not _is_part(name)})
    return opened


def _opened(root: Path, manifest: Manifest, plan: StatedPlan) -> Measured:
    """The parts of the folder, held to each other; raises TallyveilError."""
    hierarchies = read_hierarchies(root)
    hierarchies = replace(hierarchies, geometry=read_geometry(root, hierarchies.spine))
    spine, shares = hierarchies.spine, hierarchies.shares
    # The geography is bound by the manifest, because it decides which noisy answer belongs to whom.
    if spine.digest().hex() != manifest.body["inputs"].get("geography_sha256"):
        raise _bad_folder(root, f"{GEOGRAPHY} does not give the geography that the manifest names")
    plan.require_geolevels(root / MANIFEST, spine.geolevels)
    for name in plan.entity_families:
        hierarchies.family(name)
    allocation = allocation_of(plan.strategy, spine, shares)
    declaration, spend, earlier = _spent(root, manifest)
    # The event is computed again from plan and geography. If it is not the spend in the ledger, the plan was changed.
    if plan.event(allocation.event()) != spend.event:
        raise _bad_folder(
            root,
            "its ledger shows another spend than its plan gives on its geography, so the plan was changed",
        )
    return Measured(
        root=root,
        manifest=manifest,
        plan=plan,
        hierarchies=hierarchies,
        allocation=allocation,
        constraints=read_constraints(root, manifest.body["plan"], plan.schema, hierarchies),
        taken_over=read_kept(root, manifest.body["plan"], plan.schema, spine),
        source=StoredMeasurements(root, spine, shares, manifest.digests),
        declaration=declaration,
        spend=spend,
        earlier=earlier,
    )


def _spent(root: Path, manifest: Manifest) -> tuple[Declaration, LedgerEntry, Earlier]:
    """What the ledger declares, its spend, and the lines to this spend; later ones tell what was done with the results.

    The ledger is read once, and held to the manifest as it was read.
    """
    data = ledger_bytes(root)
    if record_of(data, manifest.ledger.lines) != manifest.ledger:
        # The lines that the manifest covers; later lines may only tell what was done with the results.
        raise _bad_folder(root, f"{LEDGER} was changed while it was read")
    content = parse_ledger(first_lines(data, manifest.ledger.lines), root / LEDGER)
    spend = next(
        entry for entry in content.entries if entry.kind == "spend" and entry.run == manifest.spender
    )
    # Up to the spend: what was declassified later concerns the old release and not the estimate from it.
    earlier = Earlier(spend.run, first_lines(data, spend.sequence + 1), manifest.protected)
    return content.declaration, spend, earlier


def _bad_folder(root: Path, what: str) -> StoreError:
    return StoreError(
        f"{root} is damaged: {what}. Restore the folder from a copy.",
        code="release-damaged",
    )


def _require_files(root: Path, named: Mapping[str, str]) -> None:
    """Refuse a folder in which a file is missing, or is not what the manifest says; raises StoreError."""
    for name, digest in named.items():
        path = inside(root, *name.split("/"))
        if not (path.is_file() and file_digest(path) == digest):
            raise _changed(path, "is missing, or does not have the SHA-256 that the manifest lists")


def _refuse_others(root: Path, listed: Mapping[str, str]) -> None:
    """Refuse a file that would be read and is none of the run; raises StoreError."""
    for folder in READ:
        # A file too many could be read in the place of one that belongs there (as a part of a query's answers).
        for path in sorted([root / folder, *(root / folder).rglob("*")]):
            if path.is_file() and path.relative_to(root).as_posix() not in listed:
                raise _changed(path, "is no file of the run")


def _is_read(name: str) -> bool:
    return name.split("/", maxsplit=1)[0] in READ


def _is_part(name: str) -> bool:
    """Whether a file holds the noisy answers of a query, or a part of them."""
    return name.startswith(f"{FOLDER}/") and name.rsplit("/", maxsplit=1)[1].startswith("part-")


def _changed(path: Path, what: str) -> StoreError:
    return StoreError(
        f"{path} {what}. Counts estimated from this file would not be based on what the run measured. Restore the "
        "folder from a copy; the measurements cannot be drawn again, because their key is gone.",
        code="release-damaged",
    )
