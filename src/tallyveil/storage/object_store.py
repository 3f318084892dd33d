"""Objects in an object store that speaks the protocol of Amazon S3: pyarrow asks for them and writes them.

Polars reads Parquet itself (`tallyveil.storage.read`), with the same settings. All settings and credentials
come from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, AWS_REGION or
AWS_DEFAULT_REGION, and AWS_ENDPOINT_URL for a store that is not Amazon's. Both libraries take the credentials
from there by themselves, so that this program never holds them. No message quotes what a library says, which
may hold more than it should.

The files of a finished release can be in a folder, or be the objects below an address (`Place`).
"""

import hashlib
import io
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from tallyveil.errors import StoreError
from tallyveil.storage.addresses import address_of, object_name, replaced
from tallyveil.storage.paths import inside
from tallyveil.storage.write import write_file

MOST_TEXT: Final = 1 << 32
"""Largest number of bytes of an object that is read as text."""
_PIECE: Final = 1 << 20
"""Number of bytes that are copied at once."""
_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINT: Final = re.compile(r"https?://(\[[0-9a-f:]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?/*", re.IGNORECASE)
_ALLOW_HTTP: Final = "AWS_ALLOW_HTTP"
_THIS_MACHINE: Final = ("localhost", "127.0.0.1", "[::1]")
_DEFAULT_REGION: Final = "us-east-1"
# Seconds until a connection must be made. At half, a slow way to the store fails; at twice, a wrong address takes
# longer to report.
_CONNECT_SECONDS: Final = 10.0
# Seconds until a request must be answered, of which a large piece needs some.
_REQUEST_SECONDS: Final = 60.0
# How often a request is tried, with waits that the library chooses. One would fail at the first hiccup.
_ATTEMPTS: Final = 3
_REASON: Final = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))? during \w+ operation")
"""What pyarrow says of a request that failed."""
_DENIED: Final = {
    "ACCESS_DENIED",
    "EXPIRED_TOKEN",
    "INVALID_ACCESS_KEY_ID",
    "INVALID_CLIENT_TOKEN_ID",
    "INVALID_SIGNATURE",
    "MISSING_AUTHENTICATION_TOKEN",
    "SIGNATURE_DOES_NOT_MATCH",
    "UNRECOGNIZED_CLIENT",
    "401",
    "403",
}
_NO_BUCKET: Final = {"NO_SUCH_BUCKET"}


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells an object from one that has taken its place: its size, and its tag or the time of its last change."""

    size: int
    tag: str


def polars_settings() -> dict[str, Any]:
    """Arguments with which polars opens an object as pyarrow does. They hold no credentials."""
    # Before anything else, because polars would otherwise look for credentials in files and on the network.
    _require_credentials()
    endpoint = _first(_ENDPOINTS)
    options = {"aws_region": _first(_REGIONS) or _DEFAULT_REGION}
    if endpoint:
        options["aws_endpoint_url"] = _endpoint(endpoint)
        options["aws_allow_http"] = str(not endpoint.lower().startswith("https:")).lower()
    # Without a provider, polars takes the credentials from the environment, and from nowhere else.
    return {"storage_options": options, "credential_provider": None}


def is_there(path: Path, what: str) -> bool:
    """Whether there is such an object; arguments and errors as for `identity`."""
    with _speaking(path, what):
        return bool(_filesystem().get_file_info(object_name(path)).is_file)


def identity(path: Path, what: str) -> Identity:
    """What an object is now; asked without reading it.

    Args:
        path: Its address.
        what: Its role, for messages.
    Raises:
        StoreError: it is not there, or the store does not let it be read.
    """
    with _speaking(path, what), _filesystem().open_input_file(object_name(path)) as opened:
        stated = opened.metadata() or {}
        # Some stores give no tag. The time of the last change is coarser, but changes as well.
        tag = stated.get("ETag") or stated.get("Last-Modified") or b""
        return Identity(int(opened.size()), tag.decode("latin-1"))


@contextmanager
def unchanged(path: Path, what: str) -> Iterator[Identity]:
    """Hold an object to be the same before and after it is read.

    Args:
        path, what: As for `identity`.
    Yields:
        What the object is.
    Raises:
        StoreError: it is another one, or cannot be read.
    """
    before = identity(path, what)
    # After the reading: what was read in between is of one object, or nothing of it is used.
    yield before
    if identity(path, what) != before:
        raise replaced(path, what)


def whole_text(path: Path) -> bytes:
    """All bytes of a text object, as they were at one moment.

    Raises:
        StoreError: it cannot be read, is replaced meanwhile, or is larger than `MOST_TEXT`.
    """
    with unchanged(path, "text") as stream:
        if stream.size > MOST_TEXT:
            raise StoreError(
                f"{address_of(path)} is larger than {MOST_TEXT >> 30} GiB, and text in an object store is read "
                "into memory as a whole. Store it as Parquet, which is read piece by piece, or copy it to a disk.",
                code="object-store",
            )
        with open_object(path, "text") as opened:
            return opened.read()


@contextmanager
def open_object(path: Path, what: str) -> Iterator[BinaryIO]:
    """Open an object for reading from its beginning.

    Raises:
        StoreError: it cannot be read.
    """
    with _speaking(path, what), _filesystem().open_input_stream(object_name(path)) as opened:
        yield io.BufferedReader(opened, _PIECE)


def put_object(path: Path, content: BinaryIO, what: str) -> None:
    """Write an object. If the content cannot be read to its end, a part of it may be there under its name.

    Args:
        path: Its address.
        content: What it will hold.
        what: As in `identity`.
    Raises:
        StoreError: the store does not let it be written.
    """
    with _speaking(path, what), _filesystem().open_output_stream(object_name(path)) as stream:
        shutil.copyfileobj(content, stream, _PIECE)


def object_names(path: Path) -> dict[str, int]:
    """Number of bytes of each object below an address, by what its key has after it and a slash; raises StoreError."""
    # The file system first: it says how to install pyarrow where it is missing.
    top, store = object_name(path), _filesystem()
    from pyarrow.fs import (
        FileSelector,
    )  # here, since the line above says what to do where it is not installed

    with _speaking(path, "published"):
        entries = store.get_file_info(FileSelector(top, recursive=True, allow_not_found=True))
    return {entry.path[len(top) + 1 :]: int(entry.size) for entry in entries if entry.is_file}


@contextmanager
def _speaking(path: Path, what: str) -> Iterator[None]:
    """Turn what the library raises into one error that says what to do."""
    try:
        yield
    except FileNotFoundError:
        raise StoreError(
            f"the {what} file {address_of(path)} does not exist, or its bucket does not. Correct the address.",
            code="input-missing",
        ) from None
    except OSError as error:
        # Without its cause: the library's text may hold the credentials' name or a part of the content.
        raise _failed(path, what, str(error)) from None


def _failed(path: Path, what: str, text: str) -> StoreError:
    said = {word for reason in _REASON.findall(text) for word in reason}
    # From the words that the library quotes; its sentences change with versions.
    if said & _NO_BUCKET:
        return StoreError(
            f"the bucket of the {what} file {address_of(path)} does not exist. Correct the address, or make it.",
            code="input-missing",
        )
    if said & _DENIED:
        return StoreError(
            f"the object store does not give access to the {what} file {address_of(path)}. Some stores also answer so "
            f"where there is no such object. Check the address, the credentials in the environment "
            f"({', '.join(_KEYS)}, and AWS_SESSION_TOKEN if they are temporary), and what they allow.",
            code="object-denied",
        )
    return StoreError(
        f"the object store did not answer a request for the {what} file {address_of(path)}. Check that the machine can "
        f"reach it, {' or '.join(_ENDPOINTS)} if the store is not Amazon's, and {_REGIONS[0]}. Then give the command "
        "again.",
        code="object-store",
    )


def _filesystem() -> Any:
    _require_credentials()
    endpoint = _first(_ENDPOINTS)
    region = _first(_REGIONS) or _DEFAULT_REGION
    # The id of the key is an argument of the cache, so that another user's connection is never used.
    return _opened(_endpoint(endpoint) if endpoint else None, region, os.environ[_KEYS[0]])


@lru_cache(maxsize=1)
def _opened(endpoint: str | None, region: str, key_id: str) -> Any:
    """The file system of a store, kept so that its connections are used again; `key_id` says whose it is."""
    try:
        from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem
    except ImportError:
        raise StoreError(
            "addresses such as s3://bucket/key need the package pyarrow. Install it with `pip install "
            "'tallyveil[object-stores]'`.",
            code="object-store",
        ) from None
    return S3FileSystem(
        region=region,
        endpoint_override=endpoint,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        # Writes in the foreground fail where they happen, and not when a later line closes the stream.
        background_writes=False,
    )


def _require_credentials() -> None:
    """Refuse to look for credentials elsewhere than in the environment; raises StoreError."""
    missing = [name for name in _KEYS if not os.environ.get(name)]
    if missing:
        raise StoreError(
            f"an address in an object store needs credentials, and the environment has no {' and no '.join(missing)}. "
            "Set these variables, and AWS_SESSION_TOKEN if the credentials are temporary. They are read from nowhere "
            "else.",
            code="object-denied",
        )


def _endpoint(text: str) -> str:
    """The address of a store that is not Amazon's; raises StoreError where it holds more than that, or has no TLS."""
    # The whole text must fit: a user name or a path before or after the host would hold more than an address.
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise StoreError(
            f"{' or '.join(_ENDPOINTS)} is not the address of an object store. Wanted https://HOST or "
            "https://HOST:PORT, without a user name, a password, a path or a query. It is not shown, because it may "
            "hold a secret.",
            code="bad-address",
        )
    is_open = text.lower().startswith("http:") and os.environ.get(_ALLOW_HTTP, "").lower() != "true"
    # On this machine nobody listens in between, as in tests against a local store.
    if is_open and match[1].lower() not in _THIS_MACHINE:
        raise StoreError(
            f"{' or '.join(_ENDPOINTS)} begins with http://, so everybody on the way to the object store could read "
            f"what is confidential. Wanted https://. If the way is protected otherwise, set {_ALLOW_HTTP} to true.",
            code="bad-address",
        )
    return text.rstrip("/")


def _first(names: tuple[str, ...]) -> str:
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


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


def digest_at(place: Place, name: str) -> str:
    """SHA-256 of a file, in hexadecimal, after reading all of it."""
    with place.open(name) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
