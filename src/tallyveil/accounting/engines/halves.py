"""Enumeration in two halves: every value of one table of losses is added to every value of another one.

The problem: delta(epsilon) = E[(1 - exp(epsilon - L))+] for few losses without a common lattice. Their sums may take
too many values for one table, but the losses divide into two halves that have a table each.

The variables: a and b the values of the two halves, p_a and p_b their probabilities under P. For the values of the
second half from b on,

    S = sum of p_c,  W = sum of p_c exp(b - c),  G = sum of p_c (1 - exp(b - c)) over all c >= b.

With x = epsilon - a and b the least value above x, P(L > epsilon) is the sum of p_a S over all a, Q(L > epsilon) is
that of p_a exp(-a - b) W, and delta(epsilon) that of p_a [G + (1 - exp(x - b)) W]. All terms are positive, so that no
digits cancel, however small the losses are.

The steps:

1. Both tables are made in balls (`ball_tails.Enumeration`), and sorted. S, W and G are sums of balls from the top.
   Their logarithms are rounded to floats, downwards and upwards.
2. For an epsilon each a looks up its place in the second table. So a million million values take a million look-ups.

Values are rounded to floats, and so is epsilon - a. Delta falls with epsilon and with smaller losses. So a bound takes
everything at a distance beyond all these roundings, the *slip*, on its safe side.

Example: 48 answers of eight scales of Laplace noise have 5.8e8 values, and two tables of 1e4 to 1e5.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np
from flint import arb

from tallyveil.accounting.engines.ball_tails import Countable, Enumeration, log_of_rest, number_of_values
from tallyveil.accounting.engines.loss_transform import UNIT
from tallyveil.accounting.engines.tails import ManyBounds, Tails, float_bounds, within_floats
from tallyveil.accounting.losses import ExponentialLoss
from tallyveil.accounting.numbers import Bounds
from tallyveil.arrays import Floats
from tallyveil.noise.balls import precision

_DEEP: Final = 50.0
"""Terms that are smaller than the largest one by exp(-50) have errors below its rounding."""


@dataclass(frozen=True, slots=True)
class _Logs:
    """Logarithms of many positive numbers, from both sides."""

    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, balls: Sequence[arb]) -> "_Logs":
        # A ball that holds 0 gives no lower bound. Nothing is above the largest value.
        lowers = [float_bounds(ball.lower().log()).lower if ball > 0 else -math.inf for ball in balls]
        ends = [ball.upper() for ball in balls]
        uppers = [float_bounds(end.log()).upper if end > 0 else -math.inf for end in ends]
        return cls(np.array([*lowers, -math.inf]), np.array([*uppers, -math.inf]))


@dataclass(frozen=True, slots=True)
class Halves:
    """Certified tails of the sum of two losses that are tables.

    Attributes:
        firsts: Values of the first half.
        chances: Logarithms of their probabilities under P.
        seconds: Values of the second half, in ascending order.
        sums: ln S from each of these on.
        weights: ln W.
        gaps: ln G.
        slip: By how much a value, or a distance of values, may be off, without the rounding of epsilon.
        cut: Logarithms of the probabilities that the tables do not hold, under P and under Q, at most. The latter is
            right for laws of mass 1 under Q alone, which samples that may fail do not have.
        greatest: The largest loss that the tables hold, or a little above it.
        name: That of other enumerations.
    """

    firsts: Floats
    chances: _Logs
    seconds: Floats
    sums: _Logs
    weights: _Logs
    gaps: _Logs
    slip: float
    cut: tuple[float, float]
    greatest: Fraction
    name: str = field(default="direct", compare=False)

    @property
    def is_whole(self) -> bool:
        """Whether the tables hold every loss, so that nothing was cut off."""
        return self.cut[0] == -math.inf

    @classmethod
    def build(
        cls, factors: tuple[Countable, ...], *, least_delta: Fraction = Fraction(1, 10**30)
    ) -> "Halves | None":
        """Combine all losses, or None where that takes too long.

        Args:
            factors: The composition, equal losses merged. None has a density.
            least_delta: A delta of this size or more keeps its digits. Bounds of smaller ones still hold.
        """
        if any(isinstance(factor, ExponentialLoss) for factor in factors):
            return None
        # The larger ones first, each to the half with fewer values.
        halves: tuple[list[Countable], list[Countable]] = ([], [])
        sizes = [0.0, 0.0]
        logs = [(math.log(number_of_values(factor, least_delta)), i) for i, factor in enumerate(factors)]
        for size, i in sorted(logs, reverse=True):
            which = int(sizes[1] < sizes[0])
            halves[which].append(factors[i])
            sizes[which] += size
        left = Enumeration.build(tuple(halves[0]), least_delta=least_delta)
        right = left and Enumeration.build(tuple(halves[1]), least_delta=least_delta)
        return cls.of(left, right) if left and right else None

    @classmethod
    def of(cls, left: Enumeration, right: Enumeration) -> "Halves":
        """The sum of two tables without densities."""
        firsts, chances = _sorted(left)
        seconds, probabilities = _sorted(right)
        with precision(max(left.bits, right.bits)):
            sums, weights, gaps = [arb(0)], [arb(0)], [arb(0)]
            before = float(seconds[-1])
            for value, chance in zip(reversed(seconds.tolist()), reversed(probabilities), strict=True):
                # The distance from the next value, which is exact in balls.
                nearer = arb(value) - before
                gaps.append(gaps[-1] - nearer.expm1() * weights[-1])
                weights.append(chance + nearer.exp() * weights[-1])
                sums.append(sums[-1] + chance)
                before = value
            cut = (-math.inf, -math.inf)
            if not (left.is_whole and right.is_whole):
                held = zip(left.held(), right.held(), strict=True)
                log_first, log_second = (log_of_rest(of_left * of_right) for of_left, of_right in held)
                cut = log_first, log_second
            slip = float(left.slip + right.slip) * (1 + UNIT)
            return cls(
                firsts,
                _Logs.of(chances),
                seconds,
                _Logs.of(sums[:0:-1]),
                _Logs.of(weights[:0:-1]),
                _Logs.of(gaps[:0:-1]),
                slip + 2 * UNIT * float(np.abs(firsts).max() + np.abs(seconds).max()),
                cut,
                max(left.probabilities) + max(right.probabilities) + left.slip + right.slip,
            )

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`."""
        exact = within_floats(epsilon)
        ends = zip(self._ends(exact, -1), self._ends(exact, 1), strict=True)
        first, second, delta = (Bounds(min(low, high), high) for low, high in ends)
        return Tails(first, second, delta)

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """Certified ln delta at each epsilon."""
        exact = [within_floats(epsilon) for epsilon in epsilons]
        lower, upper = (np.array([self._ends(epsilon, side)[2] for epsilon in exact]) for side in (-1, 1))
        return ManyBounds(np.minimum(lower, upper), upper)

    def _ends(self, epsilon: Fraction, side: int) -> tuple[float, float, float]:
        """Bounds on ln P(L > epsilon), ln Q(L > epsilon) and ln delta, from below for -1 and from above for 1."""
        # No loss is above the largest one, however epsilon and the values are rounded.
        if self.is_whole and epsilon >= self.greatest:
            return -math.inf, -math.inf, -math.inf
        chances, sums, weights, gaps = (
            (logs.upper if side > 0 else logs.lower)
            for logs in (self.chances, self.sums, self.weights, self.gaps)
        )
        # The distance epsilon - a is rounded twice, and then moved to the safe side by more than that and by the slip.
        about, farthest = float(epsilon), float(np.abs(self.firsts).max())
        slip = self.slip + 4 * UNIT * (abs(about) + farthest)
        x = about - self.firsts - side * slip
        place = np.searchsorted(self.seconds, x, side="right")
        # Nothing is above the largest value: its logarithms are -inf, wherever it is.
        values = np.append(self.seconds, math.inf)[place]
        with np.errstate(divide="ignore"):
            parts = np.logaddexp(gaps[place], np.log(-np.expm1(np.minimum(x - values, 0.0))) + weights[place])
        cut_first, cut_second = self.cut if side > 0 else (-math.inf, -math.inf)
        # Four times: the logarithms may be much larger than their sum, but by no more than the values themselves.
        of_second = weights[place] - np.where(np.isinf(values), 0.0, values) - self.firsts + side * 4 * slip
        return (
            _log_sum(chances[:-1] + sums[place], cut_first, side),
            _log_sum(chances[:-1] + of_second, cut_second, side),
            _log_sum(chances[:-1] + parts, cut_first, side),
        )


def _sorted(table: Enumeration) -> tuple[Floats, list[arb]]:
    """The values of a table, rounded, in ascending order, and their probabilities under P."""
    entries = sorted(table.probabilities.items(), key=lambda entry: entry[0])
    # No loss here has a density, so that every entry is a probability.
    chances = [chance for _, chance in entries if isinstance(chance, arb)]
    assert len(chances) == len(entries)
    return np.array([float(value) for value, _ in entries]), chances


def _log_sum(logs: Floats, cut: float, side: int) -> float:
    """The logarithm of a sum, rounded to one side; at most 0."""
    highest = max(float(logs.max()), cut)
    if highest == -math.inf:
        return highest
    total = highest + math.log(float(np.exp(logs - highest).sum()) + math.exp(cut - highest))
    # Each exponent is a sum of three rounded numbers, none above it in size; exp, the sum and the logarithm.
    return min(total + side * UNIT * (2000 + 16 * (abs(highest) + _DEEP)), 0.0)
