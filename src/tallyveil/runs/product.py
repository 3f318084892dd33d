"""What a product brings to the one lifecycle (`once`), and what the lifecycle hands to it.

A `Product` is a plan that has not opened any data. Reading its inputs makes a `Work`, which is checked in
full and has written nothing. `once.run_product` takes a product through its whole life. A new product
implements both protocols.

The work is done in stages, whose files a resumed run keeps only if they are, byte for byte, what the stage
wrote. A checkpoint `private/<digest of the name>.json` holds the SHA-256 of every file of its stage and what
the stage tells the manifest. It is authenticated with the key of the run. A stage is done again if its
checkpoint is missing or damaged, or if one of its files is missing, was changed or was added. Because noise
is addressed, it then gives the same numbers.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, TypeVar

from tallyveil.accounting.events import PrivacyEvent
from tallyveil.accounting.ledger.book import Spend
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.errors import StoreError
from tallyveil.files.finished import require_run, runs_of
from tallyveil.files.manifest import ListedFile, Manifest, ReleaseKind, listed_file
from tallyveil.runs.executor import Executor
from tallyveil.runs.folder import RunFolder
from tallyveil.runs.key_file import Earlier, RunSecrets
from tallyveil.runs.observer import Observer
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import remove
from tallyveil.storage.write import file_digest

Made = TypeVar("Made")


class Stages:
    """The stages of one run, and the files they have written."""

    def __init__(self, folder: RunFolder, secrets: RunSecrets, spender: str | None = None) -> None:
        """Take the folder of a run.

        Args:
            folder: The folder.
            secrets: The run's secrets.
            spender: Public name of the earlier run whose measurements are copied; None for a run that measures.
        """
        self._folder = folder
        self._secrets = secrets
        self._spender = spender or secrets.run_id
        self._files: dict[str, str] = {}

    def stage(self, name: str, places: Sequence[str], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do a stage, unless an earlier process has done it and its files are as they were written.

        Args:
            name: Name of the stage; no other stage has it.
            places: Files and folders, relative to the run folder, that this stage alone writes.
            work: Does it; what it returns goes into the checkpoint as JSON.
        Returns:
            What `work` returned, now or then.
        """
        known = self._checkpoint(name)
        # The files as they stand are hashed, also those that were added: a stage has exactly the files of its
        # checkpoint.
        if known is not None and self._found(places) == known["files"]:
            self._files |= known["files"]
            record: dict[str, Any] = known["record"]
            return record
        record = self.make(places, work)
        # Hashed from disk after the work, so that the checkpoint vouches for what is really there.
        content = {"stage": name, "files": self._found(places), "record": record}
        text = json.dumps({**content, "mac": self._mac(content)})
        # Written last: a kill before this line leaves a stage that is done again, a kill after it one that is kept.
        self._folder.write(_file_of(name), text.encode())
        # Through JSON and back, so that a stage gives the same record whether it was done now or read from its
        # checkpoint.
        again: dict[str, Any] = json.loads(text)["record"]
        return again

    def make(self, places: Sequence[str], work: Callable[[], Made]) -> Made:
        """Do what every process does again, after removing what an earlier process left.

        Args:
            places: Files and folders, relative to the run folder, that this work alone writes.
            work: Does it.
        """
        for place in places:
            # What an earlier, killed process left is removed, or a file that is no longer made would stay.
            remove(self._inside(place))
        record = work()
        self._files |= self._found(places)
        return record

    def remove(self, places: Sequence[str]) -> None:
        """Remove files that stages wrote for later stages only. They are no files of the run any more.

        Whoever removes them must know from a finished stage that nothing asks for them again.
        """
        for place in places:
            remove(self._inside(place))
            # The slash keeps `tables/a` from taking `tables/ab` with it.
            self._files = {
                path: digest
                for path, digest in self._files.items()
                if path != place and not path.startswith(f"{place}/")
            }

    def files(self) -> dict[str, str]:
        """SHA-256 of every file of the run by its path, in order of paths, after a last look at each.

        Raises:
            StoreError: a file is not what its stage wrote, or is of another run.
        """
        for path, digest in self._files.items():
            place = self._folder.path / path
            if not place.is_file() or file_digest(place) != digest:
                raise StoreError(
                    f"{place} was changed while the run was in progress. Run the same command again: it makes the "
                    "changed files once more, with the same numbers, and spends nothing.",
                    code="run-damaged",
                )
            runs = runs_of(path, self._secrets.run_id, self._spender)
            require_run(place, *runs, protected=self._secrets.protected)
        return self.written()

    def written(self) -> dict[str, str]:
        """SHA-256 of every file of the run by its path, in order of paths, as its stage wrote it."""
        return {path: self._files[path] for path in sorted(self._files, key=PurePosixPath)}

    def _checkpoint(self, name: str) -> dict[str, Any] | None:
        """What a finished stage recorded of itself; None if there is nothing that this run wrote for this stage."""
        data = self._folder.read(_file_of(name))
        try:
            content = json.loads(data) if data is not None else None
        except (ValueError, RecursionError):
            return None
        if not isinstance(content, dict) or not isinstance(content.get("mac"), str):
            return None
        mac = content.pop("mac")
        # Compared in constant time, and with the name: the checkpoint of one stage must not pass for that of another.
        if content.get("stage") != name or not hmac.compare_digest(mac.encode(), self._mac(content).encode()):
            return None
        return content

    def _mac(self, content: dict[str, Any]) -> str:
        return self._secrets.mac("checkpoint", content)

    def _found(self, places: Sequence[str]) -> dict[str, str]:
        """SHA-256 of the files at some places; an empty text for a link or another entry that is no plain file."""
        digests = {}
        for place in places:
            top = self._inside(place)
            # A link at the top is looked at itself; what it points to is not followed.
            paths = [top] if top.is_symlink() or not top.is_dir() else sorted(top.rglob("*"))
            for path in paths:
                name = path.relative_to(self._folder.path).as_posix()
                if path.is_file() and not path.is_symlink():
                    digests[name] = file_digest(path)
                elif path.is_symlink() or (path.exists() and not path.is_dir()):
                    # No digest is the empty text, so a place with such an entry never equals a checkpoint.
                    digests[name] = ""
        return digests

    def _inside(self, place: str) -> Path:
        """The path of a place, which lies within the run folder."""
        named = PurePosixPath(place)
        # Names come from plans and so from users: `..` must not lead out of the run folder.
        if named.is_absolute() or not named.parts or ".." in named.parts:
            raise StoreError(
                f"a stage would write to {place!r}, outside the run folder. Rename the geolevel, query or area from "
                "which this path is made."
            )
        return self._folder.path / named


def _file_of(stage: str) -> str:
    """File name of a checkpoint. Names of stages come from plans and can be any text, so they are hashed."""
    return hashlib.sha256(stage.encode()).hexdigest()[:32] + ".json"


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
        spender: Public name of the run whose spend the ledger shows, which is an earlier one where nothing is drawn.
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
        spender: str,
    ) -> None:
        self.path = folder.path
        self.secrets = secrets
        self.spent = cost
        self.versions = versions
        self.resumed = resumed
        self.spender = spender
        self.executor = executor
        # The folder itself is not handed on: a product gets stages, and no way to the key file or the seal.
        self._stages = Stages(folder, secrets, spender)

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


class Product(Protocol):
    """A planned release; no data is open.

    Attributes:
        plan_digest: Digest of the plan, in hexadecimal, by which a finished release is known again.
    """

    @property
    def plan_digest(self) -> str: ...

    def spend(self) -> Spend | None:
        """What the release will cost, before any input is opened; None where it draws no noise of its own."""
        ...

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
