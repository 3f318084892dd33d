"""The one reader and the one writer of `manifest.json`, whatever the product.

Manifests of format 2, in which every product had a form of its own, are read as manifests of today. They had
no digest of the whole and no kind for the releases of `tallyveil run`. SafeTab manifests gave the number of
checks without their names, files without their sizes, and the guarantee in a file beside them.

A release whose counts were estimated from the measurements of another folder says so (`copied_lines`).
"""

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final

import polars as pl
from pydantic import AfterValidator, Field

from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import TEST_KEY
from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.lines import LEDGER, LedgerEntry, spent
from tallyveil.declared import ContentInPart, MisfitError, validated
from tallyveil.errors import StoreError
from tallyveil.exact import fraction_of
from tallyveil.files.finished import (
    MANIFEST,
    PLAN,
    PROGRAMME,
    LedgerRecord,
    ledger_bytes,
    record_of,
    refuse_unfinished,
    require_ledger,
    require_run,
    runs_of,
)
from tallyveil.files.manifest import (
    MANIFEST_FORMAT,
    Budget,
    HouseholdsPrivacy,
    ListedFile,
    Manifest,
    ReleaseKind,
    SafetabBody,
    Spent,
    StatedEvent,
    SubspaceBody,
    SubspacePrivacy,
    TopdownBody,
    TopdownPrivacy,
    manifest_of,
)
from tallyveil.storage.addresses import address_of, is_object
from tallyveil.storage.json_files import (
    Json,
    JsonObject,
    damaged,
    digest_of,
    held,
    read_json,
    read_json_object,
)
from tallyveil.storage.paths import inside
from tallyveil.storage.read import read_published
from tallyveil.storage.write import file_digest, refuse_unfinished_folder, write_json

_MOST_CHECKS: Final = 10_000
"""A run of SafeTab made a few hundred. The names of many more would only fill the memory."""


class EarlierManifest(ContentInPart):
    """What the manifests of all products said in format 2."""

    run: str
    protected: bool
    warnings: list[str]
    plan_digest: str
    event: StatedEvent
    ledger: LedgerRecord


def _true(passed: bool) -> bool:
    if not passed:
        raise ValueError("wanted true, because a run sealed its manifest only after every check had passed")
    return passed


class PassedCheck(ContentInPart):
    """A check on the written files, which passed."""

    check: str
    passed: Annotated[bool, AfterValidator(_true)]


class EarlierListed(EarlierManifest):
    """What products beside SafeTab said."""

    checks: list[PassedCheck]
    files: list[ListedFile]
    versions: dict[str, str]


class EarlierTopdown(EarlierListed, TopdownBody, extra="ignore"):
    """A release of counts."""

    privacy: TopdownPrivacy


class EarlierSubspace(EarlierListed, SubspaceBody, extra="ignore"):
    """The release of a table."""

    privacy: SubspacePrivacy


class EarlierSafetab(EarlierManifest, SafetabBody, extra="ignore"):
    """A release of SafeTab, by run; its guarantee is in `privacy.json`."""

    version: str
    budget_unit: str
    budgets: dict[str, Budget]
    checks_passed: Annotated[int, Field(ge=0, le=_MOST_CHECKS)]
    files: dict[str, str]


class EarlierHouseholds(EarlierSafetab):
    """A release of SafeTab-H, by run."""

    privacy: dict[str, HouseholdsPrivacy]


EARLIER: Final[Mapping[ReleaseKind, type[EarlierManifest]]] = {
    ReleaseKind.TOPDOWN: EarlierTopdown,
    ReleaseKind.SAFETAB: EarlierSafetab,
    ReleaseKind.HOUSEHOLDS: EarlierHouseholds,
    ReleaseKind.SUBSPACE: EarlierSubspace,
}


