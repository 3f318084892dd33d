"""Kernel that estimates many families in one call: every pass, the rounding and the checks, family by family.

It does the work of `tallyveil.estimation.family.estimate_family` with the same kernels, and gives the same
counts. Constraints are on single children here. Some families are left to that function: those with
constraints on sums of children, those that these kernels do not certify and those that have no solution. It
knows what to try next and how to report the failure. The kernel does not hold the interpreter's lock, so
chunks run side by side.

Step, for one family: number the answers that its support reaches; solve pass after pass, where each pass's
answers bound those of the later ones; snap the last estimate to multiples of 2^-20; round it by a
minimum-cost flow; check the counts.

The kernels that solve and round are large. The kernel here calls them through pointers; it would otherwise
carry their code, and take as long to compile as they do.
"""

from typing import Any, NamedTuple

import numpy as np

from tallyveil.arrays import BoolRows, Bools, FloatRows, Floats, Int32Rows, Int32s, IntegerRows, Integers
from tallyveil.kernels.compiled import all_compiled, compiled, conforming, inlined, internal, njit
from tallyveil.kernels.family.answers import number_answers
from tallyveil.kernels.family.polish import CERTIFIED_PERSONS, FamilyKernels
from tallyveil.kernels.family.program import PassArrays, each_alone
from tallyveil.kernels.family.solver import KERNELS
from tallyveil.kernels.rounding.flow import SETTLED, attained
from tallyveil.kernels.rounding.network_simplex import ONE, OPTIMAL, Bounds, Entries
from tallyveil.kernels.vectors import longer, set_rows, set_to

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


LEFT, EMPTY, COPIED, CERTIFIED, CERTIFIED_BY_MORE_SWEEPS = -1, 0, 1, 2, 3
"""How a family ended. LEFT: it is left to the caller."""


class Rules(NamedTuple):
    """What all families of a geolevel have in common. Q measured queries, B constraints, R rounding queries.

    Attributes:
        pass_queries: Which queries each pass minimises over. [P, Q]
        slack: Persons by which later passes may move a pass's answers. [P]
        bound_answers: Answer of each cell of the schema, -1: none. [B, schema cells]
        bound_sizes: Answers of each constraint's query. [B]
        round_answers: Answer of each cell of the schema, -1: none. [R, schema cells]
        round_sizes: [R]
        stage: Rounding stage of each. [R]
        nearest: Whether a stage aims at the nearest whole number. [stages]
    """

    pass_queries: BoolRows
    slack: Floats
    bound_answers: Int32Rows
    bound_sizes: Integers
    round_answers: Int32Rows
    round_sizes: Integers
    stage: Integers
    nearest: Bools


class Chunk(NamedTuple):
    """Consecutive families. Positions count from the chunk's first parent, entry and child.

    Attributes:
        offsets: Where each parent's entries begin. [F + 1]
        cells: Cells of the parents' entries.
        counts: Persons, above zero.
        child_begin: First child of each family. [F + 1]
        columns: Column of each entry among its family's answers. [Q, entries]
        widths: Answers of each family. [Q, F]
        value_begin: Where each family's values begin. [Q, F + 1]
        values: Noisy answers, or what replaces them, in persons.
        weights: 1 / variance of each child's answers, 0: not measured. [Q, children]
        lower: Bounds of each child, constraint after constraint. [children, bound_sizes.sum()]
        upper: In the same order; 2^62 or more: none.
    """

    offsets: Integers
    cells: Integers
    counts: Integers
    child_begin: Integers
    columns: Int32Rows
    widths: IntegerRows
    value_begin: IntegerRows
    values: Floats
    weights: FloatRows
    lower: IntegerRows
    upper: IntegerRows


Estimated = tuple[Integers, Bools, Floats, Integers, Int32s, Integers]


def estimate_chunk(rules: Rules, chunk: Chunk) -> Estimated:
    """Estimate and round every family of a chunk.

    Returns:
        How each family ended, [F]; whether its rounding had a choice, [F]; its largest residual in persons, [F];
        where each child's counts begin, [children + 1]; their cells, rising within a child; persons. The children
        of a family that was left have no counts.
    """
    kernels = all_compiled(KERNELS)
    estimated: Estimated = compiled(estimate_families)(conforming(rules), conforming(chunk), kernels)
    return estimated


