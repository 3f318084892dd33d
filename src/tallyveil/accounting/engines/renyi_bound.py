"""An upper bound of delta from Renyi divergences, for losses of which nothing else is known; there is no lower bound.

The variables: x the excess of the order over 1; tau the divergence; ln delta <= x (tau - epsilon) - saved(x), by the
conversion of Canonne, Kamath and Steinke (2020, Proposition 12). Floats choose x, and balls evaluate the bound there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.tails import Tails, float_bounds, within_floats
from tallyveil.accounting.losses.divergences import (
    BITS,
    best_excess,
    certified_divergence,
    saved,
    saved_ball,
    searched_divergence,
)
from tallyveil.accounting.losses.further import Law
from tallyveil.accounting.losses.log_bounds import log_reflected
from tallyveil.accounting.many_bounds import ManyBounds
from tallyveil.accounting.rounding import log_of, round_up
from tallyveil.noise.balls import precision, rational


@dataclass(frozen=True, slots=True)
class RenyiUpper:
    """Upper bounds of delta for a law whose Renyi divergences are known.

    Attributes:
        law: The losses, each with a divergence that is the same for both neighbours.
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
        log_delta = log_of(delta)

        def bound(excess: float) -> float:
            # Epsilon at one order, in floats. It is only minimised here: every order gives a valid bound, so no error
            # in the search can do more than widen the answer.
            return searched_divergence(self.law, excess) - (log_delta + saved(excess)) / excess

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
        allowed = float(epsilon)

        def log_delta(excess: float) -> float:
            # Canonne, Kamath, Steinke (2020), Proposition 12, with the order 1 + x; convex in x, so one minimum.
            return excess * (searched_divergence(self.law, excess) - allowed) - saved(excess)

        return best_excess(log_delta)

    def _log_delta(self, epsilon: Fraction) -> Bounds:
        # delta(-e) follows from delta(e) by the reflection of the loss, while the formula needs epsilon >= 0.
        if epsilon < 0:
            there = self._log_delta(-epsilon)
            return Bounds(-math.inf, log_reflected(float(epsilon), there).upper)
        best = self._best(epsilon)
        with precision(BITS):
            x = rational(best)
            logarithm = x * (rational(certified_divergence(self.law, best)) - rational(epsilon)) - saved_ball(
                x
            )
            # ln delta is at most 0: for a small epsilon, the best order may give more than everything.
            return Bounds(-math.inf, min(0.0, float_bounds(logarithm).upper))
