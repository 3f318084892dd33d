"""Kernel that estimates many families of tables in one call: least squares, rounding and checks, family by family.

The kernel does not hold the interpreter's lock, so chunks run side by side. A family's counts do not depend on the
other families of its chunk. Every family gets counts, because every table of fixed sums has whole numbers
(docs/proofs/tiles.md); only a family whose sums contradict each other has none.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tallyveil.arrays import FloatRows, Floats, Int32s, IntegerRows, Integers, Numbers
from tallyveil.kernels.compiled import (
    all_compiled,
    compiled,
    conforming,
    inlined,
    internal,
    njit,
    pointers,
)
from tallyveil.kernels.tiles.direction import DIRECTION_PARTS, find_direction
from tallyveil.kernels.tiles.family import (
    Family,
    Source,
    TileChunk,
    component_tables,
    read_family,
    table_nest,
)
from tallyveil.kernels.tiles.rounding import FAILED, Estimates, Nest, round_table
from tallyveil.kernels.tiles.solver import (
    ComponentOutcome,
    ComponentParts,
    Methods,
    approach,
    climb,
    combine,
    evaluate,
    gaps_of,
    solve_component,
    spread,
)
from tallyveil.kernels.tiles.tables import Prices, Tables, project
from tallyveil.kernels.vectors import longer

CONTRADICTORY, UNPROVED, SETTLED, SOLVED = -2, -1, 0, 1
"""How a family ended. CONTRADICTORY: its fixed counts contradict the parent. UNPROVED: a rounding failed its proof or
the counts failed the check of their sums (a defect). SETTLED: nothing was left to choose."""

PLAIN_AT, TABLES_AT, COMPONENTS_AT, ENTRIES_AT, RESTARTS_AT, STEPS_AT, CG_STEPS_AT, FLOWS_AT = (
    0, 4, 5, 6, 7, 8, 9, 10,
)  # fmt: skip
EFFORT_SIZE = 14
"""Columns of the record of a family's effort: components by rung (4), free tables, components, free entries, restarts,
Newton's steps, conjugate gradients, and tables by the way in which they were rounded (4)."""


@pointers
class TileKernels(NamedTuple):
    """The kernels that are called through pointers."""

    read_family: Callable[[TileChunk, int, IntegerRows], tuple[bool, Source, Integers, Integers]]
    component_tables: Callable[[Source, Integers], Tables]
    solve: Callable[[Tables, Prices, Floats, float, ComponentParts], ComponentOutcome]
    parts: ComponentParts
    round_up: Callable[[Estimates, Nest, Integers], int]
    sums_hold: Callable[[Family, IntegerRows], bool]


class Solved(NamedTuple):
    """Counts of a chunk.

    Attributes:
        ended: [F], how each family ended.
        gaps: [F, 3], largest backward error, and what is left of the other conditions (`certificate.Gaps`), persons.
        effort: [F, EFFORT_SIZE].
        offsets: [children + 1], where each child's counts begin.
        columns: Columns of its family that are above zero, rising within a child.
        counts: Persons.
        estimates: Real-valued counts, one family after the other, child by child; empty unless they were asked for.
    """

    ended: Integers
    gaps: FloatRows
    effort: IntegerRows
    offsets: Integers
    columns: Int32s
    counts: Integers
    estimates: Floats


@njit(nogil=True, cache=True)
def sums_hold(family: Family, counts: IntegerRows) -> bool:
    """Whether counts are not negative and have every sum, in whole numbers."""
    n_children, n_columns = counts.shape
    left, good = np.empty(family.fixed.shape[1], np.int64), True
    # a copy, from which what the children have is taken away
    columns = family.counts.copy()
    for c in range(n_children):
        for g in range(left.size):
            left[g] = family.fixed[c, g]
        for i in range(n_columns):
            # whole numbers and no tolerance
            good &= counts[c, i] >= 0
            left[family.group[i]] -= counts[c, i]
            if columns.size:
                columns[i] -= counts[c, i]
        for g in range(left.size):
            good &= left[g] == 0
    for i in range(columns.size):
        good &= columns[i] == 0
    return good


KERNELS = TileKernels(
    read_family,
    component_tables,
    solve_component,
    ComponentParts(
        Methods(project, approach, find_direction, DIRECTION_PARTS, evaluate, combine), spread, climb, gaps_of
    ),
    round_table,
    sums_hold,
)
"""One kernel with the code of all of them would take longer to compile than all of them by themselves."""


