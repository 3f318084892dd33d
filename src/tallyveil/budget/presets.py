"""Budgets that come with the package: strategies, tables of rho, and the products of the 2020 Census.

Strategies are TOML files of exact fractions under `presets/`; the redistricting data are such strategies. The
Demographic and Housing Characteristics (DHC) are tables of rho by query and geolevel under `products/`. A person's
record is in the persons files only, a housing unit's record in the units files only; what is together protects
populations that differ in one record of each kind. The Detailed and the Supplemental DHC and the American Community
Survey are not here.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from types import MappingProxyType
from typing import Any, Final, Literal

from tallyveil.accounting.costs import rho_of
from tallyveil.accounting.events import InvariantEvent, Neighbours, SequentialEvent
from tallyveil.budget.outer_pass import OuterPass
from tallyveil.budget.strategy import Mechanism, Strategy, parse_fraction
from tallyveil.declared import adapter_of
from tallyveil.errors import BudgetError

_PRODUCTS_FOLDER = resources.files("tallyveil.budget") / "products"


def load_rho_table(name: str) -> dict[str, Any]:
    """The content of a file under `products/`, such as "dhc-persons-us"."""
    return tomllib.loads((_PRODUCTS_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def strategy_of_rho(
    name: str,
    table: Mapping[str, Any],
    merged: Mapping[str, Sequence[str]] | None = None,
    more: Mapping[str, Mapping[str, str]] | None = None,
) -> Strategy:
    """The shares of the total that a table of rho by query and geolevel states.

    Args:
        name: Name of the table, for messages.
        table: Content of the file.
        merged: For each geolevel of the strategy, root first, the geolevels of the table whose rho it gets; together
            they name every geolevel of the table once. None for the geolevels of the table themselves.
        more: For each geolevel of the strategy, rho of queries that the table does not have. It comes on top.
    Raises:
        BudgetError: `merged` leaves out a geolevel of the table or names one twice, or a number is no fraction.
    """
    parts = merged or {geolevel: [geolevel] for geolevel in table["geolevels"]}
    if sorted(named for names in parts.values() for named in names) != sorted(table["geolevels"]):
        raise BudgetError(
            f"{name}: the geolevels that get the budgets are {dict(parts)}; wanted every geolevel of "
            f"{', '.join(table['geolevels'])} once. A geolevel that is left out would lose its budget."
        )
    unit, total = (parse_fraction(table[key], f"{name}: {key}") for key in ("unit", "total"))
    places = {geolevel: place for place, geolevel in enumerate(table["geolevels"])}
    rho = {
        geolevel: {
            query: unit * sum(row[places[named]] for named in names)
            for query, row in table["queries"].items()
        }
        for geolevel, names in parts.items()
    }
    for geolevel, queries in (more or {}).items():
        added = {
            query: parse_fraction(cost, f"{name}: {geolevel}.{query}") for query, cost in queries.items()
        }
        rho[geolevel] |= added
        total += sum(added.values())
    sums = {geolevel: sum(queries.values(), Fraction(0)) for geolevel, queries in rho.items()}
    return Strategy(
        Mechanism.DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        total,
        tuple((geolevel, cost / total) for geolevel, cost in sums.items()),
        tuple(
            (geolevel, tuple((query, cost / sums[geolevel]) for query, cost in queries.items()))
            for geolevel, queries in rho.items()
        ),
    )


_FOLDER = resources.files("tallyveil.budget") / "presets"
_ALL_OTHERS = "*"

Steps = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class StrategyPreset:
    """A named strategy, with the order in which its measurements are turned into counts.

    Attributes:
        name: Name for `load_strategy_preset`.
        summary: One sentence that says what it is.
        source: Where its numbers come from.
        strategy: The division of the budget.
        delta: Delta at which the preset's epsilon is quoted.
        passes: For each geolevel, the measured queries of each least-squares pass, in order. Every measured query is
            in exactly one pass.
        slack: Number of persons by which later passes may change the answers of earlier ones.
        rounding: For each geolevel, the queries of each rounding stage, in order. They are nested, and need not be
            measured.
        spine: Name of the preset of the spine that production measured on, or of the most similar preset; None for a
            strategy that production did not use.
        rounding_target: What rounded answers should be close to: the estimates, or the integers nearest to them.
        values: What families above the finest geolevel are fitted to: each geounit's noisy answers ("own"), or
            estimates from everything measured in or below it ("tree").
        outer: Outer passes over the whole spine; none where each geolevel is finished before the next.
    """

    name: str
    summary: str
    source: str
    strategy: Strategy
    delta: Fraction
    passes: tuple[tuple[str, Steps], ...]
    slack: Fraction
    rounding: tuple[tuple[str, Steps], ...]
    spine: str | None
    rounding_target: Literal["fraction", "nearest"]
    values: Literal["own", "tree"]
    outer: tuple[OuterPass, ...] = ()


def strategy_preset_names() -> tuple[str, ...]:
    """Names of the presets, sorted."""
    files = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def load_strategy_preset(name: str) -> StrategyPreset:
    """Read a strategy that comes with the package.

    Args:
        name: For persons: "redistricting-us" (six geolevels from US), "redistricting-us-from-state" (five of them,
            with the same variances) or "redistricting-state-rooted" (five geolevels from State). There are presets for
            housing units, and for the Demographic and Housing Characteristics, too. `strategy_preset_names` lists all
            names.

    Raises:
        BudgetError: there is no such preset.
    """
    known = strategy_preset_names()
    if name not in known:
        raise BudgetError(
            f"there is no strategy preset '{name}'; there are {', '.join(known)}. Use one of these names."
        )
    table = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    strategy = _strategy(name, table)
    outer = tuple(adapter_of(OuterPass).validate_python(entry) for entry in table.get("outer", ()))
    table = {**_in_outer_passes(outer, strategy.geolevels), **table}
    return StrategyPreset(
        name=name,
        summary=table["summary"],
        source=table["source"],
        strategy=strategy,
        delta=parse_fraction(table["delta"], f"{name}: delta"),
        passes=tuple((level, _measured_steps(name, table, strategy, level)) for level in strategy.geolevels),
        slack=parse_fraction(table["slack"], f"{name}: slack"),
        rounding=tuple((level, _steps(table["rounding"][level])) for level in strategy.geolevels),
        spine=table.get("spine"),
        rounding_target=table["rounding_target"],
        values=table["values"],
        outer=outer,
    )


def _in_outer_passes(outer: tuple[OuterPass, ...], geolevels: Sequence[str]) -> dict[str, Any]:
    """The settings of single geolevels that outer passes leave without effect; nothing if there are no outer passes."""
    if not outer:
        return {}
    chains = [[*outer_pass.rounding, outer_pass.cells] for outer_pass in outer]
    return {
        "passes": {key: [[_ALL_OTHERS]] for key in geolevels},
        "slack": "0",
        "rounding": dict.fromkeys(geolevels, chains),
        "rounding_target": "fraction",
        "values": "own",
    }


def _strategy(name: str, table: Mapping[str, Any]) -> Strategy:
    if "product" in table:
        product = load_rho_table(table["product"])
        return strategy_of_rho(name, product, table.get("geolevels"), table.get("more_rho"))
    return Strategy(
        mechanism=Mechanism(table["mechanism"]),
        neighbours=Neighbours(table["neighbours"]),
        total=parse_fraction(table["total"], f"{name}: total"),
        geolevel_shares=_shares(table["geolevel_shares"], f"{name}: geolevel_shares"),
        query_shares=tuple(
            (geolevel, _shares(shares, f"{name}: query_shares.{geolevel}"))
            for geolevel, shares in table["query_shares"].items()
        ),
    )


def _shares(table: Mapping[str, Any], where: str) -> tuple[tuple[str, Fraction], ...]:
    return tuple((name, parse_fraction(share, f"{where}.{name}")) for name, share in table.items())


def _steps(lists: list[list[str]]) -> Steps:
    return tuple(tuple(names) for names in lists)


def _measured_steps(name: str, table: Mapping[str, Any], strategy: Strategy, geolevel: str) -> Steps:
    """Passes of a geolevel, with "*" replaced by every measured query that no other pass names."""
    steps = _steps(table["passes"][geolevel])
    named = {query for step in steps for query in step}
    others = tuple(query for query in strategy.queries(geolevel) if query not in named)
    expanded = tuple(
        tuple(query for entry in step for query in (others if entry == _ALL_OTHERS else (entry,)))
        for step in steps
    )
    in_passes = sorted(query for step in expanded for query in step)
    if in_passes != sorted(strategy.queries(geolevel)):
        raise BudgetError(
            f"{name}: the estimation passes of {geolevel} use {', '.join(in_passes)}; wanted every measured query "
            f'once: {", ".join(sorted(strategy.queries(geolevel)))}. Name each in one pass, or write "*" for the '
            "rest."
        )
    return expanded


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
