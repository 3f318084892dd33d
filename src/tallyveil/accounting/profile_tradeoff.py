"""The trade-off function from delta alone, at many type I errors at once.

The problem: engines of losses without a lattice know delta far better than the errors of a single test. For type I
errors alpha, bound the least type II errors beta from delta alone, from both sides.

The variables: kappa = exp(epsilon); g(kappa) = 1 - delta - kappa alpha, a concave function whose largest value over all
kappa is beta(alpha) (Dong, Roth and Su 2022, Proposition 2.12). Each alpha has three places left < middle < right, in
epsilon.

The steps, for all alphas at once, since delta at many epsilons takes little longer than at one:

1. Begin near the place of normal noise of the same rho. Move and widen the three places until g is largest in the
middle.
2. Golden section: look at g inside the longer of the two parts, and keep the three places around the largest value.
3. Any value of g bounds beta from below. If g is certainly smaller at both ends than in the middle, its maximum lies
between the ends. It is below the line through left and middle drawn on to the right, and below the line through right
and middle drawn on to the left. So three places bound beta from above.

Since 1 - delta rises and g is negative beyond kappa = 1 / alpha, beta is also at most 1 - delta at epsilon = -ln alpha.

The stopping rule: the differences of g are within the errors of delta, for all alphas, or 80 steps were made.

Example: where g bends like a parabola, a distance of 3e-5 standard deviations changes it by 1e-9 of itself. From there
on the bounds of delta are wider than the differences.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Final

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.tails import LossEngine, fraction_bounds, log_bounds_of, log_delta_of
from tallyveil.accounting.many_bounds import ManyBounds
from tallyveil.arrays import Bools, Floats, Integers

_NO_ERROR: Final = 1e-300
"""A type II error so small that the trade-off function is stated as lying between 0 and it."""

_STEEPEST: Final = 700.0  # largest epsilon whose exponential is computed: floats end at exp(709.8)
_FIRST_STEP: Final = 0.05  # distance of the first three places, in standard deviations of the loss
_GOLDEN: Final = (3 - math.sqrt(5)) / 2  # place in the longer part that keeps the proportions of all three
_WIDENINGS: Final = 40
"""Doublings of the first distance: together 5e10 standard deviations. Half of them are 5e4, still beyond all places."""
_STEPS: Final = 80
"""Of the golden section: 2e-17 of the first interval is left, which floats cannot divide. Half of them leave 4e-9,
and the bounds of delta most often end the search long before."""
_LEAST_QUANTILE: Final = 1e-300
"""Least level whose quantile is asked for: that of 0 is infinite, and floats lose digits below 2e-308."""


def betas_from_profile(
    engine: LossEngine, rho: float, alphas: Sequence[Fraction]
) -> list[tuple[Fraction, Bounds]]:
    """A loss whose line supports the trade-off function at each alpha, and the value there from both sides.

    Args:
        engine: Bounds of delta.
        rho: About the rho of the losses, above 0, by which the search begins.
        alphas: Between 0 and 1, both excluded; exact.
    """
    caps = np.array([_cap(engine, alpha) for alpha in alphas])
    search = _Search(engine, np.array([float(alpha) for alpha in alphas]), caps)
    some = np.flatnonzero(caps > _NO_ERROR)
    sigma = math.sqrt(2 * rho)
    if some.size:
        centres = np.array([-rho - sigma * normal_quantile(float(alphas[i])) for i in some.tolist()])
        search.run(some, centres, _FIRST_STEP * sigma)
    # Both are valid on their own. No error rate is negative, and rounding must not cross the two.
    lower = np.clip(search.lower, 0.0, search.upper)
    return [
        (Fraction(loss), Bounds(low, high))
        for loss, low, high in zip(search.best.tolist(), lower.tolist(), search.upper.tolist(), strict=True)
    ]


def _cap(engine: LossEngine, alpha: Fraction) -> float:
    """The smaller one of 1 - alpha and 1 - delta(-ln alpha), rounded up."""
    beyond = log_delta_of(engine, -log_bounds_of(alpha).lower)
    return min(fraction_bounds(1 - alpha).upper, -math.expm1(beyond.lower) * (1 + 1e-14) + 5e-324)


def normal_quantile(level: float) -> float:
    """About the normal quantile of a level, kept away from 0 and 1; a search begins there."""
    return NormalDist().inv_cdf(min(max(level, _LEAST_QUANTILE), 1 - 1e-16))


@dataclass(slots=True)
class _Places:
    """One place of each of some alphas, and g there."""

    at: Floats
    g: ManyBounds

    @property
    def middle(self) -> Floats:
        """About g."""
        return np.where(np.isfinite(self.g.lower), (self.g.lower + self.g.upper) / 2, self.g.lower)

    def some(self, chosen: Bools) -> "_Places":
        return _Places(self.at[chosen], self.g.at(chosen))

    def or_else(self, chosen: Bools, other: "_Places") -> "_Places":
        """These places where chosen, else the other ones."""
        return _Places(np.where(chosen, self.at, other.at), self.g.where(chosen, other.g))


@dataclass(slots=True)
class _Search:
    """The search for the largest values of g.

    Attributes:
        engine: Bounds of delta.
        alphas: All type I errors.
        upper: The least upper bounds of beta so far.
        lower: The largest values of g so far, rounded down.
        best: Where these values were found.
    """

    engine: LossEngine
    alphas: Floats
    upper: Floats
    lower: Floats
    best: Floats

    def __init__(self, engine: LossEngine, alphas: Floats, caps: Floats) -> None:
        self.engine, self.alphas, self.upper = engine, alphas, caps
        self.lower, self.best = np.full(alphas.size, -np.inf), np.zeros(alphas.size)

    def run(self, which: Integers, centres: Floats, step: float) -> None:
        """Narrow the bounds of the alphas with these numbers."""
        left, middle, right = self._around(which, centres, step)
        for _ in range(_STEPS):
            # From bounds, as an order that floats merely show would not prove a maximum between the ends.
            certain = np.maximum(left.g.upper, right.g.upper) < middle.g.lower
            self._bound_above(which[certain], *(places.some(certain) for places in (left, middle, right)))
            if not certain.any():
                return
            which, left, middle, right = (
                which[certain],
                *(places.some(certain) for places in (left, middle, right)),
            )
            left, middle, right = self._narrowed(which, left, middle, right)

    def _around(self, which: Integers, centres: Floats, step: float) -> tuple[_Places, _Places, _Places]:
        """Three places of each alpha of which the middle one has the largest g, if one can tell."""
        left, middle, right = (self._at(which, centres + side * step) for side in (-1, 0, 1))
        for attempt in range(_WIDENINGS):
            rises, falls = right.middle > middle.middle, left.middle > middle.middle
            if not (rises | falls).any():
                break
            # All alphas move in step: one call of the engine serves all of them.
            width = step * 2.0 ** (attempt + 1)
            there = self._at(which, np.where(rises, right.at + width, left.at - width))
            left, middle, right = (
                middle.or_else(rises, there.or_else(falls, left)),
                right.or_else(rises, left.or_else(falls, middle)),
                there.or_else(rises, middle.or_else(falls, right)),
            )
        return left, middle, right

    def _narrowed(
        self, which: Integers, left: _Places, middle: _Places, right: _Places
    ) -> tuple[_Places, _Places, _Places]:
        """One step of the golden section."""
        after = right.at - middle.at > middle.at - left.at
        length = np.where(after, right.at - middle.at, left.at - middle.at)
        there = self._at(which, middle.at + _GOLDEN * length)
        higher = there.middle > middle.middle
        best, other = there.or_else(higher, middle), middle.or_else(higher, there)
        # Of the places beside the best one, that on the side of the other one is the other one.
        before = other.at < best.at
        return (
            other.or_else(before, left.or_else(left.at < best.at, best)),
            best,
            other.or_else(~before, right.or_else(right.at > best.at, best)),
        )

    def _at(self, which: Integers, losses: Floats) -> _Places:
        """g at one place of each alpha; what is found there bounds beta from below."""
        known = self.engine.log_deltas(losses.tolist())
        low, high = -np.expm1(known.upper), -np.expm1(known.lower)
        weights = np.exp(np.minimum(losses, _STEEPEST)) * self.alphas[which]
        # An exponential is off by its exponent's rounding, hence the factor of 1 + |epsilon|.
        slack = 1e-14 * (high + (1 + np.abs(losses)) * weights)
        # There the weight was cut off, so that this would be no lower bound.
        lower = np.where(losses > _STEEPEST, -np.inf, low - weights - slack)
        more = lower > self.lower[which]
        self.lower[which[more]], self.best[which[more]] = lower[more], losses[more]
        return _Places(losses, ManyBounds(lower, high - weights + slack))

    def _bound_above(self, which: Integers, left: _Places, middle: _Places, right: _Places) -> None:
        """Bound beta by the two lines through the middle, where it is certain that the maximum lies between."""
        before = -np.expm1(left.at - middle.at)
        after = np.expm1(np.minimum(right.at - middle.at, _STEEPEST))
        known = right.at - middle.at <= _STEEPEST
        # Upper ends of the middle and lower ends of the sides: the steepest lines that may be.
        high = middle.g.upper
        with np.errstate(over="ignore"):
            rise = np.maximum(
                (high - left.g.lower) * (after / before), (high - right.g.lower) * (before / after)
            )
        upper = np.where(known, (high + rise * (1 + 1e-13)) * (1 + 1e-15), np.inf)
        self.upper[which] = np.minimum(self.upper[which], np.maximum(upper, 0.0))
