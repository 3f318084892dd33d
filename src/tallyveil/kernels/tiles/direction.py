"""Newton's direction for the prices of coupled tables, compiled.

Problem: at a point, the sums of labels miss what their prices ask for by the gradient, and the sums of the tables are
right. Find the moves of the prices of labels and of inner lines after which both would be right, if no count reached
or left zero. With H of `face`, the moves solve

    (H + diag(1 / label_weight, 0)) moves = (gradient, 0).

The matrix is semidefinite: each connected part of a table's active entries leaves one direction of its inner prices in
which nothing changes. The right side has no part in these directions, so conjugate gradients do not see them.

Step: conjugate gradients. The preconditioner (`blocks`) solves the equations of each child as if it were alone. The
inner prices are variables next to those of the labels. So no table needs a square matrix.

Stopping rule: the residual, measured with the preconditioner, is a given part of that at zero, or the steps are used
up. Every step of conjugate gradients raises gradient * moves, so the dual function rises along the direction.

Oracle: the dense equations in numpy, in the tests.
"""

import numpy as np

from tallyveil.arrays import FloatRows, Floats
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.tiles.blocks import apply_blocks, factored_blocks
from tallyveil.kernels.tiles.face import TableFace, apply_face, face_diagonal, list_face
from tallyveil.kernels.tiles.tables import Prices, Tables, clear_sums
from tallyveil.kernels.vectors import inner

# Half as many would leave some directions less exact, which costs steps of Newton's method; with twice as
# many a direction that converges slowly takes longer.
CG_STEPS = 1000
"""Most steps of conjugate gradients. What is left makes the direction less exact."""


@njit(nogil=True, cache=True)
def find_direction(
    tables: Tables, x: Floats, slopes: FloatRows, moves: Prices, precision: float
) -> tuple[float, int]:
    """Newton's direction at a point, given the gradient (`slopes`), into `moves`.

    Returns:
        How fast the dual function rises along it, and the steps of conjugate gradients.
    """
    face, n_labels = list_face(tables, x), slopes.size
    n = n_labels + face.inner_begin[tables.upright.size]
    # labels in every child first, then inner lines: one vector for both kinds of unknowns
    easing, share = np.zeros(n_labels), np.empty(n)
    _precondition(tables, face, easing, share)
    blocks = factored_blocks(tables, face, easing, share)
    move, left, ahead, product = np.zeros(n), np.zeros(n), np.empty(n), np.empty(n)
    for k in range(slopes.shape[0]):
        for c in range(slopes.shape[1]):
            j = k * face.label_step + c * face.child_step
            # Inner lines have no gradient: the projection made their sums right. Only labels have one.
            left[j] = slopes[k, c] if share[j] > 0.0 else 0.0
    apply_blocks(tables, face, blocks, share, left, ahead)
    energy = inner(left, ahead)
    # energy is a square, hence the precision's square
    enough, steps = precision * precision * energy, 0
    while energy > enough and steps < CG_STEPS:
        steps += 1
        apply_face(tables, face, ahead, product)
        for j in range(n_labels):
            # 1 / label_weight makes the labels' part positive definite, however few entries are active
            product[j] += easing[j] * ahead[j]
        rate, before = energy / inner(product, ahead), energy
        for j in range(n):
            move[j] += rate * ahead[j]
            left[j] -= rate * product[j]
        apply_blocks(tables, face, blocks, share, left, product)
        energy = inner(left, product)
        # Fletcher and Reeves's ratio: both energies are already known
        for j in range(n):
            ahead[j] = product[j] + energy / before * ahead[j]
    _write(tables, face, move, moves)
    # gradient * moves: how fast the dual function rises at first, for Armijo's rule
    return inner(slopes.reshape(-1), moves.label.reshape(-1)), steps


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
