"""What the kernels of tables share: the tables, the prices, and the sums that labels make of the tables.

A *table* belongs to one group of the parent's columns. It has a count for each pair of a column of the group and a
child. The sum over the children is fixed for each column, and the sum over the columns is fixed for each child. A
*label* is an answer of a measured query. It sums columns of one child, and may take columns of several tables. So the
tables depend on each other through labels alone.

A price belongs to a column, a row (a table's child) or a label of a child. The counts x that belong to prices are

    x = max(0, centre - (prices of the entry's labels + slack * (price of its column + price of its row)) / weight)

in each entry, where the last two prices are stated in persons: slack is the largest weight of the table over the
child's weight, and a price of 1 moves a count of a child with the largest weight by one person.

Entries of a table lie side by side. The *outer* side is the one with more lines; an inner line's entries are a step
apart. The projection eliminates the prices of the outer side and solves for those of the inner side.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, FloatRows, Floats, Int32s, Integers
from tallyveil.kernels.compiled import internal


class Tables(NamedTuple):
    """Tables that labels couple. There are P tables, K labels and C children.

    Attributes:
        column_begin: [P + 1], where each table's columns begin.
        row_begin: [P + 1], where its rows begin.
        entry_begin: [P + 1], where its entries begin.
        upright: [P], whether columns are the outer side. At a root the row is always the outer side.
        child: [rows], child of each row.
        column_total: [columns], in persons. It is empty at a root, where columns are free.
        row_total: [rows], in persons.
        weight: [rows], weight of the square of (count - centre) in every entry of the row; above zero.
        slack: [rows], largest weight of the table's rows over the row's weight; at least 1.
        centre: [entries], counts that the own measurements ask for.
        label_begin: [columns + 1], where each column's labels begin.
        label: [links], labels of the columns.
        label_weight: [K, C], weight of the square of (sum - target); zero where the child is not measured.
        label_target: [K, C], in persons.
    """

    column_begin: Integers
    row_begin: Integers
    entry_begin: Integers
    upright: Bools
    child: Int32s
    column_total: Floats
    row_total: Floats
    weight: Floats
    slack: Floats
    centre: Floats
    label_begin: Integers
    label: Int32s
    label_weight: FloatRows
    label_target: FloatRows


class Prices(NamedTuple):
    """Prices of columns, [columns], of rows, [rows], and of labels, [K, C]."""

    column: Floats
    row: Floats
    label: FloatRows


@internal
def clear_sums(prices: Prices) -> None:
    """Set the prices of columns and rows to zero."""
    for i in range(prices.column.size):
        prices.column[i] = 0.0
    for k in range(prices.row.size):
        prices.row[k] = 0.0


@internal
def label_forces(tables: Tables, price: Floats, force: Floats) -> None:
    """Write for each entry the sum of its labels' prices over its weight, in persons."""
    n_children = price.shape[1]
    total = np.empty(n_children)
    for p in range(tables.upright.size):
        first, base = tables.row_begin[p], tables.entry_begin[p]
        n_rows = tables.row_begin[p + 1] - first
        n_columns = tables.column_begin[p + 1] - tables.column_begin[p]
        # With rows for more than a third of the children, summing for all of them runs along the prices in memory, and
        # is faster than picking children out.
        whole = n_rows * 3 > n_children
        for i in range(n_columns):
            column = tables.column_begin[p] + i
            begin, end = tables.label_begin[column], tables.label_begin[column + 1]
            if whole:
                for c in range(n_children):
                    total[c] = 0.0
                for z in range(begin, end):
                    of_label = price[tables.label[z]]
                    for c in range(n_children):
                        total[c] += of_label[c]
            # few rows: only the children that the table has
            else:
                for k in range(n_rows):
                    c = tables.child[first + k]
                    total[c] = 0.0
                    for z in range(begin, end):
                        total[c] += price[tables.label[z], c]
            if tables.upright[p]:
                for k in range(n_rows):
                    force[base + i * n_rows + k] = total[tables.child[first + k]] / tables.weight[first + k]
            else:
                for k in range(n_rows):
                    force[base + k * n_columns + i] = (
                        total[tables.child[first + k]] / tables.weight[first + k]
                    )


@internal
def label_sums(tables: Tables, x: Floats, sums: Floats) -> None:
    """Write the sum of each label in each child."""
    for label in range(sums.shape[0]):
        # cleared before entries are added, since labels reach over several tables
        for c in range(sums.shape[1]):
            sums[label, c] = 0.0
    for p in range(tables.upright.size):
        first, base = tables.row_begin[p], tables.entry_begin[p]
        n_rows = tables.row_begin[p + 1] - first
        n_columns = tables.column_begin[p + 1] - tables.column_begin[p]
        along, across = (n_rows, 1) if tables.upright[p] else (1, n_columns)
        # a column's labels are the same for every child, so they are looked up once
        for i in range(n_columns):
            column = tables.column_begin[p] + i
            begin, end = tables.label_begin[column], tables.label_begin[column + 1]
            for k in range(n_rows):
                value = x[base + i * along + k * across]
                # most entries are zero at the optimum
                if value != 0.0:
                    c = tables.child[first + k]
                    for z in range(begin, end):
                        sums[tables.label[z], c] += value
