"""What an unfinished programme keeps in its private folder: which releases it has begun, and on which inputs.

A finished release no longer shows which records it was made from. So the programme remembers it while it is unfinished:
releases that are made later must come from the records that were there when the programme began. The digests of the
records are kept as keyed hashes, with a key that is removed together with the file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from tallyveil.declared import Declared, Format1, Text, mapping_of
from tallyveil.errors import StoreError
from tallyveil.files.finished import PROGRAMME
from tallyveil.noise.key import KEY_BYTES, derive_key, new_run_key
from tallyveil.products.dhc.public.plan import PlannedRelease
from tallyveil.products.dhc.run.inputs import CheckedRelease
from tallyveil.runs.folder import RunFolder
from tallyveil.storage.json_files import parsed


def _key(text: object) -> bytes:
    key = bytes.fromhex(text) if isinstance(text, str) else b""
    if len(key) != KEY_BYTES:
        raise ValueError("wanted the 32 bytes of a key, as hexadecimal digits")
    return key


@dataclass(frozen=True, slots=True)
class Waiting(Declared):
    """A release that is not begun: the digest of its plan, and the keyed hash of its inputs."""

    plan: Text
    inputs: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgrammeState(Declared):
    """The content of the file.

    Attributes:
        key: 32 bytes from the operating system, for the hashes. Confidential.
        test_key: Keyed hash of the insecure test key; None for a programme whose releases have keys of their own.
        begun: Digest of the plan of each release that was begun, by its name. If its folder is still empty, it has
            spent nothing, and counts as not begun.
        waiting: The releases that had not been begun when the inputs were checked.
    """

    format: Format1 = 1
    key: Annotated[bytes, BeforeValidator(_key), PlainSerializer(bytes.hex)] = field(repr=False)
    test_key: Text | None
    begun: dict[str, Text]
    waiting: dict[str, Waiting] = field(repr=False)

    def hashed(self, digest: bytes) -> str:
        """Keyed hash of a confidential digest."""
        return derive_key(self.key, "programme", digest).hex()

    def with_waiting(self, releases: Mapping[str, tuple[PlannedRelease, CheckedRelease]]) -> "ProgrammeState":
        """The same with these releases waiting."""
        waiting = {
            name: Waiting(release.plan.digest().hex(), self.hashed(checked.digest))
            for name, (release, checked) in releases.items()
        }
        return replace(self, waiting=waiting)

    def with_begun(self, release: PlannedRelease) -> "ProgrammeState":
        """The same with one more release begun."""
        # Written before the release begins. Killed in between, its folder is empty, and it counts as not begun.
        return replace(self, begun={**self.begun, release.name: release.plan.digest().hex()})

    def write(self, folder: RunFolder) -> None:
        """Write the file; on return it is on disk. Raises StoreError."""
        folder.write(PROGRAMME, json.dumps(mapping_of(self), indent=2).encode())


def new_state(test_key: bytes | None, begun: Mapping[str, str]) -> ProgrammeState:
    """What a programme keeps that begins.

    Args:
        test_key: Key for tests, or None.
        begun: Releases that the folder holds from an earlier, shorter programme, with the digests of their plans.
    """
    state = ProgrammeState(key=new_run_key(), test_key=None, begun=dict(begun), waiting={})
    return state if test_key is None else replace(state, test_key=state.hashed(test_key))


def read_state(folder: RunFolder) -> ProgrammeState | None:
    """What an unfinished programme has kept; None where there is none.

    Raises:
        StoreError: the file is damaged.
    """
    data = folder.read(PROGRAMME)
    if data is None:
        return None
    state = parsed(data, ProgrammeState)
    if state is None:
        raise StoreError(
            f"{folder.private / PROGRAMME} is damaged, so it is not known which releases of the programme were begun, "
            "and on which records. Restore the file from a copy: a new folder would draw new noise, which is a new "
            "spend. The finished releases in the folder are whole, and each can be used by itself. Nothing was spent.",
            code="run-damaged",
        )
    return state


def require_same_key(state: ProgrammeState, test_key: bytes | None, where: str) -> None:
    """Refuse to go on with another key: some releases would be protected, and others would not.

    Raises:
        StoreError: the programme was begun with an insecure test key and goes on without it, or the other way round.
    """
    # Compared by its keyed hash: the file need not hold the key itself.
    given = None if test_key is None else state.hashed(test_key)
    if given != state.test_key:
        raise StoreError(
            f"the programme in {where} was begun {_with(state.test_key)}, and this command was given {_given(given)}. "
            "Its releases must be of one kind. Go on as it was begun, or choose another folder, which is a new spend.",
            code="resume-key",
        )


def _with(key: str | None) -> str:
    return "with keys from the operating system" if key is None else "with an insecure test key"


def _given(key: str | None) -> str:
    return "no test key" if key is None else "an insecure test key that is not the same"


def require_same_inputs(
    state: ProgrammeState, release: PlannedRelease, checked: CheckedRelease, where: str
) -> None:
    """Refuse to begin a release on other inputs than it was checked with when the programme began.

    A release whose plan has changed since may have others: it was never begun.

    Raises:
        StoreError: the inputs have changed.
    """
    waiting = state.waiting.get(release.name)
    # Nothing was spent for it, so its plan and its inputs may change together.
    if waiting is None or waiting.plan != release.plan.digest().hex():
        return
    if waiting.inputs != state.hashed(checked.digest):
        raise StoreError(
            f"release '{release.name}' of the programme in {where} had other records, bounds or another geography when "
            "the programme began. Releases that were made before would not be of the same people. Restore what it "
            "began with, or choose another folder, which is a new spend. Nothing was spent.",
            code="resume-changed",
        )