def upgraded(root: Path, old: JsonObject, kind: ReleaseKind, mend: str) -> JsonObject:
    """The content of today's format that says the same.

    Args:
        root: Release folder.
        old: Content of its `manifest.json`.
        kind: The kind that it names.
        mend: What to do about a damaged file, for messages.
    Raises:
        MisfitError: the content is not what a run wrote.
        StoreError: the guarantee of a SafeTab release, which is in a file of its own, cannot be read.
    """
    # Later kinds of release never had this format.
    if kind not in EARLIER:
        raise MisfitError("kind")
    earlier = validated(EARLIER[kind], old)
    # Validated first, so that the keys that are taken below are there.
    common = {name: old[name] for name in EarlierManifest.model_fields} | {"kind": kind.value}
    common["declassified"] = old.get("declassified", [])
    if isinstance(earlier, EarlierSafetab):
        # Every person is in one of the runs, so the costliest is what is spent.
        most = str(max(earlier.budgets.values(), default=Fraction(0)))
        return {
            **common,
            "spent": {"unit": earlier.budget_unit, "declared": most, "spent": most},
            "privacy": _privacy_by_run(root, mend) if kind is ReleaseKind.SAFETAB else old["privacy"],
            "body": {"sizes": old["sizes"]},
            "checks": [f"check {n + 1}, which format 2 does not name" for n in range(earlier.checks_passed)],
            "files": _sized(root, earlier.files),
            "tallyveil": [earlier.version],
            "versions": {},
        }
    if "tallyveil" not in old["versions"]:
        raise MisfitError("versions")
    # Today's names of the keys are those of format 2, so that the body is picked out by them.
    body = TopdownBody if kind is ReleaseKind.TOPDOWN else SubspaceBody
    # A release of counts kept what was spent beside the guarantee, the others in the plan.
    budget = old["privacy"] if "spent" in old["privacy"] else old["plan"]
    stated = {"unit": "budget_unit", "declared": "declared", "spent": "spent"}
    return {
        **common,
        "spent": {name: budget.get(key) for name, key in stated.items()},
        "privacy": old["privacy"],
        "body": {name: old[name] for name in body.model_fields if name in old},
        "checks": [item["check"] for item in old["checks"]],
        "files": old["files"],
        "tallyveil": [old["versions"]["tallyveil"]],
        "versions": {name: text for name, text in old["versions"].items() if name != "tallyveil"},
    }


def _privacy_by_run(root: Path, mend: str) -> JsonObject:
    """The guarantees of a SafeTab release, which format 2 kept in a file beside the manifest."""
    path = inside(root, "privacy.json")
    runs = read_json(path, mend) if path.is_file() else []
    # Anything else is left to the check of the guarantees, which names the place.
    named = isinstance(runs, list) and all(isinstance(run, dict) and "run" in run for run in runs)
    return {str(run["run"]): run for run in runs} if named else {}


def _sized(root: Path, digests: Mapping[str, str]) -> list[JsonObject]:
    """Files with the sizes that they have now, 0 where a file is gone."""
    # Paths come from a file and could lead out of the folder; `inside` refuses such.
    places = {path: inside(root, *path.split("/")) for path in digests}
    sizes = {path: place.stat().st_size if place.is_file() else 0 for path, place in places.items()}
    return [{"path": path, "bytes": sizes[path], "sha256": digest} for path, digest in digests.items()]


MAIN_PRODUCT: Final = (ReleaseKind.TOPDOWN, ReleaseKind.MEASUREMENTS)
"""Kinds of the main product."""
RESTORE: Final = "Restore the folder as the run left it; if the run was interrupted, give its command again."


def read_manifest(root: Path, *kinds: ReleaseKind) -> Manifest:
    """The manifest of a finished release, held to its ledger; commands that open a release read it here.

    Args:
        root: Folder of the release.
        kinds: The kinds that the caller can work with; none: all of them.
    Raises:
        StoreError: the run in the folder is not finished or its key may still be there; its ledger has lost lines, or
            shows another spend than the manifest; a file in it is of another run, or of a test key that the
            manifest hides; the making of its intervals was interrupted; else as `written_manifest`.
    """
    # A folder that is being written may have an old manifest beside new files.
    refuse_unfinished_folder(root)
    return entered_manifest(root, *kinds)


def entered_manifest(root: Path, *kinds: ReleaseKind) -> Manifest:
    """The manifest of a finished release whose intervals may be incomplete, held to its ledger; as `read_manifest`."""
    # First, whether the key of the run is gone: no number may be shown while somebody could still subtract the noise.
    refuse_unfinished(root)
    manifest = written_manifest(root, *kinds)
    require_entered(root, manifest)
    # A file that is missing is left to whoever reads it; one of another run must not pass as this release's.
    for file in manifest.files:
        path = inside(root, *file.path.split("/"))
        if path.is_file():
            runs = runs_of(file.path, manifest.run, manifest.spender)
            require_run(path, *runs, protected=manifest.protected)
    return manifest


