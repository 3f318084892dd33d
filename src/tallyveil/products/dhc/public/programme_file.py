"""What the folder of a programme says of its releases: `programme.json`, made from their published files alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tallyveil.accounting.ledger.joint import JointLedgers, read_joint
from tallyveil.declared import ABSENT, Content, ContentInPart, Format1
from tallyveil.errors import StoreError
from tallyveil.files.between import checks_between
from tallyveil.files.finished import MANIFEST, PROGRAMME
from tallyveil.files.manifest import Manifest, ReleaseKind, StatedBounds
from tallyveil.files.manifest_files import read_manifest
from tallyveil.files.marks import Marks, joint_marks
from tallyveil.files.total import Costed, total_guarantee
from tallyveil.plans.guarantee import with_guarantee
from tallyveil.schema.schema import Unit, unit_of
from tallyveil.storage.json_files import JsonObject, damaged, digest_of, read_declared
from tallyveil.storage.paths import inside
from tallyveil.storage.write import file_digest, write_json
from tallyveil.version import VERSION

A_NEW_SPEND: Final = "A new folder would draw new noise, which is a new spend."
_RESTORE: Final = f"Restore the file from a copy. {A_NEW_SPEND}"


class ExactEpsilon(ContentInPart):
    """The exact epsilon of a release at a delta."""

    delta: str
    epsilon: StatedBounds


class ReleasePrivacy(ContentInPart):
    """The guarantee of a release, as its manifest states it."""

    statement: str
    exact: ExactEpsilon


class ListedRelease(Content):
    """A release of the programme, as its manifest states it."""

    name: str
    title: str
    run: str
    counts: str
    reads: list[str]
    plan_digest: str
    manifest_sha256: str
    protected: bool
    warnings: list[str]
    declassified: list[dict[str, Any]]
    privacy: ReleasePrivacy


class Together(ContentInPart):
    """What several releases guarantee together."""

    units: list[str]
    releases: list[str]
    neighbours: str
    rho: str
    delta: str
    epsilon: float
    added_delta: float = ABSENT
    exact_epsilon: StatedBounds = ABSENT
    engines: list[str] = ABSENT
    not_exact: str = ABSENT
    not_covered: list[str]
    statement: str


class Sentence(ContentInPart):
    """One sentence, also where no guarantee is given."""

    statement: str


class Guarantees(Content):
    """What the releases guarantee together, by the unit of their records and for all units."""

    by_unit: list[Together]
    together: Sentence


class KindCompared(ContentInPart):
    """How often two releases contradict each other in one way."""

    kind: str
    meaning: str
    can_agree: bool
    geounits: int
    records: int


class CheckBetween(ContentInPart):
    """A check between two releases."""

    check: str
    agrees: bool
    statement: str
    kinds: list[KindCompared] = ABSENT


class ProgrammeManifest(Content):
    """`programme.json`."""

    format: Format1
    tallyveil: str
    name: str
    plan_digest: str
    protected: bool
    warnings: list[str]
    releases: list[ListedRelease]
    guarantee: Guarantees
    between: list[CheckBetween]
    digest: str


@dataclass(frozen=True, slots=True)
class ProgrammeRelease:
    """A finished release of a programme.

    Attributes:
        name: Its name in the programme, and of its folder.
        reads: Names of earlier releases whose published files it reads.
        manifest: Its manifest.
    """

    name: str
    reads: tuple[str, ...]
    manifest: Manifest

    @property
    def unit(self) -> Unit:
        """What one record is."""
        words = self.manifest.body["plan"]["schema"]
        return unit_of(words.get("unit"), words.get("units"))


def write_programme(root: Path, name: str, plan_digest: str, parts: Sequence[ProgrammeRelease]) -> JsonObject:
    """Write `programme.json`, which says that the releases of a programme are finished.

    Args:
        root: Folder of the programme.
        name: Name of the programme.
        plan_digest: SHA-256 of its plan, in hexadecimal.
        parts: Its releases, in the order in which they ran.
    Raises:
        StoreError: a file cannot be read or written.
        BudgetError, SolverError: no guarantee can be given.
    """
    _require_read(root, parts)
    marks = joint_marks({part.name: part.manifest for part in parts})
    content = {
        "format": 1,
        "tallyveil": VERSION,
        "name": name,
        "plan_digest": plan_digest,
        **marks.entry(),
        "releases": [_record(root, part) for part in parts],
        "guarantee": _guarantee(root, parts) if marks.protected else _none(marks),
        "between": checks_between(root, [(part.name, part.manifest) for part in parts]),
    }
    # The digest comes last, over all other keys: an edited file is told from a current one.
    whole = {**content, "digest": digest_of(content).hex()}
    write_json(root / PROGRAMME, whole)
    return whole


def read_programme(root: Path) -> JsonObject:
    """The content of `programme.json`, held to the manifests of its releases.

    Raises:
        StoreError: there is none, it is damaged, or a release is not finished or is another one than it names.
    """
    return _with_parts(root)[0]


def restated_programme(root: Path) -> tuple[JsonObject, list[ProgrammeRelease]]:
    """The content of `programme.json` and its releases, after it was written anew if a manifest says more than before.

    Raises:
        StoreError: as for `read_programme`, or the file cannot be written.
        BudgetError, SolverError: no guarantee can be given.
    """
    content, parts = _with_parts(root)
    # A manifest grows when intervals are made or records are declassified; the total must say so as well.
    if not is_current(root, content):
        content = write_programme(root, content["name"], content["plan_digest"], parts)
    return content, parts


def rewritten_programme(root: Path) -> JsonObject:
    """The content of `programme.json` after it was written anew from the releases; raises as `restated_programme`."""
    content, parts = _with_parts(root)
    return write_programme(root, content["name"], content["plan_digest"], parts)


def _with_parts(root: Path) -> tuple[JsonObject, list[ProgrammeRelease]]:
    content = stated_programme(root)
    parts = []
    for listed in content["releases"]:
        folder = inside(root, listed["name"])
        manifest = with_guarantee(folder, read_manifest(folder, ReleaseKind.TOPDOWN))
        parts.append(ProgrammeRelease(listed["name"], tuple(listed["reads"]), manifest))
        # A folder that was exchanged for another finished release would pass every check of its own.
        if (manifest.run, manifest.plan_digest) != (listed["run"], listed["plan_digest"]):
            raise _another(root / listed["name"], manifest.run, listed["run"])
    _require_read(root, parts)
    return content, parts


def _require_read(root: Path, parts: Sequence[ProgrammeRelease]) -> None:
    """Refuse releases that agree with another run than the one in the same programme; raises StoreError."""
    runs = {part.name: part.manifest.run for part in parts}
    for part in parts:
        body = part.manifest.body
        for item in (*body.get("agreement", ()), *body.get("residents", ())):
            # The key is written only where the agreement has another name than the release.
            name = item.get("release", item["name"])
            if name in part.reads and runs.get(name) != item["run"]:
                raise _another(root / name, str(runs.get(name)), item["run"])


def _another(folder: Path, run_there: str, wanted: str) -> StoreError:
    return StoreError(
        f"{folder} holds another release than the one that the programme made there: run {run_there!a:.40}, wanted run "
        f"{wanted!a:.40}. Restore the folder from a copy.",
        code="release-damaged",
    )


def stated_programme(root: Path) -> JsonObject:
    """The content of `programme.json` itself; raises StoreError where there is none or it is damaged."""
    path = root / PROGRAMME
    if not path.is_file():
        raise StoreError(
            f"{root} holds no finished programme, which has a file {PROGRAMME}. Name the folder that `tallyveil run "
            "PROGRAMME.TOML` wrote to. If the programme was interrupted, give its command again. If the file was lost, "
            f"restore it from a copy. {A_NEW_SPEND}",
            code="no-release",
        )
    content: JsonObject
    content, programme = read_declared(path, ProgrammeManifest, _RESTORE)
    undigested = {name: value for name, value in content.items() if name != "digest"}
    if programme.digest != digest_of(undigested).hex():
        raise damaged(path, "digest", _RESTORE)
    return content


def is_current(root: Path, content: JsonObject) -> bool:
    """Whether the manifests are still those that `programme.json` was made from; later work may add to them."""
    return all(
        file_digest(inside(root, release["name"], MANIFEST)) == release["manifest_sha256"]
        for release in content["releases"]
    )


def _record(root: Path, part: ProgrammeRelease) -> JsonObject:
    """Which release it is, and its own guarantee."""
    manifest = part.manifest
    return {
        "name": part.name,
        "title": manifest.body["name"],
        "run": manifest.run,
        "counts": part.unit.many,
        "reads": list(part.reads),
        "plan_digest": manifest.plan_digest,
        "manifest_sha256": file_digest(root / part.name / MANIFEST),
        "protected": manifest.protected,
        "warnings": list(manifest.warnings),
        "declassified": list(manifest.declassified),
        "privacy": manifest.privacy,
    }


def _guarantee(root: Path, parts: Sequence[ProgrammeRelease]) -> JsonObject:
    """What all releases guarantee together, from their ledgers."""

    def joint_of(names: Sequence[str]) -> JointLedgers:
        joint = read_joint([root / name for name in names])
        acts = joint.non_private
        for name in names:  # the path of the folder says nothing to whoever reads the published file
            acts = tuple(act.replace(str(root / name), name) for act in acts)
        return replace(joint, non_private=acts)

    costed = [
        Costed(part.name, part.unit, Fraction(part.manifest.privacy["exact"]["delta"])) for part in parts
    ]
    return total_guarantee(costed, joint_of)


def _none(marks: Marks) -> JsonObject:
    """The guarantee of releases that protect nobody."""
    return {"by_unit": [], "together": {"statement": " ".join(marks.lines())}}
