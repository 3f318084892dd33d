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
    # n columns; n is at most 2^11, and an entry of 64 bits holds a threshold of at most 40 digits above an outcome
    # of at most 12.
    n = 1 << column_bits
    # All masses together are capacity << column_bits, at most 2^50: no sum of them overflows an int64, and floats
    # below 2^53 hold whole numbers exactly.
    capacity = np.int64(1) << FRACTION_BITS
    mass = np.zeros(n, dtype=np.int64)
    reach, other = left.size // 2, right.size // 2
    rest = capacity << column_bits
    # A power of two times SHORT is exact, so that there are three roundings in all: this division and two products.
    scale = 2.0 ** (column_bits + FRACTION_BITS) * SHORT / total
    # Outcome 0 is left out: it takes the rest, and with it the mass of all s beyond the table.
    for i in range(1, n):
        # An arithmetic shift: floor(t / 2) also for negative t.
        s = (t >> 1) - (n >> 1) + i
        if -reach <= s <= reach and -other <= t - s <= other:
            # Rounded down: less than its probability, never more. What is lost goes to outcome 0, which is inverted
            # exactly.
            mass[i] = np.int64(left[s + reach] * right[t - s + other] * scale) >> ignored << ignored
            rest -= mass[i]
    # Not negative, as the other masses are proved to lie below their probabilities; the sum is then capacity * n
    # exactly.
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
    # As long as a column is short, some other has more than its capacity, since the mean of those left is the
    # capacity (step W5 of the proof). Linear time, in whole numbers.
    while short > 0 and full < n:
        short -= 1
        low, high = waiting[short], waiting[full]
        table[low] = np.uint64(mass[low] << 12 | high)
        # A full column gives at most what it has: at least mass[low] >= 0 stays.
        mass[high] -= capacity - mass[low]
        if mass[high] < capacity:
            full += 1
            waiting[short] = high
            short += 1
    # Exactly full: the outcome above the threshold is never reached.
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
    # Mixing signed and unsigned integers would give floats here, so every constant is an unsigned word.
    n_splits, unit, word_bits = np.uint64(lefts.size), np.uint64(1), np.uint64(64)
    digits = np.uint64(FRACTION_BITS)
    # The lowest 39 digits.
    below = (unit << digits) - unit
    sums = np.zeros(2 * lefts.size + 1, dtype=np.int64)
    for draw in range(words.shape[0]):
        decided = True
        node = np.uint64(0)
        # Parents come first, so the sum of a node is known when the node is reached. The root's is 0.
        while node < n_splits:
            t, bits = sums[node], np.uint64(column_bits[node])
            # One comparison for both ends.
            place = np.uint64(t + reaches[node])  # far above 2 reach where the sum lies below -reach
            if place > np.uint64(2 * reaches[node]):
                decided = False
                break
            # One word for each node whatever the sums are: the address of a split does not depend on what was drawn
            # before, so that an undecided draw can be made again from the same words.
            word = words[draw, node]
            # Digits of the column first and of the fraction next: together k + 39 of the 64, and no digit is used
            # twice.
            column = word >> (word_bits - bits)
            fraction = word >> (word_bits - digits - bits) & below
            entry = entries[np.uint64(starts[node]) + (place << bits) + column]
            outcome = column if fraction < entry >> np.uint64(12) else entry & np.uint64(4095)
            # Not left at once: what follows in a draw that is not decided is thrown away.
            decided &= outcome != np.uint64(0)
            # The inverse of the numbering in `fill_alias`.
            s = (t >> 1) - np.int64(unit << (bits - unit)) + np.int64(outcome)
            sums[np.uint64(lefts[node])] = s
            sums[np.uint64(rights[node])] = t - s
            node += unit
        # Also written where all is well, so that the array needs no clearing between chunks.
        open_draws[draw] = not decided
        for cell in range(cells.size):
            out[draw, cells[cell]] = sums[lefts.size + cell]