def written_manifest(root: Path, *kinds: ReleaseKind) -> Manifest:
    """The manifest in a folder, whether or not the key of the run is gone; takes what `read_manifest` does.

    Raises:
        StoreError: the folder holds no finished release, an unfinished one without a manifest, or one of another kind,
            or the manifest is damaged: it is no JSON object, lacks what its kind holds, or is not the one that it gives
            the digest of.
    """
    wanted = kinds or tuple(ReleaseKind)
    path = root / MANIFEST
    # What the folder holds instead is said, because usually another folder was meant.
    if not path.is_file():
        refuse_unfinished(root)
        raise StoreError(_no_manifest(root, wanted), code="no-release")
    manifest = parsed_manifest(root, read_json_object(path, RESTORE))
    if manifest.kind is ReleaseKind.MEASUREMENTS and manifest.kind not in wanted:
        raise StoreError(
            f"{root} holds only measurements: it has no counts and no tables. Make a release from them with "
            "`tallyveil estimate`, which spends nothing, and name the folder of that release.",
            code="measured-only",
        )
    if manifest.kind not in wanted:
        raise StoreError(
            f"{root} holds a release of `{manifest.kind.command}`; this command needs a folder that "
            f"{_listed(wanted)} wrote to. Name such a folder.",
            code="no-release",
        )
    return manifest


def _no_manifest(root: Path, wanted: Sequence[ReleaseKind]) -> str:
    """What a folder without a manifest holds, and what to name in its place."""
    if is_object(root):
        return (
            f"a release is read from a folder of this machine, and {address_of(root)} is in an object store. "
            f"Copy the release first: `tallyveil copy '{address_of(root)}' FOLDER` holds every file to its SHA-256."
        )
    if (root / PROGRAMME).is_file():
        return (
            f"{root} holds the releases of a programme, each in a folder of its own. Name one of these folders; "
            f"{PROGRAMME} lists them."
        )
    return f"{root} holds no finished release. Name the folder that {_listed(wanted)} wrote to."


def parsed_manifest(root: Path, content: JsonObject) -> Manifest:
    """The manifest in the content of a file, in format 4, 3 or 2.

    Args:
        root: Folder of the release, for messages and for what format 2 kept in files of its own.
        content: The JSON object of its manifest.
    Raises:
        StoreError: the content is of another format or kind, or is not what a run wrote.
    """
    path, stated = root / MANIFEST, content.get("format")
    if stated == 1:
        raise StoreError(
            f"{root} was made by an earlier version of Tallyveil (manifest format 1; this version reads formats 2 "
            f"to {MANIFEST_FORMAT}). Open it with the version that its manifest names.",
            code="release-format",
        )
    named = content.get("kind", ReleaseKind.TOPDOWN if stated == 2 else None)
    # A truth value is an integer in Python, and true would pass as format 1.
    if type(stated) is not int or stated not in (2, 3, MANIFEST_FORMAT) or named not in list(ReleaseKind):
        raise StoreError(
            f"{path} is not a manifest that this version of Tallyveil knows: wanted format {MANIFEST_FORMAT} and a "
            f"kind among {', '.join(ReleaseKind)}. {RESTORE}",
            code="release-unreadable",
        )
    # A forger can give every digest anew, so a digest that holds says only that nothing was edited by accident. What is
    # claimed is held to the ledger later (`require_entered`).
    try:
        today = upgraded(root, content, ReleaseKind(named), RESTORE) if stated == 2 else _undigested(content)
        manifest = manifest_of(today)
        # Other kinds have their guarantee by run, or none that a plan could contradict.
        if manifest.kind in MAIN_PRODUCT:
            _require_consistent(manifest.privacy, manifest.body["plan"])
    except MisfitError as error:
        raise damaged(path, error.place, RESTORE, error.wanted) from None
    return manifest


def write_manifest(root: Path, manifest: Manifest) -> None:
    """Put a manifest in the place of an earlier one, with the digest of what it says now."""
    write_json(root / MANIFEST, manifest.to_mapping())


