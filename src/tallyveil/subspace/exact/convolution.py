"""Weights of single cells, and certified probabilities of sums of independent cells.

*A cell that stands for several* (`joint_law`). If z and -z are both cells of a table, one number decides two cells,
and its weight is the product of two. In a product of weights, the rates 1 / scale (Laplace) or 1 / variance (Gaussian)
add up: two cells with the Laplace scale 4 and values x and -x are a cell with scale 2.

*Sums* (`SumLaws`). A sum of n independent cells with the same law has the n-fold convolution of the law. A table holds
its probabilities in units of 2**-bits, and one bound on the error of every entry in these units, which also covers
sums beyond the table.

- One cell: differences of certified floors (`IntegerLaw.tail_floors`). Each is off by at most 2 units.
- A sum of two parts: let p, q be the exact laws and P, Q their tables with errors a, b. Every entry of P * Q / 2**bits
  is off by at most a |q|_1 + b |P|_1, where |q|_1 = 1 and |P|_1 is below 1 + 1 / b. Rounding down adds one unit. So
  the new error is a + b + 2.
- n cells are halved until single cells remain.

Worked case. In units of 2**-4, let one cell have the table 4, 8, 4. For two cells the product is 16, 64, 96, 64, 16;
divided by 2**4 it is the table 1, 4, 6, 4, 1.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from flint import arb, fmpz_poly

from tallyveil.errors import SolverError
from tallyveil.noise.balls import rational
from tallyveil.noise.laws import SMALLEST_PARAMETER, DiscreteGaussian, DiscreteLaplace, Law

if TYPE_CHECKING:
    from tallyveil.kernels.subspace.sums import FloatTables


def cell_weight(law: Law, x: int) -> arb:
    """The weight L(x) of one cell, with L(0) = 1, at the current precision."""
    if isinstance(law, DiscreteGaussian):
        return (-(x * x) / (2 * rational(law.variance))).exp()
    return (-abs(x) / rational(law.scale)).exp()


def weight_beyond(law: Law, reach: int) -> arb:
    """An upper bound of the sum of L(w) over w > reach >= 0: a geometric sum, which is exact for the Laplace law."""
    first, second = cell_weight(law, reach + 1), cell_weight(law, reach + 2)
    return first / (1 - second / first)


def joint_law(laws: Sequence[Law]) -> Law:
    """The law whose weights are the products of the weights of these laws.

    Raises:
        SolverError: some laws are Gaussian and others are Laplace laws, so that the product is neither; or the product
            is narrower than every law that can be drawn.
    """
    if all(isinstance(law, DiscreteGaussian) for law in laws):
        return DiscreteGaussian(_joint(law.variance for law in laws if isinstance(law, DiscreteGaussian)))
    if all(isinstance(law, DiscreteLaplace) for law in laws):
        return DiscreteLaplace(_joint(law.scale for law in laws if isinstance(law, DiscreteLaplace)))
    raise SolverError(
        "The constraints make several cells equal up to the sign, and some of them have Gaussian noise, others Laplace "
        "noise. Give these cells laws of one kind."
    )


def _joint(parameters: Iterable[Fraction]) -> Fraction:
    parameter = 1 / sum((1 / parameter for parameter in parameters), Fraction(0))
    if parameter < SMALLEST_PARAMETER:
        raise SolverError(
            f"The constraints make several cells equal up to the sign. Together they have a law with parameter "
            f"{parameter}, wanted {SMALLEST_PARAMETER} or more. Use more noise."
        )
    return parameter


FLOAT_TABLE_BITS: Final = 192
"""Bits of the tables from which floats are computed."""

LEAST_ACCURATE: Final = 50
"""Floats are kept if their relative error is below about 2**-50. Smaller entries become 0."""


LARGEST_TABLE: Final = 1 << 22
"""Most entries of a table of sums. With their product, so many integers of 192 bits take about two
gigabytes and 20 seconds. One cell alone has as many where its noise has a standard deviation of 21,845."""


@dataclass(frozen=True, slots=True)
class ConvolvedSums:
    """P(sum = s) for s = -reach .. reach, in units of 2**-bits.

    Attributes:
        bits: The unit is 2**-bits.
        reach: Largest s in the table.
        error: Largest error of any entry, in units. For s beyond the reach, P(sum = s) is at most this.
        values: [2 reach + 1] integers.
    """

    bits: int
    reach: int
    error: int
    values: tuple[int, ...]

    def at(self, s: int) -> int:
        """Entry of s; 0 beyond the reach."""
        return self.values[self.reach + s] if -self.reach <= s <= self.reach else 0


@dataclass(frozen=True, eq=False)
class SumLaws:
    """Tables of the sums of 1, 2, 3, ... cells with the same law, made on request.

    Attributes:
        law: The law of one cell.
    """

    law: Law
    _tables: dict[tuple[int, int], ConvolvedSums] = field(default_factory=dict, repr=False)
    _floats: dict[int, npt.NDArray[np.float64]] = field(default_factory=dict, repr=False)

    def table(self, n: int, bits: int = FLOAT_TABLE_BITS) -> ConvolvedSums:
        """The table of the sum of n >= 1 cells.

        Raises:
            SolverError: it would have too many entries, or its errors would be too large.
        """
        table = self._tables.get((n, bits))
        if table is None:
            table = self._single(bits) if n == 1 else self._joined(n, bits)
            self._tables[n, bits] = table
        return table

    def float_table(self, n: int) -> npt.NDArray[np.float64]:
        """The table of the sum of n >= 1 cells as floats (`floats_of`). Read-only."""
        floats = self._floats.get(n)
        if floats is None:
            floats = floats_of(self.table(n))
            floats.setflags(write=False)
            self._floats[n] = floats
        return floats

    def floats(self, sizes: tuple[int, ...]) -> "FloatTables":
        """The tables for sums of these numbers of cells, as floats with relative error below 2**-49, or 0."""
        from tallyveil.kernels.subspace.sums import FloatTables  # the compiler, which only samplers need

        arrays = [self.float_table(n) for n in sizes]
        reaches = np.array([array.size // 2 for array in arrays], dtype=np.int64)
        starts = np.cumsum([0, *(array.size for array in arrays)])[:-1]
        values = np.concatenate(arrays)
        values.setflags(write=False)
        return FloatTables(values, (starts + reaches).astype(np.int64), reaches)

    @cached_property
    def standard_deviation(self) -> float:
        """Standard deviation of one cell."""
        return self.law.standard_deviation()

    def _single(self, bits: int) -> ConvolvedSums:
        # Beyond bits / 2 standard deviations on either side, both laws have less than the unit of a table.
        self._refuse_large(1, math.ceil(bits * self.standard_deviation))
        floors = self.law.tail_floors(bits, 1)
        steps = [here - after for here, after in zip(floors, [*floors[1:], 0], strict=True)]
        zero = (1 << bits) - 2 * floors[0]
        return ConvolvedSums(bits, len(steps), 2, (*reversed(steps), zero, *steps))

    def _joined(self, n: int, bits: int) -> ConvolvedSums:
        left, right = self.table(n // 2, bits), self.table(n - n // 2, bits)
        self._refuse_large(n, 2 * (left.reach + right.reach) + 1)
        product = fmpz_poly(list(left.values)) * fmpz_poly(list(right.values))
        reach = left.reach + right.reach
        values = [int(product[i]) >> bits for i in range(2 * reach + 1)]
        error = left.error + right.error + 2
        if error * (2 * max(left.reach, right.reach) + 1) * error >= 1 << bits:
            raise SolverError(
                f"{self.law}: a sum of {n} cells needs tables of more than {bits} bits. Use the chain sampler."
            )
        empty = next(i for i, value in enumerate(values) if value > 0)
        return ConvolvedSums(bits, reach - empty, error, tuple(values[empty : len(values) - empty]))

    def _refuse_large(self, n: int, entries: int) -> None:
        if entries > LARGEST_TABLE:
            raise SolverError(
                f"{self.law}: a table of sums (number of cells: {n}) would have about {entries} entries, at most "
                f"{LARGEST_TABLE} are wanted. Give the noise a larger epsilon or rho, or use the chain sampler."
            )


def floats_of(table: ConvolvedSums) -> npt.NDArray[np.float64]:
    """Entries as floats if their relative error is below 2**-49, otherwise zeros, which are trimmed at both ends."""
    least = table.error << LEAST_ACCURATE
    values = [math.ldexp(float(v), -table.bits) if v >= least else 0.0 for v in table.values]
    array = np.array(values, dtype=np.float64)
    inside = np.flatnonzero(array)
    reach = int(max(abs(inside[0] - table.reach), abs(inside[-1] - table.reach)))
    return array[table.reach - reach : table.reach + reach + 1]


def unit_float(word: Any) -> Any:
    """The first 53 digits of uniform numbers as exact floats in [0, 1). The number is less than 2**-53 larger."""
    return (word >> np.uint64(11)).astype(np.float64) * 2.0**-53
