"""The tables of one component as the solver takes them, and their chains of sets, compiled.

See `family` for what a query says about a table. A component's labels and children are numbered anew, so that the
arrays of a small component are small.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Int8Rows, Int32s, IntegerRows, Integers
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.tiles.family import (
    LINKED,
    OWN,
    RIDGE,
    Family,
    FreeTables,
    TileChunk,
    classify,
    components,
    consistent,
    family_of,
    free_tables,
)
from tallyveil.kernels.tiles.rounding import Nest
from tallyveil.kernels.tiles.tables import Tables


class Numbers(NamedTuple):
    """Room for numbering; -1 everywhere between two components.

    Attributes:
        first: [Q + 1], where each query's labels begin.
        label: Number of each label in the component.
        child: [C], number of each child.
        set_of: Number of each set of a level of the chain in a table.
    """

    first: Integers
    label: Int32s
    child: Int32s
    set_of: Int32s


@internal
def numbers_of(family: Family) -> Numbers:
    """Room for the numbers of a family's components."""
    n_children, largest = family.weights.shape[1], 0
    first = np.zeros(family.widths.size + 1, np.int64)
    for q in range(family.widths.size):
        first[q + 1] = first[q] + family.widths[q]
    for r in range(family.chain.shape[0]):
        # the most sets of any level, so that one work space serves all levels
        for i in range(family.chain.shape[1]):
            largest = max(largest, family.chain[r, i] + 1)
    return Numbers(
        first,
        np.full(first[family.widths.size], -1, np.int32),
        np.full(n_children, -1, np.int32),
        np.full(largest, -1, np.int32),
    )


class Source(NamedTuple):
    """What the components of a family are made from.

    Attributes:
        family, free, says: See `family`.
        numbers: Room; -1 everywhere before and after.
    """

    family: Family
    free: FreeTables
    says: Int8Rows
    numbers: Numbers


@njit(nogil=True, cache=True)
def read_family(chunk: TileChunk, f: int, counts: IntegerRows) -> tuple[bool, Source, Integers, Integers]:
    """Read family f of a chunk, and write the counts that are settled into `counts`, [C, s].

    Returns:
        Whether its fixed counts agree with the parent's (if not, the rest is void); what its components are made from;
        its free tables, component after component; and where each component begins.
    """
    family = family_of(chunk, f)
    good = consistent(family)
    free = free_tables(family, counts, good)
    says = classify(family, free, counts)
    order, begin = components(family, free, says)
    return good, Source(family, free, says, numbers_of(family)), order, begin


@njit(nogil=True, cache=True)
def component_tables(source: Source, members: Integers) -> Tables:
    """The tables of a component, given their numbers."""
    family, free, says, numbers = source
    # sizes are counted first, since arrays of kernels do not grow
    tables = _empty_tables(source, members)
    n_columns, n_rows, n_links = int(np.int64(0)), int(np.int64(0)), int(np.int64(0))
    for t in range(members.size):
        p = members[t]
        width = free.column_begin[p + 1] - free.column_begin[p]
        depth = free.row_begin[p + 1] - free.row_begin[p]
        tables.column_begin[t], tables.row_begin[t] = n_columns, n_rows
        tables.column_begin[t + 1], tables.row_begin[t + 1] = n_columns + width, n_rows + depth
        tables.entry_begin[t + 1] = tables.entry_begin[t] + width * depth
        # The longer side is eliminated: the equations that remain are those of the shorter one.
        tables.upright[t] = family.counts.size > 0 and width >= depth
        _fill_rows(source, p, tables, t)
        for k in range(depth):
            c = free.row[free.row_begin[p] + k]
            tables.child[n_rows + k] = numbers.child[c]
            tables.row_total[n_rows + k] = family.fixed[c, free.group[p]]
        for z in range(free.column_begin[p], free.column_begin[p + 1]):
            column = free.column[z]
            if family.counts.size:
                tables.column_total[n_columns] = family.counts[column]
            for q in range(family.widths.size):
                label = family.labels[q, column]
                # answers that are constant in this table, or its own, couple it to nothing
                if says[q, p] == LINKED and label >= 0:
                    tables.label[n_links] = numbers.label[numbers.first[q] + label]
                    n_links += 1
            n_columns += 1
            tables.label_begin[n_columns] = n_links
        n_rows += depth
        # reads the row totals that were just written
        _fill_centres(source, p, tables, t)
    _fill_labels(source, members, tables)
    return tables


@internal
def _empty_tables(source: Source, members: Integers) -> Tables:
    """Arrays of the right sizes, after numbering the component's labels and children."""
    family, free, says, numbers = source
    n_columns, n_rows, n_entries, n_links, n_labels, n_children = 0, 0, 0, 0, 0, 0
    for t in range(members.size):
        p = members[t]
        width = free.column_begin[p + 1] - free.column_begin[p]
        depth = free.row_begin[p + 1] - free.row_begin[p]
        n_columns, n_rows, n_entries = n_columns + width, n_rows + depth, n_entries + width * depth
        # numbers by first appearance: only children and labels of this component, so that arrays are small
        for k in range(free.row_begin[p], free.row_begin[p + 1]):
            if numbers.child[free.row[k]] < 0:
                numbers.child[free.row[k]] = n_children
                n_children += 1
        for q in range(family.widths.size):
            if says[q, p] == LINKED:
                for z in range(free.column_begin[p], free.column_begin[p + 1]):
                    label = family.labels[q, free.column[z]]
                    if label >= 0:
                        n_links += 1
                        if numbers.label[numbers.first[q] + label] < 0:
                            numbers.label[numbers.first[q] + label] = n_labels
                            n_labels += 1
    return Tables(
        np.zeros(members.size + 1, np.int64),
        np.zeros(members.size + 1, np.int64),
        np.zeros(members.size + 1, np.int64),
        np.zeros(members.size, np.bool_),
        np.empty(n_rows, np.int32),
        np.empty(n_columns if family.counts.size else 0),
        np.empty(n_rows),
        np.empty(n_rows),
        np.empty(n_rows),
        np.empty(n_entries),
        np.zeros(n_columns + 1, np.int64),
        np.empty(n_links, np.int32),
        # zero where a child's query is not measured
        np.zeros((n_labels, n_children)),
        np.zeros((n_labels, n_children)),
    )


