"""Signatures as `ssh-keygen -Y sign` makes them, by keys that follow from a number; and files that are none."""

import base64
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tallyveil.files.signatures import NAMESPACE, signature_path

MAGIC = b"SSHSIG"


def armoured(blob: bytes) -> str:
    code = base64.b64encode(blob).decode()
    lines = [code[start : start + 70] for start in range(0, len(code), 70)]
    return "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""])


def blob_of(
    content: bytes,
    key: int = 1,
    namespace: str = NAMESPACE,
    digest: str = "sha512",
    kind: str = "ssh-ed25519",
) -> tuple[str, bytes]:
    """The fingerprint of a key, and the bytes of its signature of a content."""
    secret = Ed25519PrivateKey.from_private_bytes(bytes([key] * 32))
    public = strings(kind.encode(), secret.public_key().public_bytes_raw())
    fingerprint = "SHA256:" + base64.b64encode(hashlib.sha256(public).digest()).decode().rstrip("=")
    purpose = (namespace.encode(), b"", digest.encode())
    raw = secret.sign(MAGIC + strings(*purpose, hashlib.new(digest, content).digest()))
    return fingerprint, MAGIC + bytes([0, 0, 0, 1]) + strings(public, *purpose, strings(kind.encode(), raw))


def strings(*texts: bytes) -> bytes:
    return b"".join(len(text).to_bytes(4, "big") + text for text in texts)


def sign(path: Path, key: int = 1) -> str:
    """Sign a file; the fingerprint of the key."""
    fingerprint, blob = blob_of(path.read_bytes(), key)
    signature_path(path).write_text(armoured(blob))
    return fingerprint


def misfits(content: bytes) -> dict[str, bytes]:
    """Contents of a signature file that do not fit, by what is wrong with them."""
    _, blob = blob_of(content)
    text = armoured(blob)
    others = {
        "of another content": blob_of(content + b" ")[1],
        "for another purpose": blob_of(content, namespace="file")[1],
        "of another kind of key": blob_of(content, kind="ssh-rsa")[1],
        "by a weaker digest": blob_of(content, digest="sha1")[1],
        "of nothing": b"",
        "with something after it": blob + b"x",
        **{f"cut off after {size} bytes": blob[:size] for size in (5, 9, 12, 40, len(blob) - 1)},
        **{
            f"another byte {place}": bytes([*blob[:place], blob[place] ^ 1, *blob[place + 1 :]])
            for place in range(0, len(blob), 11)
        },
    }
    return {
        **{name: armoured(other).encode() for name, other in others.items()},
        "empty": b"",
        "garbage": "ü\0".encode(),
        "no base64": text.replace("\n", "\n*", 1).encode(),
        "another armour": text.replace("SSH", "PGP").encode(),
        "a character too many": text.replace("\n-----END", "A\n-----END").encode(),
        "huge": text.encode() + b"\n" * (1 << 16),
    }


PLACES: dict[str, Callable[[Path], object]] = {"a folder": Path.mkdir, "a pipe": os.mkfifo}
"""What may lie in the place of a signature and is no file."""
