"""The nearest table without negative counts under any constraints: feasible, nearest by listing, ties by chance."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from tallyveil.errors import SolverError
from tallyveil.products.lattice.run import nearest
from tallyveil.products.lattice.run.nearest import nearest_table
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.nonnegative import has_nearest


def margins(shape, axes_kept):
    """Sums over the cells of a table that have the same place on some axes, for several choices of axes."""
    cells = np.arange(np.prod(shape)).reshape(shape)
    sets = []
    for kept in axes_kept:
        others = [axis for axis in range(len(shape)) if axis not in kept]
        moved = np.moveaxis(cells, kept, range(len(kept))).reshape(*[shape[axis] for axis in kept], -1)
        assert len(others) + len(kept) == len(shape)
        sets += moved.reshape(-1, moved.shape[-1]).tolist()
    return sets


# Region by sex, and one group of ages that crosses them; two overlapping sums; sums with weights; all two-way margins.
CROSSING = ConstraintSystem.from_sets(
    [*margins((2, 3, 4), [(0, 1)]), [cell for cell in range(24) if cell % 4 in (1, 2)]], 24
)
OVERLAPPING = ConstraintSystem.from_sets([[0, 1, 2, 3], [2, 3, 4, 5], [0, 3, 5]], 6)
WEIGHTED = ConstraintSystem.from_matrix([[2, 1, 1, 0, -1], [0, 1, 3, 1, 0]])
THREE_WAY = ConstraintSystem.from_sets(margins((2, 2, 3), [(0, 1), (0, 2), (1, 2)]), 12)


def moved(system, rng):
    """A table of counts, and one with the same invariants that may have negative counts."""
    basis = basis_of(system)
    truth = rng.integers(0, 3, system.n_cells)
    return truth, truth + basis @ rng.integers(-2, 3, basis.shape[1])


def basis_of(system):
    return sparse.csr_matrix(lattice_of(system).basis).toarray()


@pytest.mark.parametrize("largest", [None, 2])
@pytest.mark.parametrize("system", [OVERLAPPING, WEIGHTED])
def test_it_is_nearest_by_listing(system, largest):
    rng = np.random.default_rng(2)
    lattice = lattice_of(system)
    assert not has_nearest(lattice.structure)
    basis, several = basis_of(system), 0
    steps = np.array(list(itertools.product(range(-12, 13), repeat=basis.shape[1])))
    for _ in range(25):
        _, table = moved(system, rng)
        found = nearest_table(table, lattice, system.matrix, rng.permutation(len(table)), largest)
        distance = int(np.abs(found - table).sum())
        assert found.min() >= 0
        assert largest is None or found.max() <= largest
        assert (system.matrix @ found == system.matrix @ table).all()
        # Every table with these invariants that lies so near that it could be nearer.
        tables = table + steps @ basis.T
        allowed = (tables >= 0) & (tables <= (np.inf if largest is None else largest))
        distances = np.abs(tables[allowed.all(axis=1)] - table).sum(axis=1)
        assert distances.min() == distance
        several += (distances == distance).sum() > 1
    assert several


@pytest.mark.parametrize("system", [CROSSING, THREE_WAY])
def test_it_keeps_the_invariants_and_is_no_farther_than_the_truth(system):
    rng = np.random.default_rng(3)
    lattice = lattice_of(system)
    assert not has_nearest(lattice.structure)
    for _ in range(20):
        truth, table = moved(system, rng)
        found = nearest_table(table, lattice, system.matrix, rng.permutation(len(table)))
        assert found.min() >= 0
        assert (system.matrix @ found == system.matrix @ table).all()
        assert np.abs(found - table).sum() <= np.abs(truth - table).sum()
        if table.min() >= 0:
            assert (found == table).all()


def test_the_program_is_as_near_as_shortest_paths(monkeypatch):
    system = ConstraintSystem.from_sets(margins((3, 4), [(0,), (1,)]), 12)
    lattice, rng = lattice_of(system), np.random.default_rng(4)
    for _ in range(10):
        _, table = moved(system, rng)
        order = rng.permutation(12)
        by_paths = nearest_table(table, lattice, system.matrix, order)
        with monkeypatch.context() as patch:
            patch.setattr(nearest, "has_nearest", lambda structure: False)
            by_program = nearest_table(table, lattice, system.matrix, order)
        assert np.abs(by_program - table).sum() == np.abs(by_paths - table).sum()


def test_ties_are_decided_by_the_order_alone():
    system = ConstraintSystem.from_sets([[0, 1, 2, 3, 4], [0, 1, 2, 3, 5], [4, 5, 0]], 6)
    lattice, rng = lattice_of(system), np.random.default_rng(5)
    table = np.array([-1, 1, 1, 1, 1, 1])
    orders = [rng.permutation(6) for _ in range(40)]
    found = [tuple(nearest_table(table, lattice, system.matrix, order).tolist()) for order in orders]
    assert len(set(found)) > 1
    assert found == [tuple(nearest_table(table, lattice, system.matrix, order).tolist()) for order in orders]
    assert len({int(np.abs(np.array(other) - table).sum()) for other in found}) == 1


def test_invariants_that_no_counts_have_are_refused():
    with pytest.raises(SolverError, match="does not exist"):
        nearest_table(
            np.array([-1, -1, 0, 0, 0, 0]), lattice_of(OVERLAPPING), OVERLAPPING.matrix, np.arange(6)
        )
    with pytest.raises(SolverError, match="no table with counts from 0 to 1 has these"):
        nearest_table(np.full(6, 2), lattice_of(OVERLAPPING), OVERLAPPING.matrix, np.arange(6), 1)
