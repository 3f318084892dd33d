"""The estimate against independent answers: another solver, and exact rational arithmetic."""

import dataclasses
from fractions import Fraction
from typing import Any

import daqp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space
from scipy.optimize import nnls
from tests.oracles.active_set import polish
from tests.oracles.interior_point import solve_interior
from tests.oracles.reduction import reduce_pass
from tests.samples import every, few

from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.least_squares import constraint_bounds, solve_passes
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)
from tallyveil.kernels.family.reduction import RIDGE


def random_labels(rng, n_cells, complete) -> tuple[Any, int]:
    n_answers = int(rng.integers(1, n_cells + 1))
    labels = rng.integers(0 if complete else -1, n_answers, n_cells).astype(np.int32)
    return labels, n_answers


def noisy(rng, name, labels, n_answers, truth, variance=None):
    answers = np.zeros((truth.shape[0], n_answers), dtype=np.int64)
    for cell, label in enumerate(labels):
        if label >= 0:
            answers[:, label] += truth[:, cell]
    variance = variance or float(rng.choice([0.5, 1.0, 4.0, 20.0, 300.0]))
    noise = np.rint(rng.normal(0, variance**0.5, answers.shape)).astype(np.int64)
    return MeasuredQuery(name, labels, answers + noise, variance)


def simple_family(parent_counts, measured, n_children):
    n_cells = parent_counts.size
    return FamilyProblem(
        geocode="parent",
        geolevel="tract",
        children=tuple(f"child {c}" for c in range(n_children)),
        support=np.arange(n_cells),
        parent_counts=parent_counts,
        measured=measured,
        constraints=(),
        passes=(EstimationPass(tuple(query.name for query in measured)),),
        rounding=(RoundingStage((("detailed", np.arange(n_cells, dtype=np.int32)),)),),
    )


def random_bounds(rng, truth):
    """Constraints that the truth meets, so that the family is feasible."""
    found = []
    for name in ("lower", "upper", "exact")[: int(rng.integers(0, 4))]:
        labels, n_answers = random_labels(rng, truth.shape[1], complete=False)
        sums = np.stack([truth[:, labels == k].sum(axis=1) for k in range(n_answers)], axis=1)
        loose = rng.integers(0, 4, sums.shape)
        lower = np.maximum(sums - loose, 0) if name == "lower" else np.zeros_like(sums)
        upper = sums + rng.integers(0, 2, sums.shape) if name == "upper" else np.full_like(sums, UNBOUNDED)
        if name == "exact":
            lower = upper = sums
        found.append(LinearConstraint(name, labels, lower, upper))
    return tuple(found)


def random_sums(rng, truth):
    """A constraint on sums of some children, with groups of one, of several and of all; the truth meets it."""
    n_groups = int(rng.integers(1, truth.shape[0] + 1))
    drawn = rng.integers(0, n_groups, truth.shape[0])
    _, first, number = np.unique(drawn, return_index=True, return_inverse=True)
    groups = np.argsort(np.argsort(first))[number]  # numbered as they first appear
    labels, n_answers = random_labels(rng, truth.shape[1], complete=bool(rng.random() < 0.5))
    if rng.random() < 0.5:
        labels, n_answers = np.zeros_like(labels), 1
    answers = np.stack([truth[:, labels == k].sum(axis=1) for k in range(n_answers)], axis=1)
    sums = np.zeros((groups.max() + 1, n_answers), dtype=np.int64)
    np.add.at(sums, groups, answers)
    upper = sums if rng.random() < 0.6 else sums + rng.integers(0, 3, sums.shape)
    return LinearConstraint("sum of children", labels, sums, upper, groups)


