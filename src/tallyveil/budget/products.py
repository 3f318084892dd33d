"""The budgets of the released products of the 2020 Census, query by query, one by one and together.

The redistricting data are strategy presets. The Demographic and Housing Characteristics (DHC) are tables of rho under
`products/`. A person's record is in the persons files only, a housing unit's record in the units files only. What is
together protects populations that differ in one record of each kind.

The Detailed and the Supplemental DHC and the American Community Survey are not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from tallyveil.accounting.costs import rho_of
from tallyveil.accounting.events import InvariantEvent, SequentialEvent
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.budget.presets import load_strategy_preset
from tallyveil.budget.rho_tables import load_rho_table, strategy_of_rho
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import BudgetError

NEIGHBOURS: Final = Neighbours.BOUNDED
"""One record changes its value: the relation of all these products."""

# Names of the strategy presets, and the published epsilons.
_REDISTRICTING: Final[Mapping[str, tuple[str, str, str]]] = MappingProxyType(
    {
        "redistricting-persons-us": ("redistricting-us", "person", "17.14"),
        "redistricting-persons-pr": ("redistricting-state-rooted", "person", "17.14"),
        "redistricting-units-us": ("redistricting-units-us", "housing unit", "2.47"),
        "redistricting-units-pr": ("redistricting-units-state-rooted", "housing unit", "2.47"),
    }
)
_UNITS_BY_BLOCK: Final = "the number of housing units and of group quarters of each type in every block"
_INVARIANTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "person": ("the number of persons in every state", _UNITS_BY_BLOCK),
        "housing unit": (_UNITS_BY_BLOCK,),
    }
)
_DHC: Final = ("dhc-persons-us", "dhc-persons-pr", "dhc-units-us", "dhc-units-pr")
_TOGETHER: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        f"{records}-{area}": tuple(
            f"{product}-{kind}-{area}" for kind in kinds for product in ("redistricting", "dhc")
        )
        for records, kinds in (
            ("all-persons", ("persons",)),
            ("all-units", ("units",)),
            ("all", ("persons", "units")),
        )
        for area in ("us", "pr")
    }
)

DELTA: Final = Fraction(1, 10**10)
"""The delta at which the Census Bureau states epsilon."""


@dataclass(frozen=True, slots=True)
class CensusProduct:
    """Noise that was released, as exact shares of a budget.

    Attributes:
        name: Name for `load_product`.
        summary: What it is.
        source: Where its numbers come from.
        record: What changes its value between neighbours.
        published_epsilon: Epsilon at DELTA as published; None for products together.
        strategies: The division of each budget in it.
        invariants: What is published exactly; neighbours agree on it.
    """

    name: str
    summary: str
    source: str
    record: str
    published_epsilon: Fraction | None
    strategies: tuple[Strategy, ...]
    invariants: tuple[str, ...]

    @property
    def event(self) -> SequentialEvent:
        """What was measured, a query group at a geolevel each, and what is published exactly."""
        measured = (event for strategy in self.strategies for event in strategy.events())
        return SequentialEvent((*measured, *map(InvariantEvent, self.invariants)))

    @property
    def rho(self) -> Fraction:
        """Its zCDP cost."""
        return rho_of(self.event)

    @property
    def n_budgets(self) -> int:
        """Number of query groups with a budget, over all geolevels."""
        return sum(
            len(strategy.queries(level)) for strategy in self.strategies for level in strategy.geolevels
        )


def product_names() -> tuple[str, ...]:
    """Names of all products, single ones first."""
    return (*_REDISTRICTING, *_DHC, *_TOGETHER)


def load_product(name: str) -> CensusProduct:
    """The budget of a released product, or of several together.

    Args:
        name: Such as "dhc-units-us", or "all-us" for all four files of the fifty states and DC.

    Raises:
        BudgetError: there is no such product.
    """
    if name in _TOGETHER:
        return _together(name, tuple(load_product(part) for part in _TOGETHER[name]))
    if name in _REDISTRICTING:
        preset_name, record, epsilon = _REDISTRICTING[name]
        preset = load_strategy_preset(preset_name)
        return CensusProduct(
            name,
            preset.summary,
            preset.source,
            record,
            Fraction(epsilon),
            (preset.strategy,),
            _INVARIANTS[record],
        )
    if name in _DHC:
        return _dhc(name)
    raise BudgetError(
        f"no released product '{name:.80}'; there are {', '.join(product_names())}. Use one of these names."
    )


def _together(name: str, parts: tuple[CensusProduct, ...]) -> CensusProduct:
    return CensusProduct(
        name=name,
        summary="together: " + "; ".join(part.summary for part in parts),
        source="; ".join(dict.fromkeys(part.source for part in parts)),
        record=" and one ".join(dict.fromkeys(part.record for part in parts)),
        published_epsilon=None,
        strategies=tuple(strategy for part in parts for strategy in part.strategies),
        invariants=tuple(dict.fromkeys(invariant for part in parts for invariant in part.invariants)),
    )


def _dhc(name: str) -> CensusProduct:
    table = load_rho_table(name)
    return CensusProduct(
        name=name,
        summary=table["summary"],
        source=table["source"],
        record=table["record"],
        published_epsilon=Fraction(table["epsilon"]),
        strategies=(strategy_of_rho(name, table),),
        invariants=_INVARIANTS[table["record"]],
    )
