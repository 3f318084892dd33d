"""The compiled family solver against its numpy twins."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.linalg import block_diag
from tests.from_python import from_python
from tests.oracles.active_set import polish as polish_reference
from tests.oracles.block_program import Point as ReferencePoint
from tests.oracles.block_program import reduced_cost, residual_persons
from tests.oracles.certificate import squared_deviation_reference
from tests.oracles.interior_point import solve_interior
from tests.oracles.reduction import reduce_pass
from tests.samples import ten

from tallyveil.estimation.least_squares import constraint_bounds, pass_arrays
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)
from tallyveil.kernels.compiled import all_compiled, compiled
from tallyveil.kernels.family.descent import equal_parts, row_activity
from tallyveil.kernels.family.face import BY_ANSWERS, BY_DIAGONAL, BY_INVERSES, Signs
from tallyveil.kernels.family.polish import Swaps, Walk, polish, reduced_costs, residual, squared_deviation
from tallyveil.kernels.family.program import Point
from tallyveil.kernels.family.solver import PARTS, solve_pass, solve_program

equal_parts = from_python(equal_parts)
reduced_costs = from_python(reduced_costs)
residual = from_python(residual)
row_activity = from_python(row_activity)


def parts():
    """The kernels as the solver calls them: with other types of arguments they would be compiled once more."""
    return all_compiled(PARTS)


def make_problem(seed, detailed=True, root=False, alike=True):
    """A random family; where children are not alike, some queries are measured better, or not at all, in some."""
    rng = np.random.default_rng([41, seed])
    n_children, n_cells = (1 if root else int(rng.integers(2, 7))), int(rng.integers(2, 25))
    truth = rng.poisson(rng.choice([0.5, 5.0]), (n_children, n_cells))
    truth[0] += 1
    queries = []
    for i in range(4):
        labels = rng.integers(-(i % 2), int(rng.integers(1, 6)), n_cells).astype(np.int32)
        queries.append((f"query {i}", labels))
    queries.append(("again", queries[0][1]))
    if detailed:
        queries.append(("detailed", np.arange(n_cells, dtype=np.int32)))
    measured = tuple(
        MeasuredQuery(
            name,
            labels,
            rng.integers(-5, 30, (n_children, int(labels.max(initial=0)) + 2)),
            float(rng.choice([1, 9, 80])) * (np.ones(n_children) if alike else unlike(seed, i, n_children)),
        )
        for i, (name, labels) in enumerate(queries)
    )
    groups = rng.integers(-1, 3, n_cells).astype(np.int32)
    sums = np.stack([truth[:, groups == k].sum(axis=1) for k in range(3)], axis=1)
    upper = np.where(rng.random(sums.shape) < 0.5, sums, UNBOUNDED)
    constraints = [LinearConstraint("groups", groups, np.maximum(sums - 1, 0), upper)]
    if seed % 4 == 1 and n_children > 2:  # the first and the last child together, and everybody else alone
        together = np.append(np.arange(n_children - 1), 0)
        both = sums[:-1].copy()
        both[0] += sums[-1]
        constraints.append(LinearConstraint("together", groups, both, both, together))
    return FamilyProblem(
        geocode="p",
        geolevel="tract",
        children=tuple(f"c{c}" for c in range(n_children)),
        support=np.arange(n_cells),
        parent_counts=None if root else truth.sum(axis=0),
        measured=measured,
        constraints=tuple(constraints),
        passes=(EstimationPass(tuple(name for name, _ in queries)),),
        rounding=(RoundingStage((("total", np.zeros(n_cells, np.int32)),)),),
    )


def unlike(seed, query, n_children):
    """Factors of the variances: of two kinds of children or three, or each by itself."""
    rng = np.random.default_rng([42, seed, query])
    factor = np.ones(n_children)
    factor[rng.integers(n_children)] = 0.01
    if seed % 2:
        factor[(seed // 2) % n_children] = np.inf
    return rng.choice([0.5, 1.0, 3.0], n_children) if seed % 5 == 0 else factor


CASES = [(seed, detailed, root) for seed in range(25) for detailed in (True, False) for root in (True, False)]


def both(seed, detailed, root, alike=None):
    """The compiled program with its group and share, and the twin with its merging."""
    problem = make_problem(seed, detailed, root, seed % 3 == 0 if alike is None else alike)
    arguments = problem, problem.allowed(), problem.passes[0], constraint_bounds(problem)
    return parts().reduce_arrays(pass_arrays(*arguments)), reduce_pass(*arguments)


def random_point(program, seed):
    rng = np.random.default_rng(seed)
    x = np.where(program.allowed, rng.exponential(3.0, program.allowed.shape), 0.0)
    x[rng.random(x.shape) < 0.3] = 0.0
    return x, rng.normal(size=program.sums.size), rng.normal(size=program.row_group.size)


def as_point(twin, x, cell_price, row_price):
    return ReferencePoint(x[twin.child, twin.cell], cell_price, row_price)


@pytest.mark.parametrize(("seed", "detailed", "root"), ten(CASES))
def test_reduction(seed, detailed, root):
    (program, group, share), (twin, merging) = both(seed, detailed, root)
    np.testing.assert_array_equal(group, merging.group)
    np.testing.assert_allclose(share, merging.share, rtol=1e-14)
    np.testing.assert_array_equal(program.allowed, twin.allowed)
    np.testing.assert_allclose(program.hessian[program.kind], twin.hessian[twin.kind], rtol=1e-13)
    diagonal = np.diagonal(twin.hessian, axis1=1, axis2=2)
    np.testing.assert_allclose(program.curvature[program.kind], diagonal[twin.kind], rtol=1e-13)
    np.testing.assert_allclose(program.ridge[program.kind], twin.ridge[twin.kind], rtol=1e-12)
    assert program.answers.shape[1] == len(twin.partitions)
    for answers, partition in zip(program.answers.T, twin.partitions, strict=True):
        first = answers[answers >= 0].min()
        np.testing.assert_array_equal(np.where(answers >= 0, answers - first, -1), partition.labels)
        width = partition.values.shape[1]
        np.testing.assert_allclose(
            program.targets[:, first : first + width],
            partition.weights[:, None] * partition.values,
            rtol=1e-12,
        )
    for name in ("lower", "upper"):
        np.testing.assert_array_equal(getattr(program, f"row_{name}"), getattr(twin.rows, name))
    x, _, _ = random_point(program, seed)
    activity = np.empty(program.row_group.size)
    row_activity(program, x, activity)
    np.testing.assert_allclose(activity, twin.rows.matrix @ x[twin.child, twin.cell], rtol=1e-13)
    if not root:
        np.testing.assert_array_equal(program.sums, twin.sums)


@pytest.mark.parametrize(("seed", "detailed", "root"), ten(CASES))
def test_reduced_costs_and_residual(seed, detailed, root):
    (program, _, _), (twin, _) = both(seed, detailed, root)
    x, cell_price, row_price = random_point(program, seed)
    if root:
        cell_price[:] = 0.0
    costs = np.empty(x.shape)
    reduced_costs(program, x, cell_price, row_price, costs)
    point = as_point(twin, x, cell_price, row_price)
    np.testing.assert_allclose(costs[twin.child, twin.cell], reduced_cost(twin, point), atol=1e-11)
    worst, unmet = residual(program, x, cell_price, row_price)
    assert worst == pytest.approx(residual_persons(twin, point), rel=1e-12)
    assert unmet <= worst
    x[0, 0] = np.nan
    assert residual(program, x, cell_price, row_price)[0] == np.inf


@pytest.mark.parametrize(("seed", "detailed", "root"), ten(CASES))
def test_a_face_is_solved_as_a_dense_system_is(seed, detailed, root):
    (program, _, _), (twin, _) = both(seed, detailed, root)
    ridged = bool(program.ridge.max() > 0)
    compare_with_dense_system(program, twin, seed, BY_INVERSES if ridged or seed % 2 == 1 else BY_DIAGONAL)


def test_a_face_is_solved_among_the_answers_as_a_dense_system_is():
    among, grouped = 0, 0
    for seed, detailed, root in CASES:
        (program, _, _), (twin, _) = both(seed, detailed, root)
        found = compare_with_dense_system(program, twin, seed, BY_ANSWERS)
        among += found
        grouped += found and (program.bound_members > 1).any()
    assert among >= 50
    assert grouped >= 5


@pytest.mark.parametrize("together", [False, True])
def test_many_rows_are_solved_as_a_dense_system_is(together):
    """With more binding rows than are factored as a whole: blocks of the children.

    If a row sums two children, conjugate gradients solve the equations.
    """
    rng = np.random.default_rng(43)
    truth = rng.poisson(5.0, (300, 4)) + 1
    labels = (
        np.arange(4, dtype=np.int32),
        np.array([0, 0, 1, 1], np.int32),
        np.array([0, 1, 1, -1], np.int32),
    )
    measured = [MeasuredQuery("detailed", labels[0], truth + rng.integers(-5, 5, truth.shape), np.ones(300))]
    measured.append(MeasuredQuery("halves", labels[1], truth[:, ::2] + truth[:, 1::2], np.ones(300)))
    bounds = []
    for name, own in (("halves", labels[1]), ("others", labels[2])):
        sums = np.stack([truth[:, own == k].sum(axis=1) for k in range(2)], axis=1)
        bounds.append(LinearConstraint(name, own, sums, sums + 1))
    if together:
        groups = np.maximum(np.arange(300) - 1, 0)
        sums = np.bincount(groups, weights=truth[:, 0]).astype(np.int64)[:, None]
        first = np.array([0, -1, -1, -1], np.int32)
        bounds.append(LinearConstraint("first", first, sums, sums + 1, groups))
    problem = FamilyProblem(
        geocode="p",
        geolevel="tract",
        children=tuple(f"c{c}" for c in range(300)),
        support=np.arange(4),
        parent_counts=truth.sum(axis=0),
        measured=tuple(measured),
        constraints=tuple(bounds),
        passes=(EstimationPass(("detailed", "halves")),),
        rounding=(RoundingStage((("total", np.zeros(4, np.int32)),)),),
    )
    arguments = problem, problem.allowed(), problem.passes[0], constraint_bounds(problem)
    program, _, _ = parts().reduce_arrays(pass_arrays(*arguments))
    side = np.ones(program.row_group.size, np.int64)
    ok, face = parts().faces.list_face(program, Signs(program.allowed, side), 2.0**-4, BY_DIAGONAL)
    assert ok
    assert face.by_child.begin.size
    assert (face.system.size == 0) == together
    assert not compare_with_dense_system(program, reduce_pass(*arguments)[0], 3, BY_DIAGONAL)


def compare_with_dense_system(program, twin, seed, manner):
    """Compare one solution of a random face; returns whether it was found among the answers."""
    root = not program.has_sums
    rng = np.random.default_rng([5, seed])
    free = program.allowed & (rng.random(program.allowed.shape) < 0.7)
    free[0] |= program.allowed[0]
    side = np.where(rng.random(program.row_group.size) < 0.6, rng.choice([-1, 1], program.row_group.size), 0)
    side[np.isinf(np.where(side == 1, twin.rows.upper, twin.rows.lower))] *= -1  # the bound that there is
    compliance = 2.0**-4
    ok, face = parts().faces.list_face(program, Signs(free, side), compliance, manner)
    assert ok
    x, cell_price, row_price = random_point(program, seed)
    if root:
        cell_price[:] = 0.0
    start = as_point(twin, x, cell_price, row_price)
    centre = rng.normal(size=side.size)
    costs = reduced_cost(twin, start)
    bound = np.where(side == 1, twin.rows.upper, twin.rows.lower)
    missing_rows = bound - twin.rows.matrix @ start.x - face.compliance * (row_price - centre)
    missing_cells = np.zeros(program.sums.size) if root else twin.sums - x.sum(axis=0)
    own = np.flatnonzero(free[twin.child, twin.cell])
    bind = np.flatnonzero(side != 0)
    full = block_diag(*twin.hessian[twin.kind])
    position = (twin.child * free.shape[1] + twin.cell)[own]
    rows = twin.rows.matrix.toarray()[np.ix_(bind, own)]
    sums = (np.arange(free.shape[1])[:, None] == twin.cell[own]) * (0.0 if root else 1.0)
    n, m, g = own.size, bind.size, free.shape[1]
    system = np.zeros((n + m + g, n + m + g))
    system[:n, :n] = full[np.ix_(position, position)]
    system[:n, n : n + m], system[n : n + m, :n] = -rows.T, rows
    system[n : n + m, n : n + m] = np.eye(m) * compliance / program.row_stiffness
    system[:n, n + m :], system[n + m :, :n] = -sums.T, sums
    system[n + m :, n + m :] = np.diag((sums.sum(axis=1) == 0).astype(float)) + 1e-13 * np.eye(g)
    right = np.concatenate([-costs[own], missing_rows[bind], missing_cells * (sums.sum(axis=1) > 0)])
    solved = np.linalg.solve(system, right)
    point = Point(x.copy(), cell_price.copy(), row_price.copy())
    walk = Walk(
        Signs(free, side),
        point._replace(row_price=centre),
        point,
        np.empty(x.shape),
        np.empty(side.size),
        Signs(free, side),
        0.0,
        0.0,
    )
    parts().faces.solve_face(program, face, walk, 1e-9 * float(np.abs(solved).max()), False)
    # a child that nothing measures has a ridge alone, 16,384 times softer than its siblings
    atol = np.abs(solved).max() * (1e-4 if (twin.ridge > 0).any() and len(twin.hessian) > 1 else 1e-6)
    np.testing.assert_allclose((point.x - x)[twin.child, twin.cell][own], solved[:n], atol=atol)
    np.testing.assert_allclose((point.row_price - row_price)[bind], solved[n : n + m], atol=atol)
    return face.answers.begin.size > 0


def solved(program, state):
    """What `solve_program` returns."""
    return compiled(solve_program)(program, state, parts())


@pytest.mark.parametrize(("seed", "detailed", "root"), ten(CASES[::3]))
def test_polish(seed, detailed, root):
    """Both polishes, from the same interior point, end at the same counts."""
    (program, _, _), (twin, _) = both(seed, detailed, root)
    start, _ = solve_interior(twin)
    expected, expected_residual = polish_reference(twin, start)
    for manner in manners(program):
        close = Point(twin.spread(np.maximum(start.x, 0.0)), start.cell_price.copy(), start.row_price.copy())
        given = (program, close, 2.0**-3, manner, Swaps(8, 42, False, False))
        found, steps = compiled(polish)(*given, parts().faces)
        assert max(found, expected_residual) <= 1e-7
        assert steps <= 50
        np.testing.assert_allclose(close.x[twin.child, twin.cell], expected.x, atol=1e-6)
        point = as_point(twin, *close)
        assert residual_persons(twin, point) == pytest.approx(found, abs=1e-9)


def manners(program):
    """Ways to solve a program's faces."""
    return (BY_INVERSES, BY_ANSWERS) if program.ridge.any() else (BY_DIAGONAL,)


