"""A folder of measurements, opened to estimate counts from it: what the estimate reads is checked."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.lines import Declaration, LedgerEntry
from tallyveil.budget.allocation import Allocation, allocation_of
from tallyveil.errors import StoreError
from tallyveil.geography.areas import Hierarchies
from tallyveil.measurements.store import FOLDER, StoredMeasurements
from tallyveil.plan.estimating import EstimationPlan, estimation_plan_of
from tallyveil.postprocess.bounds_files import BOUNDS
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.invariant_files import INVARIANTS
from tallyveil.postprocess.public_inputs import read_constraints
from tallyveil.release.finished import LEDGER
from tallyveil.release.geography import GEOGRAPHY, read_hierarchies
from tallyveil.release.kinds import ReleaseKind
from tallyveil.release.manifest import Manifest
from tallyveil.release.manifest_files import read_manifest
from tallyveil.run.earlier import Earlier
from tallyveil.storage.json_files import JsonObject, digest_of
from tallyveil.storage.paths import inside
from tallyveil.storage.write import file_digest

READ = (FOLDER, BOUNDS, INVARIANTS, GEOGRAPHY)
"""Files and folders that the estimation reads."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Everything that a release can be estimated from, as its folder tells it.

    Attributes:
        root: The folder.
        manifest: Content of its `manifest.json`.
        plan: How its own plan estimates counts.
        hierarchies: The spine and the areas beside it.
        allocation: What every geounit was measured with.
        constraints: Invariants, public bounds, and counts drawn on a lattice.
        source: The noisy answers.
        declaration: The budget that its ledger declares.
        spend: The ledger's entry of the one spend.
        earlier: The run that drew the measurements.
    """

    root: Path
    manifest: Manifest
    plan: EstimationPlan
    hierarchies: Hierarchies
    allocation: Allocation
    constraints: tuple[ConstraintTable, ...]
    source: StoredMeasurements
    declaration: Declaration
    spend: LedgerEntry
    earlier: Earlier

    @property
    def estimated_from(self) -> JsonObject:
        """What the manifest of a release made of these measurements says of them."""
        ledger = self.earlier.ledger
        return {
            "run": self.earlier.run,
            "ledger": {"lines": ledger.count(b"\n"), "sha256": hashlib.sha256(ledger).hexdigest()},
            "statement": (
                f"The counts are post-processing of the noisy measurements of run {self.earlier.run}. Estimating them "
                "read no record and spent nothing; the guarantee is that of the run."
            ),
        }

    def digest(self) -> bytes:
        """SHA-256 of what an estimate depends on, but for its settings."""
        files = {path: digest for path, digest in self.manifest.digests.items() if _is_read(path)}
        return digest_of({**self.estimated_from, "files": files})


def open_measurements(root: Path) -> Measured:
    """Open a folder that `tallyveil measure` has written, or a finished release that kept all its measurements.

    Raises:
        StoreError: the folder is not finished or holds another product; it does not have all noisy answers; a file
            is missing or is not what its manifest says.
    """
    manifest = read_manifest(root, ReleaseKind.MEASUREMENTS, ReleaseKind.TOPDOWN)
    stated = manifest.body["plan"]
    if stated["measurements"] != "full":
        raise StoreError(
            f'{root} does not have all its noisy answers (measurements = "{stated["measurements"]}"), so counts '
            'cannot be estimated from it. Only a release made with measurements = "full", or the folder of '
            "`tallyveil measure`, has them.",
            code="measurements-missing",
        )
    _require_files(root, manifest.digests)
    plan = estimation_plan_of(stated)
    hierarchies = read_hierarchies(root)
    spine, shares = hierarchies.spine, hierarchies.shares
    if spine.digest().hex() != manifest.body["inputs"]["geography_sha256"]:
        raise StoreError(
            f"{root / GEOGRAPHY} does not give the geography that the manifest names. Restore the folder from a copy.",
            code="release-damaged",
        )
    declaration, entries = read_ledger(root / LEDGER)
    spend = next(entry for entry in entries if entry.kind == "spend")
    return Measured(
        root=root,
        manifest=manifest,
        plan=plan,
        hierarchies=hierarchies,
        allocation=allocation_of(plan.strategy, spine, shares),
        constraints=read_constraints(root, stated, plan.schema, hierarchies),
        source=StoredMeasurements(root, spine, shares, manifest.digests),
        declaration=declaration,
        spend=spend,
        earlier=Earlier(spend.run, _lines_to(root, spend), manifest.protected),
    )


def _require_files(root: Path, listed: Mapping[str, str]) -> None:
    """Refuse a folder in which a file that will be read is not what the manifest says, or is not in it."""
    for name, digest in listed.items():
        path = inside(root, *name.split("/"))
        if _is_read(name) and not (path.is_file() and file_digest(path) == digest):
            raise _changed(path, "is missing, or does not have the SHA-256 that the manifest lists")
    for folder in READ:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.relative_to(root).as_posix() not in listed:
                raise _changed(path, "is no file of the run")


def _is_read(name: str) -> bool:
    return name.split("/", maxsplit=1)[0] in READ


def _changed(path: Path, what: str) -> StoreError:
    return StoreError(
        f"{path} {what}. Counts estimated from this file would not be based on what the run measured. Restore the "
        "folder from a copy; the measurements cannot be drawn again, because their key is gone.",
        code="release-damaged",
    )


def _lines_to(root: Path, spend: LedgerEntry) -> bytes:
    """The lines of a ledger up to that of its spend; later ones tell what was done with that folder's own results."""
    return b"".join((root / LEDGER).read_bytes().splitlines(keepends=True)[: spend.sequence + 1])
