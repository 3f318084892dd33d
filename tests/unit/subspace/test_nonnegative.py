"""The nearest table without negative counts: feasible, nearest by listing, and without favoured cells."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.errors import ConfigError, SolverError
from tallyveil.subspace.constraints import ConstraintSystem, recognise
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, Norm
from tallyveil.subspace.nonnegative import Outputs, nearest_nonnegative, require_outputs


def two_way(rows, columns):
    grid = np.arange(rows * columns).reshape(rows, columns)
    return ConstraintSystem.from_sets([*grid.tolist(), *grid.T.tolist()], rows * columns)


@settings(max_examples=60)
@given(st.lists(st.integers(-6, 6), min_size=1, max_size=4), st.integers(0, 20), st.integers(0, 99))
def test_a_block_moves_least_in_both_norms(values, spare, seed):
    table = np.array([*values, max(0, spare - sum(values))])
    structure = recognise(ConstraintSystem.from_sets([range(table.size)], table.size))
    order = np.random.default_rng(seed).permutation(table.size)
    found = nearest_nonnegative(table, structure, order)
    assert found.min() >= 0
    assert found.sum() == table.sum()
    assert np.abs(found - table).sum() == 2 * -table[table < 0].sum()
    # No unit moved from one cell to another brings the table nearer in l2.
    for i, j in itertools.permutations(range(table.size), 2):
        if found[i]:
            moved = found.copy()
            moved[[i, j]] += [-1, 1]
            assert ((moved - table) ** 2).sum() >= ((found - table) ** 2).sum()


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_two_way_tables_are_nearest_by_listing(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, (3, 3))
    table = truth.copy()
    for _ in range(rng.integers(1, 12)):
        (i, j), (a, b) = rng.choice(3, 2, replace=False), rng.choice(3, 2, replace=False)
        table[[i, j, i, j], [a, b, b, a]] += [1, 1, -1, -1]
    found = nearest_nonnegative(table.ravel(), recognise(two_way(3, 3)), rng.permutation(9)).reshape(3, 3)
    assert found.min() >= 0
    for axis in (0, 1):
        assert (found.sum(axis=axis) == truth.sum(axis=axis)).all()
    assert np.abs(found - table).sum() == _least_distance(table)


def _least_distance(table):
    """The least l1 distance to a table without negative counts and with the same margins, by listing."""
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    axes = [np.arange(min(rows[i], columns[j]) + 1) for i in (0, 1) for j in (0, 1)]
    a, b, c, d = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    e, f = rows[0] - a - b, rows[1] - c - d
    g, h = columns[0] - a - c, columns[1] - b - d
    cells = np.stack([a, b, e, c, d, f, g, h, rows[2] - g - h], axis=1)
    return int(np.abs(cells[(cells >= 0).all(axis=1)] - table.ravel()).sum(axis=1).min())


def test_a_large_table_moves_many_units():
    rng = np.random.default_rng(5)
    table = rng.integers(-900, 1000, (30, 20))
    table[:, 0] += 900 * 20
    table[0] += 900 * 30
    found = nearest_nonnegative(table.ravel(), recognise(two_way(30, 20)), rng.permutation(600)).reshape(
        30, 20
    )
    assert found.min() >= 0
    assert (found.sum(axis=0) == table.sum(axis=0)).all()
    assert (found.sum(axis=1) == table.sum(axis=1)).all()


def test_the_order_decides_ties_and_nothing_else():
    structure = recognise(ConstraintSystem.from_sets([range(3)], 3))
    table = np.array([-3, 4, 4])
    found = {
        tuple(nearest_nonnegative(table, structure, np.array(o)).tolist())
        for o in itertools.permutations(range(3))
    }
    assert found == {(0, 2, 3), (0, 3, 2)}
    assert nearest_nonnegative(np.array([5, 0, 2]), structure, np.arange(3)).tolist() == [5, 0, 2]


def test_cells_without_a_constraint_are_cut_at_zero():
    structure = recognise(ConstraintSystem.from_sets([[0, 1]], 4))
    assert nearest_nonnegative(np.array([-1, 4, -2, 3]), structure, np.arange(4)).tolist() == [0, 3, 0, 3]


@pytest.mark.parametrize("system", [ConstraintSystem.from_sets([range(2)], 2), two_way(2, 2)])
def test_sums_that_no_counts_have_are_refused(system):
    table = np.full(system.n_cells, -1)
    with pytest.raises(SolverError):
        nearest_nonnegative(table, recognise(system), np.arange(system.n_cells))


def test_outputs_without_an_exact_method_are_refused():
    laplace, gaussian = GeneralisedLaplace(Norm.L1, Fraction(1)), GeneralisedGaussian(Fraction(4))
    blocks, margins = lattice_of(ConstraintSystem.from_sets([range(3)], 3)), lattice_of(two_way(3, 3))
    overlapping = lattice_of(ConstraintSystem.from_sets([[0, 1, 2, 3], [2, 3, 4, 5], [0, 3, 5, 6]], 7))
    overlapping_of_many = lattice_of(
        ConstraintSystem.from_sets([range(2000), range(1000, 3000), [0, *range(1500, 2500)]], 3000)
    )
    require_outputs(Outputs.NONNEGATIVE, laplace, overlapping)
    many = lattice_of(ConstraintSystem.from_sets([range(5000)], 5000))
    require_outputs(Outputs.RESTRICTED, laplace, blocks)
    require_outputs(Outputs.NONNEGATIVE, gaussian, margins)
    require_outputs(Outputs.FREE, gaussian, overlapping)
    euclidean = GeneralisedLaplace(Norm.L2, Fraction(1))
    fewer = lattice_of(ConstraintSystem.from_sets([range(1500)], 1500))
    for lattice in (blocks, margins, overlapping):
        for law in (laplace, euclidean):
            require_outputs(Outputs.RESTRICTED, law, lattice)
    require_outputs(Outputs.RESTRICTED, laplace, fewer)
    loose = lattice_of(ConstraintSystem.from_sets([[0, 1, 2, 3], [2, 3, 4, 5], [0, 3, 5, 6]], 8))
    require_outputs(Outputs.RESTRICTED, euclidean, loose, 1)
    for outputs, law, lattice, largest in (
        (Outputs.RESTRICTED, gaussian, blocks, None),
        (Outputs.RESTRICTED, gaussian, blocks, 1),
        (Outputs.RESTRICTED, euclidean, loose, None),
        (Outputs.RESTRICTED, euclidean, fewer, None),
        (Outputs.RESTRICTED, laplace, fewer, 1),
        (Outputs.RESTRICTED, laplace, many, None),
        (Outputs.NONNEGATIVE, laplace, overlapping_of_many, None),
        (Outputs.NONNEGATIVE, laplace, fewer, 1),
    ):
        with pytest.raises(ConfigError) as caught:
            require_outputs(outputs, law, lattice, largest)
        assert caught.value.code == "subspace-outputs"


def divergence(tables, x, other, variance, alpha):
    """The Renyi divergence of the Gaussian laws on some tables around two of them; Kullback and Leibler's for 1."""
    logs = [-((tables - np.array(at)) ** 2).sum(axis=1) / (2 * variance) for at in (x, other)]
    first, second = (values - np.logaddexp.reduce(values) for values in logs)
    if alpha == 1:
        return (np.exp(first) * (first - second)).sum()
    return np.logaddexp.reduce(alpha * first + (1 - alpha) * second) / (alpha - 1)


def test_a_restricted_gaussian_law_may_cost_more_than_the_free_one():
    """The counter-example for which the law is refused."""
    tables = np.array(
        [y for y in itertools.product(range(21), range(21), range(3)) if np.dot(y, (1, 1, 7)) == 20]
    )
    assert len(tables) == 42
    rho = ((0 - 1) ** 2 + (6 - 12) ** 2 + (2 - 1) ** 2) / (2 * 4)
    assert divergence(tables, (0, 6, 2), (1, 12, 1), 4, 1) == pytest.approx(1.187 * rho, rel=1e-3)


@pytest.mark.parametrize("variance", [0.1, 0.7, 3, 40])
@pytest.mark.parametrize("largest", [1, 4, 9])
def test_a_restricted_gaussian_law_costs_as_much_as_the_free_one_if_no_sum_is_fixed(variance, largest):
    tables = np.arange(largest + 1)[:, None]
    for x, other in itertools.permutations(range(largest + 1), 2):
        rho = (x - other) ** 2 / (2 * variance)
        for alpha in (1, 1.01, 1.5, 2, 2.5, 7):
            assert divergence(tables, x, other, variance, alpha) <= alpha * rho * (1 + 1e-9)
