"""Newton's direction for the prices of coupled tables, compiled.

Problem: at a point, the sums of labels miss what their prices ask for by the gradient, and the sums of the
tables are right. Find the moves of the prices of labels and of inner lines after which both would be right,
if no count reached or left zero. With H from below, the moves solve

    (H + diag(1 / label_weight, 0)) moves = (gradient, 0).

The matrix is semidefinite: each connected part of a table's active entries leaves one direction of its inner
prices in which nothing changes. The right side has no part in these directions, so conjugate gradients do not
see them. The inner prices are variables next to those of the labels. So no table needs a square matrix.

Stopping rule: the residual, measured with the preconditioner, is a given part of that at zero, or the steps
are used up. Every step of conjugate gradients raises gradient * moves, so the dual function rises along the
direction.

*The matrix H.* The entries above zero are the *active* ones. The prices of the labels and of the inner lines
rise by given *moves*. (A price of an inner line is stated here as a label's is, not in persons.) The prices
of the outer lines then follow, so that the outer lines keep their sums: an active entry falls by

    (moves of its labels + move of its inner line - their mean over its outer line) / weight,

where the mean has the weights 1 / weight. H is the map from moves to falls of the sums of labels and inner
lines. It takes one pass over the active entries, outer line by outer line. Where columns are free, inner
lines have no prices. Worked case: one outer line with two active entries of weight 1, one label on the first.
If the label's price rises by 1, the mean is 1/2. The first entry and the label's sum fall by 1/2, and the
second entry rises by 1/2.

*The preconditioner* is like the inverse of the matrix and fast to apply. What one child does to another is
left out, and so is what columns that are inner lines do to labels. Then the matrix falls into a block for
each child, which is exact for the child alone. It has the child's labels and its rows of tables whose outer
lines are columns. An active entry of such a table falls by give * (1 - its share of its column's gives),
because the column's mean moves with it. The prices of the rows are eliminated, since no two rows share an
entry. With g such a fall, M an entry's labels and s the sum of g M over a row, what is left for the labels is

    diag(1 / label_weight) + sum over entries of g M M' - sum over rows of s s' / (sum of g),

which is positive definite. It is factored by Cholesky's method. Where the outer lines are rows, g is the give
itself, and the same sum over rows comes from the row's own mean. All other labels and lines are divided by
their diagonal: a label that no active entry of a child has, and labels of few columns beyond MOST_LABELS.
Worked case: one table of one column and two children, all entries active with give 1, one label of weight 1
on the column. Each entry falls by 1 - 1/2. A child's block is 1 + 1/2 - (1/2)(1/2) / (1/2) = 1.

Oracle: the dense matrices and equations in numpy, in the tests.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tallyveil.arrays import FloatRows, Floats, Int32s, Integers, Uint32s
from tallyveil.kernels.compiled import internal, njit, pointers, uncounted
from tallyveil.kernels.tiles.tables import Prices, Strip, Tables, clear_sums, whole_strip
from tallyveil.kernels.vectors import cholesky, first_at_least, inner, longer


class TableFace(NamedTuple):
    """The active entries of all tables.

    Attributes:
        begin: [outer lines + 1], where each outer line's active entries begin. Outer lines are numbered through.
        inner: Inner line of each active entry.
        outer_begin: [P + 1], first outer line of each table.
        inner_begin: [P + 1], first inner line of each table. Inner lines without prices have no number.
        label_step, child_step: Where vectors have label k of child c: at k * label_step + c * child_step. What most
            outer lines read lies side by side.
        child: child_step times the child of each active entry.
        drop: Room for a number of each active entry.
    """

    begin: Integers
    inner: Uint32s
    outer_begin: Integers
    inner_begin: Integers
    label_step: int
    child_step: int
    child: Uint32s
    drop: Floats


@internal
def list_face(tables: Tables, x: Floats) -> TableFace:
    """The face of a point."""
    n_tables, n_active, by_column = tables.upright.size, 0, 0
    outer_begin, inner_begin = np.zeros(n_tables + 1, np.int64), np.zeros(n_tables + 1, np.int64)
    # sizes of all tables first, then their active entries in one pass
    for p in range(n_tables):
        n_columns = tables.column_begin[p + 1] - tables.column_begin[p]
        n_rows = tables.row_begin[p + 1] - tables.row_begin[p]
        outer, inner = (n_columns, n_rows) if tables.upright[p] else (n_rows, n_columns)
        outer_begin[p + 1] = outer_begin[p] + outer
        inner_begin[p + 1] = inner_begin[p] + (inner if tables.column_total.size else 0)
        # the entries vote: the layout follows the side that more of them read along
        by_column += n_columns * n_rows if tables.upright[p] else -n_columns * n_rows
    for e in range(x.size):
        n_active += x[e] > 0.0
    n_labels, n_children = tables.label_weight.shape
    face = TableFace(
        np.zeros(outer_begin[n_tables] + 1, np.int64),
        np.empty(n_active, np.uint32),
        outer_begin,
        inner_begin,
        # the two steps turn one vector's layout round without a copy
        n_children if by_column > 0 else 1,
        1 if by_column > 0 else n_labels,
        np.empty(n_active, np.uint32),
        np.empty(n_active),
    )
    _list_entries(tables, x, face)
    return face


@internal
def _list_entries(tables: Tables, x: Floats, face: TableFace) -> None:
    """Fill in the active entries."""
    n_active, outer, e = int(np.int64(0)), int(np.int64(0)), int(np.int64(0))
    for p in range(tables.upright.size):
        n_outer = face.outer_begin[p + 1] - face.outer_begin[p]
        n_inner = (tables.entry_begin[p + 1] - tables.entry_begin[p]) // n_outer
        child_of, upright = tables.child[tables.row_begin[p] : tables.row_begin[p + 1]], tables.upright[p]
        for o in range(n_outer):
            face.begin[outer] = n_active
            outer += 1
            # entries of an outer line lie side by side, so that e only rises
            for j in range(n_inner):
                if x[e] > 0.0:
                    face.inner[n_active] = j
                    face.child[n_active] = child_of[j if upright else o] * face.child_step
                    n_active += 1
                e += 1
    face.begin[outer] = n_active


@njit(nogil=True, cache=True)
def drop_entries(tables: Tables, face: TableFace, moves: Floats, falls: Floats) -> None:
    """By how much each active entry of the tables falls, and the falls of their inner lines."""
    n_labels = tables.label_weight.size
    for p in range(tables.upright.size):
        begin, end = n_labels + face.inner_begin[p], n_labels + face.inner_begin[p + 1]
        of_lines, falls_of_lines = moves[begin:end], falls[begin:end]
        for j in range(falls_of_lines.size):
            falls_of_lines[j] = 0.0
        if tables.upright[p]:
            _drop_columns(tables, face, p, (of_lines, moves), falls_of_lines)
        else:
            _drop_rows(tables, face, p, (of_lines, moves), falls_of_lines)


@internal
def _drop_columns(
    tables: Tables, face: TableFace, p: int, moves: tuple[Floats, Floats], falls: Floats
) -> None:
    """Of a table whose outer lines are columns, so that an outer line's entries have the same labels."""
    first_column, first_row = tables.column_begin[p], tables.row_begin[p]
    slack = tables.slack[first_row:]
    # the largest weight, from any row of the table: slack * weight is the same for all
    heaviest = slack[0] * tables.weight[first_row]
    inners, drops, children = uncounted(face.inner), uncounted(face.drop), uncounted(face.child)
    of_lines, of_labels, all_labels = moves[0], uncounted(moves[1]), uncounted(tables.label)
    for outer in range(face.outer_begin[p], face.outer_begin[p + 1]):
        begin, end = face.begin[outer], face.begin[outer + 1]
        inner, drop, child = inners[begin:end], drops[begin:end], children[begin:end]
        # one active entry cannot move, since its outer line keeps its sum
        if inner.size < 2:
            continue
        for z in range(inner.size):
            # the two moves that every entry of the line has: its row's, and below its labels'
            drop[z] = of_lines[inner[z]]
        column = first_column + outer - face.outer_begin[p]
        labels = all_labels[tables.label_begin[column] : tables.label_begin[column + 1]]
        # two labels at a time: an entry is then read and written half as often, with the same additions
        for link in range(0, labels.size - 1, 2):
            row = of_labels[labels[link] * face.label_step :]
            other = of_labels[labels[link + 1] * face.label_step :]
            for z in range(inner.size):
                drop[z] = drop[z] + row[child[z]] + other[child[z]]
        for label in labels[labels.size // 2 * 2 :]:
            row = of_labels[label * face.label_step :]
            for z in range(inner.size):
                drop[z] += row[child[z]]
        # the mean with weights 1 / weight, of which slack is a multiple
        total, mean = 0.0, 0.0
        for z in range(inner.size):
            total += slack[inner[z]]
            mean += slack[inner[z]] * drop[z]
        # the outer price takes up exactly this mean, so that the line's sum stays
        mean /= total
        for z in range(inner.size):
            drop[z] = (drop[z] - mean) * slack[inner[z]] / heaviest
            falls[inner[z]] += drop[z]


@internal
def _drop_rows(tables: Tables, face: TableFace, p: int, moves: tuple[Floats, Floats], falls: Floats) -> None:
    """Of a table whose outer lines are rows, so that an outer line's entries have the same child."""
    first_row, n_priced = tables.row_begin[p], moves[0].size
    label_begin = tables.label_begin[tables.column_begin[p] : tables.column_begin[p + 1] + 1]
    inners, drops, all_moves = uncounted(face.inner), uncounted(face.drop), uncounted(moves[1])
    for outer in range(face.outer_begin[p], face.outer_begin[p + 1]):
        begin, end = face.begin[outer], face.begin[outer + 1]
        inner, drop = inners[begin:end], drops[begin:end]
        if inner.size < 2:
            continue
        row = first_row + outer - face.outer_begin[p]
        of_labels, mean = all_moves[tables.child[row] * face.child_step :], 0.0
        # a row has one weight, so that the plain mean is the weighted one
        for z in range(inner.size):
            j = inner[z]
            total = moves[0][j] if n_priced else 0.0
            for link in range(label_begin[j], label_begin[j + 1]):
                total += of_labels[tables.label[link] * face.label_step]
            drop[z] = total
            mean += total
        # all entries of a row have one weight, so that the mean needs none
        mean /= inner.size
        for z in range(inner.size):
            drop[z] = (drop[z] - mean) / tables.weight[row]
            if n_priced:
                falls[inner[z]] += drop[z]


@njit(nogil=True, cache=True)
def add_drops(tables: Tables, face: TableFace, falls: Floats, strip: Strip) -> None:
    """The falls of the labels of a strip's children. The additions of a fall have one order, in every strip."""
    falls, all_labels = uncounted(falls), uncounted(tables.label)
    inners, drops, children = uncounted(face.inner), uncounted(face.drop), uncounted(face.child)
    # cleared first, as labels reach over several tables
    for label in range(tables.label_weight.shape[0]):
        for c in strip.child:
            falls[label * face.label_step + c * face.child_step] = 0.0
    for p in range(tables.upright.size):
        first_row, first_column = tables.row_begin[p], tables.column_begin[p]
        top, bottom = strip.begin[p] - first_row, strip.end[p] - first_row
        upright, first_outer = tables.upright[p], face.outer_begin[p]
        n_outer = face.outer_begin[p + 1] - first_outer
        # every strip has a part of each column; a row belongs to one strip
        for o in range(0 if upright else top, n_outer if upright else bottom):
            begin, end = face.begin[first_outer + o], face.begin[first_outer + o + 1]
            if end - begin < 2:
                continue
            if upright:
                begin, end = _within(face.inner, begin, end, top, bottom)
                child, drop, column = children[begin:end], drops[begin:end], first_column + o
                labels = all_labels[tables.label_begin[column] : tables.label_begin[column + 1]]
                # two labels at a time, as in `_drop_columns`
                for link in range(0, labels.size - 1, 2):
                    row = falls[labels[link] * face.label_step :]
                    other = falls[labels[link + 1] * face.label_step :]
                    for z in range(drop.size):
                        row[child[z]] += drop[z]
                        other[child[z]] += drop[z]
                for label in labels[labels.size // 2 * 2 :]:
                    row = falls[label * face.label_step :]
                    for z in range(drop.size):
                        row[child[z]] += drop[z]
            else:
                inner, child, drop = inners[begin:end], children[begin:end], drops[begin:end]
                for z in range(drop.size):
                    column = first_column + inner[z]
                    for link in range(tables.label_begin[column], tables.label_begin[column + 1]):
                        falls[tables.label[link] * face.label_step + child[z]] += drop[z]


@internal
def _within(inner: Uint32s, begin: int, end: int, top: int, bottom: int) -> tuple[int, int]:
    """Where the active entries of an outer line, from begin up to end, lie in the inner lines top up to bottom."""
    return first_at_least(inner, begin, end, top), first_at_least(inner, begin, end, bottom)


@internal
def face_diagonal(tables: Tables, face: TableFace, diagonal: Floats) -> None:
    """Write an upper bound of H's diagonal. It is exact where no two entries share a label and an outer line."""
    # Entries that share a label and an outer line move against each other. Leaving that out makes the
    # diagonal larger and never smaller.
    n_labels = tables.label_weight.size
    for j in range(diagonal.size):
        diagonal[j] = 0.0
    for p in range(tables.upright.size):
        of_lines = diagonal[n_labels + face.inner_begin[p] : n_labels + face.inner_begin[p + 1]]
        first_column, first_row, upright = tables.column_begin[p], tables.row_begin[p], tables.upright[p]
        for outer in range(face.outer_begin[p], face.outer_begin[p + 1]):
            o, total = outer - face.outer_begin[p], 0.0
            inner = face.inner[face.begin[outer] : face.begin[outer + 1]]
            for j in inner:
                total += 1.0 / tables.weight[first_row + (j if upright else o)]
            for j in inner if inner.size > 1 else inner[:0]:
                column, row = (
                    (first_column + o, first_row + j) if upright else (first_column + j, first_row + o)
                )
                give = 1.0 / tables.weight[row]
                # an entry's own share of the mean comes back; shares of entries with the same label are left
                # out (upper bound)
                give *= 1.0 - give / total
                if of_lines.size:
                    of_lines[j] += give
                for link in range(tables.label_begin[column], tables.label_begin[column + 1]):
                    diagonal[tables.label[link] * face.label_step + tables.child[row] * face.child_step] += (
                        give
                    )


# A block is then 512 KiB a child at most. With twice as many it takes four times the memory and eight times
# the factorisation; with half as many, more labels are divided by their diagonal and more steps are made.
MOST_LABELS = 256
"""Most labels of a block. Labels of many columns come first."""


class ChildBlocks(NamedTuple):
    """The factored blocks of the children of a strip. A vector is one of `direction`: labels first, then inner lines.

    Attributes:
        begin: [C + 1], where each child's labels begin. Children of other strips have none.
        place: Place of each of these labels in a vector.
        factor_begin: [C + 1], where each child's factor begins.
        factor: U with U'U = block, and U's mirror image below the diagonal, row by row.
        row_begin: [rows + 1], where the labels of each eliminated row begin.
        row_label: Their numbers in the child's block.
        row_sum: Sums of falls.
        labels, right: Room for the labels of all children of the strip, and of one.
    """

    begin: Integers
    place: Uint32s
    factor_begin: Integers
    factor: Floats
    row_begin: Integers
    row_label: Uint32s
    row_sum: Floats
    labels: Floats
    right: Floats


class _Entries(NamedTuple):
    """Active entries of a strip in a table, row by row.

    An entry that is alone in its outer line is held by the line's fixed sum, and left out.

    Attributes:
        begin: [rows of the strip + 1], where each row's entries begin.
        column: Column of each entry in the table, rising within a row.
        total: [columns], sum of the gives of the column's active entries, by which its mean moves; where columns are
            outer lines.
    """

    begin: Integers
    column: Uint32s
    total: Floats


@njit(nogil=True, cache=True)
def factored_blocks(
    tables: Tables, face: TableFace, easing: Floats, share: Floats, strip: Strip
) -> ChildBlocks:
    """Factor the block of every child of a strip.

    Args:
        tables: The tables.
        face: The active entries.
        easing: 1 / label_weight of each label and child, 0: not measured.
        share: 1 / diagonal of each label and inner line, 0: nothing to move.
        strip: The children. A block does not depend on the strip.
    """
    number = _numbered(tables, face, easing, share, strip)
    blocks = _empty_blocks(tables, face, number, easing)
    row_begin, row_label, row_sum = blocks.row_begin, blocks.row_label, blocks.row_sum
    sums = np.zeros(blocks.right.size)
    for p in range(tables.upright.size):
        entries, n_sums = _entries_by_row(tables, face, p, strip), row_begin[tables.row_begin[p]]
        for k in range(tables.row_begin[p], strip.begin[p]):
            row_begin[k + 1] = n_sums  # rows of other strips
        for k in range(strip.begin[p], strip.end[p]):
            if n_sums + blocks.right.size > row_label.size:
                # doubled, so that copying costs no more than filling
                room = 2 * (n_sums + blocks.right.size)
                row_label, row_sum = longer(row_label, room), longer(row_sum, room)
            total = _add_row(tables, face, p, k, entries, (number, blocks, sums), strip)
            last = _subtract_row(blocks, sums, total, tables.child[k], (row_label, row_sum), n_sums)
            # Only rows that are inner lines have an equation to be solved back into. Of others the sums serve
            # the subtraction alone.
            n_sums = last if tables.upright[p] and tables.column_total.size else n_sums
            row_begin[k + 1] = n_sums
        for k in range(strip.end[p], tables.row_begin[p + 1]):
            row_begin[k + 1] = n_sums
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
def _numbered(tables: Tables, face: TableFace, easing: Floats, share: Floats, strip: Strip) -> Int32s:
    """Number of each label and child of a strip in the child's block, -1: none; at its place in a vector."""
    n_labels, n_children = tables.label_weight.shape
    columns, least = _least_columns(tables)
    number = np.full(n_labels * n_children, -1, np.int32)
    for c in strip.child:
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
    place, factor = np.empty(begin[n_children], np.uint32), np.zeros(factor_begin[n_children])
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
        np.empty(largest, np.uint32),
        np.empty(largest),
        np.empty(begin[n_children]),
        np.empty(largest),
    )


@internal
def _entries_by_row(tables: Tables, face: TableFace, p: int, strip: Strip) -> _Entries:
    """List the active entries of a strip in a table, so that a child's block is worked on row by row."""
    first_row, upright, first_outer = tables.row_begin[p], tables.upright[p], face.outer_begin[p]
    top, bottom, inners = strip.begin[p] - first_row, strip.end[p] - first_row, uncounted(face.inner)
    n_columns = tables.column_begin[p + 1] - tables.column_begin[p]
    begin, total = np.zeros(bottom - top + 1, np.int64), np.zeros(n_columns if upright else 0)
    for o in range(0 if upright else top, n_columns if upright else bottom):
        first, last = face.begin[first_outer + o], face.begin[first_outer + o + 1]
        if last - first < 2:
            continue
        if not upright:
            begin[o - top + 1] = last - first
            continue
        for j in inners[first:last]:
            total[o] += 1.0 / tables.weight[first_row + j]
        first, last = _within(face.inner, first, last, top, bottom)
        for j in inners[first:last]:
            begin[j - top + 1] += 1
    for k in range(bottom - top):
        begin[k + 1] += begin[k]
    column, place = np.empty(begin[bottom - top], np.uint32), begin.copy()
    for o in range(0 if upright else top, n_columns if upright else bottom):
        first, last = face.begin[first_outer + o], face.begin[first_outer + o + 1]
        if last - first < 2:
            continue
        if upright:
            first, last = _within(face.inner, first, last, top, bottom)
        for j in inners[first:last]:
            # columns come in order, so that they rise within each row
            k = j - top if upright else o - top
            column[place[k]] = o if upright else j
            place[k] += 1
    return _Entries(begin, column, total)


@internal
def _add_row(
    tables: Tables,
    face: TableFace,
    p: int,
    k: int,
    entries: _Entries,
    into: tuple[Int32s, ChildBlocks, Floats],
    strip: Strip,
) -> float:
    """Add the entries of row k to the upper half of its child's block, and to the row's sums by number of the label.

    Returns:
        The sum over all entries of the row.
    """
    number, blocks, sums = into
    c, all_labels, of_row = tables.child[k], uncounted(tables.label), 0.0
    places, width = np.empty(blocks.right.size, np.uint32), blocks.begin[c + 1] - blocks.begin[c]
    block = uncounted(blocks.factor)[blocks.factor_begin[c] : blocks.factor_begin[c + 1]]
    numbers = uncounted(number)[c * face.child_step :]
    begin, end = entries.begin[k - strip.begin[p]], entries.begin[k - strip.begin[p] + 1]
    for i in uncounted(entries.column)[begin:end]:
        give, n, column = 1.0 / tables.weight[k], int(np.int64(0)), tables.column_begin[p] + i
        give *= 1.0 - give / entries.total[i] if tables.upright[p] else 1.0
        of_row += give
        for label in all_labels[tables.label_begin[column] : tables.label_begin[column + 1]]:
            # labels outside the child's block have no number there
            a = numbers[label * face.label_step]
            if a >= 0:
                sums[a] += give
                places[n] = a
                n += 1
        for first in range(n):
            place = places[first]
            for other in places[first:n]:
                # the upper half alone, whatever the order of an entry's labels
                block[min(place, other) * width + max(place, other)] += give
    return of_row


@internal
def _subtract_row(
    blocks: ChildBlocks, sums: Floats, total: float, c: int, row_sums: tuple[Uint32s, Floats], first: int
) -> int:
    """Eliminate a row from its child's block. Its labels and sums are written from `first` on; returns their end.

    The sums are zero afterwards."""
    last, width = first, blocks.begin[c + 1] - blocks.begin[c]
    for a in range(width):
        # most rows have few of the child's labels: only these are stored
        if sums[a] != 0.0:
            row_sums[0][last], row_sums[1][last] = a, sums[a]
            sums[a] = 0.0
            last += 1
    block = uncounted(blocks.factor)[blocks.factor_begin[c] : blocks.factor_begin[c + 1]]
    of_labels, of_sums = uncounted(row_sums[0])[first:last], uncounted(row_sums[1])[first:last]
    for entry in range(of_sums.size):
        # s s' / (sum of g), the Schur complement of the row's own equation
        share = of_sums[entry] / total
        line = block[of_labels[entry] * width :]
        for other in range(entry, of_sums.size):
            line[of_labels[other]] -= share * of_sums[other]
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


@njit(nogil=True, cache=True)
def apply_blocks(
    tables: Tables,
    face: TableFace,
    blocks: ChildBlocks,
    share: Floats,
    left: Floats,
    out: Floats,
    strip: Strip,
) -> None:
    """out = preconditioner * left, for the children of a strip; all three are vectors of `direction`.

    `out` has share * left before. Only labels of blocks and rows that are inner lines have something else.
    """
    n_labels = tables.label_weight.size
    all_labels, places = uncounted(blocks.labels), uncounted(blocks.place)
    # `left` belongs to the caller, and the elimination below changes its copy
    for z in range(blocks.place.size):
        blocks.labels[z] = left[blocks.place[z]]
    # Block elimination: the rows' equations out of the labels', the labels' solution, and back into the rows.
    for p in range(tables.upright.size):
        begin = n_labels + face.inner_begin[p] - tables.row_begin[p]
        for k in range(strip.begin[p], strip.end[p]):
            labels, (of_labels, sums) = all_labels[blocks.begin[tables.child[k]] :], _row_of(blocks, k)
            for z in range(sums.size):
                labels[of_labels[z]] -= out[begin + k] * sums[z]
    for c in strip.child:
        _solve_block(blocks, c, out)
    for p in range(tables.upright.size):
        begin = n_labels + face.inner_begin[p] - tables.row_begin[p]
        for k in range(strip.begin[p], strip.end[p]):
            place, (of_labels, sums) = places[blocks.begin[tables.child[k]] :], _row_of(blocks, k)
            fall = 0.0
            for z in range(sums.size):
                fall += out[place[of_labels[z]]] * sums[z]
            if sums.size:
                out[begin + k] -= share[begin + k] * fall


@internal
def _row_of(blocks: ChildBlocks, k: int) -> tuple[Uint32s, Floats]:
    """The labels of an eliminated row, and its sums of falls."""
    begin, end = blocks.row_begin[k], blocks.row_begin[k + 1]
    return uncounted(blocks.row_label)[begin:end], uncounted(blocks.row_sum)[begin:end]


@internal
def _solve_block(blocks: ChildBlocks, c: int, out: Floats) -> None:
    """Solve a child's equations for what `labels` has, with its factor."""
    place, right = blocks.place[blocks.begin[c] : blocks.begin[c + 1]], uncounted(blocks.right)
    factor, n = uncounted(blocks.factor)[blocks.factor_begin[c] : blocks.factor_begin[c + 1]], place.size
    for i in range(n):
        right[i] = blocks.labels[blocks.begin[c] + i]
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


class Search(NamedTuple):
    """Vectors of conjugate gradients: labels in every child first, then inner lines.

    Attributes:
        easing: 1 / weight of each label and child; zero where there is nothing to move.
        share: 1 / diagonal; zero where there is nothing to move.
        move: The solution so far.
        left: The residual.
        ahead: Direction of the next step.
        product: The matrix or the preconditioner times a vector.
    """

    easing: Floats
    share: Floats
    move: Floats
    left: Floats
    ahead: Floats
    product: Floats


@njit(nogil=True, cache=True)
def begin_search(tables: Tables, x: Floats, slopes: FloatRows) -> tuple[TableFace, Search]:
    """The face of a point, and the vectors at zero moves; `product` is share * left, for the preconditioner."""
    face = list_face(tables, x)
    n = slopes.size + face.inner_begin[tables.upright.size]
    search = Search(np.zeros(slopes.size), np.empty(n), np.zeros(n), np.zeros(n), np.zeros(n), np.empty(n))
    _precondition(tables, face, search.easing, search.share)
    for k in range(slopes.shape[0]):
        for c in range(slopes.shape[1]):
            j = k * face.label_step + c * face.child_step
            # Inner lines have no gradient: the projection made their sums right. Only labels have one.
            search.left[j] = slopes[k, c] if search.share[j] > 0.0 else 0.0
    for j in range(n):
        search.product[j] = search.share[j] * search.left[j]
    return face, search


@njit(nogil=True, cache=True)
def advance(search: Search, energy: float) -> None:
    """Make a step along `ahead`, where `product` is H ahead; then `product` is share * left, for the preconditioner."""
    easing, share, move, left, ahead, product = search
    for j in range(easing.size):
        # 1 / label_weight makes the labels' part positive definite, however few entries are active
        product[j] += easing[j] * ahead[j]
    rate = energy / inner(product, ahead)
    for j in range(move.size):
        move[j] += rate * ahead[j]
        left[j] -= rate * product[j]
        product[j] = share[j] * left[j]


@njit(nogil=True, cache=True)
def turn(search: Search, before: float) -> float:
    """Turn to the next direction, where `product` is the preconditioner times the residual; returns the new energy.

    The energy before the first direction counts as infinite, and `ahead` is zero then.
    """
    ahead, product = search.ahead, search.product
    energy = inner(search.left, product)
    # Fletcher and Reeves's ratio: both energies are already known
    for j in range(ahead.size):
        ahead[j] = product[j] + energy / before * ahead[j]
    return energy


@njit(nogil=True, cache=True)
def end_search(tables: Tables, face: TableFace, search: Search, slopes: FloatRows, moves: Prices) -> float:
    """Write the moves. Returns gradient * moves: how fast the dual function rises at first, for Armijo's rule."""
    _write(tables, face, search.move, moves)
    return inner(slopes.reshape(-1), moves.label.reshape(-1))


@internal
def _precondition(tables: Tables, face: TableFace, easing: Floats, share: Floats) -> None:
    """1 / weight of each label and child, and 1 / diagonal; both are zero where there is nothing to move."""
    face_diagonal(tables, face, share)
    for k in range(tables.label_weight.shape[0]):
        for c in range(tables.label_weight.shape[1]):
            j, weight = k * face.label_step + c * face.child_step, tables.label_weight[k, c]
            # 1 / weight is the compliance of a label's own term; a label that is not measured has none
            easing[j] = 1.0 / weight if weight > 0.0 else 0.0
            share[j] = share[j] + easing[j] if weight > 0.0 else 0.0
    for j in range(share.size):
        # zero keeps what has nothing to move out of all steps, at no test in the loops
        share[j] = 1.0 / share[j] if share[j] > 0.0 else 0.0


@internal
def _write(tables: Tables, face: TableFace, move: Floats, moves: Prices) -> None:
    """The moves as prices: those of inner lines in persons, and none of outer lines, which follow by themselves."""
    for k in range(moves.label.shape[0]):
        for c in range(moves.label.shape[1]):
            moves.label[k, c] = move[k * face.label_step + c * face.child_step]
    clear_sums(moves)
    for p in range(tables.upright.size):
        begin, first_row = moves.label.size + face.inner_begin[p], tables.row_begin[p]
        # slack * weight is the table's largest weight in every row, so that the first one tells it
        heaviest = tables.slack[first_row] * tables.weight[first_row]
        first = first_row if tables.upright[p] else tables.column_begin[p]
        for j in range(face.inner_begin[p + 1] - face.inner_begin[p]):
            if tables.upright[p]:
                moves.row[first + j] = move[begin + j] / heaviest
            else:
                moves.column[first + j] = move[begin + j] / heaviest


@pointers
class DirectionParts(NamedTuple):
    """The kernels that `find_direction` calls through pointers. Threads share the work of a call of each."""

    begin_search: Callable[[Tables, Floats, FloatRows], tuple[TableFace, Search]]
    factored_blocks: Callable[[Tables, TableFace, Floats, Floats, Strip], ChildBlocks]
    apply_blocks: Callable[[Tables, TableFace, ChildBlocks, Floats, Floats, Floats, Strip], None]
    drop_entries: Callable[[Tables, TableFace, Floats, Floats], None]
    add_drops: Callable[[Tables, TableFace, Floats, Strip], None]
    advance: Callable[[Search, float], None]
    turn: Callable[[Search, float], float]
    end_search: Callable[[Tables, TableFace, Search, FloatRows, Prices], float]


DIRECTION_PARTS = DirectionParts(
    begin_search, factored_blocks, apply_blocks, drop_entries, add_drops, advance, turn, end_search
)

# Half as many would leave some directions less exact, which costs steps of Newton's method; with twice as
# many a direction that converges slowly takes longer.
CG_STEPS = 1000
"""Largest number of steps of conjugate gradients. A direction that has not converged by then is less exact."""


@njit(nogil=True, cache=True)
def find_direction(
    tables: Tables, x: Floats, slopes: FloatRows, moves: Prices, precision: float, parts: DirectionParts
) -> tuple[float, int]:
    """Newton's direction at a point, given the gradient (`slopes`), into `moves`.

    Returns:
        How fast the dual function rises along it, and the steps of conjugate gradients.
    """
    strip, (face, search) = whole_strip(tables), parts.begin_search(tables, x, slopes)
    share, left, ahead, product = search.share, search.left, search.ahead, search.product
    blocks = parts.factored_blocks(tables, face, search.easing, share, strip)
    parts.apply_blocks(tables, face, blocks, share, left, product, strip)
    energy, steps = parts.turn(search, np.inf), 0
    # energy is a square, hence the precision's square
    enough = precision * precision * energy
    while energy > enough and steps < CG_STEPS:
        steps += 1
        parts.drop_entries(tables, face, ahead, product)
        parts.add_drops(tables, face, product, strip)
        parts.advance(search, energy)
        parts.apply_blocks(tables, face, blocks, share, left, product, strip)
        energy = parts.turn(search, energy)
    return parts.end_search(tables, face, search, slopes, moves), steps
