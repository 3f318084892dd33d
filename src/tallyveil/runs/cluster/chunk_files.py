"""Results of chunks as files in a folder that all machines share.

A result is written to a temporary name, flushed, and renamed to a name that holds its own SHA-256. Then a record is
written beside it: the digest, and an HMAC-SHA256 over address, number and digest under a key that only the driver and
its worker processes have. A chunk is finished if its record and its file hold. So two worker processes may do the same
chunk, and a half-written or forged file is not used.
"""

import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from tallyveil.declared import Content
from tallyveil.errors import ClusterError, StoreError
from tallyveil.runs.cluster.failures import UnwrittenError
from tallyveil.storage.json_files import JsonObject, parsed
from tallyveil.storage.paths import inside
from tallyveil.storage.system import flush, open_new, set_mode
from tallyveil.storage.write import file_digest, store_error

_WAITS: Final = 0.05
"""Seconds between two looks at a file that a file system may still hide."""


class ChunkRecord(Content):
    """What stands beside the file of a finished chunk: its digest, and the code that authenticates it."""

    sha256: str
    mac: str


class ChunkFiles:
    """The files of finished chunks.

    Args:
        folder: Where they are. It is made if it is not there, for this user alone.
        key: Authenticates records, 32 bytes; the same whenever the run is resumed. Confidential.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder = folder
        self._key = key

    def finished(self, address: JsonObject, number: int) -> Path | None:
        """The file of a finished chunk; None if there is none, or if its record or its content does not hold."""
        name = _name(address, number)
        try:
            record = parsed(inside(self._folder, f"{name}.json").read_bytes(), ChunkRecord)
            if record is None or not self._is_authentic(address, number, record):
                return None
            # The file is read through its digest: a record that is authentic vouches only for these bytes.
            path = self._path(name, record.sha256)
            return path if file_digest(path) == record.sha256 else None
        except OSError:
            return None

    def keep(self, address: JsonObject, number: int, write: Callable[[Path], None]) -> str:
        """Write the result of a chunk.

        Args:
            address: Of the work.
            number: Of the chunk.
            write: Writes the result to a new file.
        Returns:
            The SHA-256 of the file, in hexadecimal.
        Raises:
            UnwrittenError: the disk is full, or the folder cannot be written to.
        """
        name = _name(address, number)
        # Random, because two worker processes may do the same chunk at the same time.
        temporary = inside(self._folder, f"{name}.{os.urandom(8).hex()}.partial")
        try:
            make_private(self._folder)
            # Made for this user alone before the writer opens it, which may use another mode.
            os.close(open_new(temporary, mode=0o600))
            write(temporary)
            digest = settle(temporary, lambda digest: self._path(name, digest))
            record = ChunkRecord(sha256=digest, mac=self._mac(address, number, digest))
            # The record comes last, under the same temporary name. A kill before it leaves a chunk that is done
            # again.
            temporary.write_bytes(json.dumps(record.model_dump()).encode())
            settle(temporary, lambda _: inside(self._folder, f"{name}.json"))
            flush(self._folder)
        except (OSError, StoreError) as error:
            with suppress(OSError):
                temporary.unlink()
            cause = error if isinstance(error, StoreError) else store_error(self._folder / name, error)
            raise UnwrittenError(cause) from error
        return digest

    def awaited(self, address: JsonObject, number: int, digest: str, *, seconds: float) -> Path:
        """The file of a chunk that another machine has just written.

        Args:
            address: Of the work.
            number: Of the chunk.
            digest: What the worker process said.
            seconds: How long a file system may take to show it.
        Raises:
            ClusterError: it does not appear.
        """
        path = self._path(_name(address, number), digest)
        # Monotonic, since the clock of this machine may be set while a file system is waited for.
        end = time.monotonic() + seconds
        while self.finished(address, number) != path:
            if time.monotonic() > end:
                raise ClusterError(
                    f"a worker process wrote the result of chunk {number} of {json.dumps(address)} to {self._folder}, "
                    f"but {seconds:g} seconds later this machine does not see it, or sees another content. Use a "
                    "folder of a file system that every machine of the cluster shares.",
                    code="cluster-folder",
                )
            time.sleep(_WAITS)
        return path

    def _is_authentic(self, address: JsonObject, number: int, record: ChunkRecord) -> bool:
        mac = self._mac(address, number, record.sha256)
        return hmac.compare_digest(mac.encode(), record.mac.encode())

    def _mac(self, address: JsonObject, number: int, digest: str) -> str:
        # The address and the number are authenticated with the digest, so no result can stand in for another chunk's.
        message = json.dumps(["chunk", address, number, digest], sort_keys=True, separators=(",", ":"))
        return hmac.new(self._key, message.encode(), hashlib.sha256).hexdigest()

    def _path(self, name: str, digest: str) -> Path:
        return inside(self._folder, f"{name}.{digest[:32]}")


def _name(address: JsonObject, number: int) -> str:
    """The name of a chunk's files; it does not depend on the order of the address's keys."""
    text = json.dumps([address, number], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def make_private(folder: Path) -> None:
    """Make a folder for this user alone, if it is not there. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def settle(temporary: Path, target: Callable[[str], Path]) -> str:
    """Close a file to other users, flush it, and rename it as its SHA-256 says, which is returned. Raises OSError."""
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        set_mode(descriptor, 0o600)
    finally:
        os.close(descriptor)
    # The digest is that of the bytes as they lie on disk, and the name is given only after they are flushed.
    digest = file_digest(temporary)
    flush(temporary)
    temporary.replace(target(digest))
    return digest
