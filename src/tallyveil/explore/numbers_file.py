"""A file of arrays of numbers, which a page reads without a library: one array after the other, little-endian.

The page makes typed arrays of the file's bytes as they are. So every array begins at a multiple of eight bytes, and has
one of four types.
"""

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from tallyveil.arrays import Floats, Numbers
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import store_error

_ALIGNMENT: Final = 8
_WHOLE: Final = (("u1", 1 << 8), ("u2", 1 << 16), ("u4", 1 << 32))
"""Types of whole numbers, and the limit of each."""


class NumbersFile:
    """Arrays that will be written into one file."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._entries: JsonObject = {}

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._size

    @property
    def entries(self) -> JsonObject:
        """For each array its type, the byte at which it begins, and the number of its numbers."""
        return dict(self._entries)

    def add_whole(self, name: str, numbers: ArrayLike) -> str:
        """Add whole numbers of at least 0, in the smallest type that holds them. Returns the name."""
        values = np.asarray(numbers, dtype=np.int64).ravel()
        kind = next(kind for kind, limit in _WHOLE if values.max(initial=0) < limit)
        return self._add(name, kind, values)

    def add_floats(self, name: str, numbers: Floats) -> str:
        """Add floats. Returns the name."""
        return self._add(name, "f8", numbers.ravel())

    def _add(self, name: str, kind: str, values: Numbers) -> str:
        content = np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()
        self._entries[name] = [kind, self._size, len(values)]
        content += bytes(-len(content) % _ALIGNMENT)
        self._pieces.append(content)
        self._size += len(content)
        return name

    def write(self, path: Path) -> None:
        """Write the file.

        Raises:
            StoreError: it cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.writelines(self._pieces)
        except OSError as error:
            raise store_error(path, error) from error
