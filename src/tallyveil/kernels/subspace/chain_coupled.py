"""Kernels that move two chains together so that they meet.

Each chain alone moves as in `tallyveil.kernels.subspace.chain`.

Columns and states are those of that module. The step of column k at row pivots[k] is +1. Where both chains move
along a column, the values they get at that row are coupled.

A draw by a plain share of 2**64 (`_share`) is not exactly uniform. `ChainPlan.points_error` bounds the error.

Specification: `tests.oracles.chain`.

Sources: Algorithm 2 of Dharangutte et al. 2022 (with w* going to the lagged chain); for jumps the residual is the
mirror image, also maximal: Bou-Rabee, Eberle, Zimmer 2020, section 2.3.
"""

from typing import Final

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.kernels.compiled import njit
from tallyveil.kernels.subspace.chain import (
    Bits,
    ColumnArrays,
    JumpArrays,
    LevelLaw,
    add_column,
    cell_size,
    draw_jump,
    draw_slack,
    half_word,
    high_product,
    level_of,
    size_budget,
    slice_ends,
)

# Chains count as near if 16 times their l1 distance is at most the narrower slice's width: then the chance that
# points fail to be equal is about a sixteenth at most. Half of it would let more failures throw chains apart, twice
# of it would begin to make them equal later. It changes the time of meeting and no law.
_NEAR: Final = 16

Ends = tuple[int, int]
"""The first and the last whole number of a range."""


@njit(nogil=True, cache=True)
def _share(u: np.uint64, n: int) -> int:
    # floor(u n / 2^64), at most one part in 2^64 / n off the uniform law; the module says who bounds it.
    return int(high_product(u, np.uint64(n)))


@njit(nogil=True, cache=True)
def couple_uniforms(
    ends: Ends, other_ends: Ends, near: bool, u: np.uint64, v: np.uint64, w: np.uint64
) -> tuple[int, int]:
    """Uniform points of two ranges. Widths below 2**31.

    Args:
        ends: The ends of the first range.
        other_ends: Of the second.
        near: Make them equal as often as can be; else make the second rise with the first.
        u, v, w: Random bits of the first point, of the decision that the second is the same, and of the second.
    """
    low, high = ends
    other_low, other_high = other_ends
    n, other_n = high - low + 1, other_high - other_low + 1
    # The first point is what the chain alone would draw, so its law is not touched by the coupling.
    first = low + _share(u, n)
    # The same u for both: one point rises with the other, at the same share of its slice.
    if not near:
        return first, other_low + _share(u, other_n)
    # Maximal coupling: equal with probability min(1 / n, 1 / other_n) times the common points. Where the second
    # slice is the wider one, v thins out, because each of its points is less likely.
    if other_low <= first <= other_high and (n >= other_n or _share(v, other_n) < n):
        return first, first
    # Points of the second range outside the first, to the left and to the right of it.
    left = max(0, min(other_high, low - 1) - other_low + 1)
    outside = left + max(0, other_high - max(other_low, high + 1) + 1)
    common = other_n - outside
    # What is left of the second law: n points each outside the common part, n - other_n within it.
    # Whole weights in the place of fractions, so that the choice is exact up to the share of one word. Below 2^31
    # each, so that products stay below 2^63.
    heavy, light = (1, 0) if other_n >= n else (n, n - other_n)
    # One word chooses part and point at once.
    pick = _share(w, outside * heavy + common * light)
    if pick < outside * heavy:
        place = pick // heavy
        return first, other_low + place if place < left else max(other_low, high + 1) + place - left
    return first, max(low, other_low) + (pick - outside * heavy) // light


@njit(nogil=True, cache=True)
def _same(state: Integers, other: Integers, n: int) -> bool:
    # No early end: a loop without a branch.
    equal = True
    for i in range(n):
        equal &= state[i] == other[i]
    return equal


