"""The manifest: what a release is made of, so that anybody can verify and repeat it, and nobody learns more.

All products write the same manifest, which `Manifest` declares; `ReleaseKind` has a kind for each product.
What only one product has to say is in `privacy` and `body`: `CONTENT` has their declarations. The entry
`digest` is the SHA-256 of all the others, so that a part that was edited by accident shows; who forges a
manifest can make the digest again.
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from tallyveil.declared import (
    ABSENT,
    Content,
    ContentInPart,
    Declared,
    Flag,
    Many,
    MisfitError,
    Text,
    Whole,
    adapter_of,
    validated,
)
from tallyveil.exact import fraction_of
from tallyveil.files.finished import LedgerRecord
from tallyveil.files.marks import protection_tag
from tallyveil.storage.json_files import JsonObject, digest_of
from tallyveil.storage.write import file_digest


class ReleaseKind(StrEnum):
    """The product that a release is of; the value is the `kind` of its manifest."""

    TOPDOWN = "topdown"
    MEASUREMENTS = "topdown-measurements"
    SAFETAB = "safetab"
    HOUSEHOLDS = "safetab-households"
    GROUPS = "safetab-groups"
    SUBSPACE = "integer-subspace"

    @property
    def command(self) -> str:
        """The command that makes such a release, with as much of its arguments as tells it from the others."""
        return "tallyveil " + _COMMANDS[self]


_COMMANDS = {
    ReleaseKind.TOPDOWN: "run",
    ReleaseKind.MEASUREMENTS: "measure",
    ReleaseKind.SAFETAB: "safetab run PARAMS",
    ReleaseKind.HOUSEHOLDS: "safetab households",
    ReleaseKind.GROUPS: "safetab run FILE.TOML",
    ReleaseKind.SUBSPACE: "subspace release",
}


MANIFEST_FORMAT: Final = 4
"""Formats 1 and 2 were written before; format 2 is read (`manifest_files.upgraded`), format 1 is refused."""
LIBRARIES: Final = ("numpy", "scipy", "numba", "polars", "piqp", "highspy", "cryptography", "python-flint")


def _budget(text: object) -> Fraction:
    number = fraction_of(text) if isinstance(text, str) else None
    if number is None:
        raise ValueError("wanted an exact number as text")
    return number


Budget: TypeAlias = Annotated[
    Fraction,
    BeforeValidator(_budget),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "examples": ["3/7", "0.25"]}),
]
"""An exact number, which a file holds as text."""


@dataclass(frozen=True, slots=True)
class Spent(Declared):
    """The budget of a release.

    Attributes:
        unit: "rho" or "epsilon".
        declared: What the ledger allows to be spent; exact.
        spent: What the ledger shows as spent; exact.
    """

    unit: Text
    declared: Budget
    spent: Budget


@dataclass(frozen=True, slots=True)
class ListedFile(Declared):
    """A file of the release: its path in the folder, its size and its SHA-256."""

    path: Text
    bytes: Whole
    sha256: Text


@dataclass(frozen=True, slots=True)
class Manifest(Declared):
    """What a finished release says of itself, in the order of the file.

    Attributes:
        kind: The product.
        run: Public name of the run.
        protected: False when the run used a test key, so that the release protects nobody.
        warnings: What must be said wherever the release is shown.
        plan_digest: SHA-256 of the plan, in hexadecimal.
        event: What was done, as in the ledger's line of the spend.
        spent: What that cost.
        privacy: The guarantee, in numbers and words (`CONTENT`).
        body: What only this product says (`CONTENT`).
        checks: Names of the checks on the written files; all of them passed.
        files: Every file that the run wrote and that the release keeps.
        tallyveil: Versions of Tallyveil that worked on the run, in the order in which they did.
        versions: Versions of Python and of the libraries under the process that finished the run.
        ledger: The ledger as it was when the manifest was written.
        declassified: Lines of the ledger that record a look at the true counts.
    Privacy: nothing here is computed from true counts, but for keyed hashes of the inputs.
    """

    kind: ReleaseKind
    run: Text
    protected: Flag
    warnings: Many[Text]
    plan_digest: Text
    event: JsonObject
    spent: Spent
    privacy: JsonObject
    body: JsonObject
    checks: Many[Text]
    files: Many[ListedFile]
    tallyveil: Many[Text]
    versions: dict[str, Text]
    ledger: LedgerRecord
    declassified: Many[JsonObject]

    @property
    def estimated_from(self) -> JsonObject | None:
        """The run whose measurements the counts were estimated from; None for a run with measurements of its own."""
        return self.body.get("estimated_from")

    @property
    def spender(self) -> str:
        """Name of the run whose spend the ledger shows."""
        return self.run if self.estimated_from is None else str(self.estimated_from["run"])

    @property
    def measured_by(self) -> tuple[str, ...]:
        """Names of the runs that drew the noise. Where imported files do not name them, the import stands for them."""
        return tuple(self.body.get("imported", {}).get("measured_by", (self.spender,)))

    @property
    def file_tags(self) -> dict[str, str]:
        """Metadata of files that follow from the release."""
        return {"run": self.run, "protected": protection_tag(self.protected)}

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of the listed files by path."""
        return {file.path: file.sha256 for file in self.files}

    def to_mapping(self) -> JsonObject:
        """Content of `manifest.json`."""
        # pydantic would write an infinite number within plain data as null, so that data is left as it is.
        plain = {"event", "privacy", "body"}
        written = adapter_of(Manifest).dump_python(self, mode="json", exclude=plain)
        content = {"format": MANIFEST_FORMAT}
        content |= {key.name: written.get(key.name, getattr(self, key.name)) for key in fields(self)}
        return {**content, "digest": digest_of(content).hex()}


