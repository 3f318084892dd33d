"""Reading JSON files that somebody may have changed: every kind of damage becomes an error with a path."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tallyveil.errors import StoreError
from tallyveil.storage.text_files import read_text_file

Shape: TypeAlias = "type | tuple[type, ...] | list[Any] | dict[str, Any] | Each"
"""A type; several types; [the shape of every item]; {key: the shape of its value}; or `Each`."""


Json: TypeAlias = Any
"""A JSON value whose shape its reader has checked (`read_shaped`), so that its parts are used without a check."""

JsonObject: TypeAlias = dict[str, Json]
"""The same, of an object."""


@dataclass(frozen=True, slots=True)
class Each:
    """An object of any keys, all of whose values have one shape."""

    shape: Any


class RepeatedKeyError(ValueError):
    """A JSON object has a key twice, so that readers may differ on what it says."""


def read_json_object(path: Path, mend: str) -> JsonObject:
    """The JSON object of a file.

    Args:
        path: The file.
        mend: A sentence that says what to do if the file is damaged.
    Raises:
        StoreError: the file cannot be read, is no JSON, is nested too deeply, has a key twice, or holds another
            value than an object.
    """
    content = read_json(path, mend)
    if not isinstance(content, dict):
        raise StoreError(f"{path} holds no JSON object. {mend}", code="release-unreadable")
    return content


def read_json(path: Path, mend: str) -> Any:
    """The JSON value of a file; raises as `read_json_object` does."""
    try:
        return json.loads(read_text_file(path), object_pairs_hook=_without_repeats)
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(
            f"{path} cannot be read: {type(error).__name__}. {mend}", code="release-unreadable"
        ) from None


def read_shaped(path: Path, shape: Any, mend: str) -> Any:
    """The JSON value of a file, which must have a shape.

    Raises:
        StoreError: as `read_json`; or a part of it is missing or of another type.
    """
    value = read_json(path, mend)
    if (place := misfit(value, shape)) is not None:
        raise damaged(path, place, mend)
    return value


def damaged(path: Path, place: str, mend: str) -> StoreError:
    """The error of a file whose content at one place is not what was written."""
    return StoreError(
        f"{path} is damaged: '{place}' is missing or is not what the run wrote. {mend}",
        code="release-damaged",
    )


def misfit(value: Any, shape: Any, place: str = "") -> str | None:
    """The first place, such as "sizes.persons", where a JSON value does not have a shape; None where it has."""
    if isinstance(shape, dict | Each):
        if not isinstance(value, dict):
            return place or "the whole"
        wanted = dict.fromkeys(value, shape.shape) if isinstance(shape, Each) else shape
        parts = [(f"{place}.{key}".lstrip("."), value.get(key), inner) for key, inner in wanted.items()]
    elif isinstance(shape, list):
        if not isinstance(value, list):
            return place or "the whole"
        parts = [(f"{place}[{number}]", item, shape[0]) for number, item in enumerate(value)]
    else:
        kinds = shape if isinstance(shape, tuple) else (shape,)
        return None if type(value) in kinds else place
    return next((found for at, item, inner in parts if (found := misfit(item, inner, at)) is not None), None)


def digest_of(mapping: Mapping[str, Any]) -> bytes:
    """SHA-256 of a mapping as JSON; the order of keys counts, for it numbers queries and answers."""
    text = json.dumps(mapping, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).digest()


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RepeatedKeyError
    return found
