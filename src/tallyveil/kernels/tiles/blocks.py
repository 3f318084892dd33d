"""Preconditioner of Newton's equations for the prices of coupled tables: the children one by one, compiled.

Problem: the matrix A of `direction` has a row for each label of each child, and one for each inner line. Find a matrix
that is like the inverse of A and fast to apply. The more alike they are, the fewer steps conjugate gradients take.

Step: what one child does to another is left out, and so is what columns that are inner lines do to labels. Then A falls
into a block for each child, which is exact for the child alone. It has the child's labels and its rows of tables whose
outer lines are columns. An active entry of such a table falls by give * (1 - its share of its column's gives), because
the column's mean moves with it. The prices of the rows are eliminated, since no two rows share an entry. With g such a
fall, M an entry's labels and s the sum of g M over a row, what is left for the labels is

    diag(1 / label_weight) + sum over entries of g M M' - sum over rows of s s' / (sum of g),

which is positive definite. It is factored (`kernels.cholesky`). Where the outer lines are rows, g is the give itself,
and the same sum over rows comes from the row's own mean. All other labels and lines are divided by their diagonal.

A label that no active entry of a child has, and labels of few columns beyond MOST_LABELS, are such other labels.

Worked case: one table of one column and two children, all entries active with give 1, one label of weight 1 on the
column. Each entry falls by 1 - 1/2. A child's block is 1 + 1/2 - (1/2)(1/2) / (1/2) = 1.

Oracle: the inverse of the dense matrix in numpy, in the tests.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.kernels.cholesky import cholesky
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.tiles.face import TableFace
from tallyveil.kernels.tiles.tables import Tables

# A block is then 512 KiB a child at most. With twice as many it takes four times the memory and eight times
# the factorisation; with half as many, more labels are divided by their diagonal and more steps are made.
MOST_LABELS = 256
"""Most labels of a block. Labels of many columns come first."""


class ChildBlocks(NamedTuple):
    """The factored blocks of all children. A vector is one of `direction`: labels first, then inner lines.

    Attributes:
        begin: [C + 1], where each child's labels begin.
        place: Place of each of these labels in a vector.
        factor_begin: [C + 1], where each child's factor begins.
        factor: U with U'U = block, and U's mirror image below the diagonal, row by row.
        row_begin: [rows + 1], where the labels of each eliminated row begin.
        row_label: Their numbers in the child's block.
        row_sum: Sums of falls.
        labels, right: Room for the labels of all children, and of one.
    """

    begin: Integers
    place: Integers
    factor_begin: Integers
    factor: Floats
    row_begin: Integers
    row_label: Int32s
    row_sum: Floats
    labels: Floats
    right: Floats


class _Rows(NamedTuple):
    """Of one table, by row: sums of falls by number of the label in the child's block, and over all entries."""

    sums: Floats
    total: Floats


@internal
def factored_blocks(tables: Tables, face: TableFace, easing: Floats, share: Floats) -> ChildBlocks:
    """Factor the block of every child.

    Args:
        tables: The tables.
        face: The active entries.
        easing: 1 / label_weight of each label and child, 0: not measured.
        share: 1 / diagonal of each label and inner line, 0: nothing to move.
    """
    number = _numbered(tables, face, easing, share)
    blocks = _empty_blocks(tables, face, number, easing)
    row_begin, row_label, row_sum = blocks.row_begin, blocks.row_label, blocks.row_sum
    for p in range(tables.upright.size):
        first_row, depth = tables.row_begin[p], tables.row_begin[p + 1] - tables.row_begin[p]
        # one table at a time: rows times labels of a block, for all tables at once, would be far more memory
        rows = _Rows(np.zeros((depth, blocks.right.size)), np.zeros(depth))
        _add_entries(tables, face, p, number, blocks, rows)
        n_sums = row_begin[first_row]
        for k in range(depth):
            if n_sums + blocks.right.size > row_label.size:
                # doubled, so that copying costs no more than filling
                row_label, row_sum = _longer(row_label, row_sum, n_sums, 2 * (n_sums + blocks.right.size))
            last = _subtract_row(blocks, rows, k, tables.child[first_row + k], (row_label, row_sum), n_sums)
            # Only rows that are inner lines have an equation to be solved back into. Of others the sums serve
            # the subtraction alone.
            n_sums = last if tables.upright[p] and tables.column_total.size else n_sums
            row_begin[first_row + k + 1] = n_sums
    _factor(blocks, share)
    return ChildBlocks(
        blocks.begin,
        blocks.place,
        blocks.factor_begin,
        blocks.factor,
        row_begin,
        row_label,
        row_sum,
        blocks.labels,
        blocks.right,
    )


@internal
def _longer(labels: Int32s, sums: Floats, n: int, capacity: int) -> tuple[Int32s, Floats]:
    longer_labels, longer_sums = np.empty(capacity, np.int32), np.empty(capacity)
    for z in range(n):
        longer_labels[z], longer_sums[z] = labels[z], sums[z]
    return longer_labels, longer_sums


