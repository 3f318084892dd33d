"""Budgets stated as a guarantee: the largest rho whose exact epsilon at a given delta is within a target."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from tallyveil.accounting.costs import rho_of
from tallyveil.accounting.zcdp_curve import ZcdpConversion
from tallyveil.budget.strategy import Strategy

if TYPE_CHECKING:
    from tallyveil.accounting.calibration import Calibration
    from tallyveil.accounting.events import PrivacyEvent

DIGITS = 9
"""Significant decimal digits of the resulting rho, which is rounded down."""


def rho_for_target(shape: Strategy, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho, to nine digits, with which a strategy of this shape meets an exact (epsilon, delta) target.

    Args:
        shape: Gaussian strategy. Its shares are used; its total is not.
        epsilon: Target epsilon, above 0.
        delta: Target delta, between 0 and 1.
    Raises:
        BudgetError: a target is out of range.
    Privacy: the result is rounded down, so the exact epsilon at delta is at most the target. Converting from zCDP alone
        would allow only a smaller rho for the same target (`tallyveil plan` shows both).
    """
    from tallyveil.accounting.calibration import calibrate

    event = replace(shape, total=Fraction(1)).event()
    calibration = calibrate(
        event, epsilon=epsilon, delta=delta, neighbours=shape.neighbours, digits=DIGITS + 1
    )
    exponent = DIGITS - 1 - math.floor(math.log10(float(1 / calibration.factor)))
    return Fraction(math.floor(Fraction(10) ** exponent / calibration.factor)) / Fraction(10) ** exponent


def geolevel_savings(
    strategy: Strategy, delta: Fraction, conversion: ZcdpConversion = ZcdpConversion.BEST
) -> "tuple[tuple[str, Calibration[PrivacyEvent]], ...]":
    """For each geolevel, the smallest noise whose exact epsilon is at most what zCDP alone gives for the present noise.

    Args:
        strategy: Gaussian strategy.
        delta: Delta of the epsilons compared.
        conversion: The conversion of rho that the present noise is accounted for by.
    Returns:
        For each geolevel, its name and a calibration. Its variances are the present ones times `factor`.
    Raises:
        BudgetError: the strategy's noise is not Gaussian, or delta is out of range.
    """
    from tallyveil.accounting.calibration import calibrate

    savings = []
    for geolevel in strategy.geolevels:
        event = strategy.geolevel_event(geolevel)
        claimed = conversion.epsilon(rho_of(event), delta)
        savings.append(
            (geolevel, calibrate(event, epsilon=claimed, delta=delta, neighbours=strategy.neighbours))
        )
    return tuple(savings)
