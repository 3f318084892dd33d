"""How sums answer to prices, when the counts above zero move and the others stay zero, compiled.

Problem: the entries above zero are the *active* ones. The prices of the labels and of the inner lines rise by given
*moves*. (A price of an inner line is stated here as a label's is, not in persons.) The prices of the outer lines then
follow, so that the outer lines keep their sums: an active entry falls by

    (moves of its labels + move of its inner line - their mean over its outer line) / weight,

where the mean has the weights 1 / weight. What is wanted is by how much the sums of the labels and of the inner lines
fall. The matrix H of this linear map is positive semidefinite. Where columns are free, inner lines have no prices.

Step: one pass over the active entries, outer line by outer line.

Worked case: one outer line with two active entries of weight 1, one label on the first. If the label's price rises by
1, the mean is 1/2. The first entry and the label's sum fall by 1/2, and the second entry rises by 1/2.

Oracle: the dense matrix in numpy, in the tests.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.tiles.tables import Tables


class TableFace(NamedTuple):
    """The active entries of all tables.

    Attributes:
        begin: [outer lines + 1], where each outer line's active entries begin. Outer lines are numbered through.
        inner: Inner line of each active entry.
        outer_begin: [P + 1], first outer line of each table.
        inner_begin: [P + 1], first inner line of each table. Inner lines without prices have no number.
        label_step, child_step: Where vectors have label k of child c: at k * label_step + c * child_step. What most
            outer lines read lies side by side.
        drop, child: Room for one outer line.
    """

    begin: Integers
    inner: Int32s
    outer_begin: Integers
    inner_begin: Integers
    label_step: int
    child_step: int
    drop: Floats
    child: Int32s


@internal
def list_face(tables: Tables, x: Floats) -> TableFace:
    """The face of a point."""
    n_tables, n_active, longest, by_column = tables.upright.size, 0, 0, 0
    outer_begin, inner_begin = np.zeros(n_tables + 1, np.int64), np.zeros(n_tables + 1, np.int64)
    # sizes of all tables first, then their active entries in one pass
    for p in range(n_tables):
        n_columns = tables.column_begin[p + 1] - tables.column_begin[p]
        n_rows = tables.row_begin[p + 1] - tables.row_begin[p]
        outer, inner = (n_columns, n_rows) if tables.upright[p] else (n_rows, n_columns)
        outer_begin[p + 1] = outer_begin[p] + outer
        inner_begin[p + 1] = inner_begin[p] + (inner if tables.column_total.size else 0)
        longest = max(longest, inner, outer)
        # the entries vote: the layout follows the side that more of them read along
        by_column += n_columns * n_rows if tables.upright[p] else -n_columns * n_rows
    for e in range(x.size):
        n_active += x[e] > 0.0
    n_labels, n_children = tables.label_weight.shape
    face = TableFace(
        np.zeros(outer_begin[n_tables] + 1, np.int64),
        np.empty(n_active, np.int32),
        outer_begin,
        inner_begin,
        # the two steps turn one vector's layout round without a copy
        n_children if by_column > 0 else 1,
        1 if by_column > 0 else n_labels,
        np.empty(longest),
        np.empty(longest, np.int32),
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
        for _ in range(n_outer):
            face.begin[outer] = n_active
            outer += 1
            # entries of an outer line lie side by side, so that e only rises
            for j in range(n_inner):
                if x[e] > 0.0:
                    face.inner[n_active] = j
                    n_active += 1
                e += 1
    face.begin[outer] = n_active


@internal
def apply_face(tables: Tables, face: TableFace, moves: Floats, falls: Floats) -> None:
    """falls = H moves. Both have the labels first (`TableFace.label_step`), then the inner lines."""
    n_labels = tables.label_weight.size
    # falls are added up over tables, as labels reach over several
    for j in range(falls.size):
        falls[j] = 0.0
    for p in range(tables.upright.size):
        begin, end = n_labels + face.inner_begin[p], n_labels + face.inner_begin[p + 1]
        of_lines, falls_of_lines = moves[begin:end], falls[begin:end]
        if tables.upright[p]:
            _apply_columns(tables, face, p, (of_lines, moves), (falls_of_lines, falls))
        else:
            _apply_rows(tables, face, p, (of_lines, moves), (falls_of_lines, falls))


@internal
def _apply_columns(
    tables: Tables, face: TableFace, p: int, moves: tuple[Floats, Floats], falls: tuple[Floats, Floats]
) -> None:
    """Add the part of a table whose outer lines are columns, so that an outer line's entries have the same labels."""
    first_column, first_row = tables.column_begin[p], tables.row_begin[p]
    child_of, slack = tables.child[first_row : tables.row_begin[p + 1]], tables.slack[first_row:]
    # the largest weight, from any row of the table: slack * weight is the same for all
    heaviest = slack[0] * tables.weight[first_row]
    for outer in range(face.outer_begin[p], face.outer_begin[p + 1]):
        inner = face.inner[face.begin[outer] : face.begin[outer + 1]]
        # one active entry cannot move, since its outer line keeps its sum
        if inner.size < 2:
            continue
        drop, child = face.drop[: inner.size], face.child[: inner.size]
        for z in range(inner.size):
            # the two moves that every entry of the line has: its row's, and below its labels'
            drop[z], child[z] = moves[0][inner[z]], child_of[inner[z]] * face.child_step
        column = first_column + outer - face.outer_begin[p]
        labels = tables.label[tables.label_begin[column] : tables.label_begin[column + 1]]
        for label in labels:
            row = moves[1][label * face.label_step :]
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
            falls[0][inner[z]] += drop[z]
        for label in labels:
            row = falls[1][label * face.label_step :]
            for z in range(inner.size):
                row[child[z]] += drop[z]


@internal
def _apply_rows(
    tables: Tables, face: TableFace, p: int, moves: tuple[Floats, Floats], falls: tuple[Floats, Floats]
) -> None:
    """Add the part of a table whose outer lines are rows, so that an outer line's entries have the same child."""
    first_row, n_priced = tables.row_begin[p], moves[0].size
    label_begin = tables.label_begin[tables.column_begin[p] : tables.column_begin[p + 1] + 1]
    for outer in range(face.outer_begin[p], face.outer_begin[p + 1]):
        inner = face.inner[face.begin[outer] : face.begin[outer + 1]]
        if inner.size < 2:
            continue
        row = first_row + outer - face.outer_begin[p]
        drop, first = face.drop[: inner.size], tables.child[row] * face.child_step
        of_labels, falls_of_labels = moves[1][first:], falls[1][first:]
        mean = 0.0
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
            j = inner[z]
            value = (drop[z] - mean) / tables.weight[row]
            if n_priced:
                falls[0][j] += value
            for link in range(label_begin[j], label_begin[j + 1]):
                falls_of_labels[tables.label[link] * face.label_step] += value


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
