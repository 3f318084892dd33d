import numpy as np
import pytest
import scipy.sparse as sp

from tallyveil.errors import ConstraintError
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


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (
            lambda: ConstraintSystem.from_matrix([[0.5, 1]]),
            "subspace-not-integer",
            "'constraint 1': cell 0 has coefficient 0.5",
        ),
        (
            lambda: ConstraintSystem.from_matrix([[np.nan, 1]]),
            "subspace-not-integer",
            "wanted an integer",
        ),
        (lambda: ConstraintSystem.from_sets([[0, 7]], 5, ["county"]), "subspace-unknown-cell", "'county'"),
        (lambda: ConstraintSystem.from_sets([[0, -1]], 5), "subspace-unknown-cell", r"cells \[-1\]"),
        (lambda: ConstraintSystem.from_sets([[0, 0]], 5), "subspace-constraints", "more than once"),
        (lambda: ConstraintSystem.from_matrix([1, 2]), "subspace-constraints", "wanted a matrix"),
        (lambda: ConstraintSystem.from_matrix(np.zeros((2, 0))), "subspace-constraints", "no column"),
        (lambda: ConstraintSystem.from_matrix([[1 << 40]]), "subspace-constraints", "below 2"),
        (
            lambda: ConstraintSystem.from_matrix([[1]], ["a", "b"]),
            "subspace-constraints",
            "Give one name for each",
        ),
        (lambda: ConstraintSystem.from_matrix([[1, 1]]).totals([1]), "subspace-constraints", "2 cells"),
        (lambda: ConstraintSystem.from_matrix([[1, 1]]).totals([1.5, 2]), "subspace-constraints", "integers"),
        (
            lambda: ConstraintSystem.from_matrix([[1, 1]]).totals([1 << 62, 2]),
            "subspace-constraints",
            "overflow",
        ),
    ],
)
def test_bad_input_is_named(make, code, said):
    with pytest.raises(ConstraintError, match=said) as caught:
        make()
    assert caught.value.code == code
