"""A worker process: it opens the run once, then does one chunk after another and says the SHA-256 of each result.

Every method takes and returns text and numbers, and none raises: see `failures.answer`. Ray makes the object in a
process of its own. Libraries of numbers are imported only once the process is set to one thread.
"""

import json
import os
import socket
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tallyveil.errors import ClusterError
from tallyveil.runs.cluster.failures import answer
from tallyveil.storage.json_files import JsonObject
from tallyveil.version import VERSION

if TYPE_CHECKING:
    from tallyveil.runs.cluster.channel import WorkerEnd
    from tallyveil.runs.cluster.chunk_files import ChunkFiles
    from tallyveil.runs.executor import Workplace

ONE_THREAD: Final = (
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "POLARS_MAX_THREADS",
)
"""Variables that numba, the libraries of linear algebra and polars read when they are imported."""

COMPARED: Final = ("numpy", "numba", "polars")
"""Packages whose versions must be the same on every machine, beside Tallyveil and Python."""


class ClusterWorker:
    """What Ray makes one of in each worker process."""

    def __init__(self) -> None:
        # Before numpy, numba and polars are imported, for they read these once. One process is one processor for Ray.
        os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
        self._end: WorkerEnd | None = None
        self._site: tuple[Workplace, ChunkFiles] | None = None

    def hello(self, nonce: str, is_open: int) -> str:
        """Say what runs here and what the nonce file holds, and make the public key of the channel.

        Args:
            nonce: Path of a file that the driver has just written in the run's folder.
            is_open: 1 if the cluster demands no token, else 0.
        """
        return answer(lambda: self._hello(Path(nonce), bool(is_open)))

    def confirm(self, driver: str) -> str:
        """Prove to the driver with this public key that this process knows the cluster's token."""
        return answer(lambda: self._channel().confirmation(driver))

    def open(self, driver: str, sealed: str, opener: str, folder: str, description: str) -> str:
        """Open the run.

        Args:
            driver: Public key of the driver.
            sealed: The key of the files of results, then the secret of the run, sealed.
            opener: As in `Site`.
            folder: Of the files of results.
            description: As in `Site`, as JSON text.
        """
        return answer(lambda: self._open(driver, sealed, opener, Path(folder), json.loads(description)))

    def do(self, address: str, number: int) -> str:
        """Do a chunk, keep its result, and say its SHA-256 and the seconds that it took."""
        return answer(lambda: self._do(json.loads(address), number))

    def _hello(self, nonce: Path, is_open: bool) -> JsonObject:
        # Imported here and not above, so that the variables of `__init__` come first.
        from tallyveil.runs.cluster.channel import WorkerEnd, read_token

        self._end = WorkerEnd(None if is_open else read_token())
        return {
            **this_installation(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "nonce": _read(nonce),
            "public": self._end.public,
        }

    def _channel(self) -> "WorkerEnd":
        if self._end is None:
            raise ClusterError("a worker process was not greeted before it was used.", code="cluster-token")
        return self._end

    def _open(self, driver: str, sealed: str, opener: str, folder: Path, description: JsonObject) -> None:
        from tallyveil.noise.key import KEY_BYTES
        from tallyveil.runs.cluster.chunk_files import ChunkFiles
        from tallyveil.runs.executor import opener_of

        both = self._channel().opened(driver, sealed)
        # Fixed length in front: the first 32 bytes are the key of the files, all the rest is the run's secret.
        files_key, secret = both[:KEY_BYTES], both[KEY_BYTES:]
        self._site = opener_of(opener)(description, secret), ChunkFiles(folder, files_key)

    def _do(self, address: JsonObject, number: int) -> JsonObject:
        if self._site is None:
            raise ClusterError("a worker process was given a chunk before a run.", code="cluster-token")
        opened, files = self._site
        begun = time.perf_counter()
        # Opened by address here, as in the run's own process, so that no work and no counts travel through Ray.
        chunks = opened.chunks(address)
        result: Any = chunks.work(number)
        digest = files.keep(address, number, lambda path: chunks.write(number, result, path))
        return {"sha256": digest, "seconds": round(time.perf_counter() - begun, 6)}


def this_installation() -> dict[str, str]:
    """Versions that must be the same in the driver and in all worker processes, by name; "" for what is missing."""
    return {
        "Tallyveil": VERSION,
        "Python": ".".join(str(part) for part in sys.version_info[:3]),
        **{name: _installed(name) for name in COMPARED},
    }


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _read(nonce: Path) -> str:
    """The content of the nonce file; "" if this machine does not see it."""
    try:
        return nonce.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
