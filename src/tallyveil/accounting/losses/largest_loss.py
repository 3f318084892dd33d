"""The largest loss that a composition can have, if there is one."""

from fractions import Fraction

from tallyveil.accounting.losses.factors import LaplaceLoss, LossFactor


def greatest_loss(factors: tuple[LossFactor, ...]) -> Fraction | None:
    """The largest possible loss: None if a Gaussian factor leaves it unbounded, 0 without any factor."""
    if not all(isinstance(factor, LaplaceLoss) for factor in factors):
        return None
    return -sum((factor.multiplicity * factor.offset for factor in factors), Fraction(0))
