"""Exact fractions for shares that were found as floats."""

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
    divided = []
    for geolevel in strategy.geolevels:
        queries = strategy.queries(geolevel)
        parts, left = left[: len(queries)], left[len(queries) :]
        together = sum(parts, Fraction(0))
        pairs = zip(queries, parts, strict=True)
        divided.append((geolevel, together, [(query, part / together) for query, part in pairs]))
    return strategy.with_shares(divided)