class StatedEvent(ContentInPart):
    """What was done; `accounting` reads the rest where the ledger says the same."""

    kind: str


class StatedBounds(ContentInPart):
    """Both sides of a number that is known between bounds."""

    lower: float
    upper: float


class StatedLimit(ContentInPart):
    """Between which numbers of geounits a step of the spine regroups."""

    cutoff: int
    at_most: int | None


class StatedBranch(ContentInPart):
    """A step that gives a family of entities a branch of its own."""

    kind: Literal["branch"]
    geolevel: str
    name: str
    family: str
    entities: list[Any] | None
    parts: str | None


class StatedCut(ContentInPart):
    """A step that cuts geounits along entities."""

    kind: Literal["cut_by_entities"]
    geolevel: str
    name: str
    families: list[str]
    keep: bool


class StatedGrouping(ContentInPart):
    """A step that groups children that lie alike to the entities."""

    kind: Literal["group_by_membership", "group_by_distance"]
    geolevel: str
    families: list[str]
    children: str
    limit: StatedLimit


class StatedLevel(ContentInPart):
    """The geounits of a geolevel, and their children."""

    geolevel: str
    geounits: int
    children_mean: float = ABSENT
    children_most: int = ABSENT


class StatedDistances(ContentInPart):
    """Off-spine distances of the entities of a family, on the spine that was made and on the original."""

    entities: int
    mean: float
    most: int
    original_mean: float = ABSENT
    original_most: int = ABSENT


class StatedDeviation(ContentInPart):
    """Standard deviation of the totals of areas; null where nothing tells it."""

    mean: float | None
    greatest: float | None


class StatedDeviations(ContentInPart):
    """How exact the totals of a kind of area are on the given spine, after the steps, and on the one that was made."""

    name: str
    areas: int
    aimed: bool
    given: StatedDeviation
    steps: StatedDeviation
    made: StatedDeviation


class StatedRegroup(ContentInPart):
    """What the plan asks of regrouping."""

    geolevel: str
    limit: StatedLimit
    aim: dict[str, Any]
    measure: str
    most_loss: str = ABSENT
    reference: str = ABSENT
    may_worsen: list[str] = ABSENT


class Bypassed(ContentInPart):
    """How many geounits of a geolevel are not measured."""

    not_measured: int


class Bypassing(ContentInPart):
    """Which geounits are not measured."""

    rule: str
    geolevels: list[Bypassed]