def solve_chunk(chunk: TileChunk, tolerance: float, *, keep_estimates: bool = False) -> Solved:
    """Estimate and round every family of a chunk; see `solve_families`.

    The chunk's values are changed (`family.TileChunk`), so that a chunk can be solved once.
    """
    kernels = all_compiled(KERNELS)
    typed = conforming(chunk)
    solved: Solved = compiled(solve_families)(typed, float(tolerance), bool(keep_estimates), kernels)
    return solved


@njit(nogil=True, cache=True)
def solve_families(chunk: TileChunk, tolerance: float, keep: bool, kernels: TileKernels) -> Solved:
    """Estimate and round every family of a chunk.

    Args:
        chunk: The families.
        tolerance: Backward error that is asked for, in persons.
        keep: Whether to return the real-valued estimates.
        kernels: Kernels to call.
    """
    n_families = chunk.child_begin.size - 1
    ended, gaps = np.zeros(n_families, np.int64), np.zeros((n_families, 3))
    effort = np.zeros((n_families, EFFORT_SIZE), np.int64)
    offsets = np.zeros(chunk.child_begin[n_families] + 1, np.int64)
    # Counts above zero, with room for two a column at first. The arrays are made longer where this is not enough.
    columns, persons = (
        np.empty(2 * chunk.group.size + 16, np.int32),
        np.empty(2 * chunk.group.size + 16, np.int64),
    )
    # The size of the estimates is known beforehand, and counts above zero are not: the one is made once, the
    # other grows.
    n_kept = int(np.int64(0))
    for f in range(n_families):
        width = chunk.offsets[f + 1] - chunk.offsets[f]
        n_kept += width * (chunk.child_begin[f + 1] - chunk.child_begin[f]) if keep else 0
    estimates = np.zeros(n_kept)
    n, n_kept = int(np.int64(0)), int(np.int64(0))
    for f in range(n_families):
        width = chunk.offsets[f + 1] - chunk.offsets[f]
        n_children = chunk.child_begin[f + 1] - chunk.child_begin[f]
        # without `keep`, an array of no rows
        real = estimates[n_kept : n_kept + width * n_children].reshape(n_children if keep else 0, width)
        n_kept += real.size
        counts = np.zeros((n_children, width), np.int64)
        ended[f] = _solve_family(chunk, f, counts, tolerance, real, (gaps[f], effort[f]), kernels)
        more = 0
        for c in range(n_children):
            for i in range(width):
                # counted before they are written, so that a family's counts are never cut in two
                more += counts[c, i] != 0
        if n + more > columns.size:
            columns, persons = longer(columns, 2 * (n + more)), longer(persons, 2 * (n + more))
        for c in range(n_children):
            for i in range(width):
                if counts[c, i] != 0:
                    columns[n], persons[n] = i, counts[c, i]
                    n += 1
            offsets[chunk.child_begin[f] + c + 1] = n
    return Solved(ended, gaps, effort, offsets, columns[:n].copy(), persons[:n].copy(), estimates)


@inlined
def _solve_family(
    chunk: TileChunk,
    f: int,
    counts: Integers,
    tolerance: float,
    estimates: Floats,
    record: tuple[Floats, Integers],
    kernels: TileKernels,
) -> int:
    """Estimate and round one family; `record` has its gaps and its effort."""
    good, source, order, begin = kernels.read_family(chunk, f, counts)
    # the caller says so with names; there are no counts for it
    if not good:
        return CONTRADICTORY
    # what is settled is exact
    for c in range(estimates.shape[0]):
        for i in range(estimates.shape[1]):
            estimates[c, i] = counts[c, i]
    which = np.arange(begin.size - 1)
    proved = solve_components(
        Components(source, order, begin), which, counts, tolerance, estimates, record, kernels
    )
    # All fixed sums once more, in whole numbers and from the counts alone, whatever the steps before have done
    if not proved or not kernels.sums_hold(source.family, counts):
        return UNPROVED
    return SOLVED if begin.size > 1 else SETTLED


class Components(NamedTuple):
    """The components of a family: sets of free tables that no measured query couples with others.

    Attributes:
        source: The tables of the family.
        order: The free tables, component after component.
        begin: Where each component begins.
    """

    source: Source
    order: Integers
    begin: Integers


