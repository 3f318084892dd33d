"""The parts of the solver of tables against dense matrices, and its certificate against wrong answers."""

import numpy as np
import pytest

from tallyveil.kernels.compiled import all_compiled, compiled, njit
from tallyveil.kernels.tiles.chunk import KERNELS
from tallyveil.kernels.tiles.direction import (
    face_diagonal,
    list_face,
)
from tallyveil.kernels.tiles.solver import solve_component
from tallyveil.kernels.tiles.tables import (
    Active,
    Prices,
    Tables,
    apply_matrix,
    fill_matrix,
    solve_by_steps,
    whole_strip,
)


@njit(nogil=True, cache=True)
def matrices(active, damping, vector, out, matrix):
    fill_matrix(active, damping, matrix)
    apply_matrix(active, damping, vector, out)


@njit(nogil=True, cache=True)
def solved_by_steps(active, damping, right):
    solve_by_steps(active, damping, 1e-12, right)


def face_vector_size(tables, x):
    face = list_face(tables, x)
    return face.inner_begin[tables.upright.size], face.label_step, face.child_step


def preconditioned(tables, x, easing, left, out, product):
    """The preconditioner applied to `left`, and H applied to `left`. Mostly run as Python, which takes a moment; to
    compile it takes seconds."""
    parts = all_compiled(KERNELS).parts.methods.direction
    face, share = list_face(tables, x), np.empty(left.size)
    face_diagonal(tables, face, share)
    for j in range(left.size):
        total = share[j] + (easing[j] if j < easing.size else 0.0)
        movable = total > 0.0 and (j >= easing.size or easing[j] > 0.0)
        share[j] = 1.0 / total if movable else 0.0
    strip = whole_strip(tables)
    blocks = parts.factored_blocks(tables, face, easing, share, strip)
    out[:] = share * left
    parts.apply_blocks(tables, face, blocks, share, left, out, strip)
    parts.drop_entries(tables, face, left, product)
    parts.add_drops(tables, face, product, strip)


def gaps(tables, prices, x):
    return all_compiled(KERNELS).parts.gaps_of(tables, prices, x)


def random_active(rng, *, wide):
    """Active entries of a table, and their matrix S in full. Few entries of a wide table's outer line are active."""
    n_outer, n_inner = int(rng.integers(2, 9)), int(rng.integers(2, 7)) * (10 if wide else 1)
    on = rng.random((n_outer, n_inner)) < (0.08 if wide else 0.6)
    outer, inner = rng.uniform(1.0, 5.0, n_outer), rng.uniform(1.0, 5.0, n_inner)
    matrix = np.zeros((n_inner, n_inner))
    for o in range(n_outer):
        give = on[o] * inner
        if give.any():
            matrix += outer[o] * (np.diag(give) - np.outer(give, give) / give.sum())
    begin = np.concatenate([[0], np.cumsum(on.sum(axis=1))])
    return Active(begin, np.nonzero(on)[1].astype(np.uint32), 0, outer, inner), matrix


@pytest.mark.parametrize("wide", [False, True])
def test_the_equations_of_prices_are_those_of_the_dense_matrix(wide):
    rng = np.random.default_rng(3)
    for _ in range(30):
        active, wanted = random_active(rng, wide=wide)
        n = wanted.shape[0]
        upper, out, vector = np.zeros((n, n)), np.empty(n), rng.normal(size=n)
        matrices(active, 1e-3, vector, out, upper)
        np.testing.assert_allclose(np.triu(upper), np.triu(wanted + 1e-3 * np.eye(n)), atol=1e-12)
        np.testing.assert_allclose(out, wanted @ vector + 1e-3 * vector, atol=1e-12)
        right = rng.normal(size=n)
        expected = np.linalg.solve(wanted + 1e-3 * np.eye(n), right)
        solved_by_steps(active, 1e-3, right)
        np.testing.assert_allclose(right, expected, atol=1e-6 * max(1.0, np.abs(expected).max()))