def require_entered(root: Path, manifest: Manifest) -> None:
    """Refuse a manifest that states another event, budget or protection than the ledger beside it shows.

    Raises:
        StoreError: it does; or the ledger has lost a line, or cannot be read.
    """
    require_ledger(root, manifest.ledger)
    declaration, entries = read_ledger(root / LEDGER)
    # The spender is another run than the release's own where it was estimated from measurements.
    entries_of_run = [entry for entry in entries if entry.run == manifest.spender]
    # A list: two spends of one run are wrong as well.
    spends = [entry.event.to_mapping() for entry in entries_of_run if entry.kind == "spend"]
    shown = Spent(declaration.budget_unit, declaration.total, spent(entries))
    numbers = {
        "budget_unit": shown.unit,
        "declared": str(shown.declared),
        "spent": str(shown.spent),
        "rho": str(shown.spent),
        "neighbours": declaration.neighbours.value,
    }
    wrong = [
        name
        for name, agrees in {
            "event": spends == [manifest.event],
            "spent": manifest.spent == shown,
            "body.estimated_from": _is_of_ledger(root, manifest, entries_of_run),
            # A run with a test key says so in the ledger, and the manifest may not hide it.
            "protected": manifest.protected == all(entry.event != TEST_KEY for entry in entries_of_run),
            **{
                # `get` with the right text as default: only what is stated can be wrong.
                f"{place}.{name}": stated.get(name, text) == text
                for place, stated in (
                    ("privacy", manifest.privacy),
                    ("body.plan", manifest.body.get("plan", {})),
                )
                for name, text in numbers.items()
            },
        }.items()
        if not agrees
    ]
    if wrong:
        raise damaged(
            root / MANIFEST, wrong[0], f"The ledger in the same folder shows something else. {RESTORE}"
        )


def require_plan(root: Path, manifest: Manifest) -> None:
    """Refuse a release whose `plan.json` is another than that of its manifest; raises StoreError."""
    # plan.json could have been replaced; the copy in the manifest was sealed with it.
    if manifest.body["plan"] != read_json_object(root / PLAN, RESTORE):
        raise StoreError(
            f"{PLAN} and {MANIFEST} of {root} describe different plans. Restore the folder as the run left it.",
            code="release-damaged",
        )


def _is_of_ledger(root: Path, manifest: Manifest, entries_of_run: Sequence[LedgerEntry]) -> bool:
    """Whether a release that says which measurements it was estimated from names the ledger's lines to their spend."""
    stated = manifest.estimated_from
    if stated is None:
        return True
    # The lines up to the spend, which the measurements' release recorded; later ones were not there yet.
    lines = next((entry.sequence + 1 for entry in entries_of_run if entry.kind == "spend"), 0)
    named = LedgerRecord(stated["ledger"]["lines"], stated["ledger"]["sha256"])
    return stated["run"] != manifest.run and named == record_of(ledger_bytes(root), lines)


def read_listed(root: Path, manifest: Manifest, name: str, kind: type[object]) -> Json:
    """A JSON file of the release, which must be the one that its manifest lists.

    Args:
        root: Release folder.
        manifest: Of the release. Format 2 did not list every file.
        name: Path of the file in the folder.
        kind: The declaration of its content.
    Raises:
        StoreError: the file cannot be read, is another one, or does not fit its declaration.
    """
    path = inside(root, *name.split("/"))
    content = read_json(path, RESTORE)
    # Format 2 lists fewer files; what it does not list cannot be compared.
    if file_digest(path) != manifest.digests.get(name, file_digest(path)):
        raise damaged(path, "the whole", RESTORE)
    held(path, content, kind, RESTORE)
    return content


def read_listed_table(root: Path, manifest: Manifest, name: str) -> pl.DataFrame:
    """A Parquet file of the release, which must be the one that its manifest lists.

    Args:
        root: Release folder.
        manifest: Of the release.
        name: Path of the file in the folder.
    Raises:
        StoreError: the file is missing, cannot be read, or is another one.
    """
    path = inside(root, *name.split("/"))
    # Read first and compared then: a file that is exchanged in between is noticed.
    frame = read_published(path)
    require_unchanged(root, manifest, path)
    return frame


