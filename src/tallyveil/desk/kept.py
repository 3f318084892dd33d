"""The answers of a desk as they are kept in its folder: read, held to what may stand there, and written by one desk."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.desk.steps import Answers
from tallyveil.errors import ConfigError, StoreError
from tallyveil.exact import type_of
from tallyveil.printable import shown
from tallyveil.storage.json_files import read_json_object
from tallyveil.storage.outputs import LOCK_SUFFIX
from tallyveil.storage.system import remove_locked, take_lock
from tallyveil.storage.write import store_error, write_json

DRAFT_FILE: Final = "desk.json"
LOCK_FILE: Final = f".{DRAFT_FILE}{LOCK_SUFFIX}"
LEVELS: Final = "levels"
"""The cell of a table that holds all levels of an attribute."""
LONGEST_ANSWER: Final = 1_000
"""Characters of an answer: a path, a name, a number. Twice as many would be no name that a page or a file can show."""
LONGEST_LEVELS: Final = 100_000
"""Characters of the levels of an attribute: some thousands of them. More belong into a codebook."""
LONGEST_PART: Final = 255
"""Bytes of a part of a path, which is all that file systems take."""
_MEND: Final = "Move it away to begin a new draft."


@contextmanager
def held_folder(folder: Path) -> Iterator[None]:
    """Let no other desk keep answers in a folder until the block ends.

    Raises:
        StoreError: another desk is open in the folder, or it cannot be written to.
    """
    place = folder / LOCK_FILE
    try:
        lock = take_lock(place)
    except OSError as error:
        raise store_error(place, error) from error
    if lock is None:
        raise StoreError(
            f"another desk is open in {folder}, and answers of one of the two would be lost. Use that one, or end it "
            "first: Ctrl-C in its terminal.",
            code="folder-locked",
        )
    try:
        yield
    finally:
        remove_locked(place, lock)


def read_kept(folder: Path, steps: Mapping[str, str]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The answers of each step, and the digest of each file that the desk wrote last; both empty for a new desk.

    Args:
        folder: The folder of the desk.
        steps: The steps that there are.
    Raises:
        StoreError: there is no such folder, it is that of a release, or what is kept cannot be read.
    """
    if not folder.is_dir():
        raise StoreError(
            f"{folder} is no folder. Name the folder of the records, in which the desk writes.",
            code="input-missing",
        )
    if (folder / LEDGER).exists():
        raise StoreError(
            f"{folder} is the folder of a release, in which nothing may be written. Name that of the records.",
            code="folder-taken",
        )
    path = folder / DRAFT_FILE
    if not path.exists():
        return {}, {}
    content = read_json_object(path, _MEND)
    answers, written = content.get("answers"), content.get("written")
    kept = answers if isinstance(answers, dict) else {}
    return (
        {name: dict(step) for name, step in kept.items() if name in steps and isinstance(step, dict)},
        {name: str(digest) for name, digest in written.items()} if isinstance(written, dict) else {},
    )


def write_kept(folder: Path, answers: Mapping[str, Any], written: Mapping[str, str]) -> None:
    """Write what `read_kept` reads; raises StoreError."""
    write_json(folder / DRAFT_FILE, {"format": 1, "answers": answers, "written": written})


def refuse_answers(answers: Answers) -> None:
    """Refuse answers that could not be kept, shown or used as a path: nothing of them is noted.

    Raises:
        ConfigError: something is no text, is too long, or holds a character that no page and no file can show.
    """
    for key, value in answers.items():
        for name, text in _texts(str(key), value):
            _refuse_text(name, text)


def _texts(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Every text of an answer, with the key that it stands under."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield name, key
            yield from _texts(key if key == LEVELS else name, item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(name, item)
    else:
        yield name, value


def _refuse_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise _refused(name, f"is {type_of(text)}, wanted text")
    most = LONGEST_LEVELS if name == LEVELS else LONGEST_ANSWER
    if len(text) > most:
        more = " Put long lists of levels into a codebook." if name == LEVELS else ""
        raise _refused(name, f"has {len(text):,} characters, wanted at most {most:,}.{more}")
    # A tab stands between columns, and is the whole of that answer.
    if text != "\t" and ("\n" in text or "\t" in text or shown(text) != text):
        raise _refused(name, "holds a line break or a character that cannot be shown. Type it again")
    if any(len(part.encode("utf-8")) > LONGEST_PART for part in text.split("/")) and name in (
        "file",
        "codebook",
    ):
        raise _refused(name, f"names a file with more than {LONGEST_PART} bytes in a part of its path")


def _refused(name: str, why: str) -> ConfigError:
    return ConfigError(
        f"the answer to {shown(name)[:LONGEST_PART]!r} {why.rstrip('.')}. Nothing was noted.",
        code="bad-argument",
    )
