"""What one pass of a family hands on to the next, compiled: bounds, and answers that later passes must keep."""

from typing import Any

import numpy as np

from tallyveil.arrays import Bools, Floats, Int32s, Integers
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.rounding.arrays import Bounds
from tallyveil.kernels.vectors import set_rows, set_to

ZERO_PERSONS = 1e-9
"""An answer that an earlier pass puts below this stays at zero, and its cells leave the later programs."""

# Whole-numbered upper bounds of this size or more mean that there is none. It is above any count, and
# subtracting floors from it stays within 64 bits.
UNBOUNDED = 2**62


@internal
def anyone(allowed: Bools) -> bool:
    """Whether any child may be above zero in any cell."""
    for c in range(allowed.shape[0]):
        for i in range(allowed.shape[1]):
            if allowed[c, i]:
                return True
    return False


@internal
def marked(flags: Bools) -> Integers:
    """Positions of the flags that are set."""
    places, n = np.empty(flags.size, np.int64), 0
    for i in range(flags.size):
        if flags[i]:
            places[n] = i
            n += 1
    return places[:n]


@internal
def widened(first: Any, second: Any, shift: Any) -> Any:
    """The first array and, after it, the second one plus a shift."""
    both = np.empty(first.size + second.size, first.dtype)
    set_to(both, first)
    # whole numbers keep their type: a bound's shift is persons, a width's shift is 0
    for i in range(second.size):
        both[first.size + i] = second[i] + shift
    return both


@internal
def stacked(first: Int32s, second: Int32s) -> Int32s:
    """The rows of both."""
    both = np.empty((first.shape[0] + second.shape[0], first.shape[1]), np.int32)
    set_rows(both, first)
    set_rows(both[first.shape[0] :], second)
    return both


@internal
def flat_bounds(bounds: Bounds) -> tuple[Floats, Floats]:
    """Bounds constraint after constraint, child after child, as a pass takes them; trivial ones infinite."""
    n_children, n = bounds.lower.shape
    lower, upper = np.full(n_children * n, -np.inf), np.full(n_children * n, np.inf)
    place = 0
    for b in range(bounds.offset.size - 1):
        for c in range(n_children):
            for k in range(bounds.offset[b], bounds.offset[b + 1]):
                # counts are not negative, so a lower bound of 0 says nothing
                if bounds.lower[c, k] > 0:
                    lower[place] = bounds.lower[c, k]
                # an upper bound of zero forbids the cells, so that no row is needed
                if 0 < bounds.upper[c, k] < UNBOUNDED:
                    upper[place] = bounds.upper[c, k]
                place += 1
    return lower, upper


@internal
def carry(labels: Int32s, widths: Integers, estimate: Floats, slack: float, allowed: Bools) -> Floats:
    """Answers of an estimate, query after query, child after child.

    Cells of answers that must stay at zero are no longer allowed, so that later programs keep an interior.
    """
    n_children, n_cells = estimate.shape
    place = 0
    for q in range(widths.size):
        place += n_children * widths[q]
    answers = np.zeros(place)
    place = 0
    for q in range(widths.size):
        for c in range(n_children):
            child_answers = answers[place : place + widths[q]]
            for i in range(n_cells):
                if labels[q, i] >= 0:
                    child_answers[labels[q, i]] += estimate[c, i]
            for i in range(n_cells):
                # Rows this narrow would hold cells at zero without saying so; cells that are not allowed need
                # no row.
                if labels[q, i] >= 0 and child_answers[labels[q, i]] + slack <= ZERO_PERSONS:
                    allowed[c, i] = False
            place += widths[q]
    return answers
