"""The measurements of every single geounit: a strategy with shares that every path of the spine can pay for.

Whether a strategy can pay for the shares of every path of a spine, in exact fractions.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tallyveil.accounting.events import ParallelEvent, PrivacyEvent, SequentialEvent
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import BudgetError
from tallyveil.geography.spine import GeounitShares, Spine, distinct_pairs, uniform_shares
from tallyveil.noise.laws import Law

PathShares: TypeAlias = tuple[Fraction, ...]
"""The shares of the geounits on a path from a root to a finest geounit, root first. Paths with equal shares are of one
kind."""


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
    greatest, finest = greatest_path(spine, shares)
    if greatest > 1:
        raise BudgetError(
            f"shares sum to {greatest}, more than 1, on the path {_path(spine, shares, finest)}. Lower the shares on "
            "that path, or bypass with the spine steps of Tallyveil, which keep the sum on every path.",
            code="overspent-path",
        )
    return greatest


def greatest_path(spine: Spine, shares: GeounitShares) -> tuple[Fraction, int]:
    """The greatest sum of shares along a path from a root to a finest geounit, and that finest geounit.

    Raises:
        BudgetError: the shares belong to another spine.
    """
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


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """A strategy on a spine whose geounits may have individual shares of the budget, as bypassing produces.

    A geounit with share 0 is not measured. Every other geounit is measured with the query groups of its geolevel.
    Its own share of the strategy's total replaces the share of the geolevel. Few different shares occur, so a
    geounit's share is stored as a position in `shares.values`.

    Attributes:
        strategy: Total, mechanism, and the query groups of each geolevel with their shares.
        spine: The spine.
        shares: Share of every geounit.

    Raises:
        BudgetError: the shares belong to another spine, the shares of a path sum to more than 1, or a geounit has a
            share at a geolevel where the strategy measures nothing.

    Privacy: measuring costs at most `strategy.total`. It costs exactly that if every path sums to 1 (see `event`).
    Source: Cumings-Menon et al. 2023, Theorem 3.
    """

    strategy: Strategy
    spine: Spine
    shares: GeounitShares
    _used: tuple[tuple[int, ...], ...] = field(init=False, repr=False)
    """For each geolevel, the positions of the shares that occur there."""

    def __post_init__(self) -> None:
        require_affordable(self.spine, self.shares, self.strategy)
        used = tuple(
            tuple(np.flatnonzero(np.bincount(positions)).tolist()) for positions in self.shares.positions
        )
        object.__setattr__(self, "_used", used)

    def positions(self, geolevel: str) -> NDArray[np.int32]:
        """Position of each geounit's share among `shares.values`."""
        return self.shares.positions[self.spine.level_index(geolevel)]

    def measured(self, geolevel: str) -> NDArray[np.bool_]:
        """Whether each geounit of a geolevel has a measurement."""
        return self.shares.measured(self.spine.level_index(geolevel))

    def laws(self, geolevel: str, query: str) -> dict[int, Law]:
        """Law of a query's noise, by the position of the geounit's share. Geounits with share 0 have no law."""
        used, values = self._used[self.spine.level_index(geolevel)], self.shares.values
        return {
            place: self.strategy.law(geolevel, query, values[place]) for place in used if values[place] > 0
        }

    def variances(self, geolevel: str, query: str, start: int, stop: int) -> NDArray[np.float64]:
        """Variance of a query's noise in geounits start to stop - 1, in counts squared; infinite where not measured."""
        by_position = np.full(len(self.shares.values), np.inf)
        for position, law in self.laws(geolevel, query).items():
            by_position[position] = law.variance_float()
        return by_position[self.positions(geolevel)[start:stop]]

    def event(self) -> PrivacyEvent:
        """The privacy event of everything that is measured.

        A record counts in the geounits of one path from root to finest geounit. Its privacy loss depends only on the
        shares along that path. Paths with equal shares are of the same kind, and each kind is one part of a parallel
        event. A geounit may lie on paths of two kinds. It is then in both parts, with the same noise. Changing a
        record from one kind of path to the other changes half of the answers in each part, as a parallel event
        assumes.
        """
        kinds, _ = self._kinds_of_paths()
        parts = tuple(
            SequentialEvent(
                tuple(
                    event
                    for geolevel, share in zip(self.spine.geolevels, kind, strict=True)
                    if share > 0
                    for event in self.strategy.geolevel_event(geolevel, share).events
                )
            )
            for kind in kinds
        )
        return parts[0] if len(parts) == 1 else ParallelEvent(parts)

    def geolevel_event(self, geolevel: str) -> PrivacyEvent:
        """What is measured at one geolevel; an empty event if none of its geounits is measured."""
        tally = self.shares.tally(self.spine.level_index(geolevel))
        parts = tuple(self.strategy.geolevel_event(geolevel, share) for share in tally if share > 0)
        if not parts:
            return SequentialEvent(())
        return parts[0] if len(parts) == 1 else ParallelEvent(parts)

    def paths_that_meet(self, geolevel: str | None) -> tuple[tuple[PathShares, PathShares], ...]:
        """The kinds of two paths that go through one geounit of a geolevel, each unordered pair once.

        Two paths may be of one kind, and every kind stands beside itself.

        Args:
            geolevel: The geolevel; None for any two paths of the spine.
        """
        kinds, kind_of = self._kinds_of_paths()
        n = len(kinds)
        meeting = np.zeros(len(kind_of), dtype=np.int64)
        if geolevel is not None:
            meeting = self.spine.ancestors(self.spine.level_index(geolevel))
        # One entry for each geounit and kind in it; few geounits have different sets of kinds.
        geounits, numbers = np.divmod(np.unique(meeting * n + kind_of), n)
        starts = np.flatnonzero(np.diff(geounits)) + 1
        sets = {tuple(numbers_here.tolist()) for numbers_here in np.split(numbers, starts)}
        pairs = {pair for numbers_here in sets for pair in combinations_with_replacement(numbers_here, 2)}
        return tuple((kinds[first], kinds[second]) for first, second in sorted(pairs))

    def _kinds_of_paths(self) -> tuple[tuple[PathShares, ...], NDArray[np.int64]]:
        """For each kind of path, the shares along it, root first; and the kind of each finest geounit."""
        spine, values = self.spine, self.shares.values
        kinds: list[PathShares] = [()]
        kind_of = np.zeros(spine.n_geounits(0), dtype=np.int64)
        for level in range(spine.n_levels):
            above = kind_of if level == 0 else kind_of[spine.parents(level)]
            # Only few different pairs (kind so far, share here) occur.
            pairs, index = distinct_pairs(above, self.shares.positions[level], len(values))
            kinds = [(*kinds[pair // len(values)], values[pair % len(values)]) for pair in pairs.tolist()]
            kind_of = index
        return tuple(kinds), kind_of


def allocation_of(strategy: Strategy, spine: Spine, shares: GeounitShares | None = None) -> Allocation:
    """A strategy on a spine.

    Args:
        strategy: What is measured.
        spine: The spine.
        shares: Share of every geounit. None gives every geounit the share of its geolevel.

    Raises:
        BudgetError: the shares, or the strategy's geolevels, do not fit the spine.
    """
    if shares is None:
        shares = uniform_shares(spine, dict(strategy.geolevel_shares))
    return Allocation(strategy, spine, shares)