def require_unchanged(root: Path, manifest: Manifest, path: Path) -> None:
    """Refuse a file that is not the one that the manifest lists: what is made of it would name a release it is not of.

    Raises:
        StoreError: the file is another one, or cannot be read.
    """
    stated = manifest.digests.get(path.relative_to(root).as_posix())
    try:
        digest = file_digest(path)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be read: {type(error).__name__}. Restore it from a copy of the release.",
            code="release-unreadable",
        ) from None
    if stated is not None and digest != stated:
        raise StoreError(
            f"{path} is not the file that the manifest of the release lists: its SHA-256 is another one. It was "
            "changed after it was written; restore it from a copy of the release.",
            code="release-damaged",
        )


def require_whole(root: Path, manifest: Manifest) -> None:
    """Refuse a release of which any listed file is missing or was changed.

    Raises:
        StoreError: a file cannot be read, or is another one.
    """
    for name in manifest.digests:
        require_unchanged(root, manifest, inside(root, *name.split("/")))


def require_unchanged_files(root: Path, manifest: Manifest, places: Collection[str]) -> None:
    """Refuse a release of which a listed file was changed: what follows from it would be wrong.

    A file that is missing is left to whoever reads it.

    Args:
        root: Release folder.
        manifest: Of the release. Format 2 did not list every file.
        places: The files and folders, directly in the release folder, that will be read.
    Raises:
        StoreError: a listed file in one of these places is another one, or cannot be read.
    """
    for name in manifest.digests:
        path = inside(root, *name.split("/"))
        if name.split("/", maxsplit=1)[0] in places and path.exists():
            require_unchanged(root, manifest, path)


def _undigested(content: JsonObject) -> JsonObject:
    """The content without its format and its digest, which must be that of the rest."""
    # Format 3 had the seconds and the memory of every stage, which nothing reads and no digest covers.
    aside = ("digest", "performance") if content["format"] == 3 else ("digest",)
    digested = {name: value for name, value in content.items() if name not in aside}
    if content.get("digest") != digest_of(digested).hex():
        raise MisfitError("digest")
    return {name: value for name, value in digested.items() if name != "format"}


def _require_consistent(privacy: JsonObject, plan: JsonObject) -> None:
    """Refuse a guarantee that the plan, or another part of the guarantee, contradicts; raises MisfitError.

    The pure epsilon is what was spent, which the ledger shows. With Gaussian noise, epsilon is the upper bound that the
    run computed; whoever opens the release believes the manifest, or computes it again from the ledger's event.
    """
    exact, gaussian = privacy["exact"], privacy["budget_unit"] == "rho"
    cost = fraction_of(privacy["spent"])
    if cost is None:
        raise MisfitError("privacy.spent")
    # Without Gaussian noise, epsilon is the exact cost, and its upper bound follows from it alone.
    epsilon = exact["epsilon"]["upper"] if gaussian else fraction_bounds(cost).upper
    if exact["delta"] != plan.get("delta") or privacy["delta"] != (exact["delta"] if gaussian else "0"):
        raise MisfitError("privacy.delta")
    if privacy["epsilon"] != epsilon:
        raise MisfitError("privacy.epsilon")


def _listed(kinds: Sequence[ReleaseKind]) -> str:
    names = [f"`{kind.command}`" for kind in kinds]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def require_own_kind(
    root: Path,
    manifest: Manifest,
    kind: ReleaseKind,
    estimated_from: JsonObject | None = None,
) -> None:
    """Refuse a finished release of the same plan that another command made.

    Args:
        root: Its folder.
        manifest: Its manifest.
        kind: What the present command makes.
        estimated_from: The measurements that the release is to be estimated from; None for one that draws its own.
    Raises:
        StoreError: the folder holds something else.
    """
    if manifest.kind is not kind or manifest.estimated_from != estimated_from:
        raise StoreError(
            f"{root} holds finished work on the same plan by another command, or on other measurements. A release "
            "with measurements of its own, a release estimated from the measurements of another folder, and "
            "measurements alone are three different things. Choose another folder.",
            code="folder-taken",
        )


def copied_lines(manifest: Manifest) -> int:
    """How many lines at the beginning of a release's ledger are those of the run it was estimated from; else 0."""
    stated = manifest.estimated_from
    return 0 if stated is None else int(stated["ledger"]["lines"])
