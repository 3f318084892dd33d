"""Certified probabilities of sums of independent noise.

A sum of n cells of one law has the law's n-fold convolution. Tables hold it in whole numbers, in units of
2**-bits, with a proved bound on the error of every entry, entries that are left out included:

- one cell: differences of certified floors (`IntegerLaw.tail_floors`), each off by at most 2 units;
- a sum of two parts: for exact laws p, q and tables P, Q with errors a, b, every entry of P * Q / 2**bits is off by
  at most a |q|_1 + b |P|_1, with |q|_1 = 1 and |P|_1 below 1 + 1 / b; flooring adds one unit. Hence a + b + 2.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from flint import fmpz_poly

from tallyveil.errors import SolverError
from tallyveil.noise.laws import Law

FLOAT_TABLE_BITS: Final = 192
"""Bits of the tables that floats are taken from."""

LEAST_ACCURATE: Final = 50
"""Floats are kept where their relative error is below 2**-50 or so; smaller entries become 0."""


@dataclass(frozen=True, slots=True)
class SumTable:
    """P(sum = s) for s = -reach .. reach, in units of 2**-bits.

    Attributes:
        bits: The unit.
        reach: Largest s held.
        error: Largest error of any entry, in units; P(sum = s) beyond the reach is at most this.
        values: [2 reach + 1] whole numbers.
    """

    bits: int
    reach: int
    error: int
    values: tuple[int, ...]

    def at(self, s: int) -> int:
        """Entry of s; 0 beyond the reach."""
        return self.values[self.reach + s] if -self.reach <= s <= self.reach else 0


class FloatTables(NamedTuple):
    """Tables of several sums as floats, for kernels.

    Attributes:
        values: float64, all tables one after the other, each symmetric around its centre.
        centres: int64 [n_tables], where s = 0 stands.
        reaches: int64 [n_tables].
    """

    values: npt.NDArray[np.float64]
    centres: npt.NDArray[np.int64]
    reaches: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SumLaws:
    """Tables of the sums of 1, 2, 3, ... cells of one law, made when asked for.

    Attributes:
        law: Of one cell.
    """

    law: Law
    _tables: dict[tuple[int, int], SumTable] = field(default_factory=dict, repr=False)

    def table(self, n: int, bits: int = FLOAT_TABLE_BITS) -> SumTable:
        """The table of the sum of n >= 1 cells."""
        found = self._tables.get((n, bits))
        if found is None:
            found = self._single(bits) if n == 1 else self._joined(n, bits)
            self._tables[n, bits] = found
        return found

    def floats(self, sizes: tuple[int, ...]) -> FloatTables:
        """The tables of sums of these many cells, as floats good to a relative 2**-49, or 0."""
        arrays = [floats_of(self.table(n)) for n in sizes]
        reaches = np.array([array.size // 2 for array in arrays], dtype=np.int64)
        starts = np.cumsum([0, *(array.size for array in arrays)])[:-1]
        values = np.concatenate(arrays)
        values.setflags(write=False)
        return FloatTables(values, (starts + reaches).astype(np.int64), reaches)

    @cached_property
    def standard_deviation(self) -> float:
        """Of one cell."""
        return self.law.standard_deviation()

    def _single(self, bits: int) -> SumTable:
        floors = self.law.tail_floors(bits, 1)
        steps = [here - after for here, after in zip(floors, [*floors[1:], 0], strict=True)]
        zero = (1 << bits) - 2 * floors[0]
        return SumTable(bits, len(steps), 2, (*reversed(steps), zero, *steps))

    def _joined(self, n: int, bits: int) -> SumTable:
        left, right = self.table(n // 2, bits), self.table(n - n // 2, bits)
        product = fmpz_poly(list(left.values)) * fmpz_poly(list(right.values))
        reach = left.reach + right.reach
        values = [int(product[i]) >> bits for i in range(2 * reach + 1)]
        error = left.error + right.error + 2
        if error * (2 * max(left.reach, right.reach) + 1) * error >= 1 << bits:
            raise SolverError(f"{self.law}: a sum of {n} cells needs tables of more than {bits} bits.")
        empty = next(i for i, value in enumerate(values) if value > 0)
        return SumTable(bits, reach - empty, error, tuple(values[empty : len(values) - empty]))


def floats_of(table: SumTable) -> npt.NDArray[np.float64]:
    """Entries as floats, where they are accurate to a relative 2**-49; zeros elsewhere, trimmed at both ends."""
    least = table.error << LEAST_ACCURATE
    kept = [math.ldexp(float(v), -table.bits) if v >= least else 0.0 for v in table.values]
    array = np.array(kept, dtype=np.float64)
    inside = np.flatnonzero(array)
    reach = int(max(abs(inside[0] - table.reach), abs(inside[-1] - table.reach)))
    return array[table.reach - reach : table.reach + reach + 1]


def unit_float(word: Any) -> Any:
    """The first 53 digits of uniform numbers as floats in [0, 1), exact; the number lies within 2**-53 above."""
    return (word >> np.uint64(11)).astype(np.float64) * 2.0**-53