def random_family(seed, with_detailed=True, shared=False):
    rng = np.random.default_rng([77, seed])
    n_children, n_cells = int(rng.integers(1, 9)), int(rng.integers(1, 21))
    truth = rng.poisson(rng.choice([0.3, 2.0, 15.0]), (n_children, n_cells))
    root = seed % 10 == 0
    truth = truth[:1] if root and not shared else truth
    truth[0, 0] += 1
    queries = [
        noisy(rng, f"query {i}", *random_labels(rng, n_cells, complete=rng.random() < 0.7), truth)
        for i in range(int(rng.integers(1, 5)))
    ]
    if with_detailed:
        queries.append(noisy(rng, "detailed", np.arange(n_cells, dtype=np.int32), n_cells, truth))
    names = [query.name for query in queries]
    cut = int(rng.integers(0, len(names))) if seed % 2 else 0
    slack = float(rng.choice([0.0, 0.1, 0.5]))
    passes = (EstimationPass(tuple(names[cut:])),)
    if cut:
        passes = (EstimationPass(tuple(names[:cut]), slack), *passes)
    constraints = random_bounds(rng, truth) if seed % 3 else ()
    return FamilyProblem(
        geocode="parent",
        geolevel="tract",
        children=tuple(f"child {c}" for c in range(truth.shape[0])),
        support=np.arange(n_cells),
        parent_counts=None if root else truth.sum(axis=0),
        measured=tuple(queries),
        constraints=(*constraints, random_sums(rng, truth)) if shared else constraints,
        passes=passes,
        rounding=(RoundingStage((("detailed", np.arange(n_cells, dtype=np.int32)),)),),
    )


def matrix_of(labels, n_answers, n_children, groups=None):
    """Dense 0/1 matrix of one query over all children's cells, rows by child (or group of children) then answer."""
    one = (labels[None, :] == np.arange(n_answers)[:, None]).astype(float)
    if groups is None:
        groups = np.arange(n_children)
    return np.kron((np.arange(groups.max() + 1)[:, None] == groups).astype(float), one)


def rows_of(problem, carried):
    """Equalities (A, b) and inequalities G x >= h of the unreduced problem, every cell a variable."""
    n_children, n_cells = problem.n_children, problem.n_cells
    n = n_children * n_cells
    equal, equal_to, above, above_by = [np.zeros((0, n))], [np.zeros(0)], [np.eye(n)], [np.zeros(n)]
    if problem.parent_counts is not None:
        equal.append(np.kron(np.ones((1, n_children)), np.eye(n_cells)))
        equal_to.append(problem.parent_counts)
    stated = [(c.labels, c.lower, c.upper.astype(float), c.group_of) for c in problem.constraints]
    for labels, lower, upper, groups in stated + carried:
        rows = matrix_of(labels, lower.shape[1], n_children, groups)
        low, high = lower.reshape(-1), upper.reshape(-1)
        same, bounded = low == high, (low != high) & (high < UNBOUNDED)
        equal.append(rows[same])
        equal_to.append(low[same])
        above += [rows[~same], -rows[bounded]]
        above_by += [low[~same], -high[bounded]]
    return np.vstack(equal), np.concatenate(equal_to), np.vstack(above), np.concatenate(above_by)


def objective_of(problem, current, ridge=0.0):
    """(H, b) of the unreduced problem, with the documented ridge where asked for."""
    n_children, n_cells = problem.n_children, problem.n_cells
    hessian, linear = np.zeros((n_children * n_cells,) * 2), np.zeros(n_children * n_cells)
    for query in problem.queries(current):
        rows = matrix_of(query.labels, query.values.shape[1], n_children)
        weight = np.repeat(1 / query.variances, query.values.shape[1])
        hessian += rows.T * weight @ rows
        linear += rows.T @ (weight * query.values.reshape(-1))
    if ridge:
        parent = np.ones(n_cells) if problem.parent_counts is None else problem.parent_counts
        smallest = smallest_weights(problem, current)
        hessian += np.diag(np.kron(ridge * smallest, parent.mean() / np.maximum(parent, 0.1)))
    return hessian, linear


def smallest_weights(problem, current):
    """Of each child, above zero; of a child that nothing measures, the smallest of any.

    Queries that tell the same cells apart are one query measured more than once.
    """
    found = {}
    for query in problem.queries(current):
        labels, weights = query.labels, 1 / query.variances
        if labels.max() >= 0:
            alike = tuple(labels.tolist().index(label) if label >= 0 else -1 for label in labels)
            found[alike] = found.get(alike, 0.0) + weights
    weights = np.array([*found.values()]) if found else np.ones((1, problem.n_children))
    weights = np.where(weights > 0, weights, np.inf)
    own = weights.min(axis=0)
    return np.where(np.isfinite(own), own, min(own.min(), 1e300))


