"""The secrets of a run, and `private/run.json`, which keeps them while the run is unfinished.

Every field of the file is authenticated with the key itself, so that no field can be changed without it.
"""

import hashlib
import hmac
import json
import re
from dataclasses import dataclass
from typing import Any, Final

import tallyveil
from tallyveil.errors import StoreError
from tallyveil.noise.key import KEY_BYTES, NOISE_LAW, derive_key

KEY_FILE_FORMAT: Final = 2
_HEX: Final = re.compile(f"[0-9a-f]{{{2 * KEY_BYTES}}}")
_FIELDS: Final = frozenset({"format", "version", "noise_law", "protected", "key", "plan", "inputs", "mac"})


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
        return derive_key(self.key, "noise", self.binding)

    @property
    def run_id(self) -> str:
        """Public name of the run, 16 hexadecimal digits."""
        return derive_key(self.key, "run id", self.binding + self.plan).hex()[:16]

    def commitment(self, digest: bytes) -> str:
        """Keyed hash of a confidential digest: it confirms nothing to whoever lacks the key."""
        return derive_key(self.key, "commitment", digest).hex()

    def mac(self, purpose: str, content: Any) -> str:
        """Keyed hash that authenticates what the run keeps in its private folder."""
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
    return hashlib.sha256(b"".join(len(d).to_bytes(4, "little") + d for d in digests)).digest()


def key_file(secrets: RunSecrets) -> dict[str, Any]:
    """Content of `run.json`.

    The digest of the inputs is keyed, so that the text confirms no guess of the records to whoever finds a part of it.
    """
    fields = {
        "format": KEY_FILE_FORMAT,
        "version": tallyveil.__version__,
        "noise_law": NOISE_LAW,
        "protected": secrets.protected,
        "key": secrets.key.hex(),
        "plan": secrets.plan.hex(),
        "inputs": derive_key(secrets.key, "binding", secrets.binding).hex(),
    }
    return {**fields, "mac": _mac_of(secrets.key, fields)}


def read_key_file(
    data: bytes, where: str, binding: bytes, plan: bytes, test_key: bytes | None, spent: str
) -> RunSecrets:
    """The secrets of a run that was started before.

    Args:
        data: Bytes of `run.json`.
        where: The run folder, for messages.
        binding: Digest of the inputs as they are now.
        plan: Digest of the whole plan as it is now.
        test_key: The key that the caller gives, or None.
        spent: What the ledger shows, in words, for messages.
    Raises:
        StoreError: the file is damaged, or the run was started with another version, other inputs, another plan or
            another key.
    """
    fields = _fields(data)
    if fields is None:
        raise StoreError(
            f"private/run.json of {where} is damaged, so that the key of the run is lost and its noise cannot be "
            f"drawn again. {spent} Restore the file from a copy, or choose another folder, which is a new spend.",
            code="run-damaged",
        )
    here = tallyveil.__version__, NOISE_LAW
    if (fields["version"], fields["noise_law"]) != here:
        raise StoreError(
            f"the run in {where} was started with Tallyveil {fields['version']!a:.40} "
            f"(noise law {fields['noise_law']}); this is Tallyveil {here[0]!r} (noise law {here[1]}). "
            "One release must not mix the noise of two versions. "
            "Finish the run with the version that began it, or choose another folder, which is a new spend.",
            code="resume-version",
        )
    secrets = RunSecrets(bytes.fromhex(fields["key"]), binding, plan, fields["protected"])
    _refuse_other_key(secrets, where, test_key)
    changed = None
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
    return secrets


def _refuse_other_key(secrets: RunSecrets, where: str, test_key: bytes | None) -> None:
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


def _fields(data: bytes) -> dict[str, Any] | None:
    """Fields of the file; None where it is not as a run wrote it.

    A file of another version is not authenticated here, because that version may compute the keyed hash in another way.
    Only its version and noise law are read, and the run is then refused.
    """
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    if set(fields) == {"key", "bound", "private"}:  # before the version was kept
        return {"version": "0.1.0 or earlier", "noise_law": 1}
    if not isinstance(fields.get("version"), str) or type(fields.get("noise_law")) is not int:
        return None
    is_other = fields["version"] != tallyveil.__version__
    return fields if is_other or _is_authentic(fields) else None


def _is_authentic(fields: dict[str, Any]) -> bool:
    texts = [fields.get(name) for name in ("key", "mac")]
    if set(fields) != _FIELDS or not all(isinstance(text, str) and _HEX.fullmatch(text) for text in texts):
        return False
    named = {name: value for name, value in fields.items() if name != "mac"}
    return hmac.compare_digest(fields["mac"], _mac_of(bytes.fromhex(fields["key"]), named))


def _mac_of(key: bytes, fields: dict[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return derive_key(key, "run file", text.encode()).hex()