@njit(nogil=True, cache=True)
def coupled_slice_sweeps(
    law: LevelLaw, columns: ColumnArrays, bits: Bits, state: Integers, other: Integers
) -> int:
    """Sweeps of slice moves of two chains: one slack for both, then points on the two slices.

    Far apart, the points rise together, which never pushes the chains further apart by much and lets differences of
    opposite sign cancel. Near each other, measured against the width of the slices, they are made equal as often as
    can be: the failures, which throw the chains apart by the width of a slice, are rare then.

    Args:
        law: The law.
        columns: The columns, with pivots.
        bits: Random words: a slack and 3 words an update.
        state, other: [n_cells + coordinates], changed in place.
    Returns:
        Sweeps until the cells were equal, or n_sweeps + 1.
    """
    kind, scale, limit, thresholds, guide = law
    starts, ends, rows, steps, pivots, n_cells = columns
    words, per_sweep, n_sweeps = bits
    # The distance is measured once a sweep and not once a column, because it takes all cells.
    digits = thresholds.shape[0]
    size, other_size = cell_size(kind, state, n_cells), cell_size(kind, other, n_cells)
    for sweep in range(n_sweeps):
        place = sweep * per_sweep
        distance = 0
        for i in range(n_cells):
            distance += abs(state[i] - other[i])
        for k in range(starts.size - 1):
            start, end = starts[k], ends[k]
            # One slack for both: chains of equal level get equal slices.
            slack = draw_slack(words, place, thresholds, guide)
            # Each chain's height is above its own level, so each makes a step of its own law.
            budget = size_budget(kind, scale, limit, size, level_of(kind, scale, size) + slack)
            other_height = level_of(kind, scale, other_size) + slack
            other_budget = size_budget(kind, scale, limit, other_size, other_height)
            low, high = slice_ends(kind, state, rows, steps, start, end, budget)
            other_low, other_high = slice_ends(kind, other, rows, steps, start, end, other_budget)
            # Values at the pivot, where the column's step is 1: a step of t adds t there.
            at, other_at = state[pivots[k]], other[pivots[k]]
            place += digits
            narrower = min(high - low, other_high - other_low) + 1
            # By plain shares of words, whose error the module names.
            value, other_value = couple_uniforms(
                (at + low, at + high),
                (other_at + other_low, other_at + other_high),
                _NEAR * distance <= narrower,
                words[place],
                words[place + 1],
                words[place + 2],
            )
            place += 3
            size += add_column(kind, state, rows, steps, start, end, value - at)
            other_size += add_column(kind, other, rows, steps, start, end, other_value - other_at)
            add_column(kind, state, rows, steps, end, starts[k + 1], value - at)
            add_column(kind, other, rows, steps, end, starts[k + 1], other_value - other_at)
        # Once equal they stay equal, because all words are shared; the rest of the sweeps need not be made.
        if _same(state, other, n_cells):
            return sweep + 1
    return n_sweeps + 1


@njit(nogil=True, cache=True)
def coupled_jump_sweeps(
    law: LevelLaw, columns: ColumnArrays, tables: JumpArrays, bits: Bits, state: Integers, other: Integers
) -> int:
    """Sweeps of Algorithm 2: jumps coupled maximally column by column, one slack for both chains.

    Args:
        law: The law.
        columns: The columns, with pivots.
        tables: Jump laws, and the columns of a block.
        bits: Random words, as in `jump_sweeps`.
        state, other: [n_cells + coordinates], changed in place.
    Returns:
        Sweeps until the cells were equal, or n_sweeps + 1.
    """
    kind, scale, limit, thresholds, guide = law
    starts, ends, rows, steps, pivots, n_cells = columns
    words, per_sweep, n_sweeps = bits
    laws, masses, totals, finders, block = tables
    digits = thresholds.shape[0]
    n_columns = starts.size - 1
    # Jumps beyond have no mass.
    reach = masses.shape[1] - 1
    jumps, other_jumps = np.empty(block, dtype=np.int64), np.empty(block, dtype=np.int64)
    size, other_size = cell_size(kind, state, n_cells), cell_size(kind, other, n_cells)
    for sweep in range(n_sweeps):
        place = sweep * per_sweep
        slack_place = place + (n_columns + 1) // 2
        for first in range(0, n_columns, block):
            last = min(first + block, n_columns)
            growth, other_growth = 0, 0
            for k in range(first, last):
                # `height` is the point's height under the histogram: the second chain takes the jump that would
                # make it equal if that jump's bar is higher. This is the maximal coupling.
                jump, height = draw_jump(half_word(words, place, k), masses, totals, finders, laws[k])
                needed = state[pivots[k]] + jump - other[pivots[k]]
                met = abs(needed) <= reach and height < np.uint64(masses[laws[k], min(abs(needed), reach)])
                # The mirror image of the first jump, which has the same law, since the histogram is symmetric.
                other_jump = needed if met else -jump
                jumps[k - first], other_jumps[k - first] = jump, other_jump
                growth += add_column(kind, state, rows, steps, starts[k], ends[k], jump)
                other_growth += add_column(kind, other, rows, steps, starts[k], ends[k], other_jump)
                add_column(kind, state, rows, steps, ends[k], starts[k + 1], jump)
                add_column(kind, other, rows, steps, ends[k], starts[k + 1], other_jump)
            slack = draw_slack(words, slack_place, thresholds, guide)
            slack_place += digits
            # One slack for both again, each on top of its own level.
            height_1 = level_of(kind, scale, size) + slack
            height_2 = level_of(kind, scale, other_size) + slack
            if size + growth <= limit and level_of(kind, scale, size + growth) <= height_1:
                size += growth
            else:
                for k in range(first, last):
                    add_column(kind, state, rows, steps, starts[k], starts[k + 1], -jumps[k - first])
            if (
                other_size + other_growth <= limit
                and level_of(kind, scale, other_size + other_growth) <= height_2
            ):
                other_size += other_growth
            else:
                for k in range(first, last):
                    add_column(kind, other, rows, steps, starts[k], starts[k + 1], -other_jumps[k - first])
        if _same(state, other, n_cells):
            return sweep + 1
    return n_sweeps + 1