@pytest.mark.parametrize(("seed", "root"), [(seed, root) for seed in range(10) for root in (True, False)])
def test_answers_sums_stand_in_for_the_hessian(seed, root):
    """Without H, as for very many cells, the descent and the faces give the same counts."""
    (program, _, _), _ = both(seed, True, root)
    dense, sums = equal_parts(program), equal_parts(program._replace(hessian=np.zeros((0, 0, 0))))
    assert program.hessian.size
    parts().descend(program, dense, 0.1, 5, 0.0)
    parts().descend(program._replace(hessian=np.zeros((0, 0, 0))), sums, 0.1, 5, 0.0)
    np.testing.assert_allclose(sums.x, dense.x, atol=1e-9)
    assert solved(program, dense)[0] <= 1e-7
    assert solved(program._replace(hessian=np.zeros((0, 0, 0))), sums)[0] <= 1e-7
    np.testing.assert_allclose(sums.x, dense.x, atol=1e-8)


def test_descent_converges_by_itself():
    """Many sweeps end where descent and polish end."""
    (program, _, _), _ = both(3, True, False)
    slow, quick = equal_parts(program), equal_parts(program)
    assert parts().descend(program, slow, 0.1 * program.row_stiffness, 20000, 1e-12) < 20000
    assert solved(program, quick)[0] <= 1e-7
    np.testing.assert_allclose(slow.x, quick.x, atol=1e-7)


def test_same_bits_in_any_thread():
    problems = [make_problem(seed, alike=seed % 2 == 0) for seed in range(40)]
    arrays = [pass_arrays(p, p.allowed(), p.passes[0], constraint_bounds(p)) for p in problems]
    alone = [solve_pass(one).estimate for one in arrays]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda one: solve_pass(one).estimate, arrays))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", range(10))
def test_squared_deviation(seed):
    problem = make_problem(seed, alike=seed % 2 == 0)
    one = pass_arrays(problem, problem.allowed(), problem.passes[0], ())
    estimate = np.random.default_rng(seed).exponential(2.0, one.allowed.shape)
    arguments = one.labels, one.widths, one.values, one.weights, estimate
    assert squared_deviation(*arguments) == pytest.approx(squared_deviation_reference(*arguments), rel=1e-12)
