"""Kernels of the Markov chains on a lattice: chains alone, and two chains that move together so that they meet.

A state is a lattice vector z (int64). A move adds a multiple of a column b of the basis; only the column's
nonzeros are touched. A law gives z a weight exp(-rate * F(z)) with a whole number F, the *level*:

    kind 0   F = sum |z_i|                                (l1 Laplace)
    kind 1   F = sum z_i^2                                (Gaussian)
    kind 2   F = floor(scale * sqrt(sum z_i^2))           (l2 Laplace, rate scaled down accordingly)

`size` is the sum under the root, kept up to date in integers. Both kinds of move use one random whole number,
the *slack* G with P(G >= g) = exp(-rate * g). A jump is accepted when F(new) <= F(old) + G, which is the
Metropolis rule. A slice has the height F(old) + G. So no exponential is computed here, and every comparison
is between integers. The square root is the processor's, which IEEE 754 requires to be the double nearest to
the root.

Worked case: kind 0, z = (2, -1), column b = (1, -1). A jump by +1 gives (3, -2), of level 5 after 3, and is
accepted where G >= 2.

A state may be *extended*: cells first, then coordinates, which the size leaves out. Of column k, the entries
from starts[k] to ends[k] are cells and those up to starts[k + 1] are coordinates.

*Coupled.* Each chain alone moves as above. The step of column k at row pivots[k] is +1. Where both chains
move along a column, the values they get at that row are coupled. A draw by a plain share of 2**64 (`_share`)
is not exactly uniform. `ChainPlan.points_error` bounds the error.

Key: starts, ends, rows, steps: columns in compressed form; thresholds, guide: table of the slack's base-256
digits; limit: greatest size a chain may reach; u: 64 random bits.

Specification: `tests.oracles.chain`.

Sources: Algorithm 2 of Dharangutte et al. 2022 (with w* going to the lagged chain); for jumps the residual is
the mirror image, also maximal: Bou-Rabee, Eberle, Zimmer 2020, section 2.3.
"""

import math
from typing import Any, Final, NamedTuple

import numpy as np

from tallyveil.arrays import Integers, Uint32s, Words
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.vectors import set_to

# The kinds 0, 1 and 2 of the module's text.
ABSOLUTE: Final = 0  # l1 Laplace
SQUARES: Final = 1  # Gaussian
ROOT: Final = 2
"""What the level F of a state depends on: the sum of the cells' absolute values, that of their squares, or the root of
the latter."""

_WIDEST: Final = 1 << 31
"""Width of a slice from which on the state stays where it is. The slice is the same for all of its points, so that the
chain keeps its law."""

_LOW: Final = np.uint64(0xFFFFFFFF)
"""The lower half of a word."""


# Inlined, as is add_column: handing arrays to a function counts references, which takes longer than the work here.
class LevelLaw(NamedTuple):
    """A law of lattice vectors by their level.

    Attributes:
        kind: 0, 1 or 2, see the module.
        scale: Of kind 2.
        limit: Greatest size a chain may reach.
        thresholds: Table of the slack's base-256 digits, one row for each digit.
        guide: Where to begin in the table, one row for each digit. [digits, 256]
    """

    kind: int
    scale: float
    limit: int
    thresholds: Words
    guide: Integers


class ColumnArrays(NamedTuple):
    """Columns of the basis in compressed form.

    Attributes:
        starts: Where each column's entries begin. [columns + 1]
        ends: Where its cells end; its coordinates follow. [columns]
        rows: Row of each entry.
        steps: Value of each entry.
        pivots: A row of each column at which its step is 1; coupled chains meet there. [columns]
        n_cells: Cells of a state.
    """

    starts: Integers
    ends: Integers
    rows: Integers
    steps: Integers
    pivots: Integers
    n_cells: int


class JumpArrays(NamedTuple):
    """Jump laws, see `draw_jump`.

    Attributes:
        laws: Jump law of each column. [columns]
        masses: [laws, reach + 1]
        totals: [laws, reach + 1]
        finders: [laws, 256]
        block: Columns that are accepted or rejected together.
    """

    laws: Integers
    masses: Uint32s
    totals: Words
    finders: Integers
    block: int


class Bits(NamedTuple):
    """Random words of some sweeps.

    Attributes:
        words: [n_sweeps * per_sweep]
        per_sweep: Words of a sweep.
        n_sweeps: Sweeps to make.
    """

    words: Words
    per_sweep: int
    n_sweeps: int


