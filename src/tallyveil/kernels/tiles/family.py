"""From a family's arrays to its free tables, and what each measured query says about them, compiled.

Problem: find what is not settled yet. A group with one child or one column above zero is settled by its fixed counts.
Each other group is a *free* table. Step, for each measured query and free table:

- All columns of the table are in one answer: the answer's sum over the table is fixed. It is subtracted (CONSTANT).
- Every column of the table is alone in its answer, among all columns that are not settled: the query measures the
  table's entries themselves, and is a part of their weight and centre (OWN).
- Otherwise the columns keep the query's answers as labels (LINKED).

An entry that no query measures by itself gets a ridge: a weight of RIDGE times the largest weight of a query at its
table, with the parent's share as centre.

Worked case: a parent with columns a and b in group 0 and column c in group 1. The total is LINKED nowhere: it is
CONSTANT in both tables. The query whose answers are the columns is OWN.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import (
    FloatRows,
    Floats,
    Int8s,
    Int32Rows,
    Int32s,
    IntegerRows,
    Integers,
)
from tallyveil.kernels.compiled import internal

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
