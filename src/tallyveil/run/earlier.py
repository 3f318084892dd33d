"""Work on what an earlier run has published: it draws no noise and spends nothing, and its ledger says who did."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from tallyveil.errors import StoreError
from tallyveil.run.key_file import RunSecrets, key_file


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
    key = hashlib.sha256(b"draws nothing" + binding + whole_plan).digest()
    return RunSecrets(key, binding, whole_plan, earlier.protected)


def require_same_work(out: Path, stored: bytes, secrets: RunSecrets) -> None:
    """Refuse to go on with work that was begun on other files, with other settings, or by another version.

    Args:
        out: The folder of the work.
        stored: Its key file.
        secrets: The key of the work that is now asked for.
    Raises:
        StoreError: as above.
    """
    if stored != json.dumps(key_file(secrets), indent=2).encode():
        raise StoreError(
            f"the unfinished work in {out} was begun with other measurements, other settings, or another version of "
            "Tallyveil. Choose another folder, or remove this one, which is safe: it drew no noise and spent "
            "nothing.",
            code="resume-changed",
        )
