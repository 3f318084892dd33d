"""Signatures that an office puts beside a file with `ssh-keygen -Y sign`, and what they show.

A signature is a file of its own: that of `manifest.json` is `manifest.json.sig`. A manifest has the SHA-256 of every
file of its release, and a `publication.json` that of every file of a publication, so that signing these signs all of
them. Only Ed25519 keys are read. Whose key it is, a fingerprint does not say: compare it with the one that the office
publishes.

Source: the format is PROTOCOL.sshsig of OpenSSH, the keys and signatures within it RFC 8709.
"""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallyveil.errors import StoreError
from tallyveil.words.language import ENGLISH, Language, phrase

SUFFIX: Final = ".sig"
NAMESPACE: Final = "tallyveil"
"""What `ssh-keygen -n` must be given, so that a signature of something else is none of a release."""
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_MAGIC, _VERSION = b"SSHSIG", (1).to_bytes(4, "big")
_KIND: Final = b"ssh-ed25519"
_HASHES: Final = {b"sha512": hashlib.sha512, b"sha256": hashlib.sha256}
_MOST: Final = 1 << 16
"""Bytes of a signature file, at most. A signature has some hundred; more could only fill the memory."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What the signature beside a file shows.

    Attributes:
        fingerprint: Of the key, as `ssh-keygen -l` prints it; empty if there is no signature.
        fits: Whether it is one of this file by this key.
    """

    fingerprint: str = ""
    fits: bool = False

    def __str__(self) -> str:
        if self.fits:
            return f"signed by {self.fingerprint}"
        return "signature does not fit" if self.fingerprint else "unsigned"

    def sentence(self, name: str, when: str, language: Language = ENGLISH) -> str:
        """What pages say of it, which stay as they were.

        Args:
            name: Of the file that is signed.
            when: What happened then: `PAGE_DRAWN` or `SITE_MADE`.
            language: Of the page.
        """
        then = {"file": name, "when": language.say(when)}
        if self.fits:
            return language.say(
                "Signature of {file} when {when}: signed by {key}. Whose key it is, its fingerprint does not say.",
                key=self.fingerprint,
                **then,
            )
        if self.fingerprint:
            return language.say("Signature of {file} when {when}: signature does not fit.", **then)
        return language.say(
            "When {when}, nobody had signed the list of the published files ({file}).", **then
        )


PAGE_DRAWN: Final = phrase("this page was drawn")
SITE_MADE: Final = phrase("this site was made")


def signature_path(path: Path) -> Path:
    """Where the signature of a file lies."""
    return path.with_name(path.name + SUFFIX)


def signature_of(path: Path) -> Signature:
    """The signature beside a file.

    Args:
        path: The file.
    Raises:
        StoreError: the file, or its signature, cannot be read.
    """
    place = signature_path(path)
    try:
        if not place.exists():
            return Signature()
        # A pipe would be waited for, and a signature may lie where its file was.
        if not (place.is_file() and path.is_file()) or place.stat().st_size > _MOST:
            return Signature("unknown")
        text, content = place.read_text(encoding="ascii", errors="replace"), path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"{place} cannot be read: {type(error).__name__}.", code="release-unreadable"
        ) from None
    try:
        return _signature(text, content)
    except (ValueError, binascii.Error):
        return Signature("unknown")


def _signature(text: str, content: bytes) -> Signature:
    # Here: whoever reads a release without a signature does not wait for the library.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    body = text.strip()
    if not body.startswith(_BEGIN) or not body.endswith(_END):
        raise ValueError("no armour")
    blob = base64.b64decode("".join(body[len(_BEGIN) : -len(_END)].split()), validate=True)
    if not blob.startswith(_MAGIC + _VERSION):
        raise ValueError("another format")
    key, namespace, reserved, name, signature = _strings(blob[len(_MAGIC + _VERSION) :], 5)
    kind, public = _strings(key, 2)
    signed_with, raw = _strings(signature, 2)
    fingerprint = "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")
    if kind != _KIND or signed_with != _KIND or name not in _HASHES or namespace != NAMESPACE.encode():
        return Signature(fingerprint)
    # What is signed holds the digest of the file and its purpose, so that it fits nothing else.
    signed = _MAGIC + b"".join(map(_string, (namespace, reserved, name, _HASHES[name](content).digest())))
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(raw, signed)
    except InvalidSignature:
        return Signature(fingerprint)
    return Signature(fingerprint, fits=True)


def _string(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def _strings(blob: bytes, number: int) -> list[bytes]:
    """The texts of a blob, each after its length in 4 bytes; raises ValueError where their number is another."""
    texts = []
    for _ in range(number):
        if len(blob) < 4 or len(blob) - 4 < (length := int.from_bytes(blob[:4], "big")):
            raise ValueError("cut off")
        texts.append(blob[4 : 4 + length])
        blob = blob[4 + length :]
    if blob:
        raise ValueError("too long")
    return texts
