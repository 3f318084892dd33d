"""The files in which compiled code of a kernel is kept on disk.

numba writes a file for each compiled version of a kernel, and an index that names these files. Two processes that
compile at once can both give their first file the number 1. The index of one process then names the file of the other.
A disk can also be full, and after a power cut a file can be empty. None of this may stop a command or give it wrong
code. So code that cannot be read, or that belongs to another version, counts as missing and is compiled in memory.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core import caching

UNREADABLE = (OSError, EOFError, caching.pickle.UnpicklingError)  # type: ignore[attr-defined]
"""The exceptions that reading raises if a file is cut off, is empty, or may not be read by this user."""

_NumbaFiles: Any = caching.IndexDataCacheFile


class CodeFiles(_NumbaFiles):  # type: ignore[misc]
    """numba's files, in which the key of each compiled version is kept beside its code."""

    def __init__(self, files: Any, sources: str) -> None:
        """Take the place of numba's files of a kernel.

        Args:
            files: Those of numba.
            sources: Digest of the sources that the code comes from. Code of other sources is ignored.
        """
        super().__init__(files._cache_path, files._index_name.removesuffix(".nbi"), files._source_stamp)
        self._version = f"{files._version} {sources}"

    def save(self, key: Any, data: Any) -> None:
        """Keep a code, unless the disk does not take it."""
        with suppress(OSError):
            super().save(key, (key, data))

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