@njit(nogil=True, cache=True)
def estimate_families(rules: Rules, chunk: Chunk, kernels: FamilyKernels) -> Estimated:
    """Kernel of `estimate_chunk`, with the kernels that it calls."""
    n_families = chunk.child_begin.size - 1
    ended, chosen = np.full(n_families, LEFT, np.int64), np.zeros(n_families, np.bool_)
    residual = np.zeros(n_families)
    offsets = np.zeros(chunk.child_begin[n_families] + 1, np.int64)
    # Room for the counts. It grows to twice what is needed, so that all copying together stays linear.
    capacity, n = 2 * chunk.cells.size + 16, 0
    cells, persons = np.empty(capacity, np.int32), np.empty(capacity, np.int64)
    largest = 1
    for size in rules.bound_sizes:
        largest = max(largest, size)
    for size in rules.round_sizes:
        largest = max(largest, size)
    # Room for numbering answers, made once for all families; it is -1 everywhere between two uses.
    number, reached = np.full(largest, -1, np.int32), np.empty(largest, np.int32)
    for f in range(n_families):
        support = chunk.cells[chunk.offsets[f] : chunk.offsets[f + 1]]
        ended[f], chosen[f], residual[f], counts = _estimate_family(rules, chunk, f, number, reached, kernels)
        n_children = chunk.child_begin[f + 1] - chunk.child_begin[f]
        more = 0 if ended[f] == LEFT else _inhabited(counts)
        # counted before they are written, so that there is room for all of a family at once
        if n + more > cells.size:
            cells, persons = longer(cells, 2 * (n + more)), longer(persons, 2 * (n + more))
        for c in range(n_children):
            # children of a family that is left get empty ranges; the caller puts its counts there
            if ended[f] != LEFT:
                for i in range(support.size):
                    if counts[c, i] != 0:
                        cells[n], persons[n] = support[i], counts[c, i]
                        n += 1
            offsets[chunk.child_begin[f] + c + 1] = n
    return ended, chosen, residual, offsets, cells[:n].copy(), persons[:n].copy()


@internal
def _inhabited(counts: Integers) -> int:
    """How many counts are not zero."""
    n = 0
    for c in range(counts.shape[0]):
        for i in range(counts.shape[1]):
            n += counts[c, i] != 0
    return n


@inlined
def _estimate_family(
    rules: Rules,
    chunk: Chunk,
    f: int,
    number: Int32s,
    reached: Int32s,
    kernels: FamilyKernels,
) -> tuple[int, bool, float, Integers]:
    """Estimate and round one family; counts are [C, s]."""
    first, last = chunk.child_begin[f], chunk.child_begin[f + 1]
    support = chunk.cells[chunk.offsets[f] : chunk.offsets[f + 1]]
    parent = chunk.counts[chunk.offsets[f] : chunk.offsets[f + 1]].copy()
    counts = np.zeros((last - first, support.size), np.int64)
    bound_labels, bounds = _bounds(rules, chunk, f, support, number)
    # Nothing to estimate, but public bounds may still contradict the parent: they are checked all the same.
    if support.size == 0 or last - first == 1:
        if support.size:
            set_to(counts[0], parent)
        held = _holds(bound_labels, bounds, counts)
        # bounds may still contradict the parent, and the caller knows how to say so
        settled = EMPTY if support.size == 0 else COPIED
        return (settled if held else LEFT), False, 0.0, counts
    allowed = _allowed(bound_labels, bounds, parent)
    # A copy: passes narrow it to keep an interior, while rounding may use every cell that the bounds leave
    # open.
    ended, residual, estimate = _solve_passes(rules, chunk, f, allowed.copy(), bound_labels, bounds, kernels)
    if ended == LEFT:
        return LEFT, False, residual, counts
    n_rounding = rules.stage.size
    labels = np.empty((n_rounding + bound_labels.shape[0], support.size), np.int32)
    for r in range(n_rounding):
        number_answers(rules.round_answers[r], support, number, reached, labels[r])
    set_rows(labels[n_rounding:], bound_labels)
    # stage -1: a constraint holds in every stage, and nothing aims at it
    stage = np.full(labels.shape[0], -1, np.int64)
    set_to(stage, rules.stage)
    # rounding queries come first, and have no bounds: their ranges end where the first one begins, at 0
    offset = np.zeros(labels.shape[0] + 1, np.int64)
    set_to(offset[n_rounding:], bounds.offset)
    none = np.zeros(labels.shape[0], np.bool_)
    shifted = Bounds(offset, bounds.lower, bounds.upper, none, bounds.groups)
    entries, child = _snap(estimate, allowed)
    status, up = kernels.round_up(labels, stage, rules.nearest, shifted, entries, parent)
    if status not in (OPTIMAL, SETTLED):
        return LEFT, False, residual, counts
    # The network is not trusted: this check sums the counts from the answers alone.
    good, _ = attained(labels, stage, rules.nearest, shifted, entries, parent, up)
    if not good:
        return LEFT, False, residual, counts
    for e in range(up.size):
        counts[child[e], entries.cell[e]] = entries.floor[e] + up[e]
    return ended, status == OPTIMAL, residual, counts


