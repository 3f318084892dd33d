"""The secrets of a run, and `private/run.json`, which keeps them while the run is unfinished.

Every field of the file is authenticated with the key itself, so that no field can be changed without it. Work on what
an earlier run has published draws no noise and spends nothing, and its ledger says who did.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallyveil.errors import StoreError
from tallyveil.noise.key import KEY_BYTES, NOISE_LAW, derive_key
from tallyveil.storage.json_files import Json, JsonObject
from tallyveil.version import VERSION

# What this version writes. A version that does not know a format refuses the run and names the version that began it.
KEY_FILE_FORMAT: Final = 3
_VERSIONS: Final = {2: "version", KEY_FILE_FORMAT: "versions"}
"""By format, the field that names the versions of Tallyveil that worked on the run. Format 2 named only the first."""
# Two digits a byte, lower case only: one key has one spelling, so a comparison of texts is one of keys.
_HEX: Final = re.compile(f"[0-9a-f]{{{2 * KEY_BYTES}}}")
_FIELDS: Final = frozenset({"format", "noise_law", "protected", "key", "plan", "inputs", "mac"})


@dataclass(frozen=True, slots=True, repr=False)
class RunSecrets:
    """The run key and what it is bound to. Confidential while the run lasts.

    Attributes:
        key: 32 bytes from the operating system, or derived from an insecure test key.
        binding: Digest of the records, the geography, what is measured, and the constraints.
        plan: Digest of the whole plan, also of what is written: it names the run, but not its noise.
        protected: False when the key is a test key, so that nothing made with it protects anybody.
    """

    key: bytes
    binding: bytes
    plan: bytes
    protected: bool

    def __repr__(self) -> str:
        return "RunSecrets(<redacted>)"

    @property
    def noise_key(self) -> bytes:
        """Key of the noise: other records, geography or plan give another key, hence unrelated noise."""
        # Bound to the inputs: the same key on other inputs would otherwise give the same noise, and differences the
        # truth.
        return derive_key(self.key, "noise", self.binding)

    @property
    def files_key(self) -> bytes:
        """Key that authenticates what processes of the run on other machines write for it."""
        return derive_key(self.key, "chunk files", self.binding, self.plan)

    @property
    def run_id(self) -> str:
        """Public name of the run, 16 hexadecimal digits."""
        return derive_key(self.key, "run id", self.binding + self.plan).hex()[:16]

    def commitment(self, digest: bytes) -> str:
        """Keyed hash of a confidential digest: it confirms nothing to whoever lacks the key."""
        return derive_key(self.key, "commitment", digest).hex()

    def mac(self, purpose: str, content: Json) -> str:
        """Keyed hash that authenticates what the run keeps in its private folder."""
        # Sorted and without blanks, so that equal content gives equal bytes whatever made it.
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return derive_key(self.key, purpose, self.binding, self.plan, text.encode()).hex()

    def file_tags(self) -> dict[str, str]:
        """Metadata that every published file of the run carries."""
        tags = {"run": self.run_id, "protected": "true"}
        if not self.protected:
            tags["protected"] = "false: made with an insecure test key, protects nobody"
        return tags


def binding_of(*digests: bytes) -> bytes:
    """One digest of several, of the inputs and the plan."""
    # With the length of each in front: no shift of bytes from one digest to the next gives the same input.
    return hashlib.sha256(b"".join(len(d).to_bytes(4, "little") + d for d in digests)).digest()


def key_file(secrets: RunSecrets, versions: Sequence[str] = (VERSION,)) -> JsonObject:
    """Content of `run.json`, with the versions of Tallyveil that worked on the run.

    The digest of the inputs is keyed, so that the text confirms no guess of the records to whoever finds a part of it.
    """
    fields = {
        "format": KEY_FILE_FORMAT,
        "versions": list(versions),
        "noise_law": NOISE_LAW,
        "protected": secrets.protected,
        "key": secrets.key.hex(),
        "plan": secrets.plan.hex(),
        "inputs": derive_key(secrets.key, "binding", secrets.binding).hex(),
    }
    return {**fields, "mac": _mac_of(secrets.key, fields)}


def read_key_file(
    data: bytes, where: str, binding: bytes, plan: bytes, test_key: bytes | None, spent: str
) -> tuple[RunSecrets, tuple[str, ...]]:
    """The secrets of a run that was started before, and the versions of Tallyveil that worked on it, this one last.

    Another version goes on with a run if it draws the same noise from the same key, that is, under the same noise law.

    Args:
        data: Bytes of `run.json`.
        where: The run folder, for messages.
        binding: Digest of the inputs as they are now.
        plan: Digest of the whole plan as it is now.
        test_key: The key that the caller gives, or None.
        spent: What the ledger shows, in words, for messages.
    Raises:
        StoreError: the file is damaged, or the run was started under another noise law, with other inputs, another
            plan or another key.
    """
    fields = _fields(data)
    if fields is None:
        raise StoreError(
            f"private/run.json of {where} is damaged. The key of the run is lost, and its noise cannot be drawn "
            f"again. {spent} Restore the file from a copy, or choose another folder, which is a new spend.",
            code="run-damaged",
        )
    versions = _versions(fields)
    # The noise law is compared first. Under another law the same key draws other noise, whatever else fits.
    if fields["noise_law"] != NOISE_LAW or not _is_known(fields):
        raise StoreError(
            f"the run in {where} was started with Tallyveil {versions[0]!a:.40} (noise law {fields['noise_law']}); "
            f"this is Tallyveil {VERSION!r} (noise law {NOISE_LAW}), which may draw other noise from "
            "the same key, or may not be able to read the key file. The noise of one release must not follow two "
            "different laws. Finish the run with the version that began it, or choose another folder, which is a "
            "new spend.",
            code="resume-version",
        )
    secrets = RunSecrets(bytes.fromhex(fields["key"]), binding, plan, fields["protected"])
    # Before the inputs are compared: with a wrong key, every comparison of keyed digests would fail, and mislead.
    _refuse_other_key(secrets, where, test_key)
    changed = None
    # The plan is public and is compared as it is. The inputs are compared keyed, as they are stored.
    if fields["plan"] != plan.hex():
        changed = "another plan"
    elif fields["inputs"] != key_file(secrets)["inputs"]:
        changed = "other records, bounds or another geography"
    if changed is not None:
        raise StoreError(
            f"the run in {where} was started with {changed}. The same noise on two inputs would show their exact "
            "difference, so the run cannot go on. Restore what it was started with and run again, or choose another "
            "folder, which is a new key and a new spend.",
            code="resume-changed",
        )
    # A version is listed once for a stretch of work; coming back to an earlier version lists it again.
    return secrets, versions if versions[-1] == VERSION else (*versions, VERSION)


def _refuse_other_key(secrets: RunSecrets, where: str, test_key: bytes | None) -> None:
    # In constant time: the time of a comparison that stops early would tell how many bytes are right.
    if test_key is not None and not hmac.compare_digest(test_key, secrets.key):
        raise StoreError(
            f"the run in {where} was started with another key. Resume it as it was started, or choose another folder, "
            "which is a new spend.",
            code="resume-key",
        )
    if test_key is None and not secrets.protected:
        raise StoreError(
            f"the run in {where} was started with an insecure test key. Pass the same --insecure-test-key to resume "
            "it, or choose another folder, which is a new spend.",
            code="resume-key",
        )


def _versions(fields: JsonObject) -> tuple[str, ...]:
    """Versions of Tallyveil that worked on the run, as the file names them; none where it does not."""
    # Format 2 had one version; it is read as a list of one.
    named = fields.get("versions", fields.get("version"))
    versions: list[Json] = named if isinstance(named, list) else [named]
    return tuple(versions) if all(isinstance(version, str) for version in versions) else ()


def _fields(data: bytes) -> JsonObject | None:
    """Fields of the file; None where it is not as a run wrote it.

    A file under another noise law is not authenticated here, nor is one that another version kept in a format of its
    own: that version may compute the keyed hash in another way. Only versions and law are read, and the run is refused.
    """
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    if set(fields) == {"key", "bound", "private"}:  # before the version was kept
        return {"version": "0.1.0 or earlier", "noise_law": 1}
    versions = _versions(fields)
    if not versions or type(fields.get("noise_law")) is not int:
        return None
    # A file that names this version last was written by this code, so it must be authentic whatever its format says.
    is_ours = _is_known(fields) or versions[-1] == VERSION
    return fields if fields["noise_law"] != NOISE_LAW or not is_ours or _is_authentic(fields) else None


def _is_known(fields: JsonObject) -> bool:
    """Whether the file is in a format that this version can authenticate."""
    return type(fields.get("format")) is int and fields["format"] in _VERSIONS


def _is_authentic(fields: JsonObject) -> bool:
    texts = [fields.get(name) for name in ("key", "mac")]
    # Exactly these fields: a field that is not under the MAC could otherwise be added.
    if not _is_known(fields) or set(fields) != _FIELDS | {_VERSIONS[fields["format"]]}:
        return False
    if not all(isinstance(text, str) and _HEX.fullmatch(text) for text in texts):
        return False
    named = {name: value for name, value in fields.items() if name != "mac"}
    return hmac.compare_digest(fields["mac"], _mac_of(bytes.fromhex(fields["key"]), named))


def _mac_of(key: bytes, fields: JsonObject) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return derive_key(key, "run file", text.encode()).hex()


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
