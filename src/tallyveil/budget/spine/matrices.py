"""The spine and the strategy as matrices that are never built: A, B and S of the paper, with their products.

B is A of the spine a release is published on. `dense()` builds a matrix, for small spines and for tests.
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
from tallyveil.universe import QueryGroup

MOST_ENTRIES = 50_000_000


@dataclass(frozen=True, slots=True)
class SpineMatrix:
    """A: one row for every geounit, coarsest geolevel first, one column for every finest geounit; 1 where it lies in.

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
        """Rows of a geolevel's geounits."""
        start = sum(self.spine.n_geounits(upper) for upper in range(level))
        return slice(start, start + self.spine.n_geounits(level))

    def apply(self, counts: Numbers) -> Numbers:
        """Counts of all geounits from those of the finest, whose rows come first; any type of number.

        Raises:
            BudgetError: there is not one row for each finest geounit.
        """
        _check_rows(counts, self.shape[1], "finest geounits")
        parts = [counts]
        for offsets in reversed(self.spine.child_offsets):
            parts.insert(0, np.add.reduceat(parts[0], offsets[:-1], axis=0))
        return np.concatenate(parts, axis=0)

    def adjoint(self, values: Numbers) -> Numbers:
        """For every finest geounit, the sum over all geounits it lies in.

        Raises:
            BudgetError: there is not one row for each geounit.
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
    """S: every measured answer of every geounit as a weighted sum of cells, each row scaled to noise of one unit.

    A row is geounit u's row of A in a Kronecker product with a row of a query group's matrix, times the root of
    its rho share (Gaussian) or its epsilon share, over the answers a neighbour moves. Geounits with share 0 have
    rows of 0. Rows are by geolevel, query group, geounit, answer; columns by finest geounit, then cell.

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
        """What each geounit's rows of a query group are multiplied by: 1 over the noise's sigma, or scale."""
        strategy = self.strategy
        share = dict(dict(strategy.query_shares)[self.spine.geolevels[level]])[query]
        moved = strategy.neighbours.answers_moved
        budgets = [float(strategy.total * value * share) for value in self.shares.values]
        gaussian = strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN
        scale = [(2 * one / moved) ** 0.5 if gaussian else one / moved for one in budgets]
        return np.array(scale)[self.shares.positions[level]]

    def measured(self) -> tuple[tuple[int, str], ...]:
        """Geolevel and query group of every block of rows, in order."""
        known = dict(self.strategy.query_shares)
        return tuple(
            (level, query)
            for level, name in enumerate(self.spine.geolevels)
            for query, _ in known.get(name, ())
        )

    def apply(self, histogram: NDArray[np.float64]) -> NDArray[np.float64]:
        """S x.

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
    """The greatest sum of shares along a path from a root to a finest geounit, exactly.

    It is the greatest column sum of diag(shares) A, and what a strategy on this spine costs as a part of its total:
    within a geounit the shares of query groups sum to 1, and a cell counts in at most one answer of each.
    """
    return _greatest_path(spine, shares)[0]


def require_affordable(spine: Spine, shares: GeounitShares, strategy: Strategy | None = None) -> Fraction:
    """Refuse a spine on which measuring would cost more than the strategy's total.

    Args:
        spine: The spine.
        shares: Share of every geounit.
        strategy: The strategy, to be asked for queries at every geolevel where a share is above 0.
    Returns:
        What it costs, as a part of the total: at most 1.

    Raises:
        BudgetError: shares of another spine, a path whose shares sum to more than 1, or a share where nothing
            is measured.

    Privacy: the condition of Theorems 1 and 3, checked in exact fractions.
    Source: Cumings-Menon et al. 2023, Theorems 1 and 3.
    """
    for level, name in enumerate(spine.geolevels):
        unmeasured = strategy is not None and name not in strategy.geolevels
        if unmeasured and bool(np.any(shares.measured(level))):
            raise BudgetError(
                f"geounits of {name} have shares of the budget, but the strategy measures nothing there; it names "
                f"{', '.join(strategy.geolevels) if strategy else ''}. Use the strategy the spine was made for."
            )
    greatest, finest = _greatest_path(spine, shares)
    if greatest > 1:
        raise BudgetError(
            f"shares sum to {greatest}, more than 1, on the path {_path(spine, shares, finest)}. Lower the "
            "shares on that path, or bypass with tallyveil's own steps, which keep every sum.",
            code="overspent-path",
        )
    return greatest


def strategy_shares(spine: Spine, strategy: Strategy) -> GeounitShares:
    """The strategy's geolevel shares for every geounit of a spine with the same geolevels.

    Raises:
        BudgetError: the geolevels differ.
    """
    return uniform_shares(spine, dict(strategy.geolevel_shares))


def _greatest_path(spine: Spine, shares: GeounitShares) -> tuple[Fraction, int]:
    sizes = tuple(len(array) for array in shares.positions)
    if sizes != tuple(spine.n_geounits(level) for level in range(spine.n_levels)):
        raise BudgetError(
            f"shares for {', '.join(map(str, sizes))} geounits by geolevel do not fit the spine {spine!r}. "
            "Take the shares that were made with it."
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
        raise BudgetError(f"a product with {array.shape[0]} rows; wanted one for each of {wanted} {what}.")


def _check_size(shape: Sequence[int]) -> None:
    if shape[0] * shape[1] > MOST_ENTRIES:
        raise BudgetError(
            f"a dense matrix of {shape[0]} x {shape[1]} entries, more than {MOST_ENTRIES}. Use the products, or a "
            "smaller spine."
        )
