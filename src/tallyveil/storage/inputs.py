"""What a path of an input names: a file of this machine, or an object in an object store (`addresses`).

Most inputs are files, and what objects need is imported where there is one.
"""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from tallyveil.storage.addresses import is_object


def is_input(path: Path, what: str) -> bool:
    """Whether there is such a file, or such an object.

    Args:
        path: A path or an address.
        what: As in `scan_table`.
    Raises:
        StoreError: the object store does not say.
    """
    if not is_object(path):
        return path.is_file()
    from tallyveil.storage.object_store import is_there

    return is_there(path, what)


def open_input(path: Path, what: str) -> AbstractContextManager[BinaryIO]:
    """Open a file or an object for reading; arguments as for `is_input`.

    Raises:
        OSError: the file cannot be opened.
        StoreError: the object cannot be read.
    """
    if not is_object(path):
        return path.open("rb")
    from tallyveil.storage.object_store import open_object

    return open_object(path, what)


def input_size(path: Path, what: str) -> int:
    """Number of bytes of a file or an object; arguments and errors as for `open_input`."""
    if not is_object(path):
        return path.stat().st_size
    from tallyveil.storage.object_store import identity

    return identity(path, what).size


def held(path: Path, what: str) -> AbstractContextManager[object]:
    """Hold an object to be the same before and after a block that reads it; arguments as for `is_input`.

    Raises:
        StoreError: it was replaced meanwhile (`input-changed`), or cannot be read.
    """
    if not is_object(path):
        return nullcontext()
    from tallyveil.storage.object_store import unchanged

    return unchanged(path, what)


def object_bytes(path: Path) -> bytes:
    """All bytes of an object that is text. It raises the errors of `open_input`, or that it is too large to hold."""
    from tallyveil.storage.object_store import whole_text

    return whole_text(path)


def object_settings() -> dict[str, Any]:
    """How polars opens objects."""
    from tallyveil.storage.object_store import polars_settings

    return polars_settings()
