"""Reads JSON files that somebody may have changed. Every kind of damage becomes an error that names the path."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from tallyveil.errors import StoreError
from tallyveil.printable import short_name
from tallyveil.storage.text_files import read_text_file

Shape: TypeAlias = "type | tuple[type, ...] | list[Any] | dict[str, Any] | Each | Perhaps | ByKind"
"""A type, several types, [shape of every item], {key: shape of its value}, `Each`, `Perhaps` or `ByKind`."""

TEXT_OR_NONE: Final = (str, type(None))
"""The shape of a text or null."""

Json: TypeAlias = Any
"""A JSON value whose shape its reader has checked (`read_shaped`), so that its parts are used without a check."""

JsonObject: TypeAlias = dict[str, Json]
"""The same, of an object."""


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


class RepeatedKeyError(ValueError):
    """A JSON object has the same key twice, so that different readers may take different values."""


def read_json_object(path: Path, mend: str) -> JsonObject:
    """The JSON object of a file.

    Args:
        path: The file.
        mend: A sentence that tells the user what to do if the file is damaged.
    Raises:
        StoreError: the file cannot be read, is not JSON, is nested too deeply, has a repeated key, or contains a value
            other than an object.
    """
    content = read_json(path, mend)
    if not isinstance(content, dict):
        raise StoreError(f"{path} holds no JSON object. {mend}", code="release-unreadable")
    return content


def read_json(path: Path, mend: str) -> Any:
    """The JSON value of a file. It raises the errors of `read_json_object`, except for values of other kinds."""
    try:
        return json.loads(read_text_file(path), object_pairs_hook=_without_repeats)
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(
            f"{path} cannot be read: {type(error).__name__}. {mend}", code="release-unreadable"
        ) from None


def read_shaped(path: Path, shape: Any, mend: str) -> Any:
    """The JSON value of a file, which must have a given shape.

    Raises:
        StoreError: see `read_json`; or a part of the value is missing or has another type.
    """
    value = read_json(path, mend)
    if (place := misfit(value, shape)) is not None:
        raise damaged(path, place, mend)
    return value


def damaged(path: Path, place: str, mend: str) -> StoreError:
    """The error for a file whose content at one place is not what was written."""
    return StoreError(
        f"{path} is damaged: '{short_name(place)}' is missing or is not what the run wrote. {mend}",
        code="release-damaged",
    )


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


def digest_of(mapping: Mapping[str, Any]) -> bytes:
    """SHA-256 of a mapping as JSON. The order of keys matters, because it numbers queries and answers."""
    text = json.dumps(mapping, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).digest()


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RepeatedKeyError
    return found
