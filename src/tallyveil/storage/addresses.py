"""Addresses of objects in an object store, such as `s3://bucket/2030/records.parquet`, and of files, `file:///data/a.csv`.

Wherever an input is a path, it may be an address. A path holds it as its parts: `Path("s3://bucket/key")` has the parts
`s3:`, `bucket` and `key`. `located` makes the path of an address or of a file, and `is_object` tells them apart. A key
is taken as it is written: `%20`, `*` and `[1]` mean themselves.

An address with a user name or a password is refused, and not shown. Credentials come from the environment alone.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from tallyveil.declared import Name
from tallyveil.errors import ConfigError, StoreError
from tallyveil.printable import shown

OBJECTS: Final = "s3:"
"""First part of the path of an object."""
FILES: Final = "file:"
_WITH_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
# Bytes of a key, which S3 allows at most. More would fail at the store; half would refuse keys that it has.
_LONGEST_KEY: Final = 1024
# Parts of a path with an object: the scheme, the bucket, and one part of the key at least.
_PARTS: Final = 3
_WANTED_FILE: Final = (
    "wanted file:///PATH with three slashes, of a file of this machine; write # and ? as %23 and %3F"
)


def located(folder: Path, text: str) -> Path:
    """The path of an input that a file names: an address, or a path that starts from the folder of that file.

    Args:
        folder: Folder of the file that names the input.
        text: What it names.
    Raises:
        ConfigError: it is an address that cannot be used.
    """
    return addressed(text) if _WITH_SCHEME.match(text) else folder / text


class _FromFolder:
    """Reads the text of a path as `located` does, from the folder in which the file that names it lies."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def path_of(text: str, info: ValidationInfo) -> Path:
            if info.context is None:
                raise ValueError("what was written of a declaration names no path")
            return located(info.context, text)

        return core_schema.with_info_after_validator_function(path_of, handler.generate_schema(Name))


InputPath = Annotated[Path, _FromFolder()]
"""An input that a file names. The folder of that file is the context in which it is read."""


def addressed(text: str) -> Path:
    """The path of an address, or of a path that somebody has typed.

    Raises:
        ConfigError: it has a scheme, and is no address of an object or of a file of this machine.
    """
    scheme = _WITH_SCHEME.match(text)
    if scheme is None:
        return Path(text)
    # Schemes do not depend on case, and `S3://` would otherwise be read as a path.
    kind = scheme[1].lower() + ":"
    rest = text[scheme.end() :]
    # What stands before an @ may be a password, so that such an address is refused and never shown.
    if "@" in rest.split("/", 1)[0] or (kind == OBJECTS and not _BUCKET.fullmatch(rest.split("/", 1)[0])):
        raise _refused(
            "its first part is no name of a bucket or of a machine. It may hold a user name or a password, so the "
            "address is not shown. Name the bucket alone"
        )
    if kind == OBJECTS:
        _require_key(rest)
        # pathlib makes one slash of two; `object_name` and `address_of` put them back.
        return Path(f"{OBJECTS}//{rest}")
    if kind == FILES:
        return _file(text)
    raise _refused(f"{scheme[1]}:// is not among the schemes that are known: s3:// and file://")


def is_object(path: Path) -> bool:
    """Whether a path is the address of an object in an object store."""
    return path.parts[:1] == (OBJECTS,)


def address_of(path: Path) -> str:
    """The address of an object, as people and polars write it."""
    return f"{OBJECTS}//{object_name(path)}"


def shown_path(path: Path) -> str:
    """A path or an address as people write it."""
    return address_of(path) if is_object(path) else str(path)


def replaced(path: Path, what: str) -> StoreError:
    """The error if an input was replaced while it was read."""
    return StoreError(
        f"the {what} file {shown_path(path)} was replaced while it was read, so that a part of it may be old and a "
        "part new. Nothing of it is used. Give the command again once nobody writes it.",
        code="input-changed",
    )


def refuse_object(path: Path) -> None:
    """Refuse an address where files are written: a run needs locks, and names that change at once, which stores lack.

    Raises:
        ConfigError: the path is the address of an object.
    """
    if is_object(path):
        raise ConfigError(
            f"{address_of(path)} is in an object store, and files are written to a folder of this machine: an object "
            "store has no locks, and a run must not lose its key or its ledger. Write to a folder, then copy the "
            "finished release with `tallyveil copy FOLDER s3://BUCKET/NAME`.",
            code="bad-address",
        )


def object_name(path: Path) -> str:
    """Bucket and key of an object, with a slash between them.

    Raises:
        ConfigError: the path is no address of an object.
    """
    name = "/".join(path.parts[1:])
    if len(path.parts) < _PARTS or not _BUCKET.fullmatch(path.parts[1]):
        raise _refused("wanted s3://BUCKET/KEY with the name of a bucket and of an object in it")
    _require_key(name)
    return name


def _require_key(name: str) -> None:
    """Refuse a key that a path cannot hold, or that polars does not take; raises ConfigError."""
    bucket, _, key = name.partition("/")
    parts = key.rstrip("/").split("/") if key else []
    # pathlib drops empty parts and ".", so that another object would be read than the one that was named.
    wrong = {"", ".", ".."} & set(parts)
    if wrong or shown(key) != key or "\n" in key or "\t" in key:
        raise _refused(
            f"the key of an object in the bucket {bucket} has an empty part, a part `.` or `..`, or a character that "
            "cannot be printed. Give the object another key"
        )
    # Bytes and not characters are what the store limits.
    if len(key.encode("utf-8", "surrogatepass")) > _LONGEST_KEY:
        raise _refused(f"its key has more than {_LONGEST_KEY} bytes")


def _file(text: str) -> Path:
    """The path of a `file://` address, whose escapes such as `%20` are undone as in any browser."""
    try:
        split = urlsplit(text)
    except ValueError:  # such as a bracket that is not closed, where the name of a machine is expected
        raise _refused(_WANTED_FILE) from None
    # A file of another machine would be opened over the network, which nobody asked for.
    here = split.netloc in ("", "localhost") and split.path.startswith("/")
    if not here or split.query or split.fragment:
        raise _refused(_WANTED_FILE)
    from urllib.request import url2pathname  # brings HTTP along, which few addresses need

    path = url2pathname(split.path)
    if "\0" in path:
        raise _refused("no path holds the character %00")
    return Path(path)


def _refused(why: str) -> ConfigError:
    return ConfigError(f"an address cannot be used: {why}.", code="bad-address")
