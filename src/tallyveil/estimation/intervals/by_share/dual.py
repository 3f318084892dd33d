"""Blocks of matrices together with their derivatives along several directions."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tallyveil.arrays import Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """Square matrices, and how each changes along some directions.

    Every operation below applies the rule of its derivative, so that a formula written once gives both.

    Attributes:
        value: Shape (n, classes, dim, dim).
        slope: Derivatives; shape (n, directions, classes, dim, dim).
    """

    value: Floats
    slope: Floats

    def __add__(self, other: "Dual") -> "Dual":
        return Dual(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: "Dual") -> "Dual":
        return Dual(self.value - other.value, self.slope - other.slope)

    def __matmul__(self, other: "Dual") -> "Dual":
        # (X Y)' = X' Y + X Y'.
        slope = _product(self.slope, other.value[:, None]) + _product(self.value[:, None], other.slope)
        return Dual(_product(self.value, other.value), slope)

    @property
    def transposed(self) -> "Dual":
        """Every matrix transposed."""
        return Dual(np.swapaxes(self.value, -1, -2), np.swapaxes(self.slope, -1, -2))

    def around(self, inner: "Dual") -> "Dual":
        """The products X Y X' of these matrices X and symmetric inner ones Y."""
        half = _product(self.value, inner.value)
        outer = np.swapaxes(self.value, -1, -2)
        # (X Y X')' has two mirrored terms, since Y is symmetric; only one of them is computed.
        one_side = _product(half[:, None], np.swapaxes(self.slope, -1, -2))
        slope = one_side + np.swapaxes(one_side, -1, -2)
        slope += _product(_product(self.value[:, None], inner.slope), outer[:, None])
        return Dual(_product(half, outer), slope)

    def inverse(self) -> "Dual":
        """The inverses of symmetric matrices."""
        # For single numbers, the inverse of numpy is slower than a division.
        raw = 1.0 / self.value if self.value.shape[-1] == 1 else np.linalg.inv(self.value)
        inverse: Floats = np.asarray(0.5 * (raw + np.swapaxes(raw, -1, -2)), np.float64)
        # (X^-1)' = -X^-1 X' X^-1.
        slope = _product(_product(inverse[:, None], self.slope), inverse[:, None])
        return Dual(inverse, -slope)

    def rows(self, chosen: Integers) -> "Dual":
        """Some of the matrices, in the given order."""
        return Dual(self.value[chosen], self.slope[chosen])

    def scaled(self, factors: Floats) -> "Dual":
        """Every matrix times its factor. A single matrix is taken for every factor."""
        return Dual(
            self.value * factors[:, None, None, None], self.slope * factors[:, None, None, None, None]
        )

    def combined(self, weights: sparse.csr_matrix) -> "Dual":
        """Weighted sums of the matrices, one for each row of weights."""

        def sums(array: Floats) -> Floats:
            weighted: Floats = (weights @ array.reshape(len(array), -1)).reshape(-1, *array.shape[1:])
            return weighted

        return Dual(sums(self.value), sums(self.slope))

    def total(self) -> "Dual":
        """The sum of all matrices, as one."""
        return Dual(self.value.sum(axis=0, keepdims=True), self.slope.sum(axis=0, keepdims=True))


def _product(left: Floats, right: Floats) -> Floats:
    # For single numbers, the matrix product of numpy is many times slower than multiplication.
    product: Floats = left * right if left.shape[-1] == 1 else left @ right
    return product
