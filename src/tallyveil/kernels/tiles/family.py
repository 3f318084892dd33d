"""From a family's arrays to its free tables, component by component, as the solver takes them, compiled.

Problem: find what is not settled yet. A group with one child or one column above zero is settled by its fixed
counts. Each other group is a *free* table. Step, for each measured query and free table:

- All columns of the table are in one answer: the answer's sum over the table is fixed. It is subtracted
  (CONSTANT).
- Every column of the table is alone in its answer, among all columns that are not settled: the query measures
  the table's entries themselves, and is a part of their weight and centre (OWN).
- Otherwise the columns keep the query's answers as labels (LINKED).

An entry that no query measures by itself gets a ridge: a weight of RIDGE times the largest weight of a query
at its table, with the parent's share as centre.

A component's labels and children are numbered anew, so that the arrays of a small component are small. The
chains of sets that its rounding keeps are listed, too.

Worked case: a parent with columns a and b in group 0 and column c in group 1. The total is LINKED nowhere: it
is CONSTANT in both tables. The query whose answers are the columns is OWN.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import FloatRows, Floats, Int8Rows, Int8s, Int32Rows, Int32s, IntegerRows, Integers
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.tiles.rounding import Nest
from tallyveil.kernels.tiles.tables import Tables

# Twice as much pulls twice as hard on counts that only sums determine; half as much makes the equations worse
# to solve. Published counts depend on it.
RIDGE = 2.0**-10
"""Weight of the ridge, as a multiple of the largest weight of a query at the table."""

NONE, CONSTANT, OWN, LINKED = 0, 1, 2, 3
"""What a query says about a table. NONE: none of its columns is in an answer."""


class TileChunk(NamedTuple):
    """Consecutive families. Positions count from the chunk's first column and child.

    There are F families, Q measured queries and R levels of nested sets.

    Attributes:
        offsets: Where each parent's columns begin. [F + 1]
        counts: The parents' counts of the columns; empty at a root.
        group: Group of each column, numbered within its family.
        child_begin: First child of each family. [F + 1]
        fixed_begin: Where each family's fixed counts begin. [F + 1]
        fixed: Counts of each child in each group, child by child.
        labels: Answer of each column among its family's answers, -1: none. [Q, columns]
        widths: Answers of each family. [Q, F]
        value_begin: Where each family's values begin. [Q, F + 1]
        values: Noisy answers, or what replaces them, in persons. Kernels change them: what is settled is subtracted.
        weights: 1 / variance of each child's answers, 0: not measured. [Q, children]
        chain: Set of each column, coarse to fine, numbered from 0. [R, columns]
        chain_weight: Weight of a person of deviation, a whole number. [R]
    """

    offsets: Integers
    counts: Integers
    group: Int32s
    child_begin: Integers
    fixed_begin: Integers
    fixed: Integers
    labels: Int32Rows
    widths: IntegerRows
    value_begin: IntegerRows
    values: Floats
    weights: FloatRows
    chain: Int32Rows
    chain_weight: Integers


class Family(NamedTuple):
    """A parent with s columns, C children, G groups, Q measured queries and R levels of nested sets.

    Attributes:
        counts: [s], the parent's counts; empty at a root.
        group: [s], group of each column.
        fixed: [C, G], counts of each child in each group.
        labels: [Q, s], answer of each column, -1: none.
        widths: [Q], answers.
        value_begin: [Q], where each query's values begin; those of a child lie side by side.
        values: Noisy answers, in persons, of the whole chunk. There may be a hundred million, so they are not copied.
        weights: [Q, C], 1 / variance; 0: not measured.
        chain: [R, s], set of each column, coarse to fine.
        chain_weight: [R], whole numbers.
    """

    counts: Integers
    group: Int32s
    fixed: IntegerRows
    labels: Int32Rows
    widths: Integers
    value_begin: Integers
    values: Floats
    weights: FloatRows
    chain: Int32Rows
    chain_weight: Integers


class FreeTables(NamedTuple):
    """Tables that are not settled. Columns and rows lie side by side by table.

    Attributes:
        group: [P], group of each table.
        column_begin: [P + 1]. column: number of each column in the family.
        row_begin: [P + 1]. row: child of each row.
    """

    group: Integers
    column_begin: Integers
    column: Int32s
    row_begin: Integers
    row: Int32s


@internal
def family_of(chunk: TileChunk, f: int) -> Family:
    """One family of a chunk."""
    # rows of a chunk's arrays, cut out where the solver reads them often; values stay where they are
    begin, end = chunk.offsets[f], chunk.offsets[f + 1]
    first, last = chunk.child_begin[f], chunk.child_begin[f + 1]
    n_queries, n_levels, n_children = chunk.widths.shape[0], chunk.chain.shape[0], last - first
    labels, chain = np.empty((n_queries, end - begin), np.int32), np.empty((n_levels, end - begin), np.int32)
    widths, weights = np.empty(n_queries, np.int64), np.empty((n_queries, n_children))
    # where each query's values begin differs by query, since families reach different answers
    value_begin = np.empty(n_queries, np.int64)
    for q in range(n_queries):
        widths[q], value_begin[q] = chunk.widths[q, f], chunk.value_begin[q, f]
        for c in range(n_children):
            weights[q, c] = chunk.weights[q, first + c]
        for i in range(end - begin):
            labels[q, i] = chunk.labels[q, begin + i]
    for r in range(n_levels):
        for i in range(end - begin):
            chain[r, i] = chunk.chain[r, begin + i]
    fixed = chunk.fixed[chunk.fixed_begin[f] : chunk.fixed_begin[f + 1]]
    return Family(
        chunk.counts[begin:end] if chunk.counts.size else chunk.counts,
        chunk.group[begin:end],
        fixed.reshape(n_children, fixed.size // n_children),
        labels,
        widths,
        value_begin,
        chunk.values,
        weights,
        chain,
        chunk.chain_weight,
    )


@internal
def consistent(family: Family) -> bool:
    """Whether every group's columns and children have the same sum, and nothing is negative."""
    # A parent without people has no columns either, and is no root for that.
    n_groups, root = family.fixed.shape[1], family.counts.size == 0 and family.group.size > 0
    sums = np.zeros(n_groups, np.int64)
    filled = np.zeros(n_groups, np.bool_)
    good = True
    for i in range(family.group.size):
        # a group out of range would write outside the arrays, so nothing is done after the first
        good &= 0 <= family.group[i] < n_groups
        if good:
            filled[family.group[i]] = True
            if not root:
                sums[family.group[i]] += family.counts[i]
                good &= family.counts[i] >= 0
    for c in range(family.fixed.shape[0]):
        for g in range(n_groups):
            # at a root columns have no counts to compare with, but a group without columns must be empty
            good &= family.fixed[c, g] >= 0
            sums[g] -= 0 if root else family.fixed[c, g]
            good &= not root or filled[g] or family.fixed[c, g] == 0
    for g in range(n_groups):
        good &= sums[g] == 0
    return good and (not root or family.fixed.shape[0] == 1)


