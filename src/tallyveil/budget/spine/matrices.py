"""The spine and the strategy as linear maps: the matrices A, B and S of Cumings-Menon et al. 2023.

The matrices are never built; each class computes products with its matrix. B is the matrix A of the spine on which a
release is published. `dense()` builds the matrix itself, for small spines and for tests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Numbers
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError
from tallyveil.geography import GeounitShares, Spine, uniform_shares
from tallyveil.geography.shares import distinct_pairs
from tallyveil.schema import QueryGroup

MOST_ENTRIES = 50_000_000


@dataclass(frozen=True, slots=True)
class SpineMatrix:
    """A: rows are all geounits, coarsest geolevel first; columns are the finest geounits; 1 if the row contains it.

    Attributes:
        spine: The spine.
    Source: Cumings-Menon et al. 2023, equation 11.
    """

    spine: Spine

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        spine = self.spine
        n_rows = sum(spine.n_geounits(level) for level in range(spine.n_levels))
        return n_rows, spine.n_geounits(spine.finest)

    def rows(self, level: int) -> slice:
        """The rows of one geolevel's geounits."""
        start = sum(self.spine.n_geounits(upper) for upper in range(level))
        return slice(start, start + self.spine.n_geounits(level))

    def apply(self, counts: Numbers) -> Numbers:
        """A x: counts of all geounits from the counts of the finest ones, whose axis is the first; any number type.

        Raises:
            BudgetError: the number of rows is not the number of finest geounits.
        """
        _check_rows(counts, self.shape[1], "finest geounits")
        parts = [counts]
        for offsets in reversed(self.spine.child_offsets):
            parts.insert(0, np.add.reduceat(parts[0], offsets[:-1], axis=0))
        return np.concatenate(parts, axis=0)

    def adjoint(self, values: Numbers) -> Numbers:
        """A' y: for every finest geounit, the sum over all geounits that contain it.

        Raises:
            BudgetError: the number of rows is not the number of geounits.
        """
        _check_rows(values, self.shape[0], "geounits")
        found = values[self.rows(0)]
        for level, offsets in enumerate(self.spine.child_offsets):
            found = np.repeat(found, np.diff(offsets), axis=0) + values[self.rows(level + 1)]
        return found

    def dense(self) -> NDArray[np.int64]:
        """The matrix itself.

        Raises:
            BudgetError: it has more than 50 million entries.
        """
        _check_size(self.shape)
        return self.apply(np.eye(self.shape[1], dtype=np.int64))


