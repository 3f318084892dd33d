"""Reads JSON files that somebody may have changed. Every kind of damage becomes an error that names the path."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from tallyveil.declared import MisfitError, validated
from tallyveil.errors import StoreError
from tallyveil.printable import short_name
from tallyveil.storage.text_files import read_text_file

Kind = TypeVar("Kind")

Json: TypeAlias = Any
"""A JSON value that its reader has held to a declaration, so that its parts are used without a check."""

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
        raise RepeatedKeyError
    return content


Shape: TypeAlias = "type | tuple[type, ...] | list[Any] | dict[str, Any] | Each | Perhaps | ByKind"
"""A type, several types, [shape of every item], {key: shape of its value}, `Each`, `Perhaps` or `ByKind`."""

TEXT_OR_NONE: Final = (str, type(None))
"""The shape of a text or null."""


@dataclass(frozen=True, slots=True)
class Each:
    """An object with any keys whose values all have the same shape."""

    shape: Any


@dataclass(frozen=True, slots=True)
class Perhaps:
    """The shape of the value of a key that may be absent."""

    shape: Any


@dataclass(frozen=True, slots=True)
class ByKind:
    """An object whose key `kind` says which of several shapes it has."""

    shapes: Mapping[str, Any]


def misfit(value: Any, shape: Any, place: str = "") -> str | None:
    """The first place, such as "sizes.persons", where a JSON value does not have a shape; None if there is none."""
    if isinstance(shape, ByKind):
        kind = value.get("kind") if isinstance(value, dict) else None
        found = shape.shapes.get(kind) if isinstance(kind, str) else None
        return place or "the whole" if found is None else misfit(value, found, place)
    if isinstance(shape, dict | Each):
        if not isinstance(value, dict):
            return place or "the whole"
        wanted = dict.fromkeys(value, shape.shape) if isinstance(shape, Each) else shape
        for key, inner in wanted.items():
            if key not in value and not isinstance(inner, Perhaps):
                return f"{place}.{key}".lstrip(".")
        parts = [
            (
                f"{place}.{key}".lstrip("."),
                value[key],
                inner.shape if isinstance(inner, Perhaps) else inner,
            )
            for key, inner in wanted.items()
            if key in value
        ]
    elif isinstance(shape, list):
        if not isinstance(value, list):
            return place or "the whole"
        parts = [(f"{place}[{number}]", item, shape[0]) for number, item in enumerate(value)]
    else:
        kinds = shape if isinstance(shape, tuple) else (shape,)
        return None if type(value) in kinds else place
    return next((found for at, item, inner in parts if (found := misfit(item, inner, at)) is not None), None)
