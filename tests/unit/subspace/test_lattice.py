import time

import numpy as np
import pytest
from flint import fmpq_mat, fmpz_mat
from tests.samples import ten

from tallyveil.errors import ConstraintError
from tallyveil.subspace.constraints import ConstraintSystem, StructureKind
from tallyveil.subspace.lattice import (
    NoIntegerSolution,
    check_lattice,
    flint_matrix,
    lattice_of,
    particular_solution,
    require_totals,
)


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


BASES = ("auto", "general", "smith", "reduced")


def unimodular_between(first, second):
    """The T with first = second T, checked to be whole and of determinant +-1."""
    a, b = flint_matrix(first), flint_matrix(second)
    gram = fmpq_mat(b.transpose() * b)
    change = gram.inv() * fmpq_mat(b.transpose() * a)
    numerators, denominator = change.numer_denom()
    assert denominator == 1
    assert b * numerators == a
    return abs(int(fmpz_mat(numerators).det())) == 1


@pytest.mark.parametrize("seed", ten(range(300)))
def test_all_bases_span_the_integer_kernel(seed):
    system = random_system(seed)
    rank = np.linalg.matrix_rank(system.dense().astype(float)) if system.n_constraints else 0
    if rank == system.n_cells:
        with pytest.raises(ConstraintError, match="determine the table"):
            lattice_of(system)
        return
    lattices = [lattice_of(system, kind) for kind in BASES]
    for lattice in lattices:
        assert check_lattice(lattice) == ()
        assert lattice.dimension == system.n_cells - rank
        basis = lattice.basis.astype(object)
        assert int(flint_matrix(basis.T @ basis).det()) == lattice.determinant_squared()
        assert unimodular_between(lattice.basis, lattices[0].basis)


@pytest.mark.parametrize("seed", ten(range(300)))
def test_a_solution_or_a_proof_that_there_is_none(seed):
    system = random_system(seed)
    rng = np.random.default_rng(1000 + seed)
    table = rng.integers(-5, 6, system.n_cells)
    found = particular_solution(system, system.totals(table))
    assert (system.totals(found) == system.totals(table)).all()
    totals = rng.integers(-5, 6, system.n_constraints)
    other = particular_solution(system, totals)
    if not isinstance(other, NoIntegerSolution):
        assert (system.totals(other) == totals).all()
        return
    combined = np.array(other.multipliers, dtype=object) @ system.dense().astype(object)
    assert all(value.denominator == 1 for value in combined)
    assert other.total == sum(m * int(b) for m, b in zip(other.multipliers, totals, strict=True))
    assert other.total.denominator != 1 or (other.total != 0 and not any(combined))


@pytest.mark.parametrize(
    ("system", "kind"),
    [
        (ConstraintSystem.from_sets([], 4), StructureKind.UNCONSTRAINED),
        (one_sum(5), StructureKind.ONE_SUM),
        (ConstraintSystem.from_sets([[0, 1], [3, 4, 5]], 7), StructureKind.DISJOINT),
        (ConstraintSystem.from_sets([range(9), [0, 1, 2, 3], [1, 2], [5, 6]], 10), StructureKind.LAMINAR),
        (ConstraintSystem.from_matrix([[2, 2, 0, 0], [1, 1, 3, 3]]), StructureKind.BLOCKS),
        (two_way(3, 4), StructureKind.TWO_WAY),
        (ConstraintSystem.from_sets([[0, 1], [1, 2]], 3), StructureKind.GENERAL),
    ],
)
def test_structures_are_recognised_and_their_bases_agree(system, kind):
    lattice = lattice_of(system)
    assert lattice.structure.kind is kind
    assert check_lattice(lattice) == ()
    assert unimodular_between(lattice.basis, lattice_of(system, "general").basis)


def test_a_two_way_table_is_recognised_without_one_of_its_margins():
    whole = two_way(3, 3)
    lattice = lattice_of(whole.rows([0, 1, 3, 4, 5]))
    assert lattice.structure.kind is StructureKind.TWO_WAY
    assert lattice.notes == ()
    noted = lattice_of(whole)
    assert noted.dimension == lattice.dimension == 4
    assert "left out of 6 constraints, because the others imply them: 1" in noted.notes[0]


def test_membership_and_proposition_8():
    system = two_way(2, 3)
    lattice = lattice_of(system)
    x = np.array([3, 1, 4, 1, 5, 9])
    for y in (x + lattice.basis @ np.array([2, -3]), x + 1, x):
        assert lattice.contains(y - x) == (system.totals(y) == system.totals(x)).all()


def test_a_wrong_basis_is_caught():
    from dataclasses import replace

    from scipy.sparse import csc_matrix

    lattice = lattice_of(one_sum(3))
    doubled = replace(lattice, sparse_basis=csc_matrix(lattice.basis * [2, 1]))
    assert "does not span" in check_lattice(doubled)[0]
    moved = replace(lattice, sparse_basis=csc_matrix(lattice.basis + np.eye(3, 2, dtype=np.int64)))
    assert "A C is not zero" in check_lattice(moved)[0]
    fewer = replace(lattice, sparse_basis=lattice.sparse_basis[:, :1])
    assert "dimension 1, wanted 2" in check_lattice(fewer)[0]


def test_clashing_totals_are_named():
    with pytest.raises(ConstraintError, match="'whole', 'part'") as caught:
        require_totals(ConstraintSystem.from_sets([[0, 1], [0, 1]], 2, ["whole", "part"]), [3, 4])
    assert caught.value.code == "subspace-inconsistent"
    with pytest.raises(ConstraintError, match="'even'"):
        require_totals(ConstraintSystem.from_matrix([[2, 4]], ["even"]), [3])
    assert require_totals(ConstraintSystem.from_matrix([[2, 4]]), [6]).dtype == np.int64


@pytest.mark.nightly
def test_a_hundred_constraints_on_3200_cells_take_seconds():
    rng = np.random.default_rng(7)
    label = rng.integers(0, 90, 3200)
    nested = [np.flatnonzero(label == i) for i in range(90)] + [
        np.flatnonzero(label // 9 == i) for i in range(10)
    ]
    scattered = ConstraintSystem.from_matrix((rng.random((100, 3200)) < 0.05).astype(int))
    signed = np.zeros((100, 3200), dtype=np.int64)
    for row in signed:
        row[rng.choice(3200, 40, replace=False)] = rng.integers(-3, 4, 40)
    weighted = ConstraintSystem.from_matrix(signed)
    for system in (two_way(36, 89), ConstraintSystem.from_sets(nested, 3200), scattered, weighted):
        begin = time.process_time()
        lattice = lattice_of(system)
        assert time.process_time() - begin < 10  # about 0.3, 0.1, 2 and 0.2 seconds
        assert not (system.matrix @ lattice.sparse_basis).count_nonzero()
        assert lattice.dimension == system.n_cells - lattice.independent.n_constraints


def test_a_grand_total_beside_the_margins_changes_nothing():
    cells = np.arange(12).reshape(3, 4)
    sets = [range(12), *cells.tolist(), *cells.T.tolist()]
    lattice = lattice_of(ConstraintSystem.from_sets(sets, 12))
    assert lattice.structure.kind is StructureKind.TWO_WAY
    assert lattice.dimension == 6
    assert check_lattice(lattice) == ()


def test_equal_names_do_not_confuse_the_volume():
    lattice = lattice_of(ConstraintSystem.from_sets([[0, 1], [0, 1], [1, 2]], 4, ["same", "same", "same"]))
    basis = lattice.basis.astype(object)
    assert int(flint_matrix(basis.T @ basis).det()) == lattice.determinant_squared()
