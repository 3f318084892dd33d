"""Exact budget shares of individual geounits."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.geography.spine import Spine


@dataclass(frozen=True, slots=True, eq=False)
class GeounitShares:
    """Share of the budget of every geounit of a spine, as exact fractions.

    A geounit with share 0 is not measured. Only a few different fractions occur, so each geounit stores only the
    position of its share in a list.

    Attributes:
        values: The different shares, increasing.
        positions: For each geolevel, the position in `values` of each geounit's share; read-only int32.

    Raises:
        BudgetError: a share is below 0, the values do not increase, or a position has no value.
    """

    values: tuple[Fraction, ...]
    positions: tuple[NDArray[np.int32], ...]

    def __post_init__(self) -> None:
        # Rising values give each share one position, so that equal shares can be compared by position.
        exact = all(isinstance(value, Fraction) and value >= 0 for value in self.values)
        if not exact or any(a >= b for a, b in zip(self.values, self.values[1:], strict=False)):
            raise BudgetError(
                f"shares of geounits are {', '.join(map(str, self.values[:9]))}; wanted Fractions of 0 or more in "
                "rising order. Build them with uniform_shares or bypass."
            )
        read_only = []
        for array in self.positions:
            if len(array) and not 0 <= int(array.min()) <= int(array.max()) < len(self.values):
                raise BudgetError(
                    f"a geounit's share is at a position outside the {len(self.values)} shares. "
                    "Build them with uniform_shares or bypass."
                )
            # A view, not the caller's array: making that one read-only would change an object that is not ours.
            view = array.astype(np.int32, copy=False).view()
            view.flags.writeable = False
            read_only.append(view)
        object.__setattr__(self, "positions", tuple(read_only))

    def share(self, level: int, geounit: int) -> Fraction:
        """Share of one geounit."""
        return self.values[int(self.positions[level][geounit])]

    def measured(self, level: int) -> NDArray[np.bool_]:
        """Whether each geounit of a geolevel has a share above 0; shape (n_geounits,)."""
        above = np.array([value > 0 for value in self.values], dtype=np.bool_)
        return above[self.positions[level]]

    def tally(self, level: int) -> dict[Fraction, int]:
        """Number of geounits of a geolevel with each share, smallest share first."""
        counts = np.bincount(self.positions[level], minlength=len(self.values)).tolist()
        return {value: count for value, count in zip(self.values, counts, strict=True) if count}


def uniform_shares(spine: Spine, shares: Mapping[str, Fraction]) -> GeounitShares:
    """Shares that are equal for all geounits of a geolevel.

    Args:
        spine: The spine.
        shares: Share of each geolevel, above 0. Their sum must be exactly 1.

    Raises:
        BudgetError: a geolevel is missing or unknown, a share is not a Fraction above 0, or the sum is not 1.
    """
    if set(shares) != set(spine.geolevels):
        raise BudgetError(
            f"shares are given for {', '.join(shares) or 'no geolevel'}; wanted one for each of "
            f"{', '.join(spine.geolevels)}. Give every geolevel of the spine a share, and no other."
        )
    for geolevel, share in shares.items():
        if not isinstance(share, Fraction) or share <= 0:
            raise BudgetError(
                f"share of {geolevel} is {as_given(share)}; wanted a Fraction above 0. Leave out of the spine a "
                "geolevel that is not measured."
            )
    total = sum(shares.values(), Fraction(0))
    # Exact fractions: with floats a sum of 1 could not be told from a sum just above it, which would overspend.
    if total != 1:
        raise BudgetError(
            f"shares of the geolevels sum to {total}; wanted 1. Change them so that they sum to exactly 1."
        )
    values = tuple(sorted(set(shares.values())))
    return GeounitShares(
        values,
        tuple(
            np.full(spine.n_geounits(level), values.index(shares[name]), dtype=np.int32)
            for level, name in enumerate(spine.geolevels)
        ),
    )


def distinct_pairs(first: Integers, second: NDArray[np.int32], width: int) -> tuple[Integers, Integers]:
    """The different pairs of small numbers, encoded as first * width + second, and each entry's position among them.

    The result is that of np.unique with return_inverse=True, without sorting millions of entries.
    """
    # Both numbers are below the number of different shares or sums, so that bincount needs little memory.
    pair = first * width + second
    there = np.bincount(pair) > 0
    return np.flatnonzero(there), (np.cumsum(there) - 1)[pair]


def path_total(spine: Spine, shares: GeounitShares) -> Fraction:
    """The sum of shares along a path from a root to a finest geounit, after a check that all paths have the same sum.

    By parallel composition, disjoint geounits can use the same budget. So a spine costs what its most expensive path
    sums to. If all paths have the same sum, no budget is wasted.

    Raises:
        BudgetError: the shares belong to another spine, or two paths have different sums.
    Source: Cumings-Menon et al. 2023, Theorem 3.
    """
    sizes = tuple(len(array) for array in shares.positions)
    if sizes != tuple(spine.n_geounits(level) for level in range(spine.n_levels)):
        raise BudgetError(
            f"shares for {', '.join(map(str, sizes))} geounits by geolevel do not fit the spine {spine!r}. Use the "
            "shares that were made with this spine."
        )
    # The sums so far, as positions in this list; the list stays as short as the number of different sums.
    sums: list[Fraction] = [Fraction(0)]
    sum_of: Integers = np.zeros(spine.n_geounits(0), dtype=np.int64)
    for level in range(spine.n_levels):
        above = sum_of if level == 0 else sum_of[spine.parents(level)]
        # Only few different pairs (sum so far, share here) occur, and only those are added as fractions.
        pairs, index = distinct_pairs(above, shares.positions[level], len(shares.values))
        added = [
            sums[pair // len(shares.values)] + shares.values[pair % len(shares.values)]
            for pair in pairs.tolist()
        ]
        sums = sorted(set(added))
        place = np.array([sums.index(value) for value in added], dtype=np.int64)
        sum_of = place[index]
    if len(sums) > 1:
        low, high = int(np.argmin(sum_of)), int(np.argmax(sum_of))
        codes = spine.geocodes[-1]
        raise BudgetError(
            f"shares sum to {sums[0]} on the path to {spine.geolevels[-1]} '{codes[low]}' and to {sums[-1]} on the "
            f"path to '{codes[high]}'. The shares on every path from the root must have the same sum. If a geounit "
            "gives up its share, give that share to each of its children.",
            code="unequal-paths",
        )
    return sums[0]