class SpineMade(ContentInPart):
    """How the spine was made and what that changed."""

    steps: list[Annotated[StatedBranch | StatedCut | StatedGrouping, Field(discriminator="kind")]]
    original: list[StatedLevel]
    made: list[StatedLevel]
    replaced: list[str]
    distances: dict[str, StatedDistances]
    deviations: list[StatedDeviations] = ABSENT
    warnings: list[str] = ABSENT
    preset: str = ABSENT
    regroup: StatedRegroup = ABSENT
    bypassing: Bypassing = ABSENT


class StatedLaw(ContentInPart):
    """The law of noise on a lattice."""

    kind: str
    variance: str = ABSENT
    norm: str = ABSENT
    epsilon: str = ABSENT


class Promise(ContentInPart):
    """What is promised of counts that were drawn on a lattice."""

    statement: str
    invariants: list[str]


class DrawnNoise(ContentInPart):
    """How noise on a lattice was drawn, and its spread where that could be simulated."""

    cells: int
    dimension: int
    sampler: str
    reason: str
    spread: dict[str, Any] | None


class Drawn(ContentInPart):
    """A query whose counts were drawn on a lattice."""

    query: str
    geolevel: str
    budget: str
    path: str
    law: StatedLaw
    privacy: Promise
    noise: DrawnNoise


class StatedAgreement(ContentInPart):
    """A finished release whose counts of a query this one keeps."""

    name: str
    query: str
    theirs: str
    release: str = ABSENT
    run: str
    plan_digest: str


class StatedResidents(ContentInPart):
    """A finished release that says who lives in the units of this one."""

    name: str
    people: dict[str, list[str]]
    adults: dict[str, list[str]] = ABSENT
    households: str = ABSENT
    geolevel: str = ABSENT
    run: str
    plan_digest: str


class StatedImport(ContentInPart):
    """Measurements that others published."""

    layout: str
    product: str
    source_sha256: str
    beside_sha256: dict[str, str]
    rho_of_variances: str
    statement: str
    description_sha256: str = ABSENT
    left_out: list[str] = ABSENT
    measured_by: list[str] = ABSENT


class EstimatedFrom(ContentInPart):
    """The run whose measurements a release is estimated from."""

    run: str
    ledger: LedgerRecord
    statement: str


class LevelSizes(ContentInPart):
    """How many geounits of a geolevel are published with records, and in how many cells."""

    geounits: int
    empty_geounits: int
    nonzero_cells: int


class PublishedSizes(ContentInPart):
    """How much was published."""

    records: int
    geolevels: dict[str, LevelSizes]


class PassSolved(ContentInPart):
    """How the families of a geolevel were solved in one pass."""

    cells: str
    families: int
    estimate: dict[str, int]
    largest_residual: float


class SolvedFamilies(ContentInPart):
    """How the families of a geolevel were solved."""

    families: int
    estimate: dict[str, int]
    rounding: dict[str, int]
    rounding_widened: int
    largest_residual: float
    values: str = ABSENT
    passes: list[PassSolved] = ABSENT


class Body(Content):
    """What the manifests of all products may say: `estimated_from`, of work on the measurements of another run."""

    estimated_from: EstimatedFrom = ABSENT


class MeasurementsBody(Body):
    """What a folder of measurements says of its plan and its inputs."""

    name: str
    plan: dict[str, Any]
    inputs: dict[str, str]
    spine: SpineMade = ABSENT
    drawn: list[Drawn] = ABSENT
    agreement: list[StatedAgreement] = ABSENT
    residents: list[StatedResidents] = ABSENT
    imported: StatedImport = ABSENT
    intervals: Any = ABSENT


class TopdownBody(MeasurementsBody):
    """The same of a release of counts, and what was estimated."""

    sizes: PublishedSizes
    solver: dict[str, SolvedFamilies]


class LevelGuarantee(ContentInPart):
    """The guarantee of one geolevel alone."""

    geolevel: str
    spent: str
    classical_epsilon: float
    epsilon: StatedBounds


class ExactGuarantee(ContentInPart):
    """The exact epsilon at a delta, between bounds."""

    delta: str
    epsilon: StatedBounds
    engines: list[str]
    geolevels: list[LevelGuarantee]


class TopdownPrivacy(ContentInPart):
    """The guarantee of a release of counts, or of its measurements."""

    budget_unit: str
    declared: str
    spent: str
    delta: str
    epsilon: float
    exact: ExactGuarantee
    post_processing: str
    invariants: list[str]
    statement: str


