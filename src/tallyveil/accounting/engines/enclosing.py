"""Engines made of other bounds: of engines that enclose the truth, of failures, of Renyi divergences.

`Between` takes its upper bounds from one engine and its lower bounds from another one. `WithFailure` adds a
chance D that everything is revealed: delta is D + (1 - D) times the delta of the rest. `Conditioned` has a few losses
with few values a beside others: delta(epsilon) is the mean of the others' delta(epsilon - a).

The last engine bounds delta from above by Renyi divergences, for losses of which nothing else is known. It
has no lower bound. The variables: x the excess of the order over 1; tau the divergence; ln delta <= x (tau -
epsilon) - saved(x), by the conversion of Canonne, Kamath and Steinke (2020, Proposition 12). Floats choose x,
and balls evaluate the bound there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tallyveil.accounting.engines.tails import (
    LossEngine,
    ManyBounds,
    Tails,
    float_bounds,
    fraction_bounds,
    log_bounds_of,
    log_reflected,
    tails_by_chords,
    within_floats,
)
from tallyveil.accounting.losses import Law, SampledLoss, mirrored
from tallyveil.accounting.numbers import Bounds, log_of, round_up
from tallyveil.accounting.renyi import (
    BITS,
    best_excess,
    certified_divergence,
    saved,
    saved_ball,
    searched_divergence,
)
from tallyveil.errors import SolverError
from tallyveil.noise.balls import precision, rational

# Rounding of the few operations on logarithms here: 4.5 units in the last place. Twice of it would show in the
# sixteenth digit alone; below about 1 unit, the bounds would not be certain.
_SLACK = 1e-15

_NEGLIGIBLE = 45.0
"""Minus the logarithm of the probability of a value, relative to what is known of delta, from which it is left out of
the sum and added to the upper bound: 3e-20 widens no bound that floats show."""

_CROSSING = 1e-9
"""By how much bounds from two engines may cross, relative to 1 + |ln delta|. Each engine rounds outwards, so that they
should not cross at all. More than this is no rounding: logarithms are computed to about 1e-13."""


@dataclass(frozen=True, slots=True)
class Between:
    """Bounds from both sides by two compositions, of which one costs no less than the truth and one no more.

    Attributes:
        upper: Engine of the law that costs no less.
        lower: Engine of the law that costs no more.
        upper_law: The former law.
        lower_law: The latter law.
        chord: Length over which the slope of delta is looked at.
    """

    upper: LossEngine
    lower: LossEngine
    upper_law: Law
    lower_law: Law
    chord: float

    @property
    def name(self) -> str:
        """Name of the engine of the upper bounds."""
        return self.upper.name

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`."""
        return tails_by_chords(self, epsilon, self.chord)

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """Certified ln delta at each epsilon.

        Raises:
            SolverError: the bounds contradict each other, which is an error of an engine.
        """
        upper = self.upper.log_deltas(epsilons).upper
        lower = self.lower.log_deltas(epsilons).lower
        # Both are certified and cannot cross but by rounding in the last places. More would be a false claim of either.
        slack = _CROSSING * (1 + np.where(np.isfinite(upper), np.abs(upper), 0.0))
        if np.any(lower > upper + slack):
            raise SolverError(
                f"the lower bound of delta from the engine {self.lower.name} is above the upper bound from the engine "
                f"{self.upper.name}, so one of them is wrong. Please report the events of this composition: it is an "
                "error of Tallyveil."
            )
        return ManyBounds(np.minimum(lower, upper), upper)


