"""Ball arithmetic for the tails of a privacy loss: the precision it needs, and float bounds on the result."""

import math
from fractions import Fraction
from typing import Final

from flint import arb

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.decimals import at_most
from tallyveil.accounting.engines.tails import Tails, float_bounds
from tallyveil.accounting.losses.factors import GaussianLoss, LossFactor
from tallyveil.errors import BudgetError

MOST_BITS: Final = 1 << 20
"""More working precision than this is refused."""

_ACCURACY_BITS: Final = 140
"""Bits beyond those that resolve the least delta: 67 for 20 digits, the rest for lost mass and for cancellation."""


def resolving_bits(factors: tuple[LossFactor, ...], least_delta: Fraction) -> int:
    """Bits that resolve both tails at the epsilon of the least delta.

    The tail under Q is smaller than the tail under P by a factor of about exp(epsilon), and zCDP bounds that epsilon.
    An answer with Laplace noise whose loss is at most e satisfies zCDP with rho = e^2 / 2.
    """
    # Exact, since the message names it and since no float sum may decide how many bits an answer gets.
    exact = sum(
        (
            factor.multiplicity
            * Fraction(factor.sensitivity**2)
            / (2 * (factor.variance if isinstance(factor, GaussianLoss) else factor.scale**2))
            for factor in factors
        ),
        Fraction(0),
    )
    rho = float(min(exact, Fraction(10**9)))  # far above what the bits allow, and no overflow
    depth = math.log(least_delta.denominator) - math.log(least_delta.numerator)
    # zCDP bounds epsilon by rho + 2 sqrt(rho ln(1 / delta)); Q's tail lies that many nats below delta itself.
    lost = depth + rho + 2 * math.sqrt(rho * depth)
    # Refused before any ball is made: a million bits a number is far beyond what an answer is worth.
    if lost > MOST_BITS:
        raise BudgetError(
            f"the exact loss distribution of this composition would need at least {lost:.3g} bits of "
            f"precision, wanted at most {MOST_BITS}: the composition costs rho = {at_most(exact, 3)}, and the least "
            f"delta asked for is exp(-{depth:.4g}). Use another engine, or a larger least delta."
        )
    # Nats to bits. Too few bits would not make a bound wrong, only wide.
    return math.ceil(lost / math.log(2)) + _ACCURACY_BITS


def tails_of_balls(first: arb, second: arb, delta: arb) -> Tails:
    """Tails whose probabilities lie in three balls.

    Args:
        first: P(L > epsilon).
        second: Q(L > epsilon).
        delta: The hockey-stick divergence.
    """
    return Tails(log_first=log_bounds(first), log_second=log_bounds(second), log_delta=log_bounds(delta))


def log_bounds(probability: arb) -> Bounds:
    """Bounds on the logarithm of a probability known to lie in a ball."""
    # A ball is an interval: the logarithm of each of its ends bounds the logarithm of whatever lies in it.
    low, high = probability.lower(), probability.upper()
    lower = float_bounds(low.log()).lower if low > 0 else -math.inf
    if not high <= 1:  # a ball too wide to say anything, or no number at all
        return Bounds(min(lower, 0.0), 0.0)
    upper = min(0.0, float_bounds(high.log()).upper) if high > 0 else -math.inf
    return Bounds(min(lower, upper), upper)