@internal
def _least_columns(tables: Tables) -> tuple[Integers, int]:
    """The number of columns of each label, and how many a label of a block has at least."""
    n_labels, most = tables.label_weight.shape[0], int(np.int64(0))
    columns = np.zeros(n_labels, np.int64)
    for label in tables.label:
        columns[label] += 1
    for label in range(n_labels):
        most = max(most, columns[label])
    with_so_many = np.zeros(most + 1, np.int64)
    # how many labels have each number of columns
    for label in range(n_labels):
        with_so_many[columns[label]] += 1
    least, chosen = most + 1, int(np.int64(0))
    # all labels with the same number of columns or none: which labels are in a block does not depend on their
    # order
    while least > 1 and chosen + with_so_many[least - 1] <= MOST_LABELS:
        least -= 1
        chosen += with_so_many[least]
    return columns, least


@internal
def _numbered(tables: Tables, face: TableFace, easing: Floats, share: Floats) -> Int32s:
    """Number of each label and child in the child's block, -1: none; at its place in a vector."""
    n_labels, n_children = tables.label_weight.shape
    columns, least = _least_columns(tables)
    number = np.full(n_labels * n_children, -1, np.int32)
    for c in range(n_children):
        n = int(np.int64(0))
        for label in range(n_labels):
            j = label * face.label_step + c * face.child_step
            # the diagonal is that of the weight alone where no active entry has the label
            if columns[label] >= least and easing[j] > 0.0 and share[j] * easing[j] < 1.0:
                number[j] = n
                n += 1
    return number


@internal
def _empty_blocks(tables: Tables, face: TableFace, number: Int32s, easing: Floats) -> ChildBlocks:
    """Blocks of the labels' weights alone."""
    n_labels, n_children = tables.label_weight.shape
    begin, factor_begin = np.zeros(n_children + 1, np.int64), np.zeros(n_children + 1, np.int64)
    largest = int(np.int64(0))
    for c in range(n_children):
        n = int(np.int64(0))
        for label in range(n_labels):
            n += number[label * face.label_step + c * face.child_step] >= 0
        begin[c + 1], factor_begin[c + 1] = begin[c] + n, factor_begin[c] + n * n
        largest = max(largest, n)
    place, factor = np.empty(begin[n_children], np.int64), np.zeros(factor_begin[n_children])
    for c in range(n_children):
        n = begin[c + 1] - begin[c]
        for label in range(n_labels):
            j = label * face.label_step + c * face.child_step
            if number[j] >= 0:
                place[begin[c] + number[j]] = j
                factor[factor_begin[c] + number[j] * (n + 1)] = easing[j]
    return ChildBlocks(
        begin,
        place,
        factor_begin,
        factor,
        np.zeros(tables.child.size + 1, np.int64),
        np.empty(largest, np.int32),
        np.empty(largest),
        np.empty(n_labels * n_children),
        np.empty(largest),
    )


@internal
def _add_entries(
    tables: Tables, face: TableFace, p: int, number: Int32s, blocks: ChildBlocks, rows: _Rows
) -> None:
    """Add the entries of a table to the upper halves of the blocks, and to the sums of its rows."""
    first_column, first_row, upright = tables.column_begin[p], tables.row_begin[p], tables.upright[p]
    places = np.empty(blocks.right.size, np.int64)
    for outer in range(face.outer_begin[p], face.outer_begin[p + 1]):
        inner, total = face.inner[face.begin[outer] : face.begin[outer + 1]], 0.0
        # sum of the gives of the column's active entries, by which its mean moves
        for j in inner:
            total += 1.0 / tables.weight[first_row + j] if upright else 0.0
        # a single active entry is held by its line's fixed sum
        for j in inner if inner.size > 1 else inner[:0]:
            line = outer - face.outer_begin[p]
            i, k = (line, j) if upright else (j, line)
            c, give, n = tables.child[first_row + k], 1.0 / tables.weight[first_row + k], int(np.int64(0))
            give *= 1.0 - give / total if upright else 1.0
            rows.total[k] += give
            begin, end = tables.label_begin[first_column + i], tables.label_begin[first_column + i + 1]
            for label in tables.label[begin:end]:
                # labels outside the child's block have no number there
                a = number[label * face.label_step + c * face.child_step]
                if a >= 0:
                    rows.sums[k, a] += give
                    places[n] = a
                    n += 1
            width = blocks.begin[c + 1] - blocks.begin[c]
            block = blocks.factor[blocks.factor_begin[c] : blocks.factor_begin[c + 1]]
            for first in range(n):
                for other in range(n):
                    # the upper half alone, whatever the order of an entry's labels
                    if places[first] <= places[other]:
                        block[places[first] * width + places[other]] += give


