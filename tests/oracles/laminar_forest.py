"""Slow and obvious specifications of the kernels in `tallyveil.kernels.rounding.flow`."""

import numpy as np

from tallyveil.arrays import Int32s


def laminar_forest_reference(labels: Int32s) -> tuple[bool, set[frozenset[int]]]:
    """Oracle of `laminar_forest`: whether all sets are nested or disjoint, and the sets."""
    sets = {
        frozenset(np.flatnonzero(one == k).tolist())
        for one in labels
        for k in range(int(one.max(initial=-1)) + 1)
    } - {frozenset()}
    return all(not a & b or a <= b or b <= a for a in sets for b in sets), sets