def random_tables(rng, *, root=False):
    """Two tables, which a random set of labels couples, one of each orientation."""
    shapes = [(4, 1), (3, 1)] if root else [(5, 3), (2, 4)]
    n_columns, n_rows = sum(s for s, _ in shapes), sum(c for _, c in shapes)
    truth = [rng.integers(0, 6, shape) + 1 for shape in shapes]
    slack = np.ones(n_rows) if root else np.concatenate([np.ones(3), rng.choice([1.0, 2.0], 4)])
    slack[3:] /= 1.0 if root else slack[3:].min()
    labels = rng.integers(0, 3, (n_columns, 2)) + np.array([0, 3])
    child = np.zeros(n_rows) if root else np.concatenate([np.arange(3), np.arange(4)])
    n_children = int(child.max()) + 1
    entries = sum(s * c for s, c in shapes)
    return Tables(
        np.cumsum([0] + [s for s, _ in shapes]),
        np.cumsum([0] + [c for _, c in shapes]),
        np.cumsum([0] + [s * c for s, c in shapes]),
        np.array([False, False]) if root else np.array([True, False]),
        child.astype(np.uint32),
        np.zeros(0) if root else np.concatenate([one.sum(axis=1) for one in truth]).astype(float),
        np.concatenate([one.sum(axis=0) for one in truth]).astype(float),
        0.5 / slack,
        slack,
        rng.normal(3.0, 4.0, entries),
        2 * np.arange(n_columns + 1),
        labels.reshape(-1).astype(np.uint32),
        rng.choice([0.0, 0.5, 2.0], (6, n_children)),
        rng.normal(10.0, 4.0, (6, n_children)),
    )


def entries_of(tables):
    """Table, column and row of each entry, in order."""
    found = []
    for p, upright in enumerate(tables.upright):
        columns = range(tables.column_begin[p], tables.column_begin[p + 1])
        rows = range(tables.row_begin[p], tables.row_begin[p + 1])
        found += (
            [(p, i, k) for i in columns for k in rows]
            if upright
            else [(p, i, k) for k in rows for i in columns]
        )
    return found


def sum_matrix(tables, entries):
    """Which entries each fixed sum has."""
    n_columns, n_rows = tables.column_total.size, tables.row_total.size
    matrix = np.zeros((n_columns + n_rows, len(entries)))
    for e, (_, i, k) in enumerate(entries):
        if n_columns:
            matrix[i, e] = 1.0
        matrix[n_columns + k, e] = 1.0
    return matrix


def label_matrix(tables, entries):
    """Which entries each label has in each child."""
    n_children = tables.label_weight.shape[1]
    matrix = np.zeros((tables.label_weight.size, len(entries)))
    for e, (_, i, k) in enumerate(entries):
        for label in tables.label[tables.label_begin[i] : tables.label_begin[i + 1]]:
            matrix[label * n_children + tables.child[k], e] += 1.0
    return matrix


