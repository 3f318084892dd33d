"""Small text files: reads text and JSON that somebody may have changed, and writes tables of TOML.

Every kind of damage of a JSON file becomes an error that names the path. `digest_of` is the digest of plans,
manifests and keys. Only `parsed`, for files that may be cut off, gives None for damage.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from tallyveil.declared import MisfitError, validated
from tallyveil.errors import StoreError
from tallyveil.printable import short_name

MOST_BYTES = 1 << 28
"""Size limit of a file that is read as one text. The largest, the manifest of a national release, has a few MiB."""


def read_text_file(path: Path) -> str:
    """The text of a UTF-8 file, without the byte-order mark that some editors put in front.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a regular file (reading a device might never end), is larger than `MOST_BYTES`, or is not
            UTF-8.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is no regular file")
    if path.stat().st_size > MOST_BYTES:
        raise ValueError("it is larger than any such file")
    return path.read_text(encoding="utf-8-sig")


Kind = TypeVar("Kind")

Json: TypeAlias = Any
"""A JSON value. Its parts are used without a check only where a reader held it to a declaration (`held`,
`read_declared`)."""

JsonObject: TypeAlias = dict[str, Json]
"""The same, of an object."""


class RepeatedKeyError(ValueError):
    """A JSON object has the same key twice, so that different readers may take different values."""


def read_json(path: Path, mend: str) -> Json:
    """The JSON value of a file.

    Args:
        path: The file.
        mend: A sentence that tells the user what to do if the file is damaged.
    Raises:
        StoreError: the file cannot be read, is not JSON, is nested too deeply, or has a repeated key.
    """
    try:
        return json_of(read_text_file(path))
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(
            f"{path} cannot be read: {type(error).__name__}. {mend}", code="release-unreadable"
        ) from None


def read_json_object(path: Path, mend: str) -> JsonObject:
    """The JSON object of a file. It raises the errors of `read_json`, and refuses values of other kinds."""
    content = read_json(path, mend)
    if not isinstance(content, dict):
        raise StoreError(f"{path} holds no JSON object. {mend}", code="release-unreadable")
    return content


def read_declared(path: Path, kind: type[Kind], mend: str) -> tuple[Json, Kind]:
    """The JSON value of a file, as it stands and as its declaration reads it.

    Raises:
        StoreError: see `read_json`; or the value does not fit the declaration.
    """
    value = read_json(path, mend)
    return value, held(path, value, kind, mend)


def held(path: Path, value: Json, kind: type[Kind], mend: str) -> Kind:
    """What a file holds, as its declaration reads it.

    Args:
        path: The file.
        value: Its content.
        kind: The declaration.
        mend: A sentence that tells the user what to do if the file is damaged.
    Raises:
        StoreError: the value does not fit the declaration.
    """
    try:
        return validated(kind, value)
    except MisfitError as error:
        raise damaged(path, error.place, mend, error.wanted) from None


def parsed(data: bytes | str | None, kind: type[Kind]) -> Kind | None:
    """What a text of JSON declares; None where it is damaged, or where there is none.

    Args:
        data: The text.
        kind: The declaration.
    """
    try:
        return None if data is None else validated(kind, json_of(data))
    except (ValueError, RecursionError):  # MisfitError is a ValueError, too
        return None


def json_of(data: bytes | str) -> Json:
    """The value of a text of JSON.

    Raises:
        ValueError, RecursionError: it is no JSON, or an object in it has the same key twice.
    """
    return json.loads(data, object_pairs_hook=_without_repeats)


def damaged(path: Path, place: str, mend: str, wanted: str = "") -> StoreError:
    """The error for a file whose content at one place is not what was written."""
    why = f": {wanted}" if wanted else ""
    return StoreError(
        f"{path} is damaged: '{short_name(place)}' is missing or is not what the run wrote{why}. {mend}",
        code="release-damaged",
    )


def digest_of(mapping: Mapping[str, Any]) -> bytes:
    """SHA-256 of a mapping as JSON. The order of keys matters, because it numbers queries and answers."""
    text = json.dumps(mapping, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).digest()


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Python would keep the last of two values, other readers the first, so that a digest would not say which was meant.
    content = dict(pairs)
    if len(content) < len(pairs):
        raise RepeatedKeyError("an object has the same key twice")
    return content


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_table(name: str, entries: Mapping[str, Any]) -> str:
    """A table with a heading and a line for each entry.

    Args:
        name: The heading, such as "strategy.geolevels". Its parts are written with `toml_key`.
        entries: Texts, whole numbers, truth values, and lists of these.
    """
    return "\n".join([f"[{name}]", *toml_lines(entries)])


def toml_lines(entries: Mapping[str, Any]) -> list[str]:
    """A line for each entry."""
    return [f"{toml_key(key)} = {toml_value(value)}" for key, value in entries.items()]


def toml_key(name: str) -> str:
    """A key, quoted where it has other characters than letters, digits, hyphens and underscores."""
    return name if _BARE_KEY.fullmatch(name) else toml_value(name)


def toml_value(value: Any) -> str:
    """A value, which TOML writes as JSON does, except for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
