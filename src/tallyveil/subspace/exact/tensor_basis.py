"""The basis of a table all of whose sums along one attribute vanish, and its orthogonal form, both in closed form.

The problem: nearest planes need a basis and its Gram-Schmidt form, in exact fractions. For a general lattice this takes
the cube of the dimension, and the fractions grow. Where a table of n_1 x ... x n_k cells keeps the sums of all its
*lines* (all cells that differ in one attribute alone), both are known. For three attributes these are all two-way
margins.

The variables: A_n is the lattice of n integers with sum zero, with the basis a_i = e_i - e_(i+1), i = 1 .. n - 1. Its
Gram-Schmidt form is a*_i, with a_i = a*_i - ((i - 1) / i) a*_(i-1) and |a*_i|^2 = (i + 1) / i.

The lattice of the table is the tensor product of A_(n_1) .. A_(n_k). Its basis vectors are all products of the a_i, in
the order of the cells. The tensor products of the a*_i are orthogonal. Multiplied out, the formula for a_i gives each
basis vector as its own product of a*_i plus earlier ones, so they are its Gram-Schmidt form. A coefficient's centre
then depends on at most 2^k - 1 later coefficients, with the denominator (i_1 + 1) ... (i_k + 1).

The steps: look for sizes n_1 .. n_k whose product is the number of cells and for which the product of all n_i - 1 is
the dimension, with the cells in this order. Then test that the constraints vanish on the basis. The two lattices then
span the same space. Both hold all integer vectors of this space, so they are equal.

Example: 3 x 3 x 3 cells with all two-way margins have dimension 8, and the last basis vector has |b*|^2 = (3 / 2)^3.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from tallyveil.arrays import Integers
from tallyveil.subspace.lattice import Lattice

LEAST_ATTRIBUTES: Final = 3
"""Tables of two attributes have faster samplers."""


@dataclass(frozen=True, slots=True, eq=False)
class Orthogonalised:
    """A basis with its exact Gram-Schmidt form, as far as nearest planes need it.

    Attributes:
        basis: Sparse int64 [n_cells, m].
        later: For each coefficient i, the later coefficients j on which its centre depends, and the factors mu[j][i]
            times the denominator of i.
        denominators: One for each coefficient.
        squares: |b*_i|^2.
    """

    basis: Any
    later: tuple[tuple[Integers, Any], ...]
    denominators: tuple[int, ...]
    squares: tuple[Fraction, ...]


def tensor_shape(lattice: Lattice) -> tuple[int, ...] | None:
    """The numbers of levels of three or more attributes whose lines all sum to zero, or None for any other lattice."""
    for shape in _shapes(lattice.n_cells, lattice.dimension):
        # Dimensions agree and the basis keeps the invariants: the two lattices are then the same.
        if not (lattice.system.matrix @ _tensor_basis(shape)).count_nonzero():
            return shape
    return None


def tensor_orthogonalised(shape: tuple[int, ...]) -> Orthogonalised:
    """The basis of a table of this shape, and its Gram-Schmidt form."""
    places = list(product(*(range(1, n) for n in shape)))
    strides = [math.prod(n - 1 for n in shape[axis + 1 :]) for axis in range(len(shape))]
    later, denominators, squares = [], [], []
    for number, place in enumerate(places):
        indices, factors = [], []
        for moves in product((0, 1), repeat=len(shape)):
            if any(moves) and all(i + move < n for i, move, n in zip(place, moves, shape, strict=True)):
                indices.append(
                    number + sum(move * stride for move, stride in zip(moves, strides, strict=True))
                )
                factors.append(math.prod(-i if move else i + 1 for i, move in zip(place, moves, strict=True)))
        later.append((np.array(indices, dtype=np.int64), np.array(factors, dtype=np.int64)))
        denominators.append(math.prod(i + 1 for i in place))
        squares.append(math.prod((Fraction(i + 1, i) for i in place), start=Fraction(1)))
    return Orthogonalised(_tensor_basis(shape), tuple(later), tuple(denominators), tuple(squares))


def _tensor_basis(shape: tuple[int, ...]) -> Any:
    """Sparse int64 [n_cells, m]."""
    basis: Any = sp.eye_array(1, dtype=np.int64, format="csc")
    for n in shape:
        differences = sp.diags_array([np.ones(n - 1), -np.ones(n - 1)], offsets=[0, -1], shape=(n, n - 1))
        basis = sp.kron(basis, differences.astype(np.int64), format="csc")
    return basis


def _shapes(n_cells: int, dimension: int) -> Iterator[tuple[int, ...]]:
    """All shapes with these numbers of cells and of basis vectors, of three attributes or more."""

    def of(cells: int, vectors: int) -> Iterator[tuple[int, ...]]:
        if cells == 1 and vectors == 1:
            yield ()
        for n in range(2, cells + 1):
            if cells % n == 0 and vectors % (n - 1) == 0:
                for rest in of(cells // n, vectors // (n - 1)):
                    yield (n, *rest)

    for shape in of(n_cells, dimension):
        if len(shape) >= LEAST_ATTRIBUTES:
            yield shape
