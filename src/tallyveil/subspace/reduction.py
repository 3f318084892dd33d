"""Short lattice bases (LLL) and shortest vectors of small lattices."""

from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from flint import fmpz_mat

from tallyveil.errors import ConstraintError

LARGEST_REDUCED: Final = 200
"""LLL is not used for more basis vectors than this."""

LARGEST_SEARCHED: Final = 24
"""Shortest vectors are not searched for if there are more basis vectors than this."""


def lll_reduced(columns: Any) -> Any | None:
    """A sparse LLL-reduced basis of the lattice of the columns; None for more than 200 vectors.

    Args:
        columns: Sparse int64 [n_cells, dimension].
    Source: Lenstra, Lenstra, Lovász 1982, with delta = 0.99.
    """
    return None if columns.shape[1] > LARGEST_REDUCED else _lll(columns)


def _lll(columns: Any) -> Any:
    from tallyveil.subspace.kernel import sparse_columns

    n_cells, dimension = columns.shape
    dense = columns.T.toarray()
    reduced = fmpz_mat(dimension, n_cells, [int(v) for v in dense.ravel()]).lll().tolist()
    vectors = [[(cell, int(v)) for cell, v in enumerate(row) if v != 0] for row in reduced]
    return sparse_columns(vectors, n_cells)


def shortest_vectors(columns: Any) -> npt.NDArray[np.int64]:
    """All vectors of least Euclidean length in the lattice of the columns, one of each pair z, -z.

    The search enumerates the tree of coefficients over an LLL-reduced basis, exactly, in fractions.

    Args:
        columns: Sparse int64 [n_cells, dimension].
    Returns:
        int64 [n, n_cells], sorted; n is half the kissing number.
    Raises:
        ConstraintError: there are more than 24 basis vectors.
    Source: Fincke and Pohst 1985, algorithm 2.12.
    """
    if columns.shape[1] > LARGEST_SEARCHED:
        raise ConstraintError(
            f"Shortest vectors: the lattice has dimension {columns.shape[1]}, wanted at most {LARGEST_SEARCHED}. The "
            "time of the search grows exponentially with the dimension. Use a smaller table.",
            code="subspace-too-large",
        )
    basis = _lll(columns).toarray()
    dimension = basis.shape[1]
    factors, squares = gram_schmidt(basis)
    least = min(int(basis[:, j] @ basis[:, j]) for j in range(dimension))
    shortest: list[tuple[int, ...]] = []

    def descend(level: int, coefficients: list[int], used: Fraction) -> None:
        nonlocal least
        if level < 0:
            if any(coefficients):
                if used < least:
                    shortest.clear()
                    least = int(used)
                shortest.append(tuple(coefficients))
            return
        centre = -sum((coefficients[j] * factors[j][level] for j in range(level + 1, dimension)), Fraction(0))
        for value in _outward(centre):
            cost = used + (value - centre) ** 2 * squares[level]
            if cost > least:
                break
            coefficients[level] = value
            descend(level - 1, coefficients, cost)
        coefficients[level] = 0

    descend(dimension - 1, [0] * dimension, Fraction(0))
    vectors = {tuple(int(v) for v in basis @ np.array(c, dtype=np.int64)) for c in shortest}
    halves = {max(v, tuple(-x for x in v)) for v in vectors}
    return np.array(sorted(halves), dtype=np.int64).reshape(len(halves), basis.shape[0])


def gram_schmidt(basis: npt.NDArray[np.int64]) -> tuple[list[list[Fraction]], list[Fraction]]:
    """(mu, squares): exact Gram-Schmidt factors mu[j][i], i < j, and squared lengths of the orthogonal vectors.

    Args:
        basis: int64 [n_cells, dimension], one vector in each column.
    """
    gram = (basis.astype(object).T @ basis.astype(object)).tolist()
    n = len(gram)
    inner = [[Fraction(0)] * n for _ in range(n)]  # <b_j, b*_i>
    factors = [[Fraction(0)] * n for _ in range(n)]
    for j in range(n):
        for i in range(j + 1):
            inner[j][i] = Fraction(gram[j][i]) - sum(
                (factors[i][k] * inner[j][k] for k in range(i)), Fraction(0)
            )
            if i < j:
                factors[j][i] = inner[j][i] / inner[i][i]
    return factors, [inner[i][i] for i in range(n)]


def _outward(centre: Fraction) -> Any:
    """Integers by increasing distance from the centre."""
    nearest = round(centre)
    step = 1 if centre >= nearest else -1
    yield nearest
    k = 1
    while True:
        yield nearest + step * k
        yield nearest - step * k
        k += 1
