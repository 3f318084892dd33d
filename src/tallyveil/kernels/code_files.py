"""Where compiled code of kernels is kept on disk, and the files in which it is kept.

Code is kept in the user's cache folder, or in the one that `NUMBA_CACHE_DIR` names, and never beside the installed
package: whoever removes the package would leave the code behind. Each module with kernels has a folder there, with one
for each digest of its sources and of the compiler. So several installations can share the cache. Within a folder, numba
tells processors and versions of Python apart.

numba writes a file for each compiled version of a kernel, and an index that names these files. Two processes that
compile at once can both give their first file the number 1. The index of one process then names the file of the other.
A disk can also be full, a home folder can be read-only, and after a power cut a file can be empty. None of this may
stop a command or give it wrong code. So code that cannot be read, or that belongs to another version, counts as missing
and is compiled in memory.
"""

import hashlib
import logging
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import caching

from tallyveil.errors import StoreError
from tallyveil.storage.system import user_cache

logger = logging.getLogger(__name__)

UNREADABLE = (
    OSError,
    EOFError,
    MemoryError,
    ValueError,  # among others, of text that is not UTF-8
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    ImportError,
    caching.pickle.UnpicklingError,  # type: ignore[attr-defined]
)
"""The exceptions that reading raises if a file is cut off, is empty, holds other bytes than were written, or may not be
read by this user. numba keeps pickles, which take other bytes for instructions. These fail in each of these ways."""

DAYS_KEPT = 30
"""Age in days from which code of other sources is removed when a module is compiled anew. An upgrade leaves 12 MB of
earlier code behind, and so does an edit of a source. With half as many days, an older version that is installed as well
would be compiled again more often; with twice as many, a developer's cache would grow to twice the size."""

_NumbaFiles: Any = caching.IndexDataCacheFile


def kernels_folder() -> Path:
    """The folder with the compiled code of all installations of this user."""
    given = numba.config.CACHE_DIR  # type: ignore[attr-defined]  # NUMBA_CACHE_DIR, or numba's own file of settings
    if given:
        return Path(given).absolute() / "tallyveil" / "kernels"
    return user_cache() / "tallyveil" / "kernels"


def kept_bytes() -> int:
    """The size of all compiled code that is kept, of all installations of this user."""
    return sum(path.stat().st_size for path in kernels_folder().rglob("*") if path.is_file())


def remove_kept() -> int:
    """Remove compiled code of all installations of this user. Running commands are not disturbed.

    Returns:
        How many bytes were removed.
    Raises:
        StoreError: A file cannot be removed.
    """
    folder, size = kernels_folder(), kept_bytes()
    try:
        if folder.is_dir():
            shutil.rmtree(folder)
    except OSError as error:
        raise StoreError(
            f"compiled code in {folder} cannot be removed ({error.strerror}). Remove this folder by hand, as a user "
            "who may do so and while no command of Tallyveil is running.",
            code="kernels-not-removed",
        ) from error
    with suppress(OSError):  # somebody else keeps something there
        folder.parent.rmdir()
    return size


class CodeFolder:
    """The folder of the kernels of one module. It takes the place of one of numba's locators."""

    def __init__(self, function: Callable[..., Any], sources: str) -> None:
        """Name the folder; it is made when code is kept.

        Args:
            function: A kernel of the module.
            sources: Digest of the sources that the code comes from.
        """
        versions = f"{sources} {numba.__version__} {llvmlite.__version__}"
        self._stamp = hashlib.sha256(versions.encode()).hexdigest()
        self._line = function.__code__.co_firstlineno
        # 80 bits of the digest, since paths are short on Windows. numba compares the whole one, which is in the index.
        self._folder = kernels_folder() / function.__module__ / self._stamp[:20]

    def get_cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """What the index of a kernel must have, or it is that of other code."""
        return self._stamp

    def get_disambiguator(self) -> str:
        """What tells kernels of one name in one module apart."""
        return str(self._line)

    def ensure_cache_path(self) -> None:
        """Nothing: numba asks for the folder before it saves, and `CodeFiles` makes it then."""

    def make(self) -> None:
        """Make the folder, and remove old code of other sources of the module.

        Raises:
            OSError: The folder cannot be made.
        """
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True, exist_ok=True)
            oldest = time.time() - DAYS_KEPT * 24 * 60 * 60
            for folder in self._folder.parent.iterdir():
                with suppress(FileNotFoundError):  # another process removes it, too
                    if folder.stat().st_mtime < oldest:
                        shutil.rmtree(folder, ignore_errors=True)


class CodeFiles(_NumbaFiles):  # type: ignore[misc]
    """numba's files, in which the key of each compiled version is kept beside its code."""

    def __init__(self, folder: CodeFolder, name: str) -> None:
        """Take the place of numba's files of a kernel.

        Args:
            folder: Where they are.
            name: What their names begin with.
        """
        super().__init__(folder.get_cache_path(), name, folder.get_source_stamp())
        self._folder = folder

    def save(self, key: Any, data: Any) -> None:
        """Keep a code, unless the disk does not take it."""
        try:
            self._folder.make()
            super().save(key, (key, data))
        except OSError as error:
            _say_not_kept(kernels_folder(), error.strerror)

    def load(self, key: Any) -> Any:
        """The code of a key; None if it is not kept."""
        kept = super().load(key)
        return kept[1] if kept is not None and kept[0] == key else None

    def codes(self) -> int:
        """How many codes are kept."""
        return sum(Path(self._data_path(name)).is_file() for name in self._load_index().values())

    def _load_index(self) -> dict[Any, str]:
        with suppress(*UNREADABLE):
            return dict(super()._load_index())
        return {}

    def _load_data(self, name: str) -> Any:
        with suppress(*UNREADABLE):
            return super()._load_data(name)
        return None


@cache  # once for a folder, not for each kernel
def _say_not_kept(folder: Path, why: str) -> None:
    logger.warning(
        "compiled code cannot be kept in %s (%s), so every command compiles it again. Set NUMBA_CACHE_DIR to a folder "
        "that can be written to, for every command",
        folder,
        why,
    )