def passes_of(problem):
    """(pass, its estimate, rows carried into it): the problem cut after each pass, solved anew."""
    carried = []
    for i, current in enumerate(problem.passes):
        passes = problem.passes[: i + 1]
        names = {name for one in passes for name in one.queries}
        measured = tuple(query for query in problem.measured if query.name in names)
        prefix = dataclasses.replace(problem, passes=passes, measured=measured)
        answer = solve_passes(prefix, prefix.allowed())
        assert answer.residual_persons <= 1e-7
        yield current, answer.estimate, list(carried)
        for query in problem.queries(current):
            rows = matrix_of(query.labels, query.values.shape[1], problem.n_children)
            answers = (rows @ answer.estimate.reshape(-1)).reshape(query.values.shape)
            carried.append((query.labels, answers - current.slack, answers + current.slack, None))


def multipliers(gradient, equal, above, slack):
    """Non-negative least squares for prices that balance the gradient; prices of loose rows are zero."""
    tight = above[slack <= 1e-7]
    system = np.vstack([equal, -equal, tight]).T
    if system.shape[1] == 0:
        return gradient, np.zeros(equal.shape[0]), np.zeros(above.shape[0])
    found = nnls(system, gradient, maxiter=50 * system.shape[1])[0]
    n = equal.shape[0]
    prices = np.zeros(above.shape[0])
    prices[slack <= 1e-7] = found[2 * n :]
    return gradient - system @ found, found[:n] - found[n : 2 * n], prices


def dual_active_set_answer(hessian, linear, equal, equal_to, above, above_by):
    """DAQP: a dual active-set method that shares nothing with an interior point or with our polish.

    Equalities, which may repeat one another, are met by x = start + basis z; it solves for z.
    """
    n = hessian.shape[0]
    start = np.linalg.lstsq(equal, equal_to, rcond=None)[0] if equal.size else np.zeros(n)
    basis = null_space(equal) if equal.size else np.eye(n)
    if basis.shape[1] == 0:
        return start
    rows, at_least = above @ basis, (above_by - above @ start).astype(float)
    varies = np.linalg.norm(rows, axis=1) > 1e-9
    rows, at_least = np.ascontiguousarray(rows[varies]), at_least[varies]
    z, _, flag, _ = daqp.solve(
        np.ascontiguousarray(basis.T @ hessian @ basis),
        basis.T @ (hessian @ start - linear),
        rows,
        np.full(at_least.size, 1e30),
        at_least,
        np.zeros(at_least.size, dtype=np.int32),
        primal_tol=1e-11,
        dual_tol=1e-11,
    )
    assert flag == 1
    return start + basis @ np.array(z)


@pytest.mark.parametrize(
    ("seed", "shared"), few(20, every(6, [(s, shared) for shared in (False, True) for s in range(200)]))
)
def test_optimality_conditions_hold_on_the_unreduced_problem(seed, shared):
    """Prices found by another method prove every pass optimal; strong convexity bounds the distance in persons."""
    problem = random_family(seed, shared=shared)
    for current, estimate, carried in passes_of(problem):
        x = estimate.reshape(-1)
        equal, equal_to, above, above_by = rows_of(problem, carried)
        assert np.abs(equal @ x - equal_to).max(initial=0) <= 1e-7
        assert (above @ x - above_by).min() >= -1e-7
        # undetermined cells: the ridge is there, or cells are merged until it is not needed
        distance = min(
            distance_to_optimum(problem, current, x, equal, above, above_by, r) for r in (0.0, RIDGE)
        )
        assert distance <= 1e-5


def distance_to_optimum(problem, current, x, equal, above, above_by, ridge):
    """Bound on the persons to the optimum, by strong convexity (by the smallest weight where it is not strict)."""
    hessian, linear = objective_of(problem, current, ridge)
    rest, _, _ = multipliers(hessian @ x - linear, equal, above, above @ x - above_by)
    smallest = smallest_weights(problem, current).min()
    return np.linalg.norm(rest) / max(np.linalg.eigvalsh(hessian)[0], RIDGE * smallest)