class Keep(NamedTuple):
    """Which states of a chain are kept.

    Attributes:
        done: Sweeps made before.
        thin: Keep the state after every `thin` sweeps, counted from the chain's first sweep; 0 keeps none.
        states: Output. [states, n_cells]
    """

    done: int
    thin: int
    states: Integers


@njit(nogil=True, cache=True, inline="always")
def draw_slack(words: Words, first: int, thresholds: Words, guide: Integers) -> int:
    """G from the words first, first + 1, ...: one base-256 digit each, by inversion."""
    # Digits of G are independent, since a geometric number's digits in any base are: the law is a product over
    # digits.
    slack = 0
    for digit in range(thresholds.shape[0]):
        u = words[first + digit]
        # The guide gives the least value for the first 8 bits, so that the search is a step or two on average.
        value = guide[digit, u >> np.uint64(56)]
        while value < 255 and thresholds[digit, value] <= u:
            value += 1
        slack += value << (8 * digit)
    return slack


@internal
def cell_size(kind: int, state: Integers, n_cells: int) -> int:
    """Sum of absolute values, or of squares, of the cells."""
    # Below 2^63, because no chain may pass `limit`.
    size = 0
    for i in range(n_cells):
        size += abs(state[i]) if kind == ABSOLUTE else state[i] * state[i]
    return size


@njit(nogil=True, cache=True)
def level_of(kind: int, scale: float, size: int) -> int:
    """F of a vector of that size."""
    if kind != ROOT:
        return size
    # Never compiled with fast mathematics: sqrt, product and floor are each the nearest double, so all machines
    # agree on the level, and with it on what is accepted.
    return math.floor(scale * math.sqrt(float(size)))


@internal
def _root_below(value: int) -> int:
    """floor(sqrt(value)) for 0 <= value < 2**62."""
    # The square root of a float is near the root; the loops make it exact.
    root = int(math.sqrt(float(value)))
    while root * root > value:
        root -= 1
    while (root + 1) * (root + 1) <= value:
        root += 1
    return root


@njit(nogil=True, cache=True)
def size_budget(kind: int, scale: float, limit: int, size: int, height: int) -> int:
    """By how much the size may grow for the level to stay at or below `height` and the size below the limit."""
    # The level is the size itself, so the budget is a difference of whole numbers.
    if kind != ROOT:
        return min(height, limit) - size
    # The level never falls with the size, so the limit alone counts.
    if level_of(kind, scale, limit) <= height:
        return limit - size
    # floor(scale sqrt(s)) <= height for s below ((height + 1) / scale)^2; the loops take the rounding errors away
    bound = (float(height) + 1.0) / scale
    # At least `size`: the present state is always allowed, as its own level is below the height.
    largest = max(int(bound * bound), size)
    # `level_of` itself is asked, with the roundings that decide elsewhere. Both loops take a few steps, as the
    # bound is off by a few units in the last place.
    while largest > size and level_of(kind, scale, largest) > height:
        largest -= 1
    while largest < limit and level_of(kind, scale, largest + 1) <= height:
        largest += 1
    return largest - size


