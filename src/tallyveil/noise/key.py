"""Keys of 32 bytes: random ones, ones derived from a key and digests, and insecure ones for tests."""

import hashlib
import hmac
import os
from typing import Final

from tallyveil.errors import ConfigError
from tallyveil.printable import has_bytes

# Bytes of a key: that of AES-256, and of SHA-256's digest, so that a derived key needs no cutting or stretching.
KEY_BYTES: Final = 32
NOISE_LAW: Final = 1
"""Version of the map from key and address to noise. Increase it with every change of that map.
A run is never continued under another version."""

_DERIVE_LABEL: Final = b"tallyveil/derive-key/1"
_INSECURE_LABEL: Final = b"tallyveil/insecure-key/1"


def require_key(key: bytes, name: str) -> None:
    """Refuse anything that is not 32 bytes. The message does not show the key.

    Raises:
        ConfigError: the type or the length is wrong.
    """
    # Only `bytes`: a bytearray could be changed after a source was made from it.
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        length = f"of {len(key)} bytes" if isinstance(key, bytes) else "that is not bytes"
        raise ConfigError(
            f"{name}: got a {type(key).__name__} {length}, wanted {KEY_BYTES} bytes. Make one with new_run_key(), or "
            "read the key that the run was started with."
        )


def new_run_key() -> bytes:
    """32 random bytes from the operating system. Confidential."""
    # From the system at each call: a generator in this process would be copied by a fork, and give two runs one
    # key.
    return os.urandom(KEY_BYTES)


def derive_key(run_key: bytes, purpose: str, *digests: bytes) -> bytes:
    """A key for one purpose, bound to digests (of the input, of the plan) by HMAC-SHA256.

    Each part of the message is preceded by its length in bytes (8 bytes, little endian), so different lists of parts
    are different messages. Changed data or a changed plan therefore gives an unrelated key and unrelated noise.

    Args:
        run_key: 32 bytes. Confidential.
        purpose: Short name of the key's purpose, such as "measure".
        digests: Digests that the key is bound to. Their order matters.
    Returns:
        32 bytes. Confidential.
    Raises:
        ConfigError: run_key is not 32 bytes, or the purpose is empty.
    """
    require_key(run_key, "derive_key: run_key")
    if not purpose:
        raise ConfigError("derive_key: purpose is empty, wanted a short name such as 'measure'.")
    # The lengths make the list of parts unambiguous: without them ("ab", "c") and ("a", "bc") were one message.
    message = _DERIVE_LABEL + b"".join(
        len(part).to_bytes(8, "little") + part for part in (purpose.encode(), *digests)
    )
    return hmac.new(run_key, message, hashlib.sha256).digest()


def insecure_key(text: str) -> bytes:
    """A key that anyone can compute from `text`, for tests and examples only.

    Raises:
        ConfigError: it is no text, or a text with bytes that are no UTF-8. The message does not show it.
    Privacy: none. Noise from this key protects nobody. Mark every output that uses it.
    """
    if not isinstance(text, str) or has_bytes(text):
        kind = (
            "text with bytes that are no UTF-8" if isinstance(text, str) else f"of type {type(text).__name__}"
        )
        raise ConfigError(f"the text of a test key is {kind}, wanted text.", code="bad-argument")
    # A label of its own, so that no test key can equal a key that was derived for a release.
    return hashlib.sha256(_INSECURE_LABEL + text.encode()).digest()