@internal
def _bounds(rules: Rules, chunk: Chunk, f: int, support: Integers, number: Int32s) -> tuple[Int32s, Bounds]:
    """The constraints on a support: labels [B, s], and bounds with the answers that matter.

    An answer that no cell of the support can reach is zero; it matters only if it must not be.
    """
    first, last = chunk.child_begin[f], chunk.child_begin[f + 1]
    n_bounds, total = rules.bound_sizes.size, chunk.lower.shape[1]
    labels = np.full((n_bounds, support.size), -1, np.int32)
    offset = np.zeros(n_bounds + 1, np.int64)
    bound_of = np.empty(total, np.int64)
    n, start = 0, 0
    for b in range(n_bounds):
        size = rules.bound_sizes[b]
        # marks which answers the support reaches; numbers come with the next loop
        for cell in support:
            if rules.bound_answers[b, cell] >= 0:
                number[rules.bound_answers[b, cell]] = 0
        for k in range(size):
            wanted = number[k] >= 0
            # a positive lower bound that no cell can meet must stay, so that the check fails on it
            for c in range(first, last):
                wanted |= chunk.lower[c, start + k] > 0
            if wanted:
                number[k] = n - offset[b]
                bound_of[n] = start + k
                n += 1
        for i in range(support.size):
            answer = rules.bound_answers[b, support[i]]
            labels[b, i] = number[answer] if answer >= 0 else -1
        # the room is -1 again before the next constraint reads it
        number[:size] = -1
        offset[b + 1] = n
        start += size
    lower, upper = np.empty((last - first, n), np.int64), np.empty((last - first, n), np.int64)
    for c in range(last - first):
        for k in range(n):
            lower[c, k], upper[c, k] = (
                chunk.lower[first + c, bound_of[k]],
                chunk.upper[first + c, bound_of[k]],
            )
    none, alone = np.zeros(n_bounds, np.bool_), np.arange(last - first)
    return labels, Bounds(offset, lower, upper, none, alone)


@internal
def _holds(labels: Int32s, bounds: Bounds, counts: Integers) -> bool:
    """Whether counts of shape (C, s) meet every constraint."""
    for c in range(counts.shape[0]):
        sums = np.zeros(bounds.lower.shape[1], np.int64)
        for b in range(labels.shape[0]):
            for i in range(counts.shape[1]):
                if labels[b, i] >= 0:
                    sums[bounds.offset[b] + labels[b, i]] += counts[c, i]
        for k in range(sums.size):
            # no tolerance: both sides are whole numbers of persons
            if sums[k] < bounds.lower[c, k] or sums[k] > bounds.upper[c, k]:
                return False
    return True


@internal
def _allowed(labels: Int32s, bounds: Bounds, parent: Integers) -> Bools:
    """Where a child may be above zero. [C, s]"""
    n_children = bounds.lower.shape[0]
    allowed = np.ones((n_children, parent.size), np.bool_)
    for b in range(labels.shape[0]):
        for i in range(parent.size):
            if labels[b, i] >= 0:
                for c in range(n_children):
                    # counts are not negative, so an upper bound of 0 forbids every cell of its answer
                    if bounds.upper[c, bounds.offset[b] + labels[b, i]] <= 0:
                        allowed[c, i] = False
    return allowed


