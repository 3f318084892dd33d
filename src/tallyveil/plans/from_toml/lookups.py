"""Look up names that a release file uses among the geolevels and queries that it defines."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tallyveil.errors import ConfigError
from tallyveil.plans.from_toml.models import EVERY_GEOLEVEL

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
    entries = {}
    for name in geolevels:
        item = table.get(name, table.get(EVERY_GEOLEVEL, default))
        if item is None:
            raise ConfigError(
                f'{where} says nothing of {name}, and has no "*", which stands for all geolevels that are not named. '
                "Add one of the two.",
                code="missing-geolevel",
            )
        entries[name] = item
    return entries
