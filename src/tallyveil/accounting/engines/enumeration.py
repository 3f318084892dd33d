"""Enumeration of every combination of losses: plainly right, and slow.

The problem: the law of the sum of a few independent losses.

The variables: a table maps each value of a loss, an exact fraction, to its probability, a ball. No lattice is needed.

The steps: begin with the table {0: 1}. For each answer, add every loss of the answer to every loss of the table and
multiply the probabilities. Gaussian noise is cut off far from 0. What was cut off, under P and under Q, is at most one
minus the probability that the table holds, so it widens the bounds by that much. Laplace noise has a finite
number of losses, so nothing is cut off and every delta keeps its digits.

Example: two answers of sensitivity 1 with discrete Laplace noise of scale t, a = exp(-1 / t). The table ends with
-2/t: a^2 / (1 + a)^2, 0: 2 a / (1 + a)^2 and 2/t: 1 / (1 + a)^2.

The other engines are compared with this one in the tests. It is also the best one for a few Laplace losses that share
no lattice, as benchmarks/README.md shows.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from flint import arb

from tallyveil.accounting.engines.ball_tails import resolving_bits, tails_of_balls
from tallyveil.accounting.engines.tails import DeltaByTails, Tails
from tallyveil.accounting.engines.tilts import estimated_length
from tallyveil.accounting.losses.factors import GaussianLoss, LossFactor, lattice_of, merged
from tallyveil.noise.balls import between_zero_and, precision, rational

MAX_STEPS: Final = 1 << 20
"""Multiplications of one product above which a composition is refused: about 5 seconds."""

MAX_ANSWERS: Final = 64
"""Answers above which a composition is refused: each one is a product of tables."""

Table = dict[Fraction, arb]


@dataclass(frozen=True, slots=True)
class Enumeration(DeltaByTails):
    """Composition of a few losses by plain loops.

    Attributes:
        probabilities: The probability of each total loss under P.
        bits: Working precision of the balls.
        is_whole: Whether the table holds every loss, so that nothing was cut off.
    """

    probabilities: Table = field(repr=False)
    bits: int
    is_whole: bool
    name: str = "direct"

    @classmethod
    def build(
        cls, factors: tuple[LossFactor, ...], *, least_delta: Fraction = Fraction(1, 10**30)
    ) -> "Enumeration | None":
        """Combine all losses, or None where that takes too long.

        Args:
            factors: The composition; a factor with multiplicity n counts as n answers.
            least_delta: A delta of this size or more has about 20 proved digits. Bounds of smaller ones still hold.

        Raises:
            BudgetError: a factor is out of range.
        """
        factors = merged(factors)
        bits = resolving_bits(factors, least_delta)
        answers = sum(factor.multiplicity for factor in factors)
        # One product of two tables of 1,024 entries is a million multiplications of balls.
        if answers > MAX_ANSWERS or sum(_points(factor, bits) for factor in factors) > MAX_STEPS:
            return None
        # Refuse before the work where it will be too much, unless so many sums are equal that only the work can tell.
        if not _overlap(factors) and _greatest_product(factors, bits) > MAX_STEPS:
            return None
        with precision(bits + 64):
            # The empty sum is 0 with certainty; every factor multiplies into it.
            total: Table = {Fraction(0): arb(1)}
            for factor in factors:
                table = _table(factor, bits)
                for _ in range(factor.multiplicity):
                    # Losses need not share a lattice, so the length of a table is only known when it is made.
                    if len(total) * len(table) > MAX_STEPS:
                        return None
                    total = _combined(total, table)
        # A Laplace loss takes finitely many values; only Gaussian noise is cut off.
        finite = not any(isinstance(factor, GaussianLoss) for factor in factors)
        return cls(total, bits + 64, finite)

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Tails of the loss beyond epsilon, any real number."""
        with precision(self.bits):
            return tails_of_balls(*self.balls(Fraction(epsilon)))

    def balls(self, epsilon: Fraction) -> tuple[arb, arb, arb]:
        """P(L > epsilon), Q(L > epsilon) and delta(epsilon)."""
        with precision(self.bits):
            # What the table holds under each law; one minus it is what was cut off.
            first = second = delta = held_first = held_second = arb(0)
            for loss, probability in self.probabilities.items():
                under_second = probability * rational(-loss).exp()
                held_first += probability
                held_second += under_second
                if loss > epsilon:
                    first += probability
                    second += under_second
                    # 1 - exp(epsilon - loss) as a ball of the exact difference: no cancellation, however close the loss
                    # is.
                    delta += probability * (1 - rational(epsilon - loss).exp())
            if self.is_whole:
                return first, second, delta
            cut_first, cut_second = _cut_off(held_first), _cut_off(held_second)
            # The cut-off mass may lie above epsilon or not: from 0 to all of it, on each probability.
            return first + cut_first, second + cut_second, delta + cut_first