@internal
def free_tables(family: Family, counts: Integers, good: bool) -> FreeTables:
    """Write the counts that are settled into `counts`, [C, s], and list the tables that are not.

    There are none if the family is not `good` (`consistent`)."""
    n_children, n_groups = family.fixed.shape[0], family.fixed.shape[1] if good else 0
    n_columns, root = family.group.size if good else 0, family.counts.size == 0
    # Columns of each group by counting sort. Where the parent has nobody, all children have nobody.
    begin = np.zeros(n_groups + 1, np.int64)
    for i in range(n_columns):
        begin[family.group[i] + 1] += 1 if root or family.counts[i] > 0 else 0
    for g in range(n_groups):
        begin[g + 1] += begin[g]
    members, place = np.empty(begin[n_groups], np.int32), begin.copy()
    for i in range(n_columns):
        if root or family.counts[i] > 0:
            g = family.group[i]
            members[place[g]] = i
            place[g] += 1
    # Rows of each group: the children with anybody in it
    n_rows = np.zeros(n_groups, np.int64)
    total_rows, total_columns, n_free = 0, 0, 0
    for c in range(n_children):
        for g in range(n_groups):
            n_rows[g] += family.fixed[c, g] > 0
    for g in range(n_groups):
        # One column or one row is settled by its fixed sums. At a root, columns have no sums, so that one row is free.
        if begin[g + 1] - begin[g] > 1 and (n_rows[g] > 1 or (root and n_rows[g] > 0)):
            total_rows, total_columns = total_rows + n_rows[g], total_columns + begin[g + 1] - begin[g]
            n_free += 1
    free = FreeTables(
        np.empty(n_free, np.int64),
        np.zeros(n_free + 1, np.int64),
        np.empty(total_columns, np.int32),
        np.zeros(n_free + 1, np.int64),
        np.empty(total_rows, np.int32),
    )
    # int(np.int64(0)) is no literal, see `kernels.compiled`
    p = int(np.int64(0))
    for g in range(n_groups):
        width = begin[g + 1] - begin[g]
        if width > 1 and (n_rows[g] > 1 or (root and n_rows[g] > 0)):
            free.group[p] = g
            free.column_begin[p + 1], free.row_begin[p + 1] = free.column_begin[p] + width, free.row_begin[p]
            for z in range(width):
                free.column[free.column_begin[p] + z] = members[begin[g] + z]
            for c in range(n_children):
                if family.fixed[c, g] > 0:
                    free.row[free.row_begin[p + 1]] = c
                    free.row_begin[p + 1] += 1
            p += 1
            continue
        # A single column has the children's fixed counts; a single row has the parent's counts.
        for c in range(n_children):
            if family.fixed[c, g] > 0:
                for z in range(begin[g], begin[g + 1]):
                    counts[c, members[z]] = family.fixed[c, g] if width == 1 else family.counts[members[z]]
    return free


