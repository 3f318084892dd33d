"""Slow and obvious specifications of the kernels in `tallyveil.kernels.subspace.sums`."""

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers, Words
from tallyveil.kernels.subspace.sums import LEAST_TOTAL, MARGIN, UNIT, FloatTables, TreeNodes


def split_sums_reference(
    words: Words,
    of_sums: FloatTables,
    nodes: TreeNodes,
    shift: np.uint64,
    sums: Integers,
    open_draws: npt.NDArray[np.bool_],
) -> None:
    """Specification of `split_sums`."""
    tables, centres, reaches = of_sums
    lefts, rights, sizes, kinds = nodes

    def probability(kind: int, s: int) -> float:
        return float(tables[centres[kind] + s]) if abs(s) <= reaches[kind] else 0.0

    width = 2.0 ** (max(int(shift), 11) - 64)
    splits = [node for node in range(lefts.size) if lefts[node] >= 0]
    for draw in range(words.shape[0]):
        for split, node in enumerate(splits):
            left, right, t = int(lefts[node]), int(rights[node]), int(sums[draw, node])
            total = probability(int(kinds[node]), t)
            digits = int(words[draw, split]) >> int(shift) << int(shift) >> 11
            uniform = digits * 2.0**-53
            c = (2 * t * int(sizes[left]) + int(sizes[node])) // (2 * int(sizes[node]))
            reach = int(reaches[kinds[left]]) + abs(c)
            cumulated, outcome, above = 0.0, c, False
            for i in range(2 * reach + 1):  # beyond, nothing is added any more
                step = (i + 1) // 2
                margin = MARGIN + step * UNIT
                outcome = c + step if i % 2 else c - step
                cumulated += probability(int(kinds[left]), outcome) * probability(
                    int(kinds[right]), t - outcome
                )
                if cumulated > (uniform - margin) * total:
                    above = cumulated >= (uniform + width + margin) * total
                    break
            if total < LEAST_TOTAL or not above:
                open_draws[draw] = True
                break
            sums[draw, left], sums[draw, right] = outcome, t - outcome
