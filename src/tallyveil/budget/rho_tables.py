"""Budgets that are published as tables of rho by query and geolevel, under `products/`."""

import tomllib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib import resources
from typing import Any

from tallyveil.accounting.neighbours import Neighbours
from tallyveil.budget.fractions import parse_fraction
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError

_FOLDER = resources.files("tallyveil.budget") / "products"


def load_rho_table(name: str) -> dict[str, Any]:
    """The content of a file under `products/`, such as "dhc-persons-us"."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


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
