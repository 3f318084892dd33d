"""Kernels that split sums of noise by alias tables, with one look-up for each split.

Problem: a node holds n cells whose sum is t. Draw the sum s of its left part, which has probability
L(s) R(t - s) / W(t), where L, R and W are the laws of the sums of the left cells, of the right cells and of all.

A table has 2**k columns of equal mass, in units of 2**-(k + FRACTION_BITS). The two parts are about equal, so s is
likeliest around t / 2: outcome i > 0 means s = floor(t / 2) - 2**(k - 1) + i. Each such outcome gets slightly less
than its probability, a whole number of units that is proved to lie below it. Outcome 0 gets all that is left, and
means that the table does not decide. Outcomes are laid into columns exactly, in whole numbers: column c holds
outcome c below its threshold and one other outcome above it (Walker 1977, Vose 1991).

Worked case: two columns and two outcomes with 3/4 and 1/4 of the mass. Column 1 holds outcome 1 up to half its
height and outcome 0 above; column 0 holds outcome 0 alone.

Specifications: `tests.oracles.alias`.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Floats, Integers, Words
from tallyveil.kernels.compiled import njit

FRACTION_BITS = 39
"""Digits compared with a column's threshold; with at most 11 for the column, below the 53 of a float."""

SHORT = 1.0 - 2.0**-40
"""More than makes up for the errors of two factors, a divisor (2**-49 each) and three roundings."""


class AliasArrays(NamedTuple):
    """The tables of all inner nodes of a tree.

    Attributes:
        entries: All tables, one after the other.
        starts: [n_splits], table 0 of each inner node in `entries`; nodes of one size share theirs.
        reaches: [n_splits], the node's tables are of sums t = -reach .. reach.
        column_bits: [n_splits], k.
    """

    entries: Words
    starts: Integers
    reaches: Integers
    column_bits: Integers


@njit(nogil=True, cache=True)
def fill_alias(
    left: Floats,
    right: Floats,
    total: float,
    t: int,
    column_bits: int,
    ignored: int,
    table: Words,
) -> None:
    """Lay out the table of one node and one sum.

    Args:
        left: Probabilities of the left sum, -r .. r, each good to a relative 2**-49, or 0.
        right: Of the right sum.
        total: W(t), in the same way, above 0.
        t: Sum of the node.
        column_bits: k.
        ignored: Digits that masses are rounded down to, from below; 0 but for tests, which want undecided splits.
        table: Output, uint64 [2**k]: threshold, times 4096, plus the other outcome.
    """
    n = 1 << column_bits
    capacity = np.int64(1) << FRACTION_BITS
    mass = np.zeros(n, dtype=np.int64)
    reach, other = left.size // 2, right.size // 2
    rest = capacity << column_bits
    scale = 2.0 ** (column_bits + FRACTION_BITS) * SHORT / total
    for i in range(1, n):
        s = (t >> 1) - (n >> 1) + i
        if -reach <= s <= reach and -other <= t - s <= other:
            mass[i] = np.int64(left[s + reach] * right[t - s + other] * scale) >> ignored << ignored
            rest -= mass[i]
    mass[0] = rest
    waiting = np.empty(n, dtype=np.int64)  # short columns from the front, full ones from the back
    short, full = 0, n
    for i in range(n):
        if mass[i] < capacity:
            waiting[short] = i
            short += 1
        else:
            full -= 1
            waiting[full] = i
    while short > 0 and full < n:
        short -= 1
        low, high = waiting[short], waiting[full]
        table[low] = np.uint64(mass[low] << 12 | high)
        mass[high] -= capacity - mass[low]
        if mass[high] < capacity:
            full += 1
            waiting[short] = high
            short += 1
    for place in range(full, n):
        i = waiting[place]
        table[i] = np.uint64(capacity << 12 | i)


@njit(nogil=True, cache=True)
def split_by_alias(
    words: Words,
    tables: AliasArrays,
    lefts: Integers,
    rights: Integers,
    cells: Integers,
    out: Integers,
    open_draws: npt.NDArray[np.bool_],
) -> None:
    """Split sums of zero down a tree, for many draws.

    Args:
        words: uint64 [n_draws, n_splits], the uniform number of each split: digits of the column, then the fraction.
        tables: The tables.
        lefts: [n_splits], left part of each inner node: below n_splits an inner node, else n_splits + cell. Parents
            come before parts.
        rights: [n_splits].
        cells: [n_splits + 1], where in a row of `out` each cell goes.
        out: int64 [n_draws, at least n_splits + 1], changed at `cells`.
        open_draws: [n_draws], set where a split is not decided; the cells of that draw are then meaningless.
    """
    entries, starts, reaches, column_bits = tables
    # Indices are unsigned, which spares the compiled code a test for negative ones.
    n_splits, unit, word_bits = np.uint64(lefts.size), np.uint64(1), np.uint64(64)
    digits = np.uint64(FRACTION_BITS)
    below = (unit << digits) - unit
    sums = np.zeros(2 * lefts.size + 1, dtype=np.int64)
    for draw in range(words.shape[0]):
        decided = True
        node = np.uint64(0)
        while node < n_splits:
            t, bits = sums[node], np.uint64(column_bits[node])
            place = np.uint64(t + reaches[node])  # far above 2 reach where the sum lies below -reach
            if place > np.uint64(2 * reaches[node]):
                decided = False
                break
            word = words[draw, node]
            column = word >> (word_bits - bits)
            fraction = word >> (word_bits - digits - bits) & below
            entry = entries[np.uint64(starts[node]) + (place << bits) + column]
            outcome = column if fraction < entry >> np.uint64(12) else entry & np.uint64(4095)
            decided &= outcome != np.uint64(0)
            s = (t >> 1) - np.int64(unit << (bits - unit)) + np.int64(outcome)
            sums[np.uint64(lefts[node])] = s
            sums[np.uint64(rights[node])] = t - s
            node += unit
        open_draws[draw] = not decided
        for cell in range(cells.size):
            out[draw, cells[cell]] = sums[lefts.size + cell]
