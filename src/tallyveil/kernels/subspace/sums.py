"""Kernel that splits sums of noise down a tree of cells.

Problem: a node holds n cells whose sum is t. Draw the sum s of its left part, which has probability
L(s) R(t - s) / W(t), where L, R and W are the laws of the sums of the left cells, of the right cells and of all.

Step: a uniform number decides. Candidates are visited outward from the likeliest, c, c + 1, c - 1, c + 2, ..., until
their probabilities add up to more than the number. Floats are compared with a margin that covers every rounding
error, so a decision is right or is not made. A draw with an undecided comparison is reported, and is made again in
whole numbers.

Worked case: candidates c, c + 1 and c - 1 have probabilities 0.5, 0.25 and 0.25. The uniform number 0.6 lies between
0.5 and 0.75, so s = c + 1.

Specification: `tests.oracles.sums`.
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
