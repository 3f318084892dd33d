"""The run folder: who owns it, what is finished in it, and the key that makes a resumed run the same run."""

import fcntl
import hashlib
import hmac
import json
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any

from tallyveil.errors import StoreError
from tallyveil.noise.key import derive_key, new_run_key
from tallyveil.storage.write import TEMPORARY_SUFFIX, store_error, write_json

MANIFEST = "manifest.json"
LEDGER = "ledger.jsonl"
PLAN = "plan.json"
PRIVATE = "private"
RUN_FILE = "run.json"
LOCK_FILE = "lock"


class FolderState(Enum):
    """What stands in an output folder."""

    ABSENT = "absent or empty"
    STARTED = "a run that can be resumed"
    FINISHED = "a finished release"
    FOREIGN = "something else"


def folder_state(path: Path) -> FolderState:
    """Tell what stands in a folder, without touching it.

    Raises:
        StoreError: the path is a file, or cannot be read.
    """
    try:
        if not path.exists():
            return FolderState.ABSENT
        if not path.is_dir():
            raise StoreError(f"{path} is a file; name a folder for the release.", code="folder-taken")
        names = {entry.name for entry in path.iterdir()}
    except OSError as error:
        raise store_error(path / MANIFEST, error) from error
    if MANIFEST in names:
        return FolderState.FINISHED
    if (path / PRIVATE / RUN_FILE).exists():
        return FolderState.STARTED
    # A run killed before its key was written has spent nothing and left only its empty private folder.
    return FolderState.ABSENT if names <= {PRIVATE} else FolderState.FOREIGN


@dataclass(frozen=True, slots=True, repr=False)
class RunSecrets:
    """The run key and what it is bound to. Confidential while the run lasts.

    Attributes:
        key: 32 bytes from the operating system, or derived from an insecure test key.
        binding: Digest of the records, the geography, what is measured, and the constraints.
        plan: Digest of the whole plan, also of what is written: it names the run, but not its noise.
        private: False when the key is a test key, so that nothing made with it protects anybody.
    """

    key: bytes
    binding: bytes
    plan: bytes
    private: bool

    def __repr__(self) -> str:
        return "RunSecrets(<redacted>)"

    @property
    def noise_key(self) -> bytes:
        """Key of the noise: other records, geography or plan give another key, hence unrelated noise."""
        return derive_key(self.key, "noise", self.binding)

    @property
    def run_id(self) -> str:
        """Public name of the run, 16 hexadecimal digits."""
        return derive_key(self.key, "run id", self.binding + self.plan).hex()[:16]

    def commitment(self, digest: bytes) -> str:
        """Keyed hash of a confidential digest: it confirms nothing to whoever lacks the key."""
        return derive_key(self.key, "commitment", digest).hex()

    def file_tags(self) -> dict[str, str]:
        """Metadata that every published file of the run carries."""
        tags = {"run": self.run_id, "private": "true"}
        if not self.private:
            tags["private"] = "false: made with an insecure test key, protects nobody"
        return tags


def binding_of(*digests: bytes) -> bytes:
    """One digest of several, of the inputs and the plan."""
    return hashlib.sha256(b"".join(len(d).to_bytes(4, "little") + d for d in digests)).digest()


class RunFolder:
    """An output folder held by one process at a time; use as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @property
    def private(self) -> Path:
        """Folder of the key and the checkpoints, mode 0700; gone when the run has finished."""
        return self.path / PRIVATE

    def __enter__(self) -> "RunFolder":
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.private.mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(self.private / LOCK_FILE, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise store_error(self.private, error) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StoreError(
                f"another process is running in {self.path}; wait for it, or choose another folder.",
                code="folder-locked",
            ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            os.close(self._lock)

    def secrets(self, binding: bytes, plan: bytes, test_key: bytes | None) -> RunSecrets:
        """The secrets of this run: those stored when it was started, or new ones.

        Args:
            binding: Digest of the records, the geography, what is measured and the constraints as they are now.
            plan: Digest of the whole plan as it is now.
            test_key: Key of a run that is marked as not private, or None for a fresh key.
        Raises:
            StoreError: the run was started with other inputs, another plan or another key.
        """
        path = self.private / RUN_FILE
        if path.exists():
            return self._stored(path, binding, plan, test_key)
        secrets = RunSecrets(test_key or new_run_key(), binding, plan, test_key is None)
        os.close(os.open(path.with_name(RUN_FILE + TEMPORARY_SUFFIX), os.O_CREAT | os.O_WRONLY, 0o600))
        write_json(path, {"key": secrets.key.hex(), "bound": _bound(secrets), "private": secrets.private})
        return secrets

    def _stored(self, path: Path, binding: bytes, plan: bytes, test_key: bytes | None) -> RunSecrets:
        stored = json.loads(path.read_text())
        secrets = RunSecrets(bytes.fromhex(stored["key"]), binding, plan, stored["private"])
        if test_key is not None and test_key != secrets.key:
            raise StoreError(
                f"the run in {self.path} was started with another key. Resume it as it was started, "
                "or choose another folder (a new spend).",
                code="resume-key",
            )
        if test_key is None and not secrets.private:
            raise StoreError(
                f"the run in {self.path} was started with an insecure test key. Pass the same "
                "--insecure-test-key to resume it, or choose another folder (a new spend).",
                code="resume-key",
            )
        if not hmac.compare_digest(stored["bound"], _bound(secrets)):
            raise StoreError(
                f"the run in {self.path} was started with other records, bounds, geography or another plan. "
                "Noise drawn for one input must never meet another, so it cannot go on. Restore the inputs and "
                "run again, or choose another folder (a new key and a new spend).",
                code="resume-changed",
            )
        return secrets

    def checkpoint(self, name: str) -> dict[str, Any] | None:
        """What a finished stage recorded of itself, or None if it is not finished."""
        path = self.private / f"{name}.json"
        if not path.exists():
            return None
        stored: dict[str, Any] = json.loads(path.read_text())
        return stored

    def finish_stage(self, name: str, record: dict[str, Any]) -> None:
        """Mark a stage as finished; its files are complete before this is called."""
        write_json(self.private / f"{name}.json", record)

    def remove_private(self) -> None:
        """Remove the key and the checkpoints: from here on the noise cannot be recomputed by anybody."""
        for entry in sorted(self.private.iterdir(), key=lambda item: item.name != RUN_FILE):
            entry.unlink()
        self.private.rmdir()

    def abandon(self) -> None:
        """Undo the making of a folder in which nothing was spent."""
        for name in (RUN_FILE, RUN_FILE + TEMPORARY_SUFFIX, LOCK_FILE):
            (self.private / name).unlink(missing_ok=True)
        self.private.rmdir()
        if not any(self.path.iterdir()):
            self.path.rmdir()


def _bound(secrets: RunSecrets) -> str:
    """Keyed, so that the stored text confirms no guess of the records to whoever finds it without the key."""
    return derive_key(secrets.key, "binding", secrets.binding + secrets.plan).hex()
