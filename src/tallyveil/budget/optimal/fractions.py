"""Exact fractions for shares that were found as floats."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.budget.strategy import Strategy

PARTS_OF_A_SHARE = 2500
"""The denominator is this many times the number of shares."""
LOSS = 1 / PARTS_OF_A_SHARE
"""Rounding makes every variance larger by at most this fraction, because it divides no share by more than 1 + LOSS."""


def rounded_shares(shares: Floats) -> tuple[Fraction, ...]:
    """Fractions with a common denominator that sum to exactly 1, near the given shares.

    Each share is rounded up to a whole number of parts, and all are divided by the sum of these numbers. For n shares
    and D parts, the sum is at most D + n. So no share becomes smaller than 1 / (1 + n / D) of what it was. Rounding to
    the nearest part instead could lose much: a tiny share may be all that determines an answer.

    Args:
        shares: Above 0; they sum to 1.
    """
    parts = PARTS_OF_A_SHARE * len(shares)
    whole = [max(1, int(part)) for part in np.ceil(shares * parts)]
    return tuple(Fraction(part, sum(whole)) for part in whole)


def with_shares(strategy: Strategy, shares: tuple[Fraction, ...]) -> Strategy:
    """A strategy that measures the same with other shares, geolevel by geolevel in its own order."""
    left = list(shares)
    geolevels, queries = [], []
    for geolevel, query_shares in strategy.query_shares:
        of_geolevel, left = left[: len(query_shares)], left[len(query_shares) :]
        together = sum(of_geolevel, Fraction(0))
        geolevels.append((geolevel, together))
        pairs = zip(query_shares, of_geolevel, strict=True)
        queries.append((geolevel, tuple((query, share / together) for (query, _), share in pairs)))
    return replace(strategy, geolevel_shares=tuple(geolevels), query_shares=tuple(queries))
