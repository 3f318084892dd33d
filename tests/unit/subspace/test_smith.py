import numpy as np
from flint import fmpz_mat
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tallyveil.subspace.constraints import (
    elementary_divisors,
    hermite_columns,
    independent_columns,
    smith_form,
)
from tallyveil.subspace.lattice import flint_matrix

matrices = hnp.arrays(
    np.int64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.integers(-9, 9)
).map(flint_matrix)


@given(matrices)
@settings(max_examples=300)
def test_smith_form(matrix):
    form = smith_form(matrix)
    assert form.left * matrix * form.right == form.diagonal
    assert abs(int(form.left.det())) == abs(int(form.right.det())) == 1
    rows = form.diagonal.tolist()
    assert all(v == 0 for i, row in enumerate(rows) for j, v in enumerate(row) if i != j)
    divisors = [abs(int(rows[i][i])) for i in range(form.rank)]
    assert tuple(divisors) == elementary_divisors(matrix)
    assert form.rank == matrix.rank()


@given(matrices)
@settings(max_examples=200)
def test_hermite_columns(matrix):
    hermite, change, rank = hermite_columns(matrix)
    assert matrix * change == hermite
    assert abs(int(change.det())) == 1
    assert rank == matrix.rank()
    assert all(v == 0 for row in hermite.tolist() for v in row[rank:])


@given(matrices)
@settings(max_examples=200)
def test_independent_columns(matrix):
    chosen = independent_columns(matrix)
    assert len(chosen) == matrix.rank()
    kept = fmpz_mat([[row[j] for j in chosen] for row in matrix.tolist()])
    assert not chosen or kept.rank() == len(chosen)
