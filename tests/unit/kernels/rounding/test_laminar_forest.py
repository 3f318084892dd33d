"""The forest of nested sets against sets of Python."""

import numpy as np
import pytest
from tests.oracles.laminar_forest import laminar_forest_reference
from tests.samples import ten

from tallyveil.kernels.rounding.flow import laminar_forest


def members(forest, n_cells):
    """Cells of every set, by climbing."""
    found = [set() for _ in forest.above]
    for i in range(n_cells):
        z = forest.deepest[i]
        while z >= 0:
            found[z].add(i)
            z = forest.above[z]
    return found


def nested_labels(rng, n_cells, n_queries):
    """Runs of neighbours, each query's inside those of the one before; one answer of each left out, all shuffled."""
    cuts = np.sort(rng.random((n_queries, n_cells)) < rng.random((n_queries, 1)), axis=0)
    blocks = np.cumsum(cuts, axis=1)
    labels = np.stack([rng.permutation(n_cells + 1)[row] for row in blocks])
    for row in labels:
        row[np.isin(row, rng.choice(row, 1))] = -1
    return rng.permutation(labels).astype(np.int32)


@pytest.mark.parametrize("seed", ten(range(60)))
def test_agrees_with_its_twin(seed):
    rng = np.random.default_rng([51, seed])
    n_cells = int(rng.integers(1, 9))
    if seed % 2:
        labels = rng.integers(-1, 3, (int(rng.integers(1, 4)), n_cells)).astype(np.int32)
    else:
        labels = nested_labels(rng, n_cells, int(rng.integers(1, 5)))
    nested, forest = laminar_forest(labels)
    expected, sets = laminar_forest_reference(labels)
    assert nested == expected
    if seed % 2 == 0:
        assert nested
    if nested:
        found = members(forest, n_cells)
        assert len(found) == len(sets)
        assert {frozenset(one) for one in found} == sets
        for q, row in enumerate(labels):
            for k in range(int(row.max(initial=-1)) + 1):
                cells = set(np.flatnonzero(row == k))
                z = forest.set_of[q, k]
                assert found[z] == cells if cells else z == -1
        assert all(above < z for z, above in enumerate(forest.above))


def test_sets_that_cross_are_found():
    assert not laminar_forest(np.array([[0, 0, 1], [1, 0, 0]], np.int32))[0]
    assert laminar_forest(np.array([[0, 0, 1], [-1, 0, -1]], np.int32))[0]


def test_nothing_to_order():
    nested, forest = laminar_forest(np.full((2, 3), -1, np.int32))
    assert nested
    assert forest.above.size == 0
    assert (forest.deepest == -1).all()