@inlined
def _solve_passes(
    rules: Rules,
    chunk: Chunk,
    f: int,
    allowed: Bools,
    bound_labels: Int32s,
    bounds: Bounds,
    kernels: FamilyKernels,
) -> tuple[int, float, Floats]:
    """All passes, each within the slack of the earlier ones' answers; `allowed` is narrowed on the way."""
    parent = chunk.counts[chunk.offsets[f] : chunk.offsets[f + 1]]
    inhabitants, widths = np.empty(parent.size), np.empty(bounds.offset.size - 1, np.int64)
    set_to(inhabitants, parent)
    for b in range(widths.size):
        widths[b] = bounds.offset[b + 1] - bounds.offset[b]
    labels = bound_labels
    # bounds of the constraints first; those that earlier passes add are put after them
    lower, upper = flat_bounds(bounds)
    ended, worst = CERTIFIED, 0.0
    estimate = np.zeros(allowed.shape)
    n_passes, has_sums = rules.slack.size, parent.size > 0
    for p in range(n_passes):
        # nobody may be anywhere although the parent has people: the caller reports it
        if not anyone(allowed):
            return LEFT, worst, estimate
        queries = marked(rules.pass_queries[p])
        own_labels, own_widths, values, weights = _measured(chunk, f, queries)
        current = PassArrays(
            allowed,
            inhabitants,
            has_sums,
            own_labels,
            own_widths,
            values,
            weights,
            labels,
            widths,
            each_alone(widths.size, allowed.shape[0]),
            lower,
            upper,
        )
        estimate, residual, rounds, _, _ = kernels.solve(current, kernels.parts)
        worst = max(worst, residual)
        # so written that a residual that is not a number leaves the family to the caller
        if not residual <= CERTIFIED_PERSONS:
            return LEFT, worst, estimate
        if rounds > 1:
            ended = CERTIFIED_BY_MORE_SWEEPS
        # Passes are in order of importance: what one has found binds all later ones, up to its slack. After
        # the last there is nothing to bind.
        if p + 1 < n_passes:
            answers = carry(own_labels, own_widths, estimate, rules.slack[p], allowed)
            lower, upper = widened(lower, answers, -rules.slack[p]), widened(upper, answers, rules.slack[p])
            # bounds and labels must stay in the same order: both are put at the end
            labels, widths = stacked(labels, own_labels), widened(widths, own_widths, 0)
    return ended, worst, estimate


@internal
def _measured(chunk: Chunk, f: int, queries: Integers) -> tuple[Int32s, Integers, Floats, Floats]:
    """Labels, widths, values and weights of some queries of a family, as a pass takes them."""
    begin, end = chunk.offsets[f], chunk.offsets[f + 1]
    labels = np.empty((queries.size, end - begin), np.int32)
    widths = np.empty(queries.size, np.int64)
    total = 0
    for j in range(queries.size):
        # the columns of a chunk are those of its supports one after another
        for i in range(begin, end):
            labels[j, i - begin] = chunk.columns[queries[j], i]
        widths[j] = chunk.widths[queries[j], f]
        total += chunk.value_begin[queries[j], f + 1] - chunk.value_begin[queries[j], f]
    values = np.empty(total)
    first, last = chunk.child_begin[f], chunk.child_begin[f + 1]
    weights = np.empty((queries.size, last - first))
    n = 0
    for j in range(queries.size):
        q = queries[j]
        for c in range(first, last):
            # weights of all children first, then values: both in the order of `PassArrays`
            weights[j, c - first] = chunk.weights[q, c]
        for place in range(chunk.value_begin[q, f], chunk.value_begin[q, f + 1]):
            values[n] = chunk.values[place]
            n += 1
    return labels, widths, values, weights


@internal
def _snap(estimate: Floats, allowed: Bools) -> tuple[Entries, Integers]:
    """Estimates as multiples of 2^-20, and the child of each; specification: `tallyveil.estimation.rounding.snap`."""
    n_children, n_cells = estimate.shape
    n = 0
    for c in range(n_children):
        for i in range(n_cells):
            n += allowed[c, i]
    start, cell = np.zeros(n_children + 1, np.int64), np.empty(n, np.int64)
    floor, part, child = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    e = 0
    for c in range(n_children):
        for i in range(n_cells):
            if allowed[c, i]:
                # `rint` rounds halves to even on every machine; the solver's own tiny negative counts become
                # zero
                units = np.int64(np.rint(max(estimate[c, i], 0.0) * ONE))
                cell[e], child[e], floor[e], part[e] = i, c, units // ONE, units % ONE
                # a part of one unit is the solver's rounding error and not a fraction of a person to decide
                # about
                if part[e] >= ONE - 1:
                    floor[e], part[e] = floor[e] + 1, 0
                elif part[e] <= 1:
                    part[e] = 0
                e += 1
        start[c + 1] = e
    return Entries(start, cell, floor, part), child