@njit(nogil=True, cache=True)
def slice_ends(
    kind: int, state: Integers, rows: Integers, steps: Integers, start: int, end: int, budget: int
) -> tuple[int, int]:
    """The multiples t of a column, from the first result to the second, that let the size grow by `budget` at most."""
    if kind == ABSOLUTE:
        # The sum of absolute values is convex in t: the slice is an interval around 0, whose ends bisection finds.
        before = 0
        slope = 0
        for i in range(start, end):
            before += abs(state[rows[i]])
            slope += abs(steps[i])
        # sum |z + t b| is at least |t| slope - before, so no |t| beyond this keeps within the budget.
        farthest = (2 * before + budget) // slope
        least, most = 0, 0
        # Each side by itself; t = 0 is always inside because the budget is not negative.
        for sign in (-1, 1):
            low, high = 0, farthest
            while low < high:
                # Rounded up, so that low = middle makes progress where high = low + 1.
                middle = (low + high + 1) >> 1
                after = 0
                for i in range(start, end):
                    after += abs(state[rows[i]] + sign * middle * steps[i])
                if after - before <= budget:
                    low = middle
                else:
                    high = middle - 1
            if sign < 0:
                least = -low
            else:
                most = low
        return least, most
    # A quadratic inequality, solved in whole numbers. Its discriminant stays below 2^62 by the limit on the size.
    square = 0
    inner = 0
    for i in range(start, end):
        square += steps[i] * steps[i]
        inner += steps[i] * state[rows[i]]
    # square t^2 + 2 inner t <= budget, that is |square t + inner| <= root
    # Floor divisions round both ends inwards: -((root + inner) // square) is the ceiling of the lower one.
    root = _root_below(inner * inner + square * budget)
    return -((root + inner) // square), (root - inner) // square


@njit(nogil=True, cache=True, inline="always")
def add_column(
    kind: int, state: Integers, rows: Integers, steps: Integers, start: int, end: int, times: int
) -> int:
    """Add `times` a column to the state in place; returns by how much the size grows."""
    # The size follows from differences, so that an update costs the column's entries and not all cells. In integers
    # nothing drifts.
    growth = 0
    for i in range(start, end):
        before = state[rows[i]]
        after = before + times * steps[i]
        state[rows[i]] = after
        if kind == ABSOLUTE:
            growth += abs(after) - abs(before)
        else:
            growth += after * after - before * before
    return growth


@njit(nogil=True, cache=True)
def high_product(u: np.uint64, n: np.uint64) -> Any:
    """floor(u * n / 2**64)."""
    # Schoolbook multiplication by halves, because 64-bit integers drop the upper word. No partial sum overflows:
    # (2^32 - 1)^2 + 2 (2^32 - 1) is 2^64 - 1.
    half = np.uint64(32)
    u_low, u_high = u & _LOW, u >> half
    n_low, n_high = n & _LOW, n >> half
    middle = u_high * n_low + ((u_low * n_low) >> half)
    crossed = u_low * n_high + (middle & _LOW)
    return u_high * n_high + (middle >> half) + (crossed >> half)


@njit(nogil=True, cache=True)
def draw_jump(
    bits: np.uint64, masses: Uint32s, totals: Words, finders: Integers, law: int
) -> tuple[int, np.uint64]:
    """A jump and a height below it, uniform among the 2**32 points under the histogram of a jump law.

    Args:
        bits: 32 random bits.
        masses: [laws, reach + 1], points at jump 0, 1, ...; the mass at -e is that at e.
        totals: [laws, reach + 1], points at jumps 1..e of one sign.
        finders: [laws, 256], the least jump to look at, by the place among those points in units of 2**23.
        law: Row of all three.
    """
    # 2^32 points under the histogram, and 32 bits name one: exact for the rounded law of the jump. Jumps need no
    # exact law, only symmetry, because acceptance corrects for the rest.
    if bits < np.uint64(masses[law, 0]):
        return 0, bits
    # The last bit of the rest is the sign, which makes the law symmetric by construction.
    rest = bits - np.uint64(masses[law, 0])
    place = rest >> np.uint64(1)
    # 2^23 as a unit: 256 finders for at most 2^31 points of one sign.
    size = finders[law, place >> np.uint64(23)]
    while totals[law, size] <= place:
        size += 1
    return (size if rest & np.uint64(1) else -size), place - totals[law, size - 1]


@internal
def half_word(words: Words, first: int, k: int) -> Any:
    """The k-th 32 bits of the words from `first` on."""
    return (words[first + (k >> 1)] >> np.uint64(32 * (k & 1))) & _LOW


@njit(nogil=True, cache=True)
def slice_sweeps(law: LevelLaw, columns: ColumnArrays, bits: Bits, state: Integers, keep: Keep) -> None:
    """Sweeps of slice moves: along each column in turn, a uniform point among those at or below a random height.

    An update whose 64 bits cannot be shared out evenly among the points is left out, as is one with more than
    2**31 points: both depend on the set of points only, so the law stays invariant.

    Args:
        law: The law.
        columns: The columns.
        bits: Random words.
        state: [n_cells + coordinates], changed in place.
        keep: Which states are kept, and where.
    """
    kind, scale, limit, thresholds, guide = law
    starts, ends, rows, steps, _, n_cells = columns
    words, per_sweep, n_sweeps = bits
    done, thin, states = keep
    digits = thresholds.shape[0]
    size = cell_size(kind, state, n_cells)
    for sweep in range(n_sweeps):
        # Words are found by the number of sweep, column and digit, not by how many were used: what was drawn before
        # moves no later word, and a run can be cut into calls between any two sweeps.
        place = sweep * per_sweep
        for k in range(starts.size - 1):
            start, end = int(starts[k]), int(ends[k])
            # The slice's height is drawn before the slice is known, from words of its own: exp(-rate F) needs no
            # evaluation.
            height = level_of(kind, scale, size) + draw_slack(words, place, thresholds, guide)
            budget = size_budget(kind, scale, limit, size, height)
            low, high = slice_ends(kind, state, rows, steps, start, end, budget)
            u = words[place + digits]
            place += digits + 1
            # At least 1, as t = 0 is in every slice.
            n = np.uint64(high - low + 1)
            # Lemire's method: these words would make some of the n outcomes likelier than others.
            if high - low >= _WIDEST or u * n < (np.uint64(0) - n) % n:
                continue
            times = low + int(high_product(u, n))
            size += add_column(kind, state, rows, steps, start, end, times)
            # Coordinates follow the cells but count in no size.
            for i in range(end, starts[k + 1]):
                state[rows[i]] += times * steps[i]
        # Counted from the chain's first sweep, so that chunks of a chain keep the same states as one call.
        if thin > 0 and (done + sweep + 1) % thin == 0:
            set_to(states[(done + sweep + 1) // thin - 1], state[:n_cells])


@njit(nogil=True, cache=True)
def jump_sweeps(
    law: LevelLaw, columns: ColumnArrays, tables: JumpArrays, bits: Bits, state: Integers, keep: Keep
) -> int:
    """Sweeps of Algorithm 1: a jump along each column, accepted or not `block` columns at a time.

    With all columns in one block a sweep is one iteration of the paper.

    Args:
        law: The law.
        columns: The columns.
        tables: Jump laws, and the columns of a block.
        bits: Random words. Those of a sweep are first the jumps, two a word, then the slack of each block.
        state: [n_cells + coordinates], changed in place.
        keep: Which states are kept, and where.
    Returns:
        Proposals accepted.
    """
    kind, scale, limit, thresholds, guide = law
    starts, ends, rows, steps, _, n_cells = columns
    words, per_sweep, n_sweeps = bits
    done, thin, states = keep
    laws, masses, totals, finders, block = tables
    digits = thresholds.shape[0]
    n_columns = starts.size - 1
    # A rejected block is undone by copying.
    saved = state.copy()
    accepted = 0
    size = cell_size(kind, state, n_cells)
    for sweep in range(n_sweeps):
        place = sweep * per_sweep
        # Two jumps share a word, so the slacks begin after half as many words, rounded up.
        slack_place = place + (n_columns + 1) // 2
        for first in range(0, n_columns, block):
            last = min(first + block, n_columns)
            growth = 0
            for i in range(state.size):
                saved[i] = state[i]
            for k in range(first, last):
                # draw_jump, written out: the call takes as long as the rest of the update.
                drawn_bits = (words[place + (k >> 1)] >> np.uint64((k & 1) << 5)) & _LOW
                of_column = laws[k]
                at_zero = np.uint64(masses[of_column, 0])
                if drawn_bits < at_zero:
                    continue
                rest = drawn_bits - at_zero
                drawn = rest >> np.uint64(1)
                # Both signs share the tables.
                jump = finders[of_column, drawn >> np.uint64(23)]
                while totals[of_column, jump] <= drawn:
                    jump += 1
                if rest & np.uint64(1) == np.uint64(0):
                    jump = -jump
                growth += add_column(kind, state, rows, steps, starts[k], ends[k], jump)
                for i in range(ends[k], starts[k + 1]):
                    state[rows[i]] += jump * steps[i]
            height = level_of(kind, scale, size) + draw_slack(words, slack_place, thresholds, guide)
            slack_place += digits
            # A proposal beyond the limit is rejected as if its weight were 0: the chain then has the law restricted
            # to the limit.
            if size + growth <= limit and level_of(kind, scale, size + growth) <= height:
                size += growth
                accepted += 1
            else:
                for i in range(state.size):
                    state[i] = saved[i]
        if thin > 0 and (done + sweep + 1) % thin == 0:
            set_to(states[(done + sweep + 1) // thin - 1], state[:n_cells])
    return accepted


# Chains count as near if 16 times their l1 distance is at most the narrower slice's width: then the chance that
# points fail to be equal is about a sixteenth at most. Half of it would let more failures throw chains apart, twice
# of it would begin to make them equal later. It changes the time of meeting and no law.
_NEAR: Final = 16

Ends = tuple[int, int]
"""The first and the last whole number of a range."""


@internal
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


@internal
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
