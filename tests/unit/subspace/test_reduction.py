import itertools

import numpy as np
import pytest

from tallyveil.errors import ConstraintError
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.lattice import lattice_of, lll_reduced, shortest_vectors


def two_way(n_rows: int, n_columns: int) -> ConstraintSystem:
    cells = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    return ConstraintSystem.from_sets([*cells.tolist(), *cells.T.tolist()], cells.size)


def one_sum(n: int) -> ConstraintSystem:
    return ConstraintSystem.from_sets([range(n)], n)


def random_system(seed: int) -> ConstraintSystem:
    """Small random coefficients; every third system has a row that others imply."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(0, 5))
    matrix = rng.integers(-3, 4, (k, int(rng.integers(k + 1, 10))))
    if seed % 3 == 0 and k >= 2:
        matrix[-1] = matrix[0] + (2 * matrix[1] if k > 2 else 0)
    return ConstraintSystem.from_matrix(matrix)


def test_known_kissing_numbers():
    assert len(shortest_vectors(lattice_of(one_sum(5)).sparse_basis)) == 10  # roots of A4
    assert len(shortest_vectors(lattice_of(two_way(4, 4)).sparse_basis)) == 36  # all moves
    assert len(shortest_vectors(lattice_of(ConstraintSystem.from_sets([], 6)).sparse_basis)) == 6


@pytest.mark.parametrize("seed", range(1, 60, 2))
def test_shortest_vectors_by_listing(seed):
    try:
        lattice = lattice_of(random_system(seed))
    except ConstraintError:
        return
    if lattice.dimension > 4:
        return
    found = shortest_vectors(lattice.sparse_basis)
    basis = lll_reduced(lattice.sparse_basis).toarray()
    listed = {}
    for c in itertools.product(range(-3, 4), repeat=lattice.dimension):
        z = basis @ np.array(c)
        if z.any():
            listed.setdefault(int(z @ z), set()).add(max(tuple(z.tolist()), tuple((-z).tolist())))
    least = min(listed)
    assert {tuple(z) for z in found.tolist()} == listed[least]
    assert all(lattice.contains(z) for z in found)


def test_too_large():
    big = lattice_of(ConstraintSystem.from_sets([], 300))
    assert lll_reduced(big.sparse_basis) is None
    with pytest.raises(ConstraintError, match="dimension 300"):
        shortest_vectors(big.sparse_basis)
