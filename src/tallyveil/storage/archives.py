"""An archive of arrays, a JSON record and files: what one process tells another of a piece of work.

It is a ZIP file without compression. `record.json` is the record, `arrays/NAME.npy` are the arrays, and `files/PATH`
are files that belong into a folder of the reader. Nothing in it is executed when it is read.
"""

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import StoreError
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.paths import inside
from tallyveil.storage.write import store_error, write_file

Value = TypeVar("Value")

_RECORD: Final = "record.json"
_ARRAYS: Final = "arrays/"
_FILES: Final = "files/"
_VALUE: Final = "value"
_ARRAY: Final = "array"
"""Keys of a value in the record, and of the number of an array in it."""
_AT_ONCE: Final = 1 << 22
"""Bytes that are copied at once."""
_ENCRYPTED: Final = 1
"""The bit of an entry's flags that says so."""
_DAMAGES: Final = (
    ValueError,
    KeyError,
    EOFError,
    NotImplementedError,  # the archive claims another version of ZIP
    RecursionError,  # the record is nested too deeply
    MemoryError,  # an array claims to be huge
    zipfile.BadZipFile,
)
"""What the libraries raise for an archive that was changed."""


class Archived(NamedTuple):
    """What an archive holds, besides files.

    Attributes:
        record: The record.
        arrays: The arrays by name. They are writeable, as those that were written: to a kernel, read-only arrays are
            of another type, for which it would be compiled anew.
    """

    record: JsonObject
    arrays: dict[str, NDArray[Any]]


def archived(value: object) -> Archived:
    """A value as an archive holds it: arrays by number, and all else as JSON.

    Args:
        value: A dataclass or named tuple, an enumeration's member, a tuple, list, dictionary or array of these, or what
            JSON has.
    """
    arrays: dict[str, NDArray[Any]] = {}

    def packed(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            arrays[str(len(arrays))] = part
            return {_ARRAY: str(len(arrays) - 1)}
        if is_dataclass(part):
            # Fields in their order, without names: both ends run the same version of the program.
            return [packed(getattr(part, each.name)) for each in fields(part)]
        if isinstance(part, dict):
            # A list of pairs, because keys in JSON can only be text.
            return [[packed(key), packed(inside)] for key, inside in part.items()]
        if isinstance(part, list | tuple):
            return [packed(inside) for inside in part]
        return part.value if isinstance(part, Enum) else part

    return Archived({_VALUE: packed(value)}, arrays)


def content_of(kind: type[Value], content: Archived) -> Value:
    """The value of a type, which may be a generic one such as `list[str]`, that `archived` has put into an archive."""

    def unpacked(wanted: Any, part: Any) -> Any:
        # Arrays are the only dictionaries in a record, because `archived` writes other dictionaries as lists.
        if isinstance(part, dict):
            return content.arrays[part[_ARRAY]]
        origin, inside = get_origin(wanted) or wanted, get_args(wanted)
        if is_dataclass(origin) or hasattr(origin, "_fields"):  # a dataclass, or a named tuple
            types = get_type_hints(origin).values()
            return origin(*(unpacked(each, value) for each, value in zip(types, part, strict=True)))
        if issubclass(origin, dict):
            key = inside[0]
            return origin({unpacked(key, name): unpacked(inside[-1], value) for name, value in part})
        if issubclass(origin, list) or inside[1:] == (...,):
            return origin(unpacked(inside[0], value) for value in part)
        if issubclass(origin, tuple):
            return tuple(unpacked(each, value) for each, value in zip(inside, part, strict=True))
        return origin(part) if issubclass(origin, Enum) else part

    value: Value = unpacked(kind, content.record[_VALUE])
    return value


def write_archive(
    path: Path,
    record: JsonObject,
    arrays: Mapping[str, NDArray[Any]],
    files: Path | None = None,
) -> None:
    """Write an archive.

    Args:
        path: The archive.
        record: The record.
        arrays: Arrays of numbers, by name.
        files: A folder whose files are put into the archive; None for no files.
    Raises:
        StoreError: the archive cannot be written, or a file cannot be read.
    """
    try:
        # Stored, not compressed: a reader refuses what could unpack to any size.
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_RECORD, json.dumps(record))
            for name, array in arrays.items():
                # A member of unknown size must allow more than 4 GiB from its beginning.
                with archive.open(f"{_ARRAYS}{name}.npy", "w", force_zip64=True) as stream:
                    # allow_pickle=False on both sides: a pickle could run code of whoever wrote the archive.
                    np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
            for file in () if files is None else sorted(files.rglob("*")):
                if file.is_file():
                    archive.write(file, _FILES + file.relative_to(files or file).as_posix())
    except OSError as error:
        raise store_error(path, error) from error


def read_archive(path: Path) -> Archived:
    """The record and the arrays of an archive.

    Raises:
        StoreError: it cannot be read, or is no archive that `write_archive` wrote.
    """
    with _opened(path) as archive:
        arrays = {}
        for name in archive.namelist():
            if name.startswith(_ARRAYS):
                array = np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
                arrays[name.removeprefix(_ARRAYS).removesuffix(".npy")] = array
        return Archived(json.loads(archive.read(_RECORD)), arrays)


def extract_files(path: Path, root: Path) -> None:
    """Write the files of an archive into a folder, each complete or absent.

    Raises:
        StoreError: the archive cannot be read, or a file cannot be written, or would lie outside the folder.
    """
    with _opened(path) as archive:
        for name in archive.namelist():
            if name.startswith(_FILES):
                # Names come from the archive and may lead out of the folder; `inside` refuses such.
                _extract(archive, name, inside(root, *name.removeprefix(_FILES).split("/")))


def _extract(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    def write(temporary: Path) -> None:
        with archive.open(name) as source, temporary.open("wb") as stream:
            while part := source.read(_AT_ONCE):
                stream.write(part)

    write_file(target, write)


def _is_plain(entry: zipfile.ZipInfo) -> bool:
    """Whether an entry is stored as `write_archive` stores it: neither compressed nor encrypted."""
    return entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & _ENCRYPTED


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            # Compression could hide a huge member behind a small one, and encryption would ask for a password.
            if not all(_is_plain(entry) for entry in archive.infolist()):
                raise zipfile.BadZipFile
            yield archive
    except OSError as error:
        raise store_error(path, error) from error
    except _DAMAGES as error:
        raise StoreError(
            f"{path} is damaged: it is not the archive that was written. Run the same command again.",
            code="run-damaged",
        ) from error