@pytest.mark.parametrize(
    ("seed", "shared"), every(6, [(s, shared) for s in range(200) for shared in (False, True)][:300])
)
def test_agrees_with_an_independent_solver(seed, shared):
    """The same counts to 1e-5 persons, and never a higher objective."""
    problem = random_family(seed, shared=shared)
    *_, (current, estimate, carried) = passes_of(problem)
    program = (*objective_of(problem, current), *rows_of(problem, carried))
    hessian, linear, equal, equal_to, above, above_by = program
    ours, theirs = estimate.reshape(-1), dual_active_set_answer(*program)
    assert np.abs(ours - theirs).max() <= 1e-5
    value = [x @ hessian @ x / 2 - linear @ x for x in (ours, theirs)]
    _, price, above_price = multipliers(hessian @ ours - linear, equal, above, above @ ours - above_by)
    # what a solver gains by breaking rows a little is bounded by the rows' prices
    gained = np.abs(price) @ np.abs(equal @ theirs - equal_to)
    gained += above_price @ np.maximum(above_by - above @ theirs, 0)
    assert value[0] <= value[1] + gained + 1e-9 * max(1.0, abs(value[1]))


def with_variances_of_their_own(problem, seed):
    """The same family with children measured better or worse than their siblings, and one not at all."""
    rng = np.random.default_rng([78, seed])
    nobody = int(rng.integers(problem.n_children)) if problem.n_children > 1 and seed % 4 else -1
    factors = rng.choice([0.01, 1.0, 1.0, 1.0, 4.0], problem.n_children)
    factors[np.arange(problem.n_children) == nobody] = np.inf
    return dataclasses.replace(
        problem,
        measured=tuple(dataclasses.replace(q, variances=q.variances * factors) for q in problem.measured),
    )


# in family 73 the other solver finds no answer
@pytest.mark.parametrize("seed", every(5, (seed for seed in range(150) if seed != 73)))
def test_children_with_variances_of_their_own_agree_with_an_independent_solver(seed):
    """The ridge is there for the children that their measurements do not determine, and for no others."""
    problem = with_variances_of_their_own(random_family(seed), seed)
    *_, (current, estimate, carried) = passes_of(problem)
    hessian, linear = objective_of(problem, current)
    ridged, _ = objective_of(problem, current, RIDGE)
    n_cells = problem.n_cells
    for c in range(problem.n_children):
        own = slice(c * n_cells, (c + 1) * n_cells)
        # every cell of a child counts in its detailed query, or in none
        if np.isinf(next(one for one in problem.measured if one.name == "detailed").variances[c]):
            hessian[own, own] = ridged[own, own]
    theirs = dual_active_set_answer(hessian, linear, *rows_of(problem, carried))
    assert np.abs(estimate.reshape(-1) - theirs).max() <= 1e-5


def test_what_one_child_is_not_measured_is_what_its_siblings_leave():
    parent = np.array([10, 7])
    values = np.array([[4, 5], [99, -99], [3, 1]])
    measured = MeasuredQuery("detailed", np.arange(2), values, np.array([1.0, np.inf, 1e-4]))
    answer = solve_passes(simple_family(parent, (measured,), 3), np.ones((3, 2), dtype=bool))
    np.testing.assert_allclose(answer.estimate, [[4, 5], [3, 1], [3, 1]], atol=1e-3)
    assert answer.residual_persons <= 1e-7


