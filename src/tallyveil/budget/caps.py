"""Weights that keep families outside the aim within their limits, found by trials with Lagrange multipliers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

MOST_LOSS = Fraction(1, 20)
"""Part by which the mean standard deviation of a family or geolevel may grow, before a limit or a warning."""
FIRST_WEIGHT = 1 / 32
"""Weight at which a limited family starts. A family of the aim usually has weight 1, which is much more."""
RAISE = 3.0
"""Factor of a weight whose value is above its limit. A smaller one needs more trials, a larger one overshoots more."""
MOST_RAISES = 9
"""Trials that may raise weights. The last one has weights of up to 3**8 times the first: 1/32 becomes 205."""
REFINEMENTS = 3
"""Trials after the raises. Each one halves the logarithm of the ratio of enough to too little, so 3 leave 3**(1/8)."""
EXACT_DEVIATION = 0.01
"""Standard deviation of a total below which the total counts as published exactly: it has no limit and no warning."""
TOLERANCE = 1e-9
"""Relative and absolute part by which a value may pass its limit, so that rounding never breaks one."""


class Reference(StrEnum):
    """The spine from which the loss of a family outside the aim is counted."""

    STEPS = "steps"
    """The spine that the steps make, before groups are chosen by variance."""
    GEOGRAPHY = "geography"
    """The spine of the geography table as it is."""


@dataclass(frozen=True, slots=True)
class CapTrial:
    """The result of one set of weights.

    Attributes:
        values: Value of everything that has a limit.
        score: What is minimised.
    """

    values: Mapping[str, float]
    score: float


def over(values: Mapping[str, float], limits: Mapping[str, float]) -> tuple[str, ...]:
    """Names whose value is above their limit."""
    return tuple(name for name, limit in limits.items() if values[name] > limit * (1 + TOLERANCE) + TOLERANCE)


def excess(values: Mapping[str, float], limits: Mapping[str, float]) -> float:
    """Sum, over the names above their limit, of the part by which each is above it."""
    return sum((values[name] - limits[name]) / max(limits[name], TOLERANCE) for name in over(values, limits))


def limiting_weights(
    first: Mapping[str, float],
    limits: Mapping[str, float],
    attempt: Callable[[Mapping[str, float]], CapTrial],
) -> dict[str, float]:
    """Weights under which a trial keeps all limits, with as low a score as a few trials find.

    The problem is to minimise a score subject to limits. Each limit gets a weight (its Lagrange multiplier), and a
    trial minimises the score plus the weighted values. First the weight of every value above its limit is
    multiplied by 3, until none is above. Each weight that was raised then lies between one that was too small
    and one that was enough; geometric means of the two are tried, since a smaller weight leaves more to the score.

    Worked case: one limit; weights 1/32 and 3/32 are too small, 9/32 is enough. Next comes the mean of 3/32 and 9/32,
    0.162; where that is enough, the mean of 3/32 and 0.162, and otherwise that of 0.162 and 9/32.

    Args:
        first: Weight of each limited name at the start, above 0.
        limits: Most that each value may be.
        attempt: Minimises under given weights, and returns the result.
    Returns:
        The weights of the best trial: the one that is least above the limits. Among trials within all limits, it is the
        one with the lowest score.
    """
    low, high = dict(first), dict(first)
    best, best_merit = dict(first), (math.inf, math.inf)

    def tried(weights: Mapping[str, float]) -> tuple[str, ...]:
        nonlocal best, best_merit
        choice = attempt(weights)
        merit = (excess(choice.values, limits), choice.score)
        if merit < best_merit:
            best, best_merit = dict(weights), merit
        return over(choice.values, limits)

    for _ in range(MOST_RAISES):
        above = tried(high)
        if not above:
            break
        for name in above:
            low[name], high[name] = high[name], high[name] * RAISE
    else:
        return best
    for _ in range(REFINEMENTS):
        # Weights matter by their ratio, so the middle is that of their logarithms.
        middle = {name: math.sqrt(low[name] * high[name]) for name in high}
        if low == high:
            break
        above = tried(middle)
        for name in above:
            low[name] = middle[name]
        if not above:
            high = middle
    return best
