"""One known answer, and what this machine gives for it."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """A known answer and the answer of this machine.

    Attributes:
        area: What is checked: cipher, hash, noise, accounting or release.
        name: What was computed.
        source: Where the known answer comes from.
        wanted: The known answer, as text.
        got: The answer of this machine, as text.
        same: Whether they agree.
    """

    area: str
    name: str
    source: str
    wanted: str
    got: str
    same: bool


def equal(area: str, name: str, source: str, wanted: str, got: str) -> KnownAnswer:
    """An answer that must be the known one to the last digit."""
    return KnownAnswer(area, name, source, wanted, got, wanted == got)


def digest(data: bytes) -> str:
    """The first 32 hexadecimal digits of the SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()[:32]