@pytest.mark.parametrize("root", [False, True])
def test_the_direction_is_that_of_the_dense_equations(root):
    """With all prices as variables. The moves of counts are compared, since those of inner lines are not unique."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        tables = random_tables(rng, root=root)
        entries = entries_of(tables)
        x = np.where(rng.random(len(entries)) < 0.7, 1.0, 0.0)
        gives = (x > 0) / np.array([tables.weight[k] for _, _, k in entries])
        weight = tables.label_weight.reshape(-1)
        measured = weight > 0
        sums, labels = sum_matrix(tables, entries), label_matrix(tables, entries)[measured]
        every = np.concatenate([labels, sums])
        easing = np.concatenate([1.0 / weight[measured], np.zeros(len(sums))])
        gradient = np.where(measured, rng.normal(size=weight.size), 0.0)
        right = np.concatenate([gradient[measured], np.zeros(len(sums))])
        wanted = np.linalg.lstsq(every * gives @ every.T + np.diag(easing), right, rcond=None)[0][
            : len(labels)
        ]

        moves = Prices(*(np.zeros(n) for n in (columns_of(tables), len(tables.row_total), weight.size)))
        moves = moves._replace(label=moves.label.reshape(tables.label_weight.shape))
        methods = all_compiled(KERNELS).parts.methods
        slope, _ = methods.find_direction(
            tables, x, gradient.reshape(tables.label_weight.shape), moves, 1e-9, methods.direction
        )
        np.testing.assert_allclose(moves.label.reshape(-1)[measured], wanted, atol=1e-6)
        np.testing.assert_array_equal(moves.label.reshape(-1)[~measured], 0.0)
        assert slope == pytest.approx(gradient[measured] @ wanted, rel=1e-6)
        # With their prices of inner lines, and the outer lines' best ones, all sums of the tables stay.
        slack = np.array([tables.slack[k] for _, _, k in entries])
        falls = gives * (label_matrix(tables, entries).T @ moves.label.reshape(-1)) + (
            x > 0
        ) * slack * np.array([moves.column[i] + moves.row[k] for _, i, k in entries])
        outer = np.array([(p, i if tables.upright[p] else -1 - k) for p, i, k in entries])
        for line in np.unique(outer, axis=0):
            inside = (outer == line).all(axis=1) & (x > 0)
            falls[inside] -= gives[inside] * falls[inside].sum() / max(gives[inside].sum(), 1e-300)
        np.testing.assert_allclose(sums @ falls, 0.0, atol=1e-6)


def newton_matrices(tables, x):
    """The preconditioner and H + diag(1 / label_weight, 0) as dense matrices, and which variables can move."""
    inner_lines, label_step, child_step = face_vector_size(tables, x)
    n_labels, n = tables.label_weight.size, tables.label_weight.size + inner_lines
    easing = np.zeros(n_labels)
    for (label, c), weight in np.ndenumerate(tables.label_weight):
        easing[label * label_step + c * child_step] = 1.0 / weight if weight > 0 else 0.0
    columns_of_inverse, columns_of_matrix = np.empty((n, n)), np.empty((n, n))
    for j in range(n):
        preconditioned(tables, x, easing, np.eye(n)[j], columns_of_inverse[j], columns_of_matrix[j])
    inverse, matrix = columns_of_inverse.T, columns_of_matrix.T.copy()
    matrix[np.arange(n_labels), np.arange(n_labels)] += easing
    movable = np.concatenate([easing > 0, np.ones(inner_lines, bool)]) & (np.diag(inverse) > 0)
    return inverse, matrix, movable


@pytest.mark.parametrize("root", [False, True])
def test_the_preconditioner_is_symmetric_and_positive(root):
    rng = np.random.default_rng(7)
    for _ in range(10):
        tables = random_tables(rng, root=root)
        x = np.where(rng.random(tables.centre.size) < 0.7, 1.0, 0.0)
        inverse, matrix, movable = newton_matrices(tables, x)
        np.testing.assert_allclose(inverse, inverse.T, atol=1e-12)
        inside = np.ix_(movable, movable)
        assert np.linalg.eigvalsh(inverse[inside]).min() > 0
        if root:  # a root has one child, so that its block is all there is
            np.testing.assert_allclose(inverse[inside] @ matrix[inside], np.eye(movable.sum()), atol=1e-9)


def test_the_preconditioner_is_exact_for_each_child_by_itself():
    """Upright tables, whose blocks have labels and rows. What couples two children is taken from the dense matrix."""
    rng = np.random.default_rng(8)
    for _ in range(10):
        tables = upright_tables(rng)
        x = np.where(rng.random(tables.centre.size) < 0.7, 1.0, 0.0)
        inverse, matrix, movable = newton_matrices(tables, x)
        _, label_step, child_step = face_vector_size(tables, x)
        child = np.empty(len(matrix), np.int64)
        for label, c in np.ndindex(tables.label_weight.shape):
            child[label * label_step + c * child_step] = c
        child[tables.label_weight.size :] = tables.child  # the rows are the inner lines, in order
        alone = np.where(child[:, None] == child, matrix, 0.0)[np.ix_(movable, movable)]
        np.testing.assert_allclose(
            inverse[np.ix_(movable, movable)] @ alone, np.eye(movable.sum()), atol=1e-8
        )


def upright_tables(rng):
    """Two tables whose outer lines are columns, with measured labels of their own in every child."""
    shapes = [(7, 3), (6, 4)]
    n_columns, n_rows = sum(s for s, _ in shapes), sum(c for _, c in shapes)
    labels = rng.integers(0, 3, (n_columns, 2)) + np.array([0, 3])
    slack = rng.choice([1.0, 2.0], n_rows)
    return Tables(
        np.cumsum([0] + [s for s, _ in shapes]),
        np.cumsum([0] + [c for _, c in shapes]),
        np.cumsum([0] + [s * c for s, c in shapes]),
        np.array([True, True]),
        np.concatenate([np.arange(3), np.arange(4)]).astype(np.uint32),
        np.ones(n_columns),
        np.ones(n_rows),
        0.5 / slack,
        slack,
        np.zeros(sum(s * c for s, c in shapes)),
        2 * np.arange(n_columns + 1),
        labels.reshape(-1).astype(np.uint32),
        rng.choice([0.5, 2.0], (6, 4)),
        np.zeros((6, 4)),
    )


def columns_of(tables):
    """Number of columns of all tables, also where they are free."""
    return tables.label_begin.size - 1


def solution_of(tables):
    prices = Prices(
        np.zeros(columns_of(tables)), np.zeros(tables.row_total.size), np.zeros(tables.label_weight.shape)
    )
    x = np.empty(tables.centre.size)
    kernels = all_compiled(KERNELS)
    compiled(solve_component)(tables, prices, x, 1e-8, kernels.parts)
    return prices, x


@pytest.mark.parametrize("root", [False, True])
def test_the_certificate_accepts_the_optimum_and_nothing_else(root):
    rng = np.random.default_rng(9)
    for _ in range(10):
        tables = random_tables(rng, root=root)
        prices, x = solution_of(tables)
        assert max(gaps(tables, prices, x)) <= 1e-7
        np.testing.assert_allclose(plain_gaps(tables, prices, x), gaps(tables, prices, x), atol=1e-9)
        moved = x.copy()
        e = int(np.argmax(x))
        moved[e] -= 0.5
        assert gaps(tables, prices, moved).sums >= 0.49
        assert gaps(tables, prices, moved).entries >= 0.49
        for name, price in (("column", prices.column), ("row", prices.row), ("label", prices.label)):
            if name == "column" and root:
                continue
            wrong = prices._replace(**{name: price + 0.3})
            found = gaps(tables, wrong, x)
            assert max(found.entries, found.labels) >= 0.05
        negative = x.copy()
        negative[e] = -1.0
        assert gaps(tables, prices, negative).entries >= 1.0


def plain_gaps(tables, prices, x):
    """The certificate in numpy, from matrices."""
    entries = entries_of(tables)
    sums = sum_matrix(tables, entries)
    totals = np.concatenate([tables.column_total, tables.row_total])
    n_children = tables.label_weight.shape[1]
    answers = np.zeros((tables.label_weight.size, len(entries)))
    for e, (_, i, k) in enumerate(entries):
        for label in tables.label[tables.label_begin[i] : tables.label_begin[i + 1]]:
            answers[label * n_children + tables.child[k], e] += 1.0
    weight = np.array([tables.weight[k] for _, _, k in entries])
    shift = np.array([tables.slack[k] * (prices.column[i] + prices.row[k]) for _, i, k in entries])
    wanted = tables.centre - answers.T @ prices.label.reshape(-1) / weight - shift
    label_weight, price = tables.label_weight.reshape(-1), prices.label.reshape(-1)
    measured = label_weight > 0
    gap = answers @ x - tables.label_target.reshape(-1)
    gap[measured] -= price[measured] / label_weight[measured]
    gap[~measured] = price[~measured]
    return np.abs(gap).max(), np.abs(x - np.maximum(wanted, 0.0)).max(), np.abs(sums @ x - totals).max()
