"""Cell keys, cell by cell as the ONS's package `cell-key-perturbation` 3.1.0 publishes them (PyPI, MIT).

A million cells with their record keys were given to `create_perturbed_table` with three perturbation tables. The
digests are of its counts in the order of the cells, as little-endian int64, with -1 where it shows none.
"""

import hashlib

import numpy as np
import pytest

from tallyveil.compare.methods.cell_key import ONS_REPEATS
from tallyveil.compare.methods.keyed import Perturbation

N_CELLS, N_KEYS, N_ROWS = 1_000_000, 256, 750


def by_key(count, key):
    return np.maximum((7 * count + 13 * key) % 7 - 3, -count)


def ten_five(count, key):
    """The table that comes with the package: counts below 10 are not shown, others are rounded to 5."""
    return np.where(count < 10, -count, np.array([0, -1, -2, 2, 1])[count % 5]) + 0 * key


@pytest.mark.parametrize(
    ("shift", "threshold", "digest"),
    [
        (by_key, 0, "3d22fc2b2d3e7e631a751760776df4d0317bec13164224b4571dd88c7233254f"),
        (by_key, 3, "21cfab4df57bccb88926e111946a62dcec9847c3e47edffdd5b689e2e091ee1f"),
        (ten_five, 10, "194a75dbe189354c5c5c4935123749d57d6718169331980390b87d11f5ba1e5f"),
    ],
)
def test_a_million_cells_are_published_as_by_the_ons(shift, threshold, digest):
    cell = np.arange(N_CELLS, dtype=np.int64)
    count = 1 + ((cell * 2654435761) % 2**32 >> 30)
    count[::5000] = 600 + cell[:200]  # counts beyond the 750 rows of a table use rows again
    record = np.arange(count.sum())
    record_key = ((record * 1103515245 + 12345) % 2**31 >> 8) & 255
    sums = np.add.reduceat(record_key, np.cumsum(count) - count)
    rows, keys = np.arange(N_ROWS + 1)[:, None], np.arange(N_KEYS)[None, :]
    shifts = np.where(rows == 0, 0, shift(rows, keys))
    published = Perturbation(shifts, ONS_REPEATS, threshold).changed(count, sums % N_KEYS)
    values = np.where(published.shown, published.counts, -1)
    assert hashlib.sha256(values.astype("<i8").tobytes()).hexdigest() == digest
