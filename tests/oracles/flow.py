"""Slow and obvious specifications of the kernels in `tallyveil.kernels.rounding.flow`."""

import numpy as np

from tallyveil.arrays import Bools, Int32s, Integers
from tallyveil.kernels.rounding.network_simplex import ONE, Bounds, Entries


def round_by_flow_reference(
    labels: Int32s,
    stage: Integers,
    nearest: Bools,
    bounds: Bounds,
    entries: Entries,
    parent_counts: Integers,
) -> tuple[bool, list[int]]:
    """Oracle of `round_by_flow`: every rounding in turn; for families of a few entries.

    Returns:
        Whether some rounding satisfies everything, and the least deviations by stage, in units of 2^-20.
    """
    n = entries.cell.size
    child = np.repeat(np.arange(entries.start.size - 1), np.diff(entries.start))
    choices = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    persons = entries.floor + choices
    good = np.ones(2**n, dtype=np.bool_)
    if parent_counts.size:
        for i, count in enumerate(parent_counts):
            good &= persons[:, entries.cell == i].sum(axis=1) == count
    gaps = np.zeros((2**n, nearest.size), dtype=np.int64)
    for q, own in enumerate(labels):
        unit = bounds.groups if bounds.shared[q] else np.arange(entries.start.size - 1)
        width = max(int(own.max(initial=-1)) + 1, int(bounds.offset[q + 1] - bounds.offset[q]))
        for c, k in np.ndindex(int(unit.max(initial=-1)) + 1, width):
            inside = (unit[child] == c) & (own[entries.cell] == k)
            if stage[q] >= 0:
                target = int(entries.part[inside].sum())
                goal = round(target / ONE) * ONE if nearest[stage[q]] else target
                gaps[:, stage[q]] += np.abs(choices[:, inside].sum(axis=1) * ONE - goal)
            elif bounds.offset[q] + k < bounds.offset[q + 1]:
                column = bounds.offset[q] + k
                sums = persons[:, inside].sum(axis=1)
                good &= (sums >= bounds.lower[c, column]) & (sums <= bounds.upper[c, column])
    found: list[tuple[int, ...]] = sorted(tuple(int(gap) for gap in row) for row in gaps[good])
    return bool(found), list(found[0]) if found else []
