"""The largest loss that a composition can have, if there is one."""

import math
from fractions import Fraction

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.tails import float_bounds, fraction_bounds
from tallyveil.accounting.losses.factors import LaplaceLoss, LossFactor
from tallyveil.accounting.losses.further import (
    Base,
    ExponentialLoss,
    FailureLoss,
    Law,
    ResponseLoss,
    SampledLoss,
)
from tallyveil.noise.balls import precision, rational


def greatest_loss(factors: tuple[LossFactor, ...]) -> Fraction | None:
    """The largest possible loss: None if a Gaussian factor leaves it unbounded, 0 without any factor."""
    if not all(isinstance(factor, LaplaceLoss) for factor in factors):
        return None
    # The values of a Laplace loss lie symmetrically about 0, and the offset is the smallest.
    return -sum((factor.multiplicity * factor.offset for factor in factors), Fraction(0))


def greatest_bounds(law: Law) -> Bounds:
    """The largest loss that a composition can have but for failures: infinite if there is none."""
    exact, sampled = Fraction(0), [Bounds(0.0, 0.0)]
    for loss in law:
        match loss:
            case LaplaceLoss():
                exact -= loss.multiplicity * loss.offset
            case ExponentialLoss() | ResponseLoss():
                exact += loss.multiplicity * loss.epsilon
            case SampledLoss():
                bounds = _greatest_of_sample(loss)
                sampled.append(Bounds(bounds.lower * loss.multiplicity, bounds.upper * loss.multiplicity))
            case FailureLoss():
                pass
            case _:
                return Bounds(math.inf, math.inf)
    if len(sampled) == 1:
        return fraction_bounds(exact)
    ends = [fraction_bounds(exact), *sampled]
    # One rounding for the sum; the factor below covers it and the products with multiplicities.
    lower, upper = math.fsum(bounds.lower for bounds in ends), math.fsum(bounds.upper for bounds in ends)
    return Bounds(lower * (1 - 1e-15), upper * (1 + 1e-15))


def _greatest_of_sample(loss: SampledLoss) -> Bounds:
    """ln(1 - q + q exp(b)), or -ln(1 - q + q exp(-b)) for an added record, at the largest b."""
    most = _largest_base(loss.base)
    # A removed record may have been in the sample, whose loss has no end then.
    if most is None and not loss.added:
        return Bounds(math.inf, math.inf)
    with precision(256):
        q, rest = rational(loss.probability), rational(1 - loss.probability)
        # With b without bound, or a failure, exp(-b) falls to 0: only ln(1 - q) is left.
        if loss.added and (loss.failure or most is None):
            return float_bounds(-rest.log())
        assert most is not None
        grown = (rest + q * rational(-most if loss.added else most).exp()).log()
        return float_bounds(-grown if loss.added else grown)


def _largest_base(base: Base | None) -> Fraction | None:
    """The largest loss on the sample, None if there is no largest one."""
    match base:
        case LaplaceLoss():
            return -base.offset
        case ExponentialLoss() | ResponseLoss():
            return base.epsilon
        case None:
            return Fraction(0)
        case _:
            return None
