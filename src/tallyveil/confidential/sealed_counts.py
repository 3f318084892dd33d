"""True counts in encrypted files, for processes of a run on other machines.

The counts of a geolevel are cut into slices of consecutive geounits. Where they are cut does not depend on the counts.
Each slice is a file, encrypted and authenticated with AES-256 in GCM under a key that only processes of the run have,
and that no file holds. The run's process makes a new key whenever it begins or resumes the run, so what a killed
process left behind cannot be read any more.

Layout of a slice before encryption: offsets from 0, one more than geounits; cells; counts; all int64, little endian.
The nonce is the number of the geolevel (4 bytes) and of the first geounit (8 bytes), which no other slice of the key
has. The authenticated data besides are the name of the run, the geolevel, and the first and last geounit.
"""

import json
import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tallyveil.arrays import Integers
from tallyveil.confidential.histogram import REDACTED, ConfidentialHistogram
from tallyveil.errors import StoreError
from tallyveil.geography.spine import Spine
from tallyveil.schema.counts import rows_between
from tallyveil.storage.paths import inside
from tallyveil.storage.system import open_new
from tallyveil.storage.write import store_error

# With twice as many, a process decrypts more that it never asks for; with half, there are twice as many files.
GEOUNITS: Final = 512
FINEST_GEOUNITS: Final = 8192
"""Geounits of a slice, and of one of the finest geolevel, whose geounits have fewer cells that are not zero."""

SLICES_KEPT: Final = 4
"""Slices that a process keeps decrypted; consecutive chunks mostly ask for the same ones."""


def write_sealed_counts(
    folder: Path, run: str, histograms: tuple[ConfidentialHistogram, ...], key: bytes
) -> None:
    """Write the counts of all geolevels.

    Args:
        folder: For the slices; it is made for this user alone.
        run: Public name of the run.
        histograms: The counts, root first. Confidential.
        key: A new key of 32 bytes, used for nothing else. Confidential.
    Raises:
        StoreError: a file cannot be written.
    Privacy: without the key, a file tells its size, and so how many cells of its geounits are not zero. The folder is
        open to this user alone.
    """
    cipher = AESGCM(key)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for level, truth in enumerate(histograms):
            for start, stop in _slices(truth.n_geounits, is_finest=level == len(histograms) - 1):
                # Consecutive geounits, cut by their number alone, so that sizes of slices follow no property of the
                # people.
                parts = rows_between(truth.offsets, truth.cells, truth.counts, start, stop)
                plain = b"".join(part.astype("<i8").tobytes() for part in parts)
                # The nonce is a counter that this key never sees twice, as GCM demands: every slice is written once a
                # key.
                sealed = cipher.encrypt(_nonce(level, start), plain, _bound(run, level, start, stop))
                _write(_path(folder, level, start), sealed)
    except OSError as error:
        raise store_error(folder / "counts", error) from error


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SealedCounts:
    """The counts that `write_sealed_counts` wrote; a slice is read when it is asked for.

    Attributes:
        folder: The folder of the slices.
        run: Public name of the run.
        key: The key. Confidential.
        spine: The hierarchy.

    Raises:
        StoreError: a slice is missing, or is not what the run wrote.
    """

    folder: Path
    run: str
    key: bytes
    spine: Spine
    _kept: "OrderedDict[tuple[int, int], tuple[Integers, Integers, Integers]]" = field(
        default_factory=OrderedDict
    )

    def __repr__(self) -> str:
        return f"SealedCounts(folder={str(self.folder)!r}, key={REDACTED})"

    def between(self, level: int, first: int, last: int) -> ConfidentialHistogram:
        """The counts of a geolevel, of which only geounits first to last - 1 may be asked for.

        Other geounits seem empty, so the caller must not use them.
        """
        n_geounits = self.spine.n_geounits(level)
        lengths = np.zeros(n_geounits, dtype=np.int64)
        cells, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for start, stop in _slices(n_geounits, is_finest=level == self.spine.finest):
            # Slices that overlap with first..last are read whole; all other geounits get length 0.
            if start < last and stop > first:
                offsets, own_cells, own_counts = self._slice(level, start, stop)
                lengths[start:stop] = np.diff(offsets)
                cells.append(own_cells)
                counts.append(own_counts)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        geolevel = self.spine.geolevels[level]
        return ConfidentialHistogram(geolevel, offsets, np.concatenate(cells), np.concatenate(counts))

    def _slice(self, level: int, start: int, stop: int) -> tuple[Integers, Integers, Integers]:
        slice_counts = self._kept.pop((level, start), None)
        # Least recently used: what is asked for goes to the end, what drops out is at the front.
        if slice_counts is None:
            slice_counts = self._read(level, start, stop)
        self._kept[level, start] = slice_counts
        if len(self._kept) > SLICES_KEPT:
            self._kept.popitem(last=False)
        return slice_counts

    def _read(self, level: int, start: int, stop: int) -> tuple[Integers, Integers, Integers]:
        path = _path(self.folder, level, start)
        bound = _bound(self.run, level, start, stop)
        try:
            plain = AESGCM(self.key).decrypt(_nonce(level, start), path.read_bytes(), bound)
        # A wrong key, another run, another slice and a changed byte all fail here alike; none of them is told apart.
        except (OSError, InvalidTag) as error:
            raise StoreError(
                f"{path} is missing, or is not what this run wrote. Run the same command again: it writes the file "
                "once more, and spends nothing.",
                code="run-damaged",
            ) from error
        # Offsets, cells and counts stand one after the other; their lengths follow from the number of geounits.
        numbers = np.frombuffer(plain, dtype="<i8").astype(np.int64)
        n_offsets = stop - start + 1
        n_entries = (len(numbers) - n_offsets) // 2
        return (
            numbers[:n_offsets],
            numbers[n_offsets : n_offsets + n_entries],
            numbers[n_offsets + n_entries :],
        )


def _slices(n_geounits: int, *, is_finest: bool) -> Iterator[tuple[int, int]]:
    size = FINEST_GEOUNITS if is_finest else GEOUNITS
    return ((start, min(start + size, n_geounits)) for start in range(0, n_geounits, size))


def _write(path: Path, data: bytes) -> None:
    """Write a file for this user alone, in place of an earlier one. Raises OSError."""
    # A new file and never an old one opened again: somebody could hold the old one open with another mode.
    path.unlink(missing_ok=True)
    with os.fdopen(open_new(path, mode=0o600), "wb") as stream:
        stream.write(data)


def _path(folder: Path, level: int, start: int) -> Path:
    return inside(folder, f"counts-{level}-{start}")


def _nonce(level: int, start: int) -> bytes:
    return level.to_bytes(4, "big") + start.to_bytes(8, "big")


def _bound(run: str, level: int, start: int, stop: int) -> bytes:
    return json.dumps(["tallyveil/sealed-counts/1", run, level, start, stop]).encode()
