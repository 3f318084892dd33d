"""The fallback of the least squares on hostile families: it solves whatever an oracle in numpy solves.

Every pass is handed to the fallback (PIQP, then the compiled walk) as if the compiled solver had failed. It must
certify whatever the oracle certifies, and the whole numbers that follow must meet every constraint.
"""

import numpy as np
import pytest
from tests.oracles.least_squares import solve_pass_in_numpy
from tests.property.test_estimation_hostile import FEASIBLE, family, many_undetermined_cells, measured, people
from tests.property.test_estimation_large_counts import family as large_family
from tests.samples import few

from tallyveil.estimation import least_squares
from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.least_squares import constraint_bounds, pass_arrays, solve_interior
from tallyveil.estimation.problem import UNBOUNDED, EstimationPass, LinearConstraint
from tallyveil.kernels.family.solver import solve_pass
from tallyveil.schema.counts import LARGEST_COUNT

CERTIFIED_PERSONS = 1e-7


def sums(truth, labels):
    """Exact sums of cells by label."""
    return measured(np.random.default_rng(0), "sums", labels, truth, 1e-12).values.astype(np.int64)


def queries_of(rng, truth, variances):
    cells = np.arange(truth.shape[1])
    labels = {"total": cells * 0, "halves": cells % 2, "thirds": cells // 3, "detailed": cells}
    return [
        measured(rng, name, labels[name], truth, float(variance))
        for name, variance in zip(labels, variances, strict=True)
    ]


def two_passes(queries, slack):
    return (
        EstimationPass((queries[0].name,), slack),
        EstimationPass(tuple(query.name for query in queries[1:])),
    )


def weights_far_apart(rng):
    """Variances from the least to the largest that a plan may hold."""
    truth = people(rng)
    return family(truth, queries_of(rng, truth, rng.permutation([1 / 250, 1e10, 1.0, 1e5])))


def huge_beside_tiny(rng):
    """Children of billions beside children of a few people."""
    truth = people(rng, n_children=4, n_cells=8)
    truth[0] = rng.integers(0, LARGEST_COUNT // 8, 8)
    queries = queries_of(rng, truth, [1.0, 4.0, 9.0, 20.0])
    return family(truth, queries, passes=two_passes(queries, float(rng.choice([0.0, 0.1]))))


def nothing_but_zeros_measured(rng):
    """All noisy answers are zero, though people live there and bounds say so."""
    truth = people(rng) + 1
    queries = [
        type(query)(query.name, query.labels, query.values * 0, query.variances)
        for query in queries_of(rng, truth, [1.0, 2.0, 3.0, 4.0])
    ]
    least = sums(truth, np.arange(truth.shape[1]) % 2)
    labels = (np.arange(truth.shape[1]) % 2).astype(np.int32)
    rows = LinearConstraint("least", labels, least, np.full_like(least, UNBOUNDED))
    return family(truth, queries, [rows], two_passes(queries, 0.0))


def nearly_parallel(rng):
    """Ranges of sums that differ in one cell each, all of them tight at one end."""
    truth = people(rng, n_cells=int(rng.integers(4, 16)))
    n_cells = truth.shape[1]
    rows = []
    for left_out in range(min(n_cells, 5)):
        labels = np.zeros(n_cells, np.int32)
        labels[left_out] = -1
        exact = sums(truth, labels)
        tight_below = bool(left_out % 2)
        lower, upper = (exact, exact + 2) if tight_below else (np.maximum(exact - 2, 0), exact)
        rows.append(LinearConstraint(f"without {left_out}", labels, lower, upper))
    queries = queries_of(rng, truth, [40.0, 40.0, 40.0, 9.0])
    return family(truth, queries, rows, two_passes(queries, 0.0))


def many_invariants(rng):
    """A dozen statistics are exact, most of them sums of others, for single children and for groups of children."""
    truth = people(rng, n_children=6)
    cells = np.arange(truth.shape[1])
    rows = []
    for modulus in range(1, 7):
        labels = (cells % modulus).astype(np.int32)
        exact = sums(truth, labels)
        rows.append(LinearConstraint(f"each {modulus}", labels, exact, exact))
    groups = np.array([0, 0, 0, 1, 1, 1])
    for modulus in (1, 2, 3, 5):
        labels = (cells % modulus).astype(np.int32)
        exact = np.stack([sums(truth, labels)[groups == group].sum(axis=0) for group in (0, 1)])
        rows.append(LinearConstraint(f"halves {modulus}", labels, exact, exact, groups))
    queries = queries_of(rng, truth, [1.0, 4.0, 9.0, 300.0])
    return family(truth, queries, rows, two_passes(queries, 0.1))


def bounds_that_meet(rng):
    """Lower and upper bounds are one number for most sums, and only one more for the others."""
    truth = people(rng)
    rows = []
    for name, labels in (("cells", np.arange(truth.shape[1])), ("total", np.zeros(truth.shape[1]))):
        exact = sums(truth, labels)
        rows.append(
            LinearConstraint(name, labels.astype(np.int32), exact, exact + (rng.random(exact.shape) < 0.3))
        )
    queries = queries_of(rng, truth, [0.01, 1.0, 1e4, 1e6])
    return family(truth, queries, rows)


HOSTILE = (
    *FEASIBLE,
    many_undetermined_cells,
    weights_far_apart,
    huge_beside_tiny,
    nothing_but_zeros_measured,
    nearly_parallel,
    many_invariants,
    bounds_that_meet,
)


def passes_of(problem):
    """What is allowed, the pass and its bounds, for each pass in turn."""
    allowed, bounds = problem.allowed(), constraint_bounds(problem)
    for current in problem.passes:
        if not allowed.any():
            return
        yield allowed, current, bounds
        estimate = least_squares._solve(problem, allowed, current, bounds).estimate
        carried = least_squares._carried(problem, current, estimate)
        allowed = least_squares._narrow(allowed, carried)
        bounds = (*bounds, *(least_squares._without_repeats(rows, bounds) for rows in carried))


def require_solved_by_the_fallback(problem):
    for allowed, current, bounds in passes_of(problem):
        arrays = pass_arrays(problem, allowed, current, bounds)
        near = np.zeros(allowed.shape)
        estimate, residual = solve_interior(arrays, near)
        assert residual <= least_squares.LIMIT_PERSONS
        oracle, error = solve_pass_in_numpy(problem, allowed, current, bounds, near)
        if error <= CERTIFIED_PERSONS:
            assert residual <= CERTIFIED_PERSONS
            # Both meet the same conditions to 1e-7 persons; counts of one cell may be told apart less surely.
            assert abs(difference(problem, current, estimate, oracle)) <= 1e-5


def difference(problem, current, estimate, oracle):
    """By how much the objective of one is above the other's, in parts of it."""
    ours, theirs = (
        least_squares.weighted_deviation(problem, current, counts) for counts in (estimate, oracle)
    )
    return (ours - theirs) / max(1.0, theirs)


@pytest.mark.parametrize("kind", few(6, HOSTILE), ids=lambda kind: kind.__name__)
def test_the_fallback_solves_what_the_oracle_solves(kind):
    for seed in range(4):
        require_solved_by_the_fallback(kind(np.random.default_rng([33, seed])))


@pytest.mark.parametrize("total", [1, 10**6, 10**8, LARGEST_COUNT])
def test_the_fallback_solves_families_of_any_size(total):
    for seed in range(0, 30, 5):
        require_solved_by_the_fallback(large_family(seed, total))


@pytest.mark.parametrize("kind", HOSTILE, ids=lambda kind: kind.__name__)
def test_counts_from_the_fallback_meet_every_constraint(kind, monkeypatch):
    monkeypatch.setattr(
        least_squares, "solve_pass", lambda arrays: solve_pass(arrays)._replace(residual=np.inf)
    )
    for seed in range(3):
        problem = kind(np.random.default_rng([34, seed]))
        counts = estimate_family(problem).counts
        assert counts.min(initial=0) >= 0
        if problem.parent_counts is not None:
            np.testing.assert_array_equal(counts.sum(axis=0), problem.parent_counts)
        for rows in problem.constraints:
            exact = np.zeros_like(rows.lower)
            np.add.at(exact, rows.group_of, sums(counts, rows.labels)[:, : exact.shape[1]])
            assert ((exact >= rows.lower) & (exact <= rows.upper)).all()