@internal
def _fill_rows(source: Source, p: int, tables: Tables, t: int) -> None:
    """Weights of a table's rows, with the ridge where no query measures the entries, and their slacks."""
    family, free, says, _ = source
    first, begin, end = tables.row_begin[t], free.row_begin[p], free.row_begin[p + 1]
    largest, heaviest = 0.0, 0.0
    for k in range(begin, end):
        weight = 0.0
        for q in range(family.widths.size):
            # OWN queries measure entries directly; their weights add up
            if says[q, p] == OWN:
                weight += family.weights[q, free.row[k]]
            if says[q, p] in (OWN, LINKED):
                largest = max(largest, family.weights[q, free.row[k]])
        tables.weight[first + k - begin] = weight
    # no query at all: any weight gives the parent's shares, and 1 is as good as any
    ridge = RIDGE * largest if largest > 0.0 else 1.0
    for k in range(first, first + end - begin):
        tables.weight[k] = tables.weight[k] if tables.weight[k] > 0.0 else ridge
        heaviest = max(heaviest, tables.weight[k])
    for k in range(first, first + end - begin):
        # prices in persons of the heaviest row keep one scale, whatever the variances of the children
        tables.slack[k] = heaviest / tables.weight[k]


@internal
def _fill_centres(source: Source, p: int, tables: Tables, t: int) -> None:
    """What the own measurements ask for; the parent's share where there are none."""
    family, free, says, _ = source
    width = free.column_begin[p + 1] - free.column_begin[p]
    first, depth = tables.row_begin[t], free.row_begin[p + 1] - free.row_begin[p]
    along, across = (depth, 1) if tables.upright[t] else (1, width)
    total = 0.0
    for k in range(first, first + depth):
        total += tables.row_total[k]
    for i in range(width):
        column = free.column[free.column_begin[p] + i]
        # at a root every column gets the same share
        share = 1.0 / width
        if family.counts.size:
            share = family.counts[column] / total
        for k in range(depth):
            c = free.row[free.row_begin[p] + k]
            weighted, weight = 0.0, 0.0
            # the mean of the measurements with their weights: the centre of the sum of their squares
            for q in range(family.widths.size):
                if says[q, p] == OWN and family.weights[q, c] > 0.0:
                    of_query = family.weights[q, c]
                    place = family.value_begin[q] + c * family.widths[q] + family.labels[q, column]
                    weighted += of_query * family.values[place]
                    weight += of_query
            # Step T5: several queries of one entry are one square, at the mean weighted by 1 / variance.
            centre = weighted / weight if weight > 0.0 else share * tables.row_total[first + k]
            tables.centre[tables.entry_begin[t] + i * along + k * across] = centre


@internal
def _fill_labels(source: Source, members: Integers, tables: Tables) -> None:
    """Weights and targets of the labels; then all numbers are -1 again."""
    family, free, says, numbers = source
    for t in range(members.size):
        p = members[t]
        for q in range(family.widths.size):
            if says[q, p] != LINKED:
                continue
            for z in range(free.column_begin[p], free.column_begin[p + 1]):
                label = family.labels[q, free.column[z]]
                number = numbers.label[numbers.first[q] + label] if label >= 0 else -1
                # written before, by an earlier column with this label: numbers go back to -1 as they are used
                if number < 0:
                    continue
                for c in range(numbers.child.size):
                    if numbers.child[c] >= 0 and family.weights[q, c] > 0.0:
                        place = family.value_begin[q] + c * family.widths[q] + label
                        tables.label_weight[number, numbers.child[c]] = family.weights[q, c]
                        tables.label_target[number, numbers.child[c]] = family.values[place]
                # also marks a label as filled, so that a second column of it does not fill it again
                numbers.label[numbers.first[q] + label] = -1
    for t in range(members.size):
        for k in range(free.row_begin[members[t]], free.row_begin[members[t] + 1]):
            # only now, as every label above needed the children's numbers
            numbers.child[free.row[k]] = -1


@internal
def table_nest(family: Family, columns: Int32s, numbers: Numbers) -> Nest:
    """The chain's sets in one table, numbered as they appear."""
    n_levels = family.chain.shape[0]
    nest = Nest(
        np.empty((n_levels, columns.size), np.int32), np.zeros(n_levels, np.int64), family.chain_weight
    )
    for r in range(n_levels):
        chain = family.chain[r]
        for i in range(columns.size):
            group = chain[columns[i]]
            if numbers.set_of[group] < 0:
                numbers.set_of[group] = nest.size[r]
                nest.size[r] += 1
            nest.number[r, i] = numbers.set_of[group]
        # set back set by set and not as a whole: the work space is as long as the largest level
        for i in range(columns.size):
            numbers.set_of[chain[columns[i]]] = -1
    return nest
