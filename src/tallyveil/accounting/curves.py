"""The trade-off function: for a type I error alpha, the least type II error beta of any test, from both sides.

The best tests reject if L > l (Neyman and Pearson). Such a test has alpha = Q(L > l) and, by the symmetry of the loss,
beta = P(L <= l) = Q(L >= -l). Between the tests of two neighbouring losses the function is linear.

*On a lattice*, find two neighbouring losses whose tests have levels on either side of alpha. At alpha the function
lies below the chord of these two points, and above every line beta + exp(l) (alpha_l - alpha) through one of them.
Example: one answer of randomised response with loss e or -e. The test at l = 0 has alpha = beta = 1 / (1 + exp(e)),
and the function is the two lines from (0, 1) and (1, 0) to that point.

*Off every lattice* the engines know delta far better than Q, so beta follows from delta (`betas_from_profile`). With
kappa = exp(epsilon), beta(alpha) is the largest value of the concave g(kappa) = 1 - delta - kappa alpha (Dong, Roth
and Su 2022, Proposition 2.12). All alphas are searched at once, each with three places left < middle < right in
epsilon.

1. Begin near the place of normal noise of the same rho. Move and widen the places until g is largest in the middle.
2. Golden section: look at g inside the longer of the two parts, and keep the three places around the largest value.
3. Any value of g bounds beta from below. If g is certainly smaller at both ends, its maximum is below the line through
   left and middle drawn on to the right, and below that through right and middle drawn on to the left. Since g is
   negative beyond kappa = 1 / alpha, beta is also at most 1 - delta at epsilon = -ln alpha.

The search stops when the differences of g are within the errors of delta for all alphas, or after 80 steps.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.accounting.engines.cells import Cells
from tallyveil.accounting.engines.enclosing import Between, WithFailure
from tallyveil.accounting.engines.tails import (
    LossEngine,
    ManyBounds,
    exponential,
    float_bounds,
    fraction_bounds,
    log_bounds_of,
    log_delta_of,
)
from tallyveil.accounting.losses import (
    Base,
    Law,
    LossFactor,
    cost_hint,
    further,
    lattice_of,
    of_integers,
    rho_of_loss,
)
from tallyveil.accounting.numbers import Bounds
from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.noise.balls import precision, rational

_LEAST_CAP: Final = 1e-300
"""A type II error so small that the trade-off function is stated as lying between 0 and it."""

_STEEPEST_FLOAT: Final = 700.0  # largest epsilon whose exponential is computed: floats end at exp(709.8)
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
    some = np.flatnonzero(caps > _LEAST_CAP)
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
        weights = np.exp(np.minimum(losses, _STEEPEST_FLOAT)) * self.alphas[which]
        # An exponential is off by its exponent's rounding, hence the factor of 1 + |epsilon|.
        slack = 1e-14 * (high + (1 + np.abs(losses)) * weights)
        # There the weight was cut off, so that this would be no lower bound.
        lower = np.where(losses > _STEEPEST_FLOAT, -np.inf, low - weights - slack)
        more = lower > self.lower[which]
        self.lower[which[more]], self.best[which[more]] = lower[more], losses[more]
        return _Places(losses, ManyBounds(lower, high - weights + slack))

    def _bound_above(self, which: Integers, left: _Places, middle: _Places, right: _Places) -> None:
        """Bound beta by the two lines through the middle, where it is certain that the maximum lies between."""
        before = -np.expm1(left.at - middle.at)
        after = np.expm1(np.minimum(right.at - middle.at, _STEEPEST_FLOAT))
        known = right.at - middle.at <= _STEEPEST_FLOAT
        # Upper ends of the middle and lower ends of the sides: the steepest lines that may be.
        high = middle.g.upper
        with np.errstate(over="ignore"):
            rise = np.maximum(
                (high - left.g.lower) * (after / before), (high - right.g.lower) * (before / after)
            )
        upper = np.where(known, (high + rise * (1 + 1e-13)) * (1 + 1e-15), np.inf)
        self.upper[which] = np.minimum(self.upper[which], np.maximum(upper, 0.0))


OFF_LATTICE = ("dithered", "cells", "renyi")
"""Names of the engines whose bounds of delta are much closer than those of both probabilities."""

_PROTECTS_NOBODY = 600.0
"""Rho above which that is tried before a search. Gaussian noise has such small errors from a rho of about 2,700 on."""

_STEEPEST = Fraction(700)
"""Loss beyond which exp(loss) has a lower bound alone: floats overflow at exp(709.8). Such a line bounds nothing."""
_FINEST = Fraction(1, 10**9)
"""The least distance of the two losses of a chord. Over a chord this short, the function bends by less than 1e-18."""


def betas_at(engine: LossEngine, law: Law, alphas: Sequence[Fraction]) -> list[tuple[Fraction, Bounds]]:
    """For each type I error, a loss whose line supports the trade-off function there, and its bounds there.

    All errors together are much faster than one by one where the function follows from delta.

    Args:
        engine: Tails of the loss.
        law: The losses added up.
        alphas: Between 0 and 1, exact.
    """
    if isinstance(engine, WithFailure):
        levels = [engine.levels_of_rest(alpha) for alpha in alphas]
        less, more = (betas_at(engine.rest, engine.law, part) for part in zip(*levels, strict=True))
        return [(knot, engine.beta(low, high)) for (knot, low), (_, high) in zip(less, more, strict=True)]
    if not law or not (further(law) or engine.name in OFF_LATTICE or isinstance(engine, Between)):
        return [_on_lattice(engine, of_integers(law), alpha) for alpha in alphas]
    inner = [alpha for alpha in alphas if alpha not in {0, 1}]
    from_profile = iter(betas_from_profile(engine, search_cost(law), inner))
    betas = [_certain(alpha) if alpha in {0, 1} else next(from_profile) for alpha in alphas]
    if further(law):
        return betas
    tested = [_of_nobody(engine, of_integers(law), alpha) for alpha in alphas]
    return [beta if none is None else (Fraction(0), none) for beta, none in zip(betas, tested, strict=True)]


def _of_nobody(engine: LossEngine, factors: tuple[LossFactor, ...], alpha: Fraction) -> Bounds | None:
    """The error of the test that rejects above the first loss from 0 on, if next to no error of either kind is made."""
    if zcdp_cost(factors) <= _PROTECTS_NOBODY or alpha in {0, 1}:
        return None
    lattice = lattice_of(factors)
    level, missed = _point(engine, lattice.offset % lattice.step, lattice.step)
    if level.upper <= fraction_bounds(alpha).lower and missed.upper <= _LEAST_CAP:
        return Bounds(0.0, missed.upper)
    return None


def _certain(alpha: Fraction) -> tuple[Fraction, Bounds]:
    """The same for alpha = 0 or 1, where every outcome is possible on both sides, and without losses."""
    return Fraction(0), fraction_bounds(1 - alpha)


def _on_lattice(
    engine: LossEngine, factors: tuple[LossFactor, ...], alpha: Fraction
) -> tuple[Fraction, Bounds]:
    """The same from the tests at two neighbouring losses of the lattice."""
    if not factors or alpha in {0, 1}:
        return _certain(alpha)
    lattice = lattice_of(factors)
    nearly_none = _of_nobody(engine, factors, alpha)
    if nearly_none is not None:
        return Fraction(0), nearly_none
    # Tests at any two losses bound the function. So a finer lattice is thinned out, and none is missed.
    spacing = lattice.step * max(1, _FINEST // lattice.step)

    def loss(index: int) -> Fraction:
        return lattice.offset + spacing * index

    wanted = log_bounds_of(alpha).lower
    beside = lattice.step / 2

    def passes(index: int) -> bool:
        return engine.log_tails(loss(index) + beside).log_second.upper <= wanted

    # `passes` is certified, but monotone only up to the bounds. Any index found gives valid bounds.
    index = _first(passes, _index_guess(factors, alpha, lattice.offset, spacing))
    right = _point(engine, loss(index), lattice.step)
    left = _point(engine, loss(index - 1), lattice.step)
    return loss(index), _between(alpha, (loss(index), *right), (loss(index - 1), *left))


def knot_at(engine: LossEngine, law: Law, count: int) -> NDArray[np.float64]:
    """Type I errors at which to draw the trade-off function: they belong to evenly spread losses."""
    # Without quick levels of tests: points of a cosine, closer at both ends, where the curve bends.
    if isinstance(engine, Between | WithFailure | Cells):
        return (np.cos(np.linspace(math.pi, 0, count + 2)[1:-1]) + 1) / 2
    if not law:
        return np.linspace(0, 1, count + 2)[1:-1]
    rho = search_cost(law)
    # The mean loss is rho under one neighbour and -rho under the other; four standard deviations beyond.
    reach = rho + 4 * math.sqrt(2 * rho)
    if engine.name in OFF_LATTICE:  # the errors of a single test take long, and normal ones are near
        normal = NormalDist(-rho, math.sqrt(2 * rho))
        return np.array([1 - normal.cdf(loss) for loss in np.linspace(-reach, reach, count).tolist()])
    logs = [engine.log_tails(float(loss)).log_second.upper for loss in np.linspace(-reach, reach, count)]
    return np.exp(logs)


def zcdp_cost(factors: tuple[Base, ...]) -> float:
    """A rho such that K(s) <= s (s + 1) rho for every s, rounded up."""
    return fraction_bounds(sum(map(rho_of_loss, factors), Fraction(0))).upper


def search_cost(law: Law) -> float:
    """About the rho of a law, by which searches begin; the same as `zcdp_cost` for integer noise."""
    return zcdp_cost(of_integers(law)) + sum(cost_hint(loss) for loss in further(law))


def _point(engine: LossEngine, loss: Fraction, step: Fraction) -> tuple[Bounds, Bounds]:
    """(alpha, beta) of the test that rejects above a lattice point."""
    # Between two lattice points the same losses lie above as on the lower one, and rounded losses are on their side.
    alpha = engine.log_tails(loss + step / 2).log_second
    beta = engine.log_tails(-loss - step / 2).log_second  # Q(L >= -loss): no lattice point lies between
    return exponential(alpha), exponential(beta)


def _between(
    alpha: Fraction, right: tuple[Fraction, Bounds, Bounds], left: tuple[Fraction, Bounds, Bounds]
) -> Bounds:
    """The value at alpha, which lies between the levels of two tests; `right` has the smaller level."""
    here = fraction_bounds(alpha)
    (above, a2, b2), (below, a1, b1) = right, left
    upper = min(b2.upper, 1 - here.lower)
    if a1.upper > a2.upper and a1.upper > here.upper:
        share = min(max((here.lower - a2.upper) / (a1.upper - a2.upper), 0.0), 1.0)
        # A smaller share moves along the falling chord less far, so the factor rounds the bound up.
        chord = b2.upper + (min(b1.upper, b2.upper) - b2.upper) * share * (1 - 1e-15)
        upper = min(upper, chord)
    beyond = max(here.upper - a2.lower, 0.0)
    # The two supporting lines bound a convex function from below: each falls as fast as it may.
    falls = beyond * _slope(above).upper * (1 + 4e-16) if beyond else 0.0
    rises = max(a1.lower - here.upper, 0.0) * _slope(below).lower * (1 - 4e-16)
    lower = max(b2.lower - falls, (b1.lower + rises if a1.lower >= here.upper else 0.0), 0.0)
    upper = min(upper * (1 + 1e-15), 1.0)
    return Bounds(min(lower * (1 - 1e-15), upper), upper)


def _slope(loss: Fraction) -> Bounds:
    """exp(loss) from both sides."""
    with precision(128):
        slope = float_bounds(rational(min(loss, _STEEPEST)).exp())
    return slope if loss <= _STEEPEST else Bounds(slope.lower, math.inf)


def _first(passes: Callable[[int], bool], guess: int) -> int:
    """The smallest index that passes, if every larger index passes too."""
    stride = 1
    if passes(guess):
        high, low = guess, guess - 1
        while passes(low):
            high, stride = low, 2 * stride
            low = high - stride
    else:
        low, high = guess, guess + 1
        while not passes(high):
            low, stride = high, 2 * stride
            high = low + stride
    # Strides doubled until the answer was passed, so this takes as many steps as the strides did.
    while high - low > 1:
        middle = (low + high) // 2
        if passes(middle):
            high = middle
        else:
            low = middle
    return high


def _index_guess(
    factors: tuple[LossFactor, ...], alpha: Fraction, offset: Fraction, spacing: Fraction
) -> int:
    rho = zcdp_cost(factors)
    deviate = normal_quantile(float(alpha))
    return int((Fraction(-rho - math.sqrt(2 * rho) * deviate) - offset) // spacing)
