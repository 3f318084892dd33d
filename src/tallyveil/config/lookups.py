"""Names that a release file uses, looked up in what it defines."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tallyveil.config.models import EVERY_GEOLEVEL
from tallyveil.errors import ConfigError, TallyveilError
from tallyveil.universe.schema import Schema

Item = TypeVar("Item")


def by_geolevel(
    where: str, table: Mapping[str, Item], geolevels: Sequence[str], default: Item | None
) -> dict[str, Item]:
    """What a table says of each geolevel: its own entry, else the entry "*", else the default."""
    unknown = [name for name in table if name not in geolevels and name != EVERY_GEOLEVEL]
    if unknown:
        raise ConfigError(
            f'{where} names {", ".join(unknown)}, no geolevel of the spine and not "*". '
            f"The geolevels are: {', '.join(geolevels)}.",
            code="unknown-geolevel",
        )
    found = {}
    for name in geolevels:
        item = table.get(name, table.get(EVERY_GEOLEVEL, default))
        if item is None:
            raise ConfigError(f'{where} says nothing of {name}, and has no "*".', code="missing-geolevel")
        found[name] = item
    return found


def known_query(schema: Schema, name: str, where: str) -> str:
    """The name, once the schema has a query for it."""
    try:
        schema.query(name)
    except TallyveilError as error:
        raise type(error)(f"{where}: {error}", code=error.code) from None
    return name
