"""Work on what an earlier run has published: it draws no noise and spends nothing, and its ledger says who did."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from tallyveil.errors import StoreError
from tallyveil.runs.key_file import RunSecrets, key_file
from tallyveil.storage.json_files import JsonObject

_EARLIER = "estimated_from"


@dataclass(frozen=True, slots=True)
class Earlier:
    """A finished run on whose published files a job works.

    Attributes:
        run: Public name of that run.
        ledger: The lines of its ledger up to its spend; the job's own ledger begins with the same lines.
        protected: False when that run used a test key.
    """

    run: str
    ledger: bytes
    protected: bool


def public_secrets(earlier: Earlier, binding: bytes, whole_plan: bytes) -> RunSecrets:
    """The key of work that draws nothing.

    It is no secret, for it follows from public files alone. It names the work, which therefore has the same name on
    every machine, and it lets checkpoints be recognised.

    Args:
        earlier: The run whose files are worked on.
        binding: Digest of these files.
        whole_plan: Digest of the settings of the work.
    """
    # The text in front keeps this key apart from all keys that are derived for anything else.
    key = hashlib.sha256(b"draws nothing" + binding + whole_plan).digest()
    return RunSecrets(key, binding, whole_plan, earlier.protected)


def work_file(secrets: RunSecrets, earlier: Earlier) -> JsonObject:
    """What the private folder of such work holds in the place of a key file; it names the run that has spent."""
    return {**key_file(secrets), _EARLIER: earlier.run}


def require_same_work(out: Path, stored: bytes, wanted: JsonObject) -> None:
    """Refuse to go on with work that was begun on other files, with other settings, or by another version.

    Args:
        out: The folder of the work.
        stored: The file that it was begun with.
        wanted: The file of the work that is now asked for.
    Raises:
        StoreError: as above; or the folder holds an unfinished run, which may have spent.
    """
    if _run_of(stored) is None:
        raise StoreError(
            f"{out} holds an unfinished run that is no estimate and no import, and that may have spent. Finish it with "
            "the command that began it. Choose another folder for this work, which spends nothing.",
            code="resume-changed",
        )
    # The whole text is compared: the same work by the same version gives the same bytes.
    if stored != json.dumps(wanted, indent=2).encode():
        raise StoreError(
            f"the unfinished work in {out} was begun with other measurements, other settings, or another version of "
            "Tallyveil. Choose another folder, or remove this one, which is safe: it drew no noise and spent "
            "nothing.",
            code="resume-changed",
        )


def refuse_other_work(out: Path, stored: bytes) -> None:
    """Refuse to begin or go on with a run in the folder of an unfinished estimate or import; raises StoreError."""
    earlier = _run_of(stored)
    if earlier is not None:
        raise StoreError(
            f"{out} holds an unfinished import, or an unfinished estimate from the measurements of run {earlier!a:.40}"
            ". It drew no noise and spent nothing. Finish it with the command that began it, or remove the folder, or "
            "choose another folder.",
            code="resume-changed",
        )


def _run_of(stored: bytes) -> str | None:
    """The run whose measurements unfinished work is on, by the file it was begun with; None for a run's own key."""
    try:
        fields = json.loads(stored)
    except (ValueError, RecursionError):
        return None
    named = fields.get(_EARLIER) if isinstance(fields, dict) else None
    return named if isinstance(named, str) else None
