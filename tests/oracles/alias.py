"""Slow and obvious specifications of the kernels in `tallyveil.kernels.subspace.sums`."""

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Floats, Integers, Words
from tallyveil.kernels.subspace.sums import FRACTION_BITS, SHORT, AliasArrays


def fill_alias_reference(
    left: Floats,
    right: Floats,
    total: float,
    t: int,
    column_bits: int,
    ignored: int,
    table: Words,
) -> None:
    """Specification of `fill_alias`."""
    n, capacity = 1 << column_bits, 1 << FRACTION_BITS
    first = t // 2 - n // 2 + 1
    scale = 2.0 ** (column_bits + FRACTION_BITS) * SHORT / total

    def at(values: Floats, s: int) -> float:
        return float(values[s + values.size // 2]) if abs(s) <= values.size // 2 else 0.0

    mass = [0]
    mass += [
        int(at(left, s) * at(right, t - s) * scale) >> ignored << ignored for s in range(first, first + n - 1)
    ]
    mass[0] = n * capacity - sum(mass)
    short = [i for i in range(n) if mass[i] < capacity]
    full = [i for i in range(n) if mass[i] >= capacity]
    while short:
        low, high = short.pop(), full[-1]
        table[low] = mass[low] << 12 | high
        mass[high] -= capacity - mass[low]
        if mass[high] < capacity:
            full.pop()
            short.append(high)
    for i in full:
        table[i] = capacity << 12 | i


def split_by_alias_reference(
    words: Words,
    tables: AliasArrays,
    lefts: Integers,
    rights: Integers,
    cells: Integers,
    out: Integers,
    open_draws: npt.NDArray[np.bool_],
) -> None:
    """Specification of `split_by_alias`."""
    entries, starts, reaches, column_bits = tables
    n_splits = lefts.size
    for draw in range(words.shape[0]):
        sums = np.zeros(2 * n_splits + 1, dtype=np.int64)
        for node in range(n_splits):
            t, reach, bits = int(sums[node]), int(reaches[node]), int(column_bits[node])
            outcome = 0
            if abs(t) <= reach:
                digits = int(words[draw, node]) >> 64 - FRACTION_BITS - bits
                column, fraction = digits >> FRACTION_BITS, digits % (1 << FRACTION_BITS)
                threshold, alias = divmod(int(entries[starts[node] + ((t + reach) << bits) + column]), 4096)
                outcome = column if fraction < threshold else alias
            if outcome == 0:
                open_draws[draw] = True
                break
            s = t // 2 - 2 ** (bits - 1) + outcome
            sums[lefts[node]], sums[rights[node]] = s, t - s
        out[draw, cells] = sums[n_splits:]