class SafetabSizes(ContentInPart):
    """How many groups of each level set a SafeTab run has."""

    groups: dict[str, int]


class SafetabBody(Body):
    """What a release of SafeTab or SafeTab-H says, by run."""

    sizes: dict[str, SafetabSizes]


class GroupSizes(ContentInPart):
    """How much of a level of population groups was published."""

    groups: int
    noisy_counts: int
    cells_rows: int


class GroupsBody(Body):
    """What a release of population groups of any layout says, by level."""

    name: str
    sizes: dict[str, GroupSizes]


class Changed(ContentInPart):
    """The guarantee for a record that changes its value."""

    budget: str
    epsilon: StatedBounds


class HouseholdsPrivacy(ContentInPart):
    """The guarantee of one run of SafeTab-H."""

    budget: str
    delta: str
    epsilon: StatedBounds
    changed: Changed


class SafetabPrivacy(HouseholdsPrivacy):
    """The guarantee of one run of SafeTab by every accountant; null where one has none."""

    run: str
    pure: float | None
    renyi: float | None
    zcdp: float | None
    zcdp_textbook: float | None


class LatticeNoise(ContentInPart):
    """How the noise of a table was drawn."""

    structure: str
    cells: int
    dimension: int
    basis: str
    notes: list[str]
    sampler: str
    reason: str


class StatedMargins(ContentInPart):
    """What the margins of error of a table mean."""

    level: Budget
    confidence: Budget
    draws: int


class SubspaceBody(Body):
    """What the release of a table says; `margins` is null where it has none."""

    name: str
    plan: dict[str, Any]
    noise: LatticeNoise
    inputs: dict[str, str] = ABSENT
    margins: StatedMargins | None = None


class SubspacePrivacy(ContentInPart):
    """The guarantee of the release of a table."""

    statement: str


CONTENT: Final[Mapping[ReleaseKind, tuple[Any, Any]]] = {
    ReleaseKind.TOPDOWN: (TopdownPrivacy, TopdownBody),
    ReleaseKind.MEASUREMENTS: (TopdownPrivacy, MeasurementsBody),
    ReleaseKind.SAFETAB: (dict[str, SafetabPrivacy], SafetabBody),
    ReleaseKind.HOUSEHOLDS: (dict[str, HouseholdsPrivacy], SafetabBody),
    ReleaseKind.GROUPS: (dict[str, SafetabPrivacy], GroupsBody),
    ReleaseKind.SUBSPACE: (SubspacePrivacy, SubspaceBody),
}
"""The declarations of `privacy` and `body` of each kind of release."""


def manifest_of(content: JsonObject) -> Manifest:
    """The manifest of the content of a file, without its format and digest.

    Raises:
        MisfitError: the content is not what a run of its kind writes.
    """
    manifest = validated(Manifest, content)
    for key, kind in zip(("privacy", "body"), CONTENT[manifest.kind], strict=True):
        _validated_within(key, kind, content[key])
    _validated_within("event", StatedEvent, manifest.event)
    # Some products write their plan into a file of its own, so that their body has none.
    if "plan" in manifest.body and digest_of(manifest.body["plan"]).hex() != manifest.plan_digest:
        raise MisfitError("body.plan")
    return manifest


def _validated_within(key: str, kind: Any, value: JsonObject) -> None:
    try:
        validated(kind, value)
    except MisfitError as error:
        raise MisfitError(f"{key}.{error.place}".replace(".[", "["), error.wanted) from None


def listed_file(root: Path, path: str, digest: str | None = None) -> ListedFile:
    """A file for the manifest's list.

    Args:
        root: Release folder.
        path: Of the file within it.
        digest: Its SHA-256, if it is known.
    """
    place = root / path
    return ListedFile(path, place.stat().st_size, digest or file_digest(place))


def library_versions() -> dict[str, str]:
    """Versions of Python and of the libraries that results depend on."""
    return {"python": platform.python_version(), **{name: _installed(name) for name in LIBRARIES}}


@cache
def _installed(library: str) -> str:
    """Version of a library, which is read from the disk once."""
    return version(library)
