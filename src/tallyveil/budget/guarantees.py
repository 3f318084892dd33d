"""What a strategy guarantees, query by query and together, and the largest rho within a stated guarantee.

A target is a stated guarantee: epsilon at a delta. The largest rho is the one whose exact epsilon at this
delta is within it.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tallyveil.accounting.costs import epsilon_of, rho_of
from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import PrivacyEvent
from tallyveil.accounting.renyi import ZcdpConversion
from tallyveil.budget.strategy import Mechanism, Strategy

if TYPE_CHECKING:
    from tallyveil.accounting.calibration import Calibration
    from tallyveil.accounting.guarantee import PrivacyParameters

TOGETHER: Final = "all geolevels"
"""Name of the row that is about the whole strategy."""

_UPPER_ALONE: Final = "renyi"
"""The engine that is left if no other one takes the losses. It has upper bounds alone, as the cost by itself gives."""


def strategy_parameters(
    strategy: Strategy, spent: Mapping[str, Fraction] = MappingProxyType({}), *, with_mu: bool = True
) -> list[dict[str, Any]]:
    """Epsilon at three deltas, beta and mu of each geolevel alone and of all together.

    Args:
        strategy: What is measured.
        spent: What a geolevel, or TOGETHER, really costs, where this may differ from the strategy: bypassing moves
            budget between geolevels, and noise on the lattice of invariants adds to the whole.
        with_mu: Whether mu is computed, which takes from a tenth of a second to two seconds each.

    Returns:
        A row for each geolevel and one for TOGETHER: `geolevel`, `spent` (exact, as text), `accountant` and the
        parameters (`accounting/guarantee.py`). The accountant is "exact", or "zcdp" or "pure" where the parameters
        follow from the cost alone: it is not the strategy's, or only upper bounds are known.
    """
    events: list[tuple[str, PrivacyEvent]] = [
        (name, strategy.geolevel_event(name)) for name in strategy.geolevels
    ]
    events.append((TOGETHER, strategy.event()))
    return [_row(strategy, name, event, spent.get(name), with_mu) for name, event in events]


def query_parameters(
    strategy: Strategy, *, with_mu: bool = False
) -> "dict[tuple[str, str], PrivacyParameters]":
    """The parameters of every query group at every geolevel by itself, before anything is composed.

    Args:
        strategy: What is measured.
        with_mu: Whether mu is computed.

    Returns:
        By geolevel and query. Query groups with the same noise are computed once.
    """
    from tallyveil.accounting.guarantee import compose, exact_parameters

    @cache
    def of(event: PrivacyEvent) -> "PrivacyParameters":
        return exact_parameters(compose(event, neighbours=strategy.neighbours), with_mu=with_mu)

    places = [(geolevel, query) for geolevel in strategy.geolevels for query in strategy.queries(geolevel)]
    return {place: of(event) for place, event in zip(places, strategy.events(), strict=True)}


def cost_parameters(strategy: Strategy, cost: Fraction | None = None, name: str = TOGETHER) -> dict[str, Any]:
    """A row of parameters that follow from the cost alone, whatever the measurements that it pays for.

    Args:
        strategy: Its mechanism says what the cost is in.
        cost: The cost; without it, the strategy's total.
        name: What costs this.
    """
    spent = strategy.total if cost is None else cost
    return {"geolevel": name, **parameters_of_cost(strategy.mechanism, spent)}


def parameters_of_cost(mechanism: Mechanism, cost: Fraction) -> dict[str, Any]:
    """What a cost is, by which accountant, and the parameters that follow from it alone.

    Args:
        mechanism: Determines whether the cost is rho (Gaussian) or epsilon (Laplace).
        cost: The cost.
    """
    from tallyveil.accounting.guarantee import pure_parameters, zcdp_parameters

    if mechanism is Mechanism.DISCRETE_GAUSSIAN:
        accountant, parameters = "zcdp", zcdp_parameters(cost)
    else:
        accountant, parameters = "pure", pure_parameters(fraction_bounds(cost).upper)
    return {"spent": str(cost), "accountant": accountant, **parameters.to_mapping()}


def _row(
    strategy: Strategy, name: str, event: PrivacyEvent, spent: Fraction | None, with_mu: bool
) -> dict[str, Any]:
    from tallyveil.accounting.guarantee import compose, exact_parameters

    gaussian = strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN
    cost = rho_of(event) if gaussian else epsilon_of(event)
    if spent is not None and spent != cost:
        return cost_parameters(strategy, spent, name)
    guarantee = compose(event, neighbours=strategy.neighbours)
    if _UPPER_ALONE in guarantee.engines:
        return cost_parameters(strategy, cost, name)
    parameters = exact_parameters(guarantee, with_mu=with_mu)
    return {"geolevel": name, "spent": str(cost), "accountant": "exact", **parameters.to_mapping()}


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
