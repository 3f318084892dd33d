"""Families of up to 2^32 people, with all noise that a plan may hold: certified, and exact in whole numbers."""

from typing import Any

import numpy as np
import pytest
from tests.samples import few

from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)
from tallyveil.noise.laws import SMALLEST_PARAMETER
from tallyveil.schema.counts import LARGEST_COUNT

LEAST, MOST = float(SMALLEST_PARAMETER), 1e10


def variance(rng):
    """One that a plan may hold: a bound of what is allowed, a usual one, or any between."""
    kind = rng.random()
    if kind < 0.25:
        return LEAST if kind < 0.15 else MOST
    return float(rng.choice([0.5, 1, 4, 20, 300])) if kind < 0.5 else 10 ** rng.uniform(np.log10(LEAST), 10)


def sums(counts, labels, n_answers):
    return np.stack([counts[:, labels == k].sum(axis=1) for k in range(n_answers)], axis=1)


def random_labels(rng, n_cells, complete) -> tuple[Any, int]:
    n_answers = int(rng.integers(1, n_cells + 1))
    return rng.integers(0 if complete else -1, n_answers, n_cells).astype(np.int32), n_answers


def people(rng, n_children, n_cells, total):
    """Counts that are alike, or of many sizes, with some zeros."""
    counts = rng.lognormal(0, rng.choice([0.0, 1.0, 4.0]), (n_children, n_cells))
    counts *= rng.random(counts.shape) > rng.choice([0, 0.3, 0.7])
    counts = np.floor(counts / max(counts.sum(), 1e-9) * total * rng.random()).astype(np.int64)
    counts[0, 0] += 1
    return counts


def measured(rng, truth, name, labels, n_answers, usual, factors):
    variances = np.clip((usual or variance(rng)) * factors, LEAST, MOST)
    answers = sums(truth, labels, n_answers)
    noise = np.rint(rng.normal(0, np.sqrt(variances)[:, None], answers.shape)).astype(np.int64)
    if rng.random() < 0.1 and truth.shape[0] > 1:
        variances[rng.integers(truth.shape[0])] = np.inf
    return MeasuredQuery(name, labels, answers + noise, variances)


def bounds(rng, truth):
    found = []
    for name in ("lower", "upper", "exact")[: int(rng.integers(0, 4))]:
        labels, n_answers = random_labels(rng, truth.shape[1], complete=False)
        exact = sums(truth, labels, n_answers)
        loose = rng.integers(0, 4, exact.shape) * int(rng.choice([1, 1000]))
        lower = {"lower": np.maximum(exact - loose, 0), "upper": 0 * exact, "exact": exact}[name]
        upper = {"lower": np.full_like(exact, UNBOUNDED), "upper": exact + loose, "exact": exact}[name]
        found.append(LinearConstraint(name, labels, lower, upper))
    return tuple(found)


def family(seed, total):
    rng = np.random.default_rng([91, seed])
    root = seed % 10 == 0
    n_children, n_cells = 1 if root else int(rng.integers(2, 9)), int(rng.integers(1, 21))
    truth = people(rng, n_children, n_cells, total)
    usual = variance(rng) if rng.random() < 0.3 else None
    own = 10 ** rng.uniform(-3, 3, n_children)
    factors = own if rng.random() < 0.25 else np.ones(n_children)
    queries = [
        measured(rng, truth, f"query {i}", *random_labels(rng, n_cells, rng.random() < 0.7), usual, factors)
        for i in range(int(rng.integers(1, 5)))
    ]
    detailed = np.arange(n_cells, dtype=np.int32)
    queries.append(measured(rng, truth, "detailed", detailed, n_cells, usual, factors))
    names = [query.name for query in queries]
    cut = int(rng.integers(0, len(names))) if seed % 2 else 0
    first = (EstimationPass(tuple(names[:cut]), float(rng.choice([0.0, 0.1, 0.5, 1.0]))),) if cut else ()
    return FamilyProblem(
        geocode="parent",
        geolevel="state",
        children=tuple(f"child {c}" for c in range(n_children)),
        support=np.arange(n_cells),
        parent_counts=None if root else truth.sum(axis=0),
        measured=tuple(queries),
        constraints=bounds(rng, truth) if seed % 3 else (),
        passes=(*first, EstimationPass(tuple(names[cut:]))),
        rounding=(RoundingStage((("detailed", detailed),)),),
    )


def require_exact(problem, counts):
    if problem.parent_counts is not None:
        np.testing.assert_array_equal(counts.sum(axis=0), problem.parent_counts)
    for rows in problem.constraints:
        found = sums(counts, rows.labels, rows.lower.shape[1])
        assert ((found >= rows.lower) & (found <= rows.upper)).all()


@pytest.mark.parametrize("seeds", few(1, [range(10), range(10, 30)]), ids=str)
@pytest.mark.parametrize(
    "total",
    [
        1,
        pytest.param(10**4, marks=pytest.mark.nightly),
        10**6,
        pytest.param(10**8, marks=pytest.mark.nightly),
        pytest.param(2**31, marks=pytest.mark.nightly),
        LARGEST_COUNT,
    ],
)
def test_families_of_any_size_are_solved(total, seeds):
    for seed in seeds:
        problem = family(seed, total)
        solution = estimate_family(problem)
        assert solution.residual_persons <= 1e-4
        require_exact(problem, solution.counts)


def test_a_root_of_the_largest_counts_keeps_its_measurements():
    """One query, no bound: the estimate is what was measured, to the last unit."""
    values = np.array([[LARGEST_COUNT // 2 + 1, LARGEST_COUNT // 2 - 1, 3]])
    cells = np.arange(3, dtype=np.int32)
    problem = FamilyProblem(
        geocode="0",
        geolevel="nation",
        children=("0",),
        support=np.arange(3),
        parent_counts=None,
        measured=(MeasuredQuery("detailed", cells, values, LEAST),),
        constraints=(),
        passes=(EstimationPass(("detailed",)),),
        rounding=(RoundingStage((("detailed", cells),)),),
    )
    np.testing.assert_array_equal(estimate_family(problem).counts, values)
