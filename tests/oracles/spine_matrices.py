"""The spine and the strategy as linear maps: the matrices A, B and S of Cumings-Menon et al. 2023.

Each class computes products with its matrix; `dense()` builds the matrix itself. B is the matrix A of the spine on
which a release is published.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Numbers
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.geography.spine import GeounitShares, Spine, uniform_shares
from tallyveil.schema.query_group import QueryGroup


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
        """A x: counts of all geounits from the counts of the finest ones, whose axis is the first; any number type."""
        parts = [counts]
        for offsets in reversed(self.spine.child_offsets):
            parts.insert(0, np.add.reduceat(parts[0], offsets[:-1], axis=0))
        return np.concatenate(parts, axis=0)

    def adjoint(self, values: Numbers) -> Numbers:
        """A' y: for every finest geounit, the sum over all geounits that contain it."""
        found = values[self.rows(0)]
        for level, offsets in enumerate(self.spine.child_offsets):
            found = np.repeat(found, np.diff(offsets), axis=0) + values[self.rows(level + 1)]
        return found

    def dense(self) -> NDArray[np.int64]:
        """The matrix itself."""
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
        share = dict(dict(strategy.query_shares)[self.spine.geolevels[level]])[query]
        moved = strategy.answers_moved(query)
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
        """The matrix itself."""
        n_finest = self.spine.n_geounits(self.spine.finest)
        n_cells = self.queries[self.measured()[0][1]].n_cells
        columns = np.eye(n_finest * n_cells).reshape(-1, n_finest, n_cells)
        return np.stack([self.apply(column) for column in columns], axis=1)


def strategy_shares(spine: Spine, strategy: Strategy) -> GeounitShares:
    """The strategy's geolevel shares, for every geounit of a spine with the same geolevels."""
    return uniform_shares(spine, dict(strategy.geolevel_shares))
