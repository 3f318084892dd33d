"""Whether a strategy can pay for the shares of every path of a spine, in exact fractions."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tallyveil.budget.strategy import Strategy
from tallyveil.errors import BudgetError
from tallyveil.geography import GeounitShares, Spine
from tallyveil.geography.spine import distinct_pairs


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
