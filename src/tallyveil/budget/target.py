"""Budgets stated as a guarantee: the largest rho whose exact epsilon at a delta stays within a target."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from tallyveil.accounting.costs import rho_of
from tallyveil.accounting.zcdp import zcdp_to_epsilon
from tallyveil.budget.strategy import Strategy

if TYPE_CHECKING:
    from tallyveil.accounting.calibration import Calibration

DIGITS = 9
"""Significant decimal digits of the rho found; it is rounded down."""


def rho_for_target(shape: Strategy, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho, to its digits, with which a strategy of this shape meets a target exactly.

    Args:
        shape: Gaussian strategy whose shares count; its total does not.
        epsilon: Target epsilon, above 0.
        delta: Target delta, between 0 and 1.
    Raises:
        BudgetError: a target out of range.
    Privacy: rounded down, so the exact epsilon at delta is at most the target. Under zCDP alone the same
        target would allow a smaller rho (`tallyveil plan` shows both).
    """
    from tallyveil.accounting.calibration import calibrate

    event = replace(shape, total=Fraction(1)).event()
    found = calibrate(event, epsilon=epsilon, delta=delta, neighbours=shape.neighbours, digits=DIGITS + 1)
    exponent = DIGITS - 1 - math.floor(math.log10(float(1 / found.factor)))
    return Fraction(math.floor(Fraction(10) ** exponent / found.factor)) / Fraction(10) ** exponent


def geolevel_savings(strategy: Strategy, delta: Fraction) -> "tuple[tuple[str, Calibration], ...]":
    """For each geolevel, the least noise with which it keeps the epsilon zCDP allows it to claim.

    Args:
        strategy: Gaussian strategy.
        delta: Delta of the epsilons compared.
    Returns:
        (geolevel, calibration): variances times `factor` give exactly what zCDP says of the variances as they are.
    Raises:
        BudgetError: the strategy's noise is not Gaussian, or delta is out of range.
    """
    from tallyveil.accounting.calibration import calibrate

    found = []
    for geolevel in strategy.geolevels:
        event = strategy.geolevel_event(geolevel)
        claimed = zcdp_to_epsilon(rho_of(event), delta)
        found.append(
            (geolevel, calibrate(event, epsilon=claimed, delta=delta, neighbours=strategy.neighbours))
        )
    return tuple(found)
