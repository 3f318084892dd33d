"""Kernel that splits pairs of sums down a tree of table rows.

It does the work of `tallyveil.kernels.subspace.sums` in two dimensions. A node's rows have the sums (s, t) in their
first two columns, and candidates for its left part are visited in square rings around the likeliest. Floats decide
with a margin, or the draw is reported as undecided. The errors of the tables and of a step are those of `sums`, with
one step for each candidate.

Specification: `split_pairs_reference`, which looks at all candidates of a square at once.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Floats, Integers, Words
from tallyveil.kernels.compiled import njit
from tallyveil.kernels.subspace.sums import MARGIN, UNIT, TreeNodes

MOST_RINGS = 1 << 12
LEAST_TOTAL = 2.0**-40


class SquareTables(NamedTuple):
    """Square tables of pairs of sums as floats.

    Attributes:
        values: All tables one after the other.
        starts: [n_tables], where each table begins.
        reaches: [n_tables], largest sum that each table holds.
    """

    values: Floats
    starts: Integers
    reaches: Integers


@njit(nogil=True, cache=True)
def _at(tables: Floats, start: int, reach: int, s: int, t: int) -> float:
    """Entry (s, t) of a square table; 0 beyond it."""
    if -reach <= s <= reach and -reach <= t <= reach:
        return float(tables[start + (s + reach) * (2 * reach + 1) + t + reach])
    return 0.0


@njit(nogil=True, cache=True)
def ring_cell(ring: int, place: int) -> tuple[int, int]:
    """Offset of a place on a square ring, 0 <= place < 8 ring (1 for ring 0): top, bottom, then the two sides."""
    if ring == 0:
        return 0, 0
    width = 2 * ring + 1
    if place < width:
        return -ring, place - ring
    if place < 2 * width:
        return ring, place - width - ring
    rest = place - 2 * width
    inner = width - 2
    if rest < inner:
        return rest - ring + 1, -ring
    return rest - inner - ring + 1, ring


@njit(nogil=True, cache=True)
def split_pairs(
    words: Words,
    of_pairs: SquareTables,
    nodes: TreeNodes,
    shift: np.uint64,
    sums: Integers,
    open_draws: npt.NDArray[np.bool_],
) -> None:
    """Split the pairs of sums at the root of a tree, for many draws.

    Args:
        words: uint64 [n_draws, n_splits], the uniform number of each split, in the order of nodes.
        of_pairs: Weights of pairs of sums.
        nodes: The tree of rows.
        shift: Digits of every word to ignore, from below, at most 63; 0 but for tests.
        sums: int64 [n_draws, n_nodes, 2], the roots' sums given, the others filled in.
        open_draws: [n_draws], set where a decision stays open; the sums of that draw are then incomplete.
    """
    tables, starts, reaches = of_pairs
    lefts, rights, sizes, kinds = nodes
    width = np.float64(2.0**-53)
    if shift > np.uint64(11):
        width = 2.0 ** (np.float64(shift) - 64.0)
    for draw in range(words.shape[0]):
        split = 0
        for node in range(lefts.size):
            left = lefts[node]
            if left < 0:
                continue
            right = rights[node]
            s, t = sums[draw, node, 0], sums[draw, node, 1]
            a, b = kinds[left], kinds[right]
            total = _at(tables, starts[kinds[node]], reaches[kinds[node]], s, t)
            word = (words[draw, split] >> shift) << shift
            split += 1
            uniform = np.float64(word >> np.uint64(11)) * 2.0**-53
            c = (2 * s * sizes[left] + sizes[node]) // (2 * sizes[node])
            d = (2 * t * sizes[left] + sizes[node]) // (2 * sizes[node])
            cumulated = 0.0
            decided = False
            ring = 0
            while total >= LEAST_TOTAL and ring < MOST_RINGS:
                margin = MARGIN + (2 * ring + 1) * (2 * ring + 1) * UNIT
                low = (uniform - margin) * total
                for place in range(max(1, 8 * ring)):
                    i, j = ring_cell(ring, place)
                    cumulated += _at(tables, starts[a], reaches[a], c + i, d + j) * _at(
                        tables, starts[b], reaches[b], s - c - i, t - d - j
                    )
                    if cumulated > low:
                        if cumulated >= (uniform + width + margin) * total:
                            decided = True
                            sums[draw, left, 0], sums[draw, left, 1] = c + i, d + j
                            sums[draw, right, 0], sums[draw, right, 1] = s - c - i, t - d - j
                        break
                if cumulated > low:
                    break
                ring += 1
            if not decided:
                open_draws[draw] = True
                break


def split_pairs_reference(
    words: Words,
    of_pairs: SquareTables,
    nodes: TreeNodes,
    shift: np.uint64,
    sums: Integers,
    open_draws: npt.NDArray[np.bool_],
) -> None:
    """Specification of `split_pairs`: it looks at all candidates of a square at once."""
    tables, starts, reaches = of_pairs
    lefts, rights, sizes, kinds = nodes
    squares = []
    for start, reach in zip(starts.tolist(), reaches.tolist(), strict=True):
        side = 2 * reach + 1
        squares.append(tables[start : start + side * side].reshape(side, side))
    width = 2.0 ** (max(int(shift), 11) - 64)
    splits = [node for node in range(lefts.size) if lefts[node] >= 0]

    def weight(kind: int, s: int, t: int) -> float:
        square, reach = squares[kind], int(reaches[kind])
        return float(square[s + reach, t + reach]) if max(abs(s), abs(t)) <= reach else 0.0

    for draw in range(words.shape[0]):
        for split, node in enumerate(splits):
            left, right = int(lefts[node]), int(rights[node])
            s, t = sums[draw, node].tolist()
            total = weight(int(kinds[node]), s, t)
            if total < LEAST_TOTAL:
                open_draws[draw] = True
                break
            uniform = (int(words[draw, split]) >> int(shift) << int(shift) >> 11) * 2.0**-53
            c, d = ((2 * x * int(sizes[left]) + int(sizes[node])) // (2 * int(sizes[node])) for x in (s, t))
            rings = max(abs(c), abs(d)) + int(reaches[kinds[left]]) + 1
            cells = [(k, *ring_cell(k, p)) for k in range(rings) for p in range(max(1, 8 * k))]
            terms = [
                weight(int(kinds[left]), c + i, d + j) * weight(int(kinds[right]), s - c - i, t - d - j)
                for _, i, j in cells
            ]
            cumulated = np.cumsum(terms)
            margins = MARGIN + (2 * np.array([k for k, _, _ in cells]) + 1) ** 2 * UNIT
            passed = np.flatnonzero(cumulated > (uniform - margins) * total)
            if not passed.size:
                open_draws[draw] = True
                break
            first = int(passed[0])
            if cumulated[first] < (uniform + width + margins[first]) * total:
                open_draws[draw] = True
                break
            _, i, j = cells[first]
            sums[draw, left] = c + i, d + j
            sums[draw, right] = s - c - i, t - d - j
