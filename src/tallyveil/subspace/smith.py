"""Hermite and Smith normal forms of integer matrices, with their unimodular transformations.

Arithmetic is exact, on integers of any size (python-flint). The routines are for dense matrices of moderate size, with
a few hundred rows and columns. `tallyveil.subspace.kernel` reduces larger systems to that size.
"""

from dataclasses import dataclass
from typing import Any, Final

from flint import fmpz_mat, nmod_mat

from tallyveil.errors import ConstraintError

_PRIMES: Final = (2305843009213693951, 2305843009213693921, 2305843009213693907)
"""2**61 - 1, 2**61 - 31 and 2**61 - 45. A rank that falls modulo one of them is noticed, and the next is tried."""


@dataclass(frozen=True, slots=True, eq=False)
class SmithForm:
    """U A V = D, where U and V are unimodular and each diagonal entry of D divides the next.

    Attributes:
        left: U.
        diagonal: D, with the shape of A.
        right: V. Its columns beyond the rank of A are a basis of the kernel of A.
        rank: Number of nonzero diagonal entries.

    Source: Schrijver 1998, section 4.4; Dharangutte et al. 2022, equation 4.
    """

    left: Any
    diagonal: Any
    right: Any
    rank: int


def hermite_columns(matrix: Any) -> tuple[Any, Any, int]:
    """(H, U, rank), where A U = H is in column Hermite form: pivots in the first `rank` columns, then zeros.

    The last columns of the unimodular U are a basis of the integer kernel of A.

    Args:
        matrix: fmpz_mat [k, s].
    Source: Cohen 1993, Proposition 2.4.9.
    """
    k, s = matrix.nrows(), matrix.ncols()
    joined = [[*row, *(int(i == j) for j in range(s))] for i, row in enumerate(matrix.transpose().tolist())]
    if s == 0:
        return matrix, fmpz_mat(0, 0), 0
    form = fmpz_mat(joined).hnf().tolist()
    upper = [row[:k] for row in form]
    rank = sum(any(value != 0 for value in row) for row in upper)
    lower = [row[k:] for row in form]
    hermite = fmpz_mat(upper).transpose() if k else fmpz_mat(0, s)
    return hermite, fmpz_mat(lower).transpose(), rank


def smith_form(matrix: Any) -> SmithForm:
    """The Smith normal form with both transformations.

    It alternates Hermite forms of the matrix and of its transpose until the matrix is diagonal. Then it repairs
    neighbours on the diagonal of which the first does not divide the second.

    Args:
        matrix: fmpz_mat [k, d].
    """
    k, d = matrix.nrows(), matrix.ncols()
    left, right, diagonal = _identity(k), _identity(d), matrix
    while True:
        diagonal, change, _ = hermite_columns(diagonal)
        right = right * change
        flipped, change, _ = hermite_columns(diagonal.transpose())
        left, diagonal = change.transpose() * left, flipped.transpose()
        if not _is_diagonal(diagonal):
            continue
        break_at = _indivisible(diagonal)
        if break_at is None:
            break
        # After adding the later row to the earlier one, the next column operations find their common divisor.
        mixing = _identity(k)
        mixing[break_at, break_at + 1] = 1
        diagonal, left = mixing * diagonal, mixing * left
    rank = sum(diagonal[i, i] != 0 for i in range(min(k, d)))
    return SmithForm(left, diagonal, right, rank)


def elementary_divisors(matrix: Any) -> tuple[int, ...]:
    """The nonzero diagonal of the Smith form, ascending. All are 1 exactly if the rows span a primitive lattice."""
    form = matrix.snf()
    diagonal = (int(form[i, i]) for i in range(min(form.nrows(), form.ncols())))
    return tuple(value for value in diagonal if value)


def independent_columns(matrix: Any) -> list[int]:
    """The first columns that are linearly independent; their number is the rank.

    They are found modulo a prime. Independence modulo a prime implies independence over the rationals. A comparison
    with the exact rank shows that none is missed.

    Args:
        matrix: fmpz_mat.
    Raises:
        ConstraintError: all three primes divide the relevant minors, which practically never happens.
    """
    if matrix.nrows() == 0 or matrix.ncols() == 0:
        return []
    rank = matrix.rank()
    for prime in _PRIMES:
        reduced, rank_found = nmod_mat(matrix, prime).rref()
        # The rank can only fall modulo a prime, so an equal one proves that these columns are independent.
        if rank_found == rank:
            return _pivots(reduced, rank)
    raise ConstraintError(
        "Constraint matrix: its rank could not be determined modulo three primes of 61 bits. Divide each row by the "
        "common divisor of its coefficients.",
        code="subspace-constraints",
    )


def _pivots(reduced: Any, rank: int) -> list[int]:
    pivots: list[int] = []
    column = 0
    for row in range(rank):
        while int(reduced[row, column]) == 0:
            column += 1
        pivots.append(column)
        column += 1
    return pivots


def _identity(n: int) -> Any:
    return fmpz_mat([[int(i == j) for j in range(n)] for i in range(n)]) if n else fmpz_mat(0, 0)


def _is_diagonal(matrix: Any) -> bool:
    return all(value == 0 for i, row in enumerate(matrix.tolist()) for j, value in enumerate(row) if i != j)


def _indivisible(diagonal: Any) -> int | None:
    """The first position whose entry does not divide the next one."""
    for i in range(min(diagonal.nrows(), diagonal.ncols()) - 1):
        here, after = int(diagonal[i, i]), int(diagonal[i + 1, i + 1])
        if (here == 0 and after != 0) or (here != 0 and after % here != 0):
            return i
    return None