def solve_exactly(matrix, right):
    """Gauss and Jordan in rational numbers."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(j for j in range(i, len(rows)) if rows[j][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(len(rows)):
            if j != i and rows[j][i] != 0:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[-1] for row in rows]


@pytest.mark.parametrize("seed", range(8))
def test_optimality_conditions_hold_in_rational_numbers(seed):
    """On the estimate's face the exact optimum has the right signs, and the estimate is within 1e-10 of it."""
    rng = np.random.default_rng([5, seed])
    n_children, n_cells = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    truth = rng.poisson(2.0, (n_children, n_cells)) + (rng.random(n_cells) < 0.3)
    truth[0] += 1
    pair = (np.arange(n_cells) // 2).astype(np.int32)
    measured = (
        noisy(rng, "total", np.zeros(n_cells, np.int32), 1, truth, 1.0),
        noisy(rng, "pair", pair, int(pair.max()) + 1, truth, 4.0),
        noisy(rng, "detailed", np.arange(n_cells, dtype=np.int32), n_cells, truth, 8.0),
    )
    problem = simple_family(truth.sum(axis=0), measured, n_children)
    estimate = solve_passes(problem, problem.allowed()).estimate
    n = n_children * n_cells
    hessian, linear = (
        [Fraction(v).limit_denominator(64) for v in a.reshape(-1)]
        for a in objective_of(problem, problem.passes[0])
    )
    free = [i for i in range(n) if estimate.reshape(-1)[i] > 0]
    matrix = [
        [hessian[i * n + j] for j in free] + [Fraction(-int(i % n_cells == k)) for k in range(n_cells)]
        for i in free
    ]
    matrix += [
        [Fraction(int(j % n_cells == k)) for j in free] + [Fraction(0)] * n_cells for k in range(n_cells)
    ]
    right = [linear[i] for i in free] + [Fraction(int(v)) for v in problem.parent_counts]
    solved = solve_exactly(matrix, right)
    x = dict(zip(free, solved, strict=False))
    prices = solved[len(free) :]
    assert all(value >= 0 for value in x.values())
    for i in set(range(n)) - set(free):
        assert sum(hessian[i * n + j] * x[j] for j in free) - linear[i] - prices[i % n_cells] >= 0
    exact = np.array([float(x.get(i, 0)) for i in range(n)])
    assert np.abs(exact - estimate.reshape(-1)).max() <= 1e-10


@pytest.mark.parametrize("with_detailed", [True, False])
@pytest.mark.parametrize("shared", few(1, [False, True]))
@pytest.mark.parametrize("first", every(3, range(3)))
def test_every_family_is_certified(with_detailed, shared, first):
    for seed in range(1000 + first, 1300, 3):
        problem = random_family(seed, with_detailed, shared)
        answer = solve_passes(problem, problem.allowed())
        assert answer.status.certified
        assert answer.residual_persons <= 1e-7


def test_the_rungs_in_numpy_agree_where_sums_of_children_are_bounded():
    for seed in range(300, 340):
        problem = random_family(seed, shared=True)
        current = dataclasses.replace(
            problem, passes=(EstimationPass(tuple(q.name for q in problem.measured)),)
        )
        compiled = solve_passes(current, current.allowed())
        program, merging = reduce_pass(
            current, current.allowed(), current.passes[0], constraint_bounds(current)
        )
        point, residual = polish(program, solve_interior(program)[0])
        assert residual <= 1e-7
        np.testing.assert_allclose(merging.expand(program.spread(point.x)), compiled.estimate, atol=1e-5)


@settings(max_examples=120)
@given(seed=st.integers(0, 10**6), with_detailed=st.booleans(), shared=st.booleans())
def test_constraints_and_sums_survive_rounding(seed, with_detailed, shared):
    problem = random_family(seed, with_detailed, shared)
    counts = estimate_family(problem).counts
    assert counts.min(initial=0) >= 0
    if problem.parent_counts is not None:
        np.testing.assert_array_equal(counts.sum(axis=0), problem.parent_counts)
    for rows in problem.constraints:
        matrix = matrix_of(rows.labels, rows.lower.shape[1], problem.n_children, rows.group_of)
        sums = (matrix @ counts.reshape(-1)).reshape(rows.lower.shape)
        assert ((sums >= rows.lower) & (sums <= rows.upper)).all()


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_order_of_children_and_names_of_answers_do_not_matter(seed):
    problem = random_family(seed)
    order = np.random.default_rng(seed).permutation(problem.n_children)
    moved = dataclasses.replace(
        problem,
        children=tuple(problem.children[i] for i in order),
        measured=tuple(dataclasses.replace(q, values=q.values[order]) for q in problem.measured),
        constraints=tuple(
            dataclasses.replace(c, lower=c.lower[order], upper=c.upper[order]) for c in problem.constraints
        ),
    )
    first = solve_passes(problem, problem.allowed()).estimate
    second = solve_passes(moved, moved.allowed()).estimate
    np.testing.assert_allclose(second, first[order], atol=1e-6)
