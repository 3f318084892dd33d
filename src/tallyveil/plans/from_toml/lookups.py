"""Look up names that a release file uses among the geolevels and queries that it defines."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tallyveil.errors import ConfigError, TallyveilError
from tallyveil.plans.from_toml.models import EVERY_GEOLEVEL
from tallyveil.schema.schema import Schema

Item = TypeVar("Item")


def by_geolevel(
    where: str, table: Mapping[str, Item], geolevels: Sequence[str], default: Item | None
) -> dict[str, Item]:
    """The entry of a table for each geolevel: the geolevel's own, else the entry "*", else the default.

    Raises:
        ConfigError: the table names an unknown geolevel, or a geolevel has no entry and there is no default.
    """
    unknown = [name for name in table if name not in geolevels and name != EVERY_GEOLEVEL]
    if unknown:
        raise ConfigError(
            f'{where} names {", ".join(unknown)}, which is neither a geolevel of the spine nor "*". The geolevels '
            f"are: {', '.join(geolevels)}.",
            code="unknown-geolevel",
        )
    found = {}
    for name in geolevels:
        item = table.get(name, table.get(EVERY_GEOLEVEL, default))
        if item is None:
            raise ConfigError(
                f'{where} says nothing of {name}, and has no "*", which stands for all geolevels that are not named. '
                "Add one of the two.",
                code="missing-geolevel",
            )
        found[name] = item
    return found


def known_query(schema: Schema, name: str, where: str) -> str:
    """Return the name of a query unchanged, after a check that the schema has this query."""
    try:
        schema.query(name)
    except TallyveilError as error:
        raise type(error)(f"{where}: {error}", code=error.code) from None
    return name


def partition_query(schema: Schema, name: str, where: str) -> str:
    """Return the name of a query unchanged, after a check that the schema has it and that its groups do not overlap.

    Raises:
        ConfigError: groups overlap.
        SchemaError: the schema has no such query.
    """
    if schema.query(known_query(schema, name, where)).overlaps:
        raise ConfigError(
            f"{where}: groups of the query '{name}' overlap, so that a record counts in several of its answers. Such "
            "a query may be measured and published. It may not be rounded, bounded, kept exact or drawn on a lattice. "
            "Name a query whose groups do not overlap.",
            code="overlapping-query",
        )
    return name