@dataclass(frozen=True, slots=True)
class StrategyMatrix:
    """S: every measured answer of every geounit as a weighted sum of cells, each row scaled to noise of size one.

    A row is the Kronecker product of geounit u's row of A and one row of a query group's matrix, divided by the
    size of the noise: sigma for Gaussian noise, the scale for Laplace noise. Geounits with share 0 have rows of zeros.
    Rows are ordered by geolevel, query group, geounit, answer. Columns are ordered by finest geounit, then cell.

    Attributes:
        spine: The spine.
        strategy: What is measured.
        queries: Query groups by specification.
        shares: Share of every geounit.
    Source: Cumings-Menon et al. 2023, section 3; equation 18 lacks a transpose there.
    """

    spine: Spine
    strategy: Strategy
    queries: Mapping[str, QueryGroup]
    shares: GeounitShares

    def scales(self, level: int, query: str) -> NDArray[np.float64]:
        """Factor on each geounit's rows of a query group: 1 / sigma (Gaussian) or 1 / scale (Laplace)."""
        strategy = self.strategy
        share = dict(strategy.shares_of(self.spine.geolevels[level]))[query]
        moved = strategy.answers_moved(query)
        budgets = [float(strategy.total * value * share) for value in self.shares.values]
        gaussian = strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN
        scale = [(2 * one / moved) ** 0.5 if gaussian else one / moved for one in budgets]
        return np.array(scale)[self.shares.positions[level]]

    def measured(self) -> tuple[tuple[int, str], ...]:
        """Geolevel and query group of every block of rows, in order."""
        strategy = self.strategy
        return tuple(
            (level, query)
            for level, name in enumerate(self.spine.geolevels)
            if name in strategy.geolevels
            for query in strategy.queries(name)
        )

    def apply(self, histogram: NDArray[np.float64]) -> NDArray[np.float64]:
        """S x, every measured answer without noise.

        Args:
            histogram: Shape (n_finest, n_cells).
        Returns:
            Shape (n_rows,).
        """
        matrix = SpineMatrix(self.spine)
        counts = matrix.apply(histogram)
        parts = [
            (
                self.queries[query].apply_dense(counts[matrix.rows(level)])
                * self.scales(level, query)[:, None]
            ).ravel()
            for level, query in self.measured()
        ]
        return np.concatenate(parts)

    def adjoint(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """S' y, of shape (n_finest, n_cells)."""
        matrix = SpineMatrix(self.spine)
        first = self.queries[self.measured()[0][1]]
        cells = np.arange(first.n_cells, dtype=np.int64)
        spread = np.zeros((matrix.shape[0], first.n_cells))
        start = 0
        for level, query in self.measured():
            group, n = self.queries[query], self.spine.n_geounits(level)
            answers = values[start : start + n * group.size].reshape(n, group.size)
            start += n * group.size
            spread[matrix.rows(level)] += group.adjoint(answers, cells) * self.scales(level, query)[:, None]
        return matrix.adjoint(spread)

    def dense(self) -> NDArray[np.float64]:
        """The matrix itself.

        Raises:
            BudgetError: it has more than 50 million entries.
        """
        n_finest = self.spine.n_geounits(self.spine.finest)
        n_cells = self.queries[self.measured()[0][1]].n_cells
        n_rows = sum(
            self.spine.n_geounits(level) * self.queries[query].size for level, query in self.measured()
        )
        _check_size((n_rows, n_finest * n_cells))
        columns = np.eye(n_finest * n_cells).reshape(-1, n_finest, n_cells)
        return np.stack([self.apply(column) for column in columns], axis=1)


def greatest_column_sum(spine: Spine, shares: GeounitShares) -> Fraction:
    """The largest sum of shares along a path from a root to a finest geounit, exactly.

    This is the largest column sum of diag(shares) A. It is also the fraction of the total that a strategy on this spine
    costs: within a geounit the shares of query groups sum to 1, and the noise of a query group follows from the number
    of its answers in which a cell counts.
    """
    return _greatest_path(spine, shares)[0]


def require_affordable(spine: Spine, shares: GeounitShares, strategy: Strategy | None = None) -> Fraction:
    """Refuse a spine on which measuring would cost more than the strategy's total.

    Args:
        spine: The spine.
        shares: Share of every geounit.
        strategy: If given, it must measure queries at every geolevel where some share is above 0.
    Returns:
        The cost as a fraction of the total: at most 1.

    Raises:
        BudgetError: the shares belong to another spine, a path's shares sum to more than 1, or a share is given where
            nothing is measured.

    Privacy: this is the condition of Theorems 1 and 3, checked in exact fractions.
    Source: Cumings-Menon et al. 2023, Theorems 1 and 3.
    """
    for level, name in enumerate(spine.geolevels):
        if strategy is None or name in strategy.geolevels:
            continue
        if bool(np.any(shares.measured(level))):
            raise BudgetError(
                f"geounits of {name} have shares of the budget, but the strategy measures nothing there; it names "
                f"{', '.join(strategy.geolevels)}. Use the strategy that the spine was built for."
            )
    greatest, finest = _greatest_path(spine, shares)
    if greatest > 1:
        raise BudgetError(
            f"shares sum to {greatest}, more than 1, on the path {_path(spine, shares, finest)}. Lower the shares on "
            "that path, or bypass with the spine steps of Tallyveil, which keep the sum on every path.",
            code="overspent-path",
        )
    return greatest


def strategy_shares(spine: Spine, strategy: Strategy) -> GeounitShares:
    """The strategy's geolevel shares, for every geounit of a spine with the same geolevels.

    Raises:
        BudgetError: the geolevels differ.
    """
    return uniform_shares(spine, dict(strategy.geolevel_shares))


def _greatest_path(spine: Spine, shares: GeounitShares) -> tuple[Fraction, int]:
    sizes = tuple(len(array) for array in shares.positions)
    if sizes != tuple(spine.n_geounits(level) for level in range(spine.n_levels)):
        raise BudgetError(
            f"shares for {', '.join(map(str, sizes))} geounits by geolevel do not fit the spine {spine!r}. Use the "
            "shares that were made with this spine."
        )
    sums = [Fraction(0)]
    sum_of: NDArray[np.int64] = np.zeros(spine.n_geounits(0), dtype=np.int64)
    width = len(shares.values)
    for level in range(spine.n_levels):
        above = sum_of if level == 0 else sum_of[spine.parents(level)]
        pairs, index = distinct_pairs(above, shares.positions[level], width)
        added = [sums[pair // width] + shares.values[pair % width] for pair in pairs.tolist()]
        sums = sorted(set(added))
        sum_of = np.array([sums.index(value) for value in added], dtype=np.int64)[index]
    return sums[-1], int(np.argmax(sum_of))


def _path(spine: Spine, shares: GeounitShares, finest: int) -> str:
    steps: list[str] = []
    geounit = finest
    for level in range(spine.finest, -1, -1):
        share = shares.share(level, geounit)
        steps.insert(0, f"{spine.geolevels[level]} '{spine.geocodes[level][geounit]}' ({share})")
        if level:
            geounit = int(np.searchsorted(spine.child_offsets[level - 1], geounit, side="right")) - 1
    return " > ".join(steps)


def _check_rows(array: Numbers, wanted: int, what: str) -> None:
    if array.shape[0] != wanted:
        raise BudgetError(
            f"the array to multiply has {array.shape[0]} rows; wanted one for each of {wanted} {what}."
        )


def _check_size(shape: Sequence[int]) -> None:
    if shape[0] * shape[1] > MOST_ENTRIES:
        raise BudgetError(
            f"the dense matrix would have {shape[0]} x {shape[1]} entries, more than {MOST_ENTRIES}. Use the "
            "products, which need no dense matrix, or a smaller spine."
        )
