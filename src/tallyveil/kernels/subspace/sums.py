"""Kernels that split sums of noise down a tree of cells: by a uniform number, and by alias tables.

Problem: a node holds n cells whose sum is t. Draw the sum s of its left part, which has probability
L(s) R(t - s) / W(t), where L, R and W are the laws of the sums of the left cells, of the right cells and of
all.

*By a uniform number.* Candidates are visited outward from the likeliest, c, c + 1, c - 1, c + 2, ..., until
their probabilities add up to more than the number. Floats are compared with a margin that covers every
rounding error, so a decision is right or is not made. A draw with an undecided comparison is reported, and is
made again in whole numbers. Worked case: candidates c, c + 1 and c - 1 have probabilities 0.5, 0.25 and 0.25.
The uniform number 0.6 lies between 0.5 and 0.75, so s = c + 1.

*By alias tables*, with one look-up for each split. A table has 2**k columns of equal mass, in units of 2**-(k
+ FRACTION_BITS). The two parts are about equal, so s is likeliest around t / 2: outcome i > 0 means s =
floor(t / 2) - 2**(k - 1) + i. Each such outcome gets slightly less than its probability, a whole number of
units that is proved to lie below it. Outcome 0 gets all that is left, and means that the table does not
decide. Outcomes are laid into columns exactly, in whole numbers: column c holds outcome c below its threshold
and one other outcome above it (Walker 1977, Vose 1991). Worked case: two columns and two outcomes with 3/4
and 1/4 of the mass. Column 1 holds outcome 1 up to half its height and outcome 0 above; column 0 holds
outcome 0 alone.

Specifications: `tests.oracles.sums` and `tests.oracles.alias`.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Floats, Integers, Words
from tallyveil.kernels.compiled import njit

MARGIN = 2.0**-46
"""Relative to the probability of the node's sum: covers the errors of the tables, below 2**-47.4."""

UNIT = 2.0**-51
"""Added to the margin for every step: covers the rounding of its two sums, and of taking it away."""

MOST_STEPS = 1 << 22
"""Candidates on each side after which a draw is left open. It only bounds the time: the probabilities of so many
candidates have added up to nearly all before."""

LEAST_TOTAL = 2.0**-64
"""Probability of a node's sum below which the draw is left open: the floats of its table may then have too few
digits for the margin."""


class FloatTables(NamedTuple):
    """Tables of several sums as floats.

    Attributes:
        values: All tables one after the other. Each is symmetric around its centre.
        centres: [n_tables], position of s = 0 in each table.
        reaches: [n_tables], largest s that each table holds.
    """

    values: Floats
    centres: Integers
    reaches: Integers


class TreeNodes(NamedTuple):
    """The nodes of a tree; parents come before their parts.

    Attributes:
        lefts: [n_nodes], left part of each node, -1 for a single cell (or row).
        rights: [n_nodes], right part.
        sizes: [n_nodes], cells (or rows).
        kinds: [n_nodes], table of each node.
    """

    lefts: Integers
    rights: Integers
    sizes: Integers
    kinds: Integers


@njit(nogil=True, cache=True)
def split_sums(
    words: Words,
    of_sums: FloatTables,
    nodes: TreeNodes,
    shift: np.uint64,
    sums: Integers,
    open_draws: npt.NDArray[np.bool_],
) -> None:
    """Split the sums at the root of a tree, for many draws.

    Args:
        words: uint64 [n_draws, n_splits], the uniform number of each split, in the order of nodes.
        of_sums: Probabilities of sums.
        nodes: The tree.
        shift: Digits of every word to ignore, from below, at most 63; 0 but for tests.
        sums: int64 [n_draws, n_nodes], the roots' sums given, the others filled in.
        open_draws: [n_draws], set where a decision stays open; the sums of that draw are then incomplete.
    """
    tables, centres, reaches = of_sums
    lefts, rights, sizes, kinds = nodes
    n_nodes = lefts.size
    # The word's first 53 bits as a float: a uniform number is known to lie in an interval of this width. Tests
    # ignore more bits and so widen it.
    width = np.float64(2.0**-53)
    if shift > np.uint64(11):
        width = 2.0 ** (np.float64(shift) - 64.0)
    for draw in range(words.shape[0]):
        split = 0
        for node in range(n_nodes):
            left = lefts[node]
            # A single cell, or row: its sum is its value.
            if left < 0:
                continue
            right = rights[node]
            t = sums[draw, node]
            here, there = kinds[left], kinds[right]
            # Indices of L(s) and R(t - s), s = 0, and the range of s that both tables hold.
            # R(t - s) is read backwards: R is symmetric, so index centre + t - s may be written as centre - (s -
            # t).
            at_left, at_right = centres[here], centres[there] + t
            # Outside it one of the factors is 0 in the tables, though not in truth; the margin is for errors
            # inside, and draws that would need more stay open.
            least = max(-reaches[here], t - reaches[there])
            most = min(reaches[here], t + reaches[there])
            # W(t) from its own table, and not the sum over candidates, which is never formed.
            total = 0.0
            if -reaches[kinds[node]] <= t <= reaches[kinds[node]]:
                total = tables[centres[kinds[node]] + t]
            # One word for each split whatever happens, so that the exact way can read the same digits.
            word = (words[draw, split] >> shift) << shift
            split += 1
            # Relative errors of the table are proved only above this.
            if total < LEAST_TOTAL:
                open_draws[draw] = True
                break
            # The least value of the uniform number, lowered by the margin: nothing is accepted too early.
            low = (np.float64(word >> np.uint64(11)) * 2.0**-53 - MARGIN) * total
            unit = UNIT * total
            # the likeliest: the share of the left cells in the sum, rounded
            # Floor division of whole numbers rounds the half up, for negative t too. Only speed depends on the
            # start; the order of visits is part of the draw and must stay.
            c = (2 * t * sizes[left] + sizes[node]) // (2 * sizes[node])
            cumulated = 0.0
            outcome = c
            if least <= c <= most:
                cumulated = tables[at_left + c] * tables[at_right - c]
            step = 0
            # Both sides in turn, outward: the order in which a uniform number is cut up. Any order has the right
            # law; this one ends soonest.
            while cumulated <= low and step < MOST_STEPS:
                step += 1
                # The margin grows by a unit for each step, since each adds two roundings.
                low -= unit
                outcome = c + step
                if least <= outcome <= most:
                    cumulated += tables[at_left + outcome] * tables[at_right - outcome]
                if cumulated > low:
                    break
                # The right one first, always.
                outcome = c - step
                if least <= outcome <= most:
                    cumulated += tables[at_left + outcome] * tables[at_right - outcome]
            # Certain only if the whole interval of the uniform number, with its margin, lies below the sum.
            if cumulated > low and cumulated >= low + (width + 2.0 * MARGIN) * total + 2.0 * step * unit:
                # The right part gets the exact rest, so the two add up to t whatever floats do.
                sums[draw, left] = outcome
                sums[draw, right] = t - outcome
            else:
                open_draws[draw] = True
                # The rest of this draw is left alone; it is made again in whole numbers from the same words.
                break


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
