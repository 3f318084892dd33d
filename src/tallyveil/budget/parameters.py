"""Privacy parameters of a strategy, query by query, geolevel by geolevel and together: what its accuracy costs."""

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from tallyveil.accounting.costs import epsilon_of, rho_of
from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import PrivacyEvent
from tallyveil.budget.strategy import Mechanism, Strategy

if TYPE_CHECKING:
    from tallyveil.accounting.parameters import PrivacyParameters

TOGETHER: Final = "all geolevels"
"""Name of the row that is about the whole strategy."""

_SLOWEST: Final = "gridded"
"""The engine that is left for losses without a common lattice if no faster one takes them: seconds for each number."""


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
        parameters (`accounting/parameters.py`). The accountant is "exact", or "zcdp" or "pure" where the parameters
        follow from the cost alone: it is not the strategy's, or only the slowest engine takes the losses.
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
    from tallyveil.accounting.composition import compose
    from tallyveil.accounting.parameters import exact_parameters

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
    from tallyveil.accounting.parameters import pure_parameters, zcdp_parameters

    if mechanism is Mechanism.DISCRETE_GAUSSIAN:
        accountant, parameters = "zcdp", zcdp_parameters(cost)
    else:
        accountant, parameters = "pure", pure_parameters(fraction_bounds(cost).upper)
    return {"spent": str(cost), "accountant": accountant, **parameters.to_mapping()}


def _row(
    strategy: Strategy, name: str, event: PrivacyEvent, spent: Fraction | None, with_mu: bool
) -> dict[str, Any]:
    from tallyveil.accounting.composition import compose
    from tallyveil.accounting.parameters import exact_parameters

    gaussian = strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN
    cost = rho_of(event) if gaussian else epsilon_of(event)
    if spent is not None and spent != cost:
        return cost_parameters(strategy, spent, name)
    guarantee = compose(event, neighbours=strategy.neighbours)
    if _SLOWEST in guarantee.engines:
        return cost_parameters(strategy, cost, name)
    parameters = exact_parameters(guarantee, with_mu=with_mu)
    return {"geolevel": name, "spent": str(cost), "accountant": "exact", **parameters.to_mapping()}
