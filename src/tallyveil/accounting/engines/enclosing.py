"""Engines made of other engines: two that enclose the truth, and one with a chance of failure.

`Between` takes its upper bounds from one engine and its lower bounds from another one. `WithFailure` adds a chance D
that everything is revealed: delta is D + (1 - D) times the delta of the rest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.chords import tails_by_chords
from tallyveil.accounting.engines.tails import LossEngine, Tails, fraction_bounds, log_bounds_of
from tallyveil.accounting.losses.further import Law
from tallyveil.accounting.many_bounds import ManyBounds

# Rounding of the few operations on logarithms here: 4.5 units in the last place. Twice of it would show in the
# sixteenth digit alone; below about 1 unit, the bounds would not be certain.
_SLACK = 1e-15


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
        """Certified ln delta at each epsilon."""
        upper = self.upper.log_deltas(epsilons).upper
        # Two engines, each rounded by itself, could cross in the last place where both laws are nearly the same.
        return ManyBounds(np.minimum(self.lower.log_deltas(epsilons).lower, upper), upper)


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
        return Tails(mixed[0], Bounds(second.lower, min(second.upper, 0.0)), mixed[1])

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