@internal
def _subtract_row(
    blocks: ChildBlocks, rows: _Rows, k: int, c: int, row_sums: tuple[Int32s, Floats], first: int
) -> int:
    """Eliminate a row from its child's block. Its labels and sums are written from `first` on; returns their end."""
    labels, sums = row_sums
    last, width = first, blocks.begin[c + 1] - blocks.begin[c]
    for a in range(width):
        # most rows have few of the child's labels: only these are stored
        if rows.sums[k, a] != 0.0:
            labels[last], sums[last] = a, rows.sums[k, a]
            last += 1
    block = blocks.factor[blocks.factor_begin[c] : blocks.factor_begin[c + 1]]
    for entry in range(first, last):
        # s s' / (sum of g), the Schur complement of the row's own equation
        share = sums[entry] / rows.total[k]
        line = block[labels[entry] * width :]
        for other in range(entry, last):
            line[labels[other]] -= share * sums[other]
    return last


@internal
def _factor(blocks: ChildBlocks, share: Floats) -> None:
    """Factor all blocks in place. A block that rounding errors make indefinite becomes its diagonal."""
    # `cholesky` takes the leading block of a matrix of fixed size, so one matrix serves all children
    matrix = np.empty((blocks.right.size, blocks.right.size))
    for c in range(blocks.begin.size - 1):
        first, n = blocks.begin[c], blocks.begin[c + 1] - blocks.begin[c]
        block = blocks.factor[blocks.factor_begin[c] : blocks.factor_begin[c + 1]]
        for i in range(n):
            for j in range(i, n):
                matrix[i, j] = block[i * n + j]
        definite = cholesky(matrix, n)
        for i in range(n):
            for j in range(n):
                block[i * n + j] = matrix[i, j] if definite else 0.0
            if not definite:
                # a factor whose square is the diagonal: the child is then treated like the labels outside its
                # block
                block[i * n + i] = 1.0 / np.sqrt(share[blocks.place[first + i]])


@internal
def apply_blocks(
    tables: Tables, face: TableFace, blocks: ChildBlocks, share: Floats, left: Floats, out: Floats
) -> None:
    """out = preconditioner * left; all three are vectors of `direction`."""
    n_labels = tables.label_weight.size
    # `left` belongs to the caller, and the elimination below changes its copy
    for j in range(n_labels):
        blocks.labels[j] = left[j]
    # the diagonal for all; labels of blocks are overwritten by their block's solution
    for j in range(left.size):
        out[j] = share[j] * left[j]
    # Block elimination: the rows' equations out of the labels', the labels' solution, and back into the rows.
    for p in range(tables.upright.size):
        begin = n_labels + face.inner_begin[p] - tables.row_begin[p]
        for k in range(tables.row_begin[p], tables.row_begin[p + 1]):
            place = blocks.place[blocks.begin[tables.child[k]] :]
            for z in range(blocks.row_begin[k], blocks.row_begin[k + 1]):
                blocks.labels[place[blocks.row_label[z]]] -= out[begin + k] * blocks.row_sum[z]
    for c in range(blocks.begin.size - 1):
        _solve_block(blocks, c, out)
    for p in range(tables.upright.size):
        begin = n_labels + face.inner_begin[p] - tables.row_begin[p]
        for k in range(tables.row_begin[p], tables.row_begin[p + 1]):
            place, fall = blocks.place[blocks.begin[tables.child[k]] :], 0.0
            for z in range(blocks.row_begin[k], blocks.row_begin[k + 1]):
                fall += out[place[blocks.row_label[z]]] * blocks.row_sum[z]
            if blocks.row_begin[k] < blocks.row_begin[k + 1]:
                out[begin + k] -= share[begin + k] * fall


@internal
def _solve_block(blocks: ChildBlocks, c: int, out: Floats) -> None:
    """Solve a child's equations for what `labels` has, with its factor."""
    place, right = blocks.place[blocks.begin[c] : blocks.begin[c + 1]], blocks.right
    factor, n = blocks.factor[blocks.factor_begin[c] : blocks.factor_begin[c + 1]], place.size
    for i in range(n):
        right[i] = blocks.labels[place[i]]
    # U' right = labels, forward; U's rows are read in the order in which they are stored
    for i in range(n):
        # slices, since the compiler checks every index of which it does not know that it is not negative
        row, rest = factor[i * n + i : i * n + n], right[i:n]
        rest[0] /= row[0]
        value = rest[0]
        for j in range(1, row.size):
            rest[j] -= value * row[j]
    # U x = right, backward, with the mirror image of U below the diagonal, whose rows are side by side
    for i in range(n - 1, -1, -1):
        row = factor[i * n : i * n + i + 1]
        right[i] /= row[i]
        value = right[i]
        for j in range(i):
            right[j] -= value * row[j]
    for i in range(n):
        out[place[i]] = right[i]