@internal
def solve_components(
    components: Components,
    which: Integers,
    counts: IntegerRows,
    tolerance: float,
    estimates: Floats,
    record: tuple[Floats, Integers],
    kernels: TileKernels,
) -> bool:
    """Estimate and round some components of a family, and write their counts.

    Args:
        components: All of them.
        which: Numbers of the components to solve.
        counts: Counts of the family; those of the components are changed.
        tolerance: Largest backward error, in persons.
        estimates: Real-valued estimates of the family, or no rows.
        record: Gaps and effort of the family, changed: the largest gaps, and the sum of the effort, with those of the
            components.
        kernels: Kernels to call.
    Returns:
        Whether every rounding passed its proof.
    """
    source, order, begin = components
    gaps, effort = record
    proved = True
    for j in which:
        members = order[begin[j] : begin[j + 1]]
        tables = kernels.component_tables(source, members)
        prices, x = zero_prices(tables), np.empty(tables.centre.size)
        note(gaps, effort, tables, kernels.solve(tables, prices, x, tolerance, kernels.parts))
        for t in range(members.size):
            way = round_and_write(source, members[t], tables, t, x, counts, kernels)
            effort[FLOWS_AT + way] += 1
            proved &= way != FAILED
            if estimates.shape[0]:
                entries = x[tables.entry_begin[t] : tables.entry_begin[t + 1]]
                _write(source, members[t], tables, t, entries, estimates)
    return proved


@internal
def zero_prices(tables: Tables) -> Prices:
    """Prices of zero, at which Newton's method begins (`solver`)."""
    return Prices(
        np.zeros(tables.label_begin.size - 1),
        np.zeros(tables.row_total.size),
        np.zeros(tables.label_weight.shape),
    )


@internal
def note(gaps: Floats, effort: Integers, tables: Tables, outcome: ComponentOutcome) -> None:
    """Enter how a component ended into the record of its family."""
    gaps[0] = max(gaps[0], outcome.gaps.labels)
    gaps[1] = max(gaps[1], outcome.gaps.entries)
    gaps[2] = max(gaps[2], outcome.gaps.sums)
    effort[PLAIN_AT + outcome.rung] += 1
    effort[TABLES_AT] += tables.upright.size
    effort[COMPONENTS_AT] += 1
    effort[ENTRIES_AT] += tables.centre.size
    effort[RESTARTS_AT] += outcome.restarts
    effort[STEPS_AT] += outcome.steps
    effort[CG_STEPS_AT] += outcome.cg_steps


@internal
def round_and_write(
    source: Source, p: int, tables: Tables, t: int, x: Floats, counts: Integers, kernels: TileKernels
) -> int:
    """Round one table into the counts of its family; returns how it was rounded.

    Tables are rounded one by one: their fixed sums leave nothing that one table could take from another.
    """
    whole = np.zeros(tables.entry_begin[t + 1] - tables.entry_begin[t], np.int64)
    way = _round(source, p, tables, t, x, whole, kernels)
    _write(source, p, tables, t, whole, counts)
    return way


@internal
def _round(
    source: Source, p: int, tables: Tables, t: int, x: Floats, whole: Integers, kernels: TileKernels
) -> int:
    """Round one table."""
    free = source.free
    first, last = tables.column_begin[t], tables.column_begin[t + 1]
    top, bottom = tables.row_begin[t], tables.row_begin[t + 1]
    begin, end = tables.entry_begin[t], tables.entry_begin[t + 1]
    # entries lie along the outer side first: the columns of an upright table
    along, across = (bottom - top, 1) if tables.upright[t] else (1, last - first)
    totals = tables.column_total[first:last] if tables.column_total.size else tables.column_total
    table = Estimates(x[begin:end], along, across, totals, tables.row_total[top:bottom])
    columns = free.column[free.column_begin[p] : free.column_begin[p + 1]]
    # sets of all columns, numbered anew for the few of this table
    nest = table_nest(source.family, columns, source.numbers)
    return kernels.round_up(table, nest, whole)


@internal
def _write(source: Source, p: int, tables: Tables, t: int, x: Numbers, out: Numbers) -> None:
    """Copy the entries x of a table to the family's counts, which are whole or real numbers."""
    free, width = source.free, tables.column_begin[t + 1] - tables.column_begin[t]
    depth = tables.row_begin[t + 1] - tables.row_begin[t]
    along, across = (depth, 1) if tables.upright[t] else (1, width)
    for i in range(width):
        column = free.column[free.column_begin[p] + i]
        for k in range(depth):
            value = x[i * along + k * across]
            out[free.row[free.row_begin[p] + k], column] = value
