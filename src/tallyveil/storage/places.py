"""Where the files of a finished release can be: a folder, or the objects of an object store below an address."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from tallyveil.storage.addresses import is_object
from tallyveil.storage.object_store import object_names, open_object, put_object
from tallyveil.storage.paths import inside
from tallyveil.storage.write import write_file

PUBLISHED = "published"
"""What messages call a file of a release."""


class Place(Protocol):
    """Holds files by name; a name is a path with slashes, relative to the place.

    Its methods raise StoreError where a file cannot be read or written, and OSError where a file of a folder cannot be
    read.
    """

    def names(self) -> Mapping[str, int]:
        """Number of bytes of each file, by name."""
        ...

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for reading."""
        ...

    def put(self, name: str, content: BinaryIO) -> None:
        """Write a file, in the place of an earlier one."""
        ...


@dataclass(frozen=True, slots=True)
class FolderPlace:
    """A folder of this machine. Links and whatever else is no plain file are not among its names."""

    root: Path

    def names(self) -> Mapping[str, int]:
        """As `Place.names`."""
        paths = (Path(folder, name) for folder, _, names in os.walk(self.root) for name in names)
        files = (path for path in paths if path.is_file() and not path.is_symlink())
        return {path.relative_to(self.root).as_posix(): path.stat().st_size for path in files}

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """As `Place.open`."""
        return self._path(name).open("rb")

    def put(self, name: str, content: BinaryIO) -> None:
        """As `Place.put`; complete or absent."""

        def write(temporary: Path) -> None:
            with temporary.open("wb") as stream:
                shutil.copyfileobj(content, stream, 1 << 20)

        write_file(self._path(name), write)

    def _path(self, name: str) -> Path:
        return inside(self.root, *name.split("/"))


@dataclass(frozen=True, slots=True)
class StorePlace:
    """The objects below an address."""

    address: Path

    def names(self) -> Mapping[str, int]:
        """As `Place.names`."""
        return object_names(self.address)

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """As `Place.open`."""
        return open_object(self.address / name, PUBLISHED)

    def put(self, name: str, content: BinaryIO) -> None:
        """As `Place.put`. Where writing is interrupted, a part of the file may be there."""
        put_object(self.address / name, content, PUBLISHED)


def place_of(path: Path) -> Place:
    """The place of a path or an address."""
    return StorePlace(path) if is_object(path) else FolderPlace(path)


def digest_at(place: Place, name: str) -> str:
    """SHA-256 of a file, in hexadecimal, after reading all of it."""
    with place.open(name) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
