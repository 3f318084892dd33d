import numpy as np
import scipy.sparse as sp

from tallyveil.subspace.constraints import ConstraintSystem


def test_sets_and_matrices_make_the_same_system():
    sets = ConstraintSystem.from_sets([[2, 0], [1]], 4, ["a", "b"])
    matrix = ConstraintSystem.from_matrix(np.array([[1, 0, 1, 0], [0, 1.0, 0, 0]]), ["a", "b"])
    assert (sets.dense() == matrix.dense()).all()
    assert sets.names == matrix.names == ("a", "b")
    assert (ConstraintSystem.from_matrix(sp.coo_matrix(sets.dense())).dense() == sets.dense()).all()


def test_totals_are_exact():
    system = ConstraintSystem.from_sets([[0, 1], [1, 2]], 3)
    assert system.totals([1 << 60, 1, -2]).tolist() == [(1 << 60) + 1, -1]
