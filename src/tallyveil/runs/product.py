"""What a product brings to the one lifecycle (`once`), and what the lifecycle hands to it.

A `Product` is a plan that has not opened any data. Reading its inputs makes a `Work`, which is checked in full and has
written nothing. `once.run_product` takes a product through its whole life. A new product implements both protocols.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Protocol

from tallyveil.accounting.events import PrivacyEvent
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.files.manifest import ListedFile, Manifest, ReleaseKind, listed_file
from tallyveil.runs.earlier import Earlier
from tallyveil.runs.executor import Executor
from tallyveil.runs.folder import RunFolder
from tallyveil.runs.key_file import RunSecrets
from tallyveil.runs.observer import Observer
from tallyveil.runs.stages import Made, Stages
from tallyveil.storage.json_files import JsonObject


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind.

    Attributes:
        path: The release folder.
        manifest: Content of `manifest.json`.
        already_finished: True when the folder held this release before the run, and nothing was done.
    """

    path: Path
    manifest: Manifest
    already_finished: bool


@dataclass(frozen=True, slots=True, repr=False)
class Job:
    """What a run will do, what it costs, what it promises, and what its noise is bound to.

    Attributes:
        kind: The product.
        plan_digest: Digest of the plan, in hexadecimal, as in the manifest.
        whole_plan: Digest of all that is written, which names the run but not its noise.
        binding: Digest of the records, of public inputs and of what is measured, to which the noise is bound.
            Confidential.
        declaration: What may be spent.
        event: What will be done.
        privacy: The guarantee, for the manifest; computed before the spend, since not every event has one.
        description: What will be done in words, for the ledger.
        token: Names the act within the run, for the ledger.
        earlier: The run that has spent already, where this one only works on what it published.
    """

    kind: ReleaseKind
    plan_digest: str
    whole_plan: bytes
    binding: bytes
    declaration: Declaration
    event: PrivacyEvent
    privacy: JsonObject
    description: str
    token: str
    earlier: Earlier | None = None


class Run:
    """A run that has spent, and may draw.

    Attributes:
        path: The run folder.
        secrets: Its key and what follows from it. Confidential.
        spent: What the ledger shows, in the declared unit.
        versions: Versions of Tallyveil that have worked on the run, this one last.
        resumed: Whether an earlier process had spent already.
        executor: Does the chunks of the work.
    """

    def __init__(
        self,
        folder: RunFolder,
        secrets: RunSecrets,
        cost: Fraction,
        versions: tuple[str, ...],
        executor: Executor,
        *,
        resumed: bool,
    ) -> None:
        self.path = folder.path
        self.secrets = secrets
        self.spent = cost
        self.versions = versions
        self.resumed = resumed
        self.executor = executor
        # The folder itself is not handed on: a product gets stages, and no way to the key file or the seal.
        self._stages = Stages(folder, secrets)

    @property
    def run_id(self) -> str:
        """Public name of the run."""
        return self.secrets.run_id

    @property
    def tags(self) -> dict[str, str]:
        """Metadata of every file of the run."""
        return self.secrets.file_tags()

    def stage(self, name: str, places: Sequence[str], work: Callable[[], JsonObject]) -> JsonObject:
        """Do a stage once, also over several processes; see `Stages.stage`."""
        return self._stages.stage(name, places, work)

    def make(self, places: Sequence[str], work: Callable[[], Made]) -> Made:
        """Write files that every process writes again; see `Stages.make`."""
        return self._stages.make(places, work)

    def remove(self, places: Sequence[str]) -> None:
        """Remove files that were written for later stages only; see `Stages.remove`."""
        self._stages.remove(places)

    def listed(self) -> tuple[ListedFile, ...]:
        """What the run has written so far, in order of paths, as it was when it was written."""
        # From digests in memory, not from disk: a file that was changed since is found by `files`, which reads it.
        return tuple(listed_file(self.path, path, digest) for path, digest in self._stages.written().items())

    def files(self) -> dict[str, str]:
        """SHA-256 of everything the run has written, by path; see `Stages.files`."""
        return self._stages.files()


class LastStep(Protocol):
    """What a product still does in its finished folder, when the key is gone and the folder's lock is held.

    A process that is killed in it leaves the private folder, and the same command does it again.
    """

    def refuse(self, out: Path, manifest: Manifest) -> None:
        """Refuse a finished release of the same plan that another command made; raises StoreError."""
        ...

    def is_done(self, out: Path) -> bool:
        """Whether the folder holds what this step makes."""
        ...

    def do(self, out: Path, *, looked: bool) -> None:
        """Do the step.

        Args:
            out: Release folder.
            looked: Whether this process has just compared every file of the release with its manifest. If not, the
                step must do so for the files that it reads: a killed process left them, and anybody may have changed
                them since.
        Raises:
            TallyveilError: it cannot be done.
        """
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command asks of a folder, known before any input is read.

    Attributes:
        plan_digest: Digest of the plan, in hexadecimal.
        last: What is done once the release is finished; None for nothing.
        draws: Whether the work draws noise with a key. An estimate works on the measurements of an earlier run.
    """

    plan_digest: str
    last: LastStep | None = None
    draws: bool = True


class Work(Protocol):
    """A release whose inputs are read and checked. Everything that can fail before the spend has been tried."""

    def job(self) -> Job:
        """What the run will do."""
        ...

    def release(self, run: Run) -> JsonObject:
        """Measure, estimate and write, in stages of the run; returns the body of the manifest."""
        ...

    def check(self, run: Run) -> Sequence[str]:
        """Read the written files back and hold them to every promise; returns the names of the checks.

        Raises:
            TallyveilError: a check failed. The release is not finished then.
        """
        ...

    def performance(self) -> Sequence[JsonObject]:
        """Seconds and memory of the stages, as a stopwatch records them."""
        ...


class Product(Protocol):
    """A planned release; no data is open.

    Attributes:
        plan_digest: Digest of the plan, in hexadecimal, by which a finished release is known again.
    """

    @property
    def plan_digest(self) -> str: ...

    def refuse(self, out: Path) -> None:
        """Refuse an output folder that the release cannot use; raises StoreError."""
        ...

    def read(self, out: Path, observer: Observer) -> Work:
        """Read and check every input; nothing is written or spent.

        Args:
            out: Release folder, whose disk must have room.
            observer: Told of progress.
        Raises:
            TallyveilError: an input breaks its rules, or the release could not be finished on this machine.
        """
        ...