@dataclass(frozen=True, slots=True)
class Conditioned:
    """A composition in which some losses have few values together, given which the others remain.

    Attributes:
        values: Those values, exact.
        log_chances: Logarithms of their probabilities under P, from both sides.
        slip: By how much a value may be off.
        rest: Engine of the other losses.
        chord: Length over which the slope of delta is looked at.
        log_cut: Logarithm of the probability under P of values that are not listed, at most.
    """

    values: tuple[Fraction, ...]
    log_chances: tuple[Bounds, ...]
    slip: Fraction
    rest: LossEngine
    chord: float
    log_cut: float = -math.inf

    @property
    def name(self) -> str:
        """Name of the engine of the other losses."""
        return self.rest.name

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`."""
        return tails_by_chords(self, epsilon, self.chord)

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """Certified ln delta at each epsilon."""
        exact = [within_floats(epsilon) for epsilon in epsilons]
        highest = max(chance.upper for chance in self.log_chances)
        places = range(len(self.values))
        likely = [i for i in places if self.log_chances[i].upper > highest - _NEGLIGIBLE]
        known = self._over(exact, likely, -math.inf)
        others = [i for i in places if i not in likely]
        if not others:
            return known
        log_others = float(np.logaddexp.reduce([self.log_chances[i].upper for i in others])) + _SLACK
        if log_others < known.lower.min() - _NEGLIGIBLE:
            # No delta is above 1: so little more may be added, and the others' engine takes long at each value.
            return self._over(exact, likely, log_others)
        return self._over(exact, places, -math.inf)

    def _over(self, exact: Sequence[Fraction], places: Sequence[int], log_more: float) -> ManyBounds:
        """The same over some of the values; the logarithm of what all others add at most."""
        values = [self.values[i] for i in places]
        # Delta falls with epsilon, so that a value that may be off is asked for at the safe side of it.
        lower, upper = (
            self.rest.log_deltas([epsilon - a + side * self.slip for a in values for epsilon in exact])
            for side in (1, -1)
        )
        shape = len(values), len(exact)
        ends = []
        for logs, chances, side in (
            (lower.lower, [self.log_chances[i].lower for i in places], -1),
            (upper.upper, [self.log_chances[i].upper for i in places], 1),
        ):
            mixed = np.logaddexp.reduce(logs.reshape(shape) + np.array(chances)[:, None], axis=0)
            if side > 0:
                mixed = np.logaddexp(mixed, np.logaddexp(self.log_cut, log_more))
            slack = _SLACK * (8 + len(chances)) * (1 + np.where(np.isfinite(mixed), np.abs(mixed), 0.0))
            ends.append(np.minimum(mixed + side * slack, 0.0))
        return ManyBounds(np.minimum(ends[0], ends[1]), ends[1])


@dataclass(frozen=True, slots=True)
class WithFailure:
    """A composition that also reveals everything with a probability.

    Attributes:
        least: A number that is not above this probability; exact.
        most: One that is not below it; exact.
        rest: Engine of the other losses.
        law: These losses.
    """

    least: Fraction
    most: Fraction
    rest: LossEngine
    law: Law

    @property
    def name(self) -> str:
        """Name of the engine of the other losses."""
        return self.rest.name

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`; the probability under Q is 1 - D times that of the rest."""
        of_rest = self.rest.log_tails(epsilon)
        mixed = self._mixed(ManyBounds.of([of_rest.log_first, of_rest.log_delta]))
        # Under Q only the rest counts: what a failure reveals has probability 0 there, so that L is infinite under P
        # alone.
        less = Bounds(log_bounds_of(1 - self.most).lower, log_bounds_of(1 - self.least).upper)
        second = Bounds(
            of_rest.log_second.lower + less.lower - _SLACK, of_rest.log_second.upper + less.upper + _SLACK
        )
        # Under Q the rest of samples that may fail has a mass above 1, and its bounds end at 1: then nothing is known.
        may_fail = any(isinstance(loss, SampledLoss) and loss.failure for loss in self.law)
        unknown = may_fail and of_rest.log_second.upper >= 0
        return Tails(mixed[0], Bounds(second.lower, 0.0 if unknown else min(second.upper, 0.0)), mixed[1])

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """Certified ln delta at each epsilon."""
        return self._mixed(self.rest.log_deltas(epsilons))

    def deltas_of_rest(self, delta: Fraction) -> tuple[Fraction, Fraction]:
        """The deltas that are left for the rest, from both sides; below 0 where the failures alone cost more."""
        # D + (1 - D) x = delta solved for x. The greater D leaves less; each is asked of the side on which it is safe.
        return (delta - self.most) / (1 - self.most), (delta - self.least) / (1 - self.least)

    def levels_of_rest(self, alpha: Fraction) -> tuple[Fraction, Fraction]:
        """The type I errors of the rest that belong to one of the whole, at most 1."""
        return min(alpha / (1 - self.most), Fraction(1)), min(alpha / (1 - self.least), Fraction(1))

    def beta(self, at_most: Bounds, at_least: Bounds) -> Bounds:
        """The least type II error of the whole, from that of the rest at both of `levels_of_rest`."""
        # The lower end uses the greater failure and the lower beta of the rest, and the upper end the opposite: each
        # product then errs to its own side.
        lower = fraction_bounds(1 - self.most).lower * at_most.lower * (1 - _SLACK)
        upper = min(1.0, fraction_bounds(1 - self.least).upper * at_least.upper * (1 + _SLACK))
        return Bounds(min(lower, upper), upper)

    def _mixed(self, logs: ManyBounds) -> ManyBounds:
        """ln(D + (1 - D) x) from ln x."""
        ends = []
        for chance, log_rest, side in ((self.least, logs.lower, -1), (self.most, logs.upper, 1)):
            # A failure of probability 0 leaves the rest as it is: its logarithm is -inf and drops out of the sum.
            fails = log_bounds_of(chance).upper if chance else -math.inf
            holds = log_bounds_of(1 - chance).upper
            mixed = np.logaddexp(fails, holds + log_rest)
            # logaddexp is right to a few units in the last place; 8 times 1e-15 leaves room for all platforms.
            slack = 8 * _SLACK * (1 + np.where(np.isfinite(mixed), np.abs(mixed), 0.0))
            ends.append(np.minimum(mixed + side * slack, 0.0))
        return ManyBounds(np.minimum(ends[0], ends[1]), ends[1])


@dataclass(frozen=True, slots=True)
class RenyiUpper:
    """Upper bounds of delta for a law whose Renyi divergences are known.

    Attributes:
        law: The losses, each with a divergence.
        name: "renyi".
    """

    law: Law
    name: str = "renyi"

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Delta from above. Of the probabilities nothing is known but Q <= exp(-epsilon)."""
        exact = within_floats(epsilon)
        # Q(L > epsilon) = E[exp(-L); L > epsilon] under P, so at most exp(-epsilon). Its rounding is one of a product:
        # 1e-15 covers it, since exp(-epsilon) must not fall below the truth.
        below = Bounds(-math.inf, min(0.0, -float(exact) * (1 - 1e-15)))
        return Tails(Bounds(-math.inf, 0.0), below, self._log_delta(exact))

    def epsilon(self, delta: Fraction) -> float:
        """An epsilon that holds with this delta, between 0 and 1, rounded up."""
        log_delta, divergence = log_of(delta), searched_divergence(self.law)

        def bound(excess: float) -> float:
            # Epsilon at one order, in floats. It is only minimised here: every order gives a valid bound, so no error
            # in the search can do more than widen the answer.
            return divergence(excess) - (log_delta + saved(excess)) / excess

        best = best_excess(bound)
        with precision(BITS):
            # The chosen order is an exact fraction from here on; the bound itself is evaluated in balls.
            x = rational(best)
            log_ball = rational(delta).log() + saved_ball(x)
            # 0 is a larger bound, so it holds too, where the formula gives less.
            return max(0.0, round_up(rational(certified_divergence(self.law, best)) - log_ball / x))

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """Ln delta from above at each epsilon."""
        return ManyBounds.of([self._log_delta(within_floats(epsilon)) for epsilon in epsilons])

    def _best(self, epsilon: Fraction) -> Fraction:
        allowed, divergence = float(epsilon), searched_divergence(self.law)

        def log_delta(excess: float) -> float:
            # Canonne, Kamath, Steinke (2020), Proposition 12, with the order 1 + x; convex in x, so one minimum.
            return excess * (divergence(excess) - allowed) - saved(excess)

        return best_excess(log_delta)

    def _log_delta(self, epsilon: Fraction) -> Bounds:
        # delta(-e) follows from delta(e) by the reflection of the loss, while the formula needs epsilon >= 0.
        if epsilon < 0:
            there = RenyiUpper(mirrored(self.law))._log_delta(-epsilon)
            return Bounds(-math.inf, log_reflected(float(epsilon), there).upper)
        best = self._best(epsilon)
        with precision(BITS):
            x = rational(best)
            logarithm = x * (rational(certified_divergence(self.law, best)) - rational(epsilon)) - saved_ball(
                x
            )
            # ln delta is at most 0: for a small epsilon, the best order may give more than everything.
            return Bounds(-math.inf, min(0.0, float_bounds(logarithm).upper))
