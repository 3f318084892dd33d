"""One row of a look-ahead trial, decided in balls with as many digits as it takes.

Problem. The kernel (`tallyveil.kernels.subspace.look_ahead`) reports a row in which floats leave a decision open. The
row must then be decided exactly, with the true weights t_k (`look_ahead`) and with the kernel's own functions s_k.
s_k(y) bounds the weight of the cells from k on if they must add up to y. Its values are floats, and so exact binary
numbers.

Steps. The probabilities of a cell's outcomes are added up in balls, in the order of the kernel: 0, 1, -1, 2, ... The
outcomes go on beyond the reach of the tables, because the law has no largest outcome. The probability of all outcomes
that are left has a bound.

Stopping rule. The digits that were read place the uniform number in an interval. If this interval lies inside that of
one outcome, the outcome is found. If it lies beyond the bound of all outcomes, the trial fails. Otherwise the number of
digits doubles.

Worked case. Let the first cell have outcomes 0, 1 and -1 with probabilities 0.5, 0.2 and 0.2. The uniform number 0.6 is
between 0.5 and 0.7, which gives the outcome 1. The number 0.95 is in the remainder of 0.1: the trial fails.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from flint import arb

from tallyveil.arrays import Floats
from tallyveil.errors import SolverError
from tallyveil.noise.balls import power_of_two, precision
from tallyveil.subspace.exact.cell_laws import cell_weight, weight_beyond
from tallyveil.subspace.exact.column_tables import LookAheadTables
from tallyveil.subspace.exact.digits import NoiseAddress, prefix
from tallyveil.subspace.exact.inversion_table import is_below
from tallyveil.subspace.exact.split import MOST_WORDS, candidates

_GUARD_BITS: Final = 96
"""Bits beyond the digits of the uniform number. With too few, a cell stays undecided and more words are taken."""


@dataclass(frozen=True, slots=True, eq=False)
class ExactRow:
    """A row whose decisions are made in balls.

    Attributes:
        tables: The tables g.
        m: The row's number, counted from the last row, which has number 1.
        left: What each column has still to receive from these m rows.
        s: [n, T], the functions s_k of the row's cells that are not fixed; exact binary numbers.
        address: Source of the digits.
        draw: Number of the draw.
        site: Site of the row's first uniform number.
    """

    tables: LookAheadTables
    m: int
    left: list[int]
    s: Floats
    address: NoiseAddress
    draw: int
    site: int

    def drawn(self) -> list[int] | None:
        """The row, or None if the trial fails."""
        cells = self.tables.cells(self.m)
        if all(self.tables.is_forced(self.m, k) for k in cells):
            values = self._forced(cells)
        else:
            values = self._cells(len(cells))
        if values is None:
            return None
        row = [0] * len(self.left)
        for k, value in zip(cells, values, strict=True):
            row[k] = value
        return row

    def _forced(self, cells: list[int]) -> list[int] | None:
        """The values of a row in which every cell is fixed or forced. They add up to 0."""

        def share() -> arb:
            total = arb(1)
            for place in range(len(cells)):
                total = total * self._weight(place, self.left[cells[place]])
            return total

        return [self.left[k] for k in cells] if self._below(share, self.site) else None

    def _cells(self, n: int) -> list[int] | None:
        start = float(self.s[0, 0])
        if not self._below(lambda: arb(start), self.site):
            return None
        values: list[int] = []
        y = 0
        for place in range(n - 1):
            w = self._cell(place, y)
            if w is None:
                return None
            values.append(w)
            y -= w
        total = float(self.s[n - 1, y % self.s.shape[1]])
        if not self._below(lambda: self._weight(n - 1, y) / arb(total), self.site + n):
            return None
        return [*values, y]

    def _below(self, bound: Callable[[], arb], site: int) -> bool:
        word = next(self.address.all_digits(self.draw, site))
        return is_below(bound, word, lambda: self.address.all_digits(self.draw, site))

    def _weight(self, place: int, w: int) -> arb:
        """t_k(w), at the current precision, for the cell at this place among the row's cells that are not fixed."""
        tables, m = self.tables, self.m
        k = tables.cells(m)[place]
        x, law = self.left[k], tables.law(m, k)
        if not tables.is_forced(m, k):
            return cell_weight(law, w) * tables.head(m - 1, k, x - w) / tables.head(m, k, x)
        return cell_weight(law, w) / tables.head(m, k, x) if w == x else arb(0)

    def _rest(self, place: int, reach: int) -> arb:
        """An upper bound of the sum of t_k(w) s_{k+1}(y - w) over abs(w) > reach."""
        tables, m = self.tables, self.m
        k = tables.cells(m)[place]
        if tables.is_forced(m, k):
            largest = arb(int(abs(self.left[k]) > reach))
        else:
            before, here = tables.head(m - 1, k, 0), tables.head(m, k, self.left[k])
            largest = 2 * weight_beyond(tables.law(m, k), reach) * before / here
        return largest * float(self.s[place + 1].max())

    def _cell(self, place: int, y: int) -> int | None:
        """The outcome of a cell, or None if the trial fails."""
        words = 1
        while words <= MOST_WORDS:
            uniform, digits = prefix(self.address.all_digits(self.draw, self.site + 1 + place), words)
            with precision(digits + _GUARD_BITS):
                decided, outcome = self._decide(place, y, uniform, digits)
            if decided:
                return outcome
            words *= 2
        raise SolverError(
            f"{self.tables.law(self.m, self.tables.cells(self.m)[place])}: a cell was not decided by {64 * words} "
            "bits, which has a negligible probability for random bits. Check that the bits come from a cipher."
        )

    def _decide(self, place: int, y: int, uniform: int, digits: int) -> tuple[bool, int | None]:
        """(whether these digits decide, the outcome or None if the trial fails)."""
        length = self.s.shape[1]
        total = arb(float(self.s[place, y % length])) * power_of_two(-digits)
        low, high = total * uniform, total * (uniform + 1)
        cumulated = arb(0)
        for i, w in enumerate(candidates(0)):
            before = cumulated
            cumulated = before + self._weight(place, w) * float(self.s[place + 1, (y - w) % length])
            if not cumulated <= low:
                return bool(cumulated >= high and before <= low), w
            if i % 64 == 0:
                rest = self._rest(place, abs(w))
                if cumulated + rest <= low:
                    return True, None
                if rest <= total * power_of_two(-64):
                    return False, None
        return False, None
