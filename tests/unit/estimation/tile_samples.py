"""Random tile problems for tests."""

import numpy as np

from tallyveil.estimation.problem import MeasuredQuery, TileProblem


def random_tiles(seed, *, root=False, own=True, uneven=False, most_children=10, most_columns=40):
    """A parent of up to seven groups with true counts, and measurements of three crossing queries."""
    rng = np.random.default_rng([18, seed])
    n_children = 1 if root else int(rng.integers(2, most_children + 1))
    n_columns, n_groups = int(rng.integers(2, most_columns + 1)), int(rng.integers(1, 8))
    group = rng.integers(0, n_groups, n_columns)
    sizes = rng.gamma(0.5, rng.choice([1.0, 10.0, 100.0]), n_columns)
    truth = rng.poisson(sizes * rng.gamma(1.0, 1.0, (n_children, 1)))
    truth[rng.random(truth.shape) < 0.3] = 0
    return problem_of(rng, truth, group, n_groups, root=root, own=own, uneven=uneven), truth


def problem_of(rng, truth, group, n_groups, *, root=False, own=True, uneven=False):
    n_children, n_columns = truth.shape
    fixed = np.zeros((n_children, n_groups), np.int64)
    np.add.at(fixed.T, group, truth.T)
    deviation = float(rng.choice([1.0, 3.0, 10.0]))
    one, other = rng.integers(0, 5, n_columns), rng.integers(-1, 4, n_columns)
    queries = [("one", one, 5), ("other", other, 4)]
    if own:
        queries.append(("own", rng.permutation(n_columns), n_columns))
    measured = []
    for name, labels, width in queries:
        sums = np.zeros((n_children, width))
        np.add.at(sums.T, labels[labels >= 0], truth.T[labels >= 0])
        variances = np.full(n_children, deviation**2)
        if uneven:
            variances = deviation**2 * rng.choice([0.1, 1.0, 10.0], n_children)
            if name != "own":
                variances[rng.random(n_children) < 0.2] = np.inf
        noise = np.rint(rng.normal(0.0, deviation, sums.shape))
        measured.append(MeasuredQuery(name, labels, sums + noise, variances))
    chain = (group * 2 + rng.integers(0, 2, n_columns),)
    return TileProblem(
        "p",
        "tract",
        tuple(f"c{c}" for c in range(n_children)),
        np.arange(n_columns),
        None if root else truth.sum(axis=0),
        group,
        fixed,
        tuple(measured),
        (*chain, np.arange(n_columns)),
        np.array([1.0, 2.0]),
    )
