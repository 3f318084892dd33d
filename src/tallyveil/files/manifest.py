"""The manifest: what a release is made of, so that anybody can verify and repeat it, and nobody learns more.

All products write the same manifest. What only one product has to say is in its `body`. The entry `digest` is the
SHA-256 of all the others but `performance`, so that an edited part shows. Seconds and memory may be taken out before a
release is published; `performance` is then an empty list.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tallyveil.files.finished import LedgerRecord
from tallyveil.files.kinds import ReleaseKind
from tallyveil.files.marks import protection_tag
from tallyveil.storage.json_files import JsonObject, digest_of
from tallyveil.storage.write import file_digest

MANIFEST_FORMAT: Final = 3
"""Formats 1 and 2 were written before; format 2 is read (`manifest_format_2`), format 1 is refused."""
LIBRARIES: Final = ("numpy", "scipy", "numba", "polars", "piqp", "highspy", "cryptography", "python-flint")


@dataclass(frozen=True, slots=True)
class Spent:
    """The budget of a release.

    Attributes:
        unit: "rho" or "epsilon".
        declared: What the ledger allows to be spent; exact.
        spent: What the ledger shows as spent; exact.
    """

    unit: str
    declared: Fraction
    spent: Fraction


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of the release: its path in the folder, its size and its SHA-256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class StageTime:
    """A stage of the run, the seconds that it took, and the largest memory of the process until its end."""

    stage: str
    seconds: float
    peak_memory_mib: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a finished release says of itself.

    Attributes:
        kind: The product.
        run: Public name of the run.
        protected: False when the run used a test key, so that the release protects nobody.
        warnings: What must be said wherever the release is shown.
        plan_digest: SHA-256 of the plan, in hexadecimal.
        event: What was done, as in the ledger's line of the spend.
        spent: What that cost.
        privacy: The guarantee, in numbers and words.
        checks: Names of the checks on the written files; all of them passed.
        files: Every file that the run wrote and that the release keeps.
        tallyveil: Versions of Tallyveil that worked on the run, in the order in which they did.
        versions: Versions of Python and of the libraries under the process that finished the run.
        ledger: The ledger as it was when the manifest was written.
        performance: Seconds and memory by stage.
        body: What only this product says; `manifest_shapes` has the shape.
        declassified: Lines of the ledger that record a look at the true counts.
    Privacy: nothing here is computed from true counts, but for keyed hashes of the inputs; seconds and memory are
        those of a run whose noise does not depend on the data in time.
    """

    kind: ReleaseKind
    run: str
    protected: bool
    warnings: tuple[str, ...]
    plan_digest: str
    event: JsonObject
    spent: Spent
    privacy: JsonObject
    checks: tuple[str, ...]
    files: tuple[ListedFile, ...]
    tallyveil: tuple[str, ...]
    versions: Mapping[str, str]
    ledger: LedgerRecord
    performance: tuple[StageTime, ...]
    body: JsonObject
    declassified: tuple[JsonObject, ...] = ()

    @property
    def estimated_from(self) -> JsonObject | None:
        """The run whose measurements the counts were estimated from; None for a run with measurements of its own."""
        return self.body.get("estimated_from")

    @property
    def spender(self) -> str:
        """Name of the run whose spend the ledger shows."""
        return self.run if self.estimated_from is None else str(self.estimated_from["run"])

    @property
    def seconds(self) -> float:
        """Seconds of all stages together."""
        return sum(stage.seconds for stage in self.performance)

    @property
    def peak_memory_mib(self) -> int:
        """The largest memory of any process that worked on the run; 0 where performance was taken out."""
        return max((stage.peak_memory_mib for stage in self.performance), default=0)

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
        content = {
            "format": MANIFEST_FORMAT,
            "kind": self.kind.value,
            "run": self.run,
            "protected": self.protected,
            "warnings": list(self.warnings),
            "plan_digest": self.plan_digest,
            "event": self.event,
            "spent": {
                "unit": self.spent.unit,
                "declared": str(self.spent.declared),
                "spent": str(self.spent.spent),
            },
            "privacy": self.privacy,
            "body": self.body,
            "checks": list(self.checks),
            "files": [asdict(file) for file in self.files],
            "tallyveil": list(self.tallyveil),
            "versions": dict(self.versions),
            "ledger": asdict(self.ledger),
            "declassified": list(self.declassified),
        }
        stages = [asdict(stage) for stage in self.performance]
        return {**content, "digest": digest_of(content).hex(), "performance": stages}


def manifest_from_mapping(content: JsonObject) -> Manifest:
    """The manifest of a mapping that has the shape of its kind; the inverse of `to_mapping`."""
    spent = content["spent"]
    return Manifest(
        kind=ReleaseKind(content["kind"]),
        run=content["run"],
        protected=content["protected"],
        warnings=tuple(content["warnings"]),
        plan_digest=content["plan_digest"],
        event=content["event"],
        spent=Spent(spent["unit"], Fraction(spent["declared"]), Fraction(spent["spent"])),
        privacy=content["privacy"],
        checks=tuple(content["checks"]),
        files=tuple(ListedFile(one["path"], one["bytes"], one["sha256"]) for one in content["files"]),
        tallyveil=tuple(content["tallyveil"]),
        versions=content["versions"],
        ledger=LedgerRecord(content["ledger"]["lines"], content["ledger"]["sha256"]),
        performance=stage_times(content["performance"]),
        body=content["body"],
        declassified=tuple(content["declassified"]),
    )


def stage_times(stages: Sequence[JsonObject]) -> tuple[StageTime, ...]:
    """Stages as a stopwatch records them."""
    return tuple(StageTime(one["stage"], one["seconds"], one["peak_memory_mib"]) for one in stages)


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