@internal
def classify(family: Family, free: FreeTables, counts: Integers) -> Int8s:
    """What each query says about each free table, [Q, P].

    Args:
        family: The family. What is settled or fixed is subtracted from its values.
        free: Its free tables.
        counts: [C, s], the settled counts.
    """
    n_queries, n_tables = family.widths.size, free.group.size
    n_children, n_columns = counts.shape
    says = np.zeros((n_queries, n_tables), np.int8)
    largest = int(np.int64(1))
    for q in range(n_queries):
        largest = max(largest, family.widths[q])
    # How many columns of free tables each answer sums; and the values, from which all that is known is taken away
    uses, targets = np.empty(largest, np.int64), family.values
    for q in range(n_queries):
        width, labels, first = family.widths[q], family.labels[q], family.value_begin[q]
        # a query that measures no child of the family says nothing about its tables
        used = False
        for c in range(n_children):
            used |= family.weights[q, c] > 0.0
            for i in range(n_columns):
                # settled counts leave the noisy answers for good: what is left is about free tables alone
                if counts[c, i] != 0 and labels[i] >= 0:
                    targets[first + c * width + labels[i]] -= counts[c, i]
        if used:
            for label in range(width):
                uses[label] = 0
            for p in range(n_tables):
                says[q, p] = _says(labels, free, p)
                if says[q, p] == CONSTANT:
                    label = labels[free.column[free.column_begin[p]]]
                    for k in range(free.row_begin[p], free.row_begin[p + 1]):
                        c = free.row[k]
                        targets[first + c * width + label] -= family.fixed[c, free.group[p]]
                elif says[q, p] == LINKED:
                    for z in range(free.column_begin[p], free.column_begin[p + 1]):
                        if labels[free.column[z]] >= 0:
                            uses[labels[free.column[z]]] += 1
            # An answer that sums one column of one table alone is a measurement of that count, and couples nothing.
            for p in range(n_tables):
                if says[q, p] == LINKED:
                    alone = True
                    for z in range(free.column_begin[p], free.column_begin[p + 1]):
                        label = labels[free.column[z]]
                        alone &= label >= 0 and uses[label] == 1
                    says[q, p] = OWN if alone else LINKED
    return says


@internal
def _says(labels: Int32s, free: FreeTables, p: int) -> int:
    """NONE, CONSTANT or LINKED."""
    # labels of the first column: one table is CONSTANT only if all columns have it
    first = labels[free.column[free.column_begin[p]]]
    same, anything = True, False
    for z in range(free.column_begin[p], free.column_begin[p + 1]):
        # -1 is not an answer: a column without one makes the table LINKED, unless none has one
        label = labels[free.column[z]]
        same &= label == first
        anything |= label >= 0
    return NONE if not anything else (CONSTANT if same else LINKED)


@internal
def components(family: Family, free: FreeTables, says: Int8s) -> tuple[Integers, Integers]:
    """Tables in the order of the components that labels make of them, and where each component begins."""
    n_tables = free.group.size
    # Union-find: each table points to an earlier one of its component, the first one to itself.
    above = np.empty(n_tables, np.int64)
    for p in range(n_tables):
        above[p] = p
    largest = int(np.int64(1))
    for q in range(family.widths.size):
        largest = max(largest, family.widths[q])
    seen = np.empty(largest, np.int64)
    for q in range(family.widths.size):
        for label in range(family.widths[q]):
            seen[label] = -1
        for p in range(n_tables):
            if says[q, p] == LINKED:
                for z in range(free.column_begin[p], free.column_begin[p + 1]):
                    label = family.labels[q, free.column[z]]
                    if label < 0:
                        continue
                    # a label that two tables share joins them; labels of one table join nothing
                    if seen[label] < 0:
                        seen[label] = p
                    else:
                        # the smaller number stays on top, so that components are in the order of their first tables
                        top, other = _top(above, p), _top(above, seen[label])
                        above[max(top, other)] = min(top, other)
    number, size = np.full(n_tables, -1, np.int64), np.zeros(n_tables + 1, np.int64)
    n = int(np.int64(0))
    # the first table of a component is reached first, so that numbers follow the tables
    for p in range(n_tables):
        top = _top(above, p)
        if top == p:
            number[p] = n
            n += 1
        number[p] = number[top]
        size[number[p] + 1] += 1
    # counting sort by component
    begin, place = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    for j in range(n):
        begin[j + 1] = begin[j] + size[j + 1]
        place[j + 1] = begin[j + 1]
    order = np.empty(n_tables, np.int64)
    for p in range(n_tables):
        order[place[number[p]]] = p
        place[number[p]] += 1
    return order, begin


@internal
def _top(above: Integers, p: int) -> int:
    """The first table of p's component; the way there becomes shorter."""
    while above[p] != p:
        # shorter ways for later calls: in the end every table points to the first one
        above[p] = above[above[p]]
        p = above[p]
    return p


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
        np.empty(n_rows, np.uint32),
        np.empty(n_columns if family.counts.size else 0),
        np.empty(n_rows),
        np.empty(n_rows),
        np.empty(n_rows),
        np.empty(n_entries),
        np.zeros(n_columns + 1, np.int64),
        np.empty(n_links, np.uint32),
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