def _cut_off(held: arb) -> arb:
    """A ball from 0 to the whole probability that the table does not hold."""
    # Balls of the mass may exceed 1 by rounding, so the absolute value of the difference is bounded.
    return between_zero_and((1 - held).abs_upper())


def _points(factor: LossFactor, bits: int) -> int:
    if isinstance(factor, GaussianLoss):
        return 2 * _reach(factor.variance, bits) + 1
    return factor.sensitivity + 1


def _greatest_product(factors: tuple[LossFactor, ...], bits: int) -> int:
    """Multiplications of the largest product of tables, if only sums of one factor fall on one another."""
    sums, greatest = 1, 0
    for factor in factors:
        points, n = _points(factor, bits), factor.multiplicity
        # The sum of n answers on one lattice takes at most n (points - 1) + 1 values.
        greatest = max(greatest, sums * ((n - 1) * (points - 1) + 1) * points)
        sums *= n * (points - 1) + 1
    return greatest


def _overlap(factors: tuple[LossFactor, ...]) -> bool:
    """Whether the losses share a lattice, so that many sums are equal."""
    return estimated_length(factors, lattice_of(factors)) <= MAX_STEPS


def _reach(variance: Fraction, bits: int) -> int:
    # Beyond it every weight is below 2^-bits: x^2 / (2 v) > bits ln 2. The cap keeps the float from overflowing; a
    # table of that size is refused anyway.
    return math.ceil(math.sqrt(2 * float(min(variance, Fraction(10**12))) * bits * math.log(2))) + 1


def _table(factor: LossFactor, bits: int) -> Table:
    """Loss of one answer."""
    if isinstance(factor, GaussianLoss):
        # Q's noise is P's moved by the sensitivity: reach that much further on both sides.
        reach = _reach(factor.variance, bits) + factor.sensitivity
        exponent = rational(-1 / (2 * factor.variance))
        weights = {x: (exponent * (x * x)).exp() for x in range(-reach, reach + 1)}
        # The tail as a geometric series: neighbouring ratios fall, so the first ratio bounds them all.
        beyond = (exponent * (reach + 1) ** 2).exp() / (1 - (exponent * (2 * reach + 3)).exp())
        total = sum(weights.values(), arb(0)) + 2 * between_zero_and(beyond)
        return {factor.offset + factor.step * x: weight / total for x, weight in weights.items()}
    k = factor.sensitivity
    a = rational(-1 / factor.scale).exp()
    table: Table = {}
    # In between, the noise lies j from one of the two answers and k - j from the other.
    for j in range(k + 1):
        # The ends j = 0 and k hold a whole half line of the noise; places in between hold one point each.
        weight = arb(1) if j == 0 else a**k if j == k else (1 - a) * a**j
        table[(k - 2 * j) / factor.scale] = weight / (1 + a)
    return table


def _combined(left: Table, right: Table) -> Table:
    """Losses of independent answers add."""
    total: Table = {}
    for loss, probability in left.items():
        for other_loss, other_probability in right.items():
            added = loss + other_loss
            # Equal losses meet in one entry: fractions compare exactly, which floats would not.
            total[added] = total.get(added, arb(0)) + probability * other_probability
    return total
