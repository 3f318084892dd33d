"""Tables the spine commands read: a geography, its entities, points."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.errors import ConfigError

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.geography import EntityFamily, Spine


def read_geography(path: Path, geolevels: Sequence[str], columns: Sequence[str]) -> "Spine":
    """The plain spine of a geography table.

    Args:
        path: Parquet or CSV, one row for each finest geounit.
        geolevels: Names, root first.
        columns: "GEOLEVEL=COLUMN" where the column is not the geolevel's name in small letters (the finest:
            geocode). The first geolevel may be without column: it then is one geounit.

    Raises:
        ConfigError: a column is absent or is no text.
        GeographyError: it is no tree.
    """
    import polars as pl

    from tallyveil.geography import spine_from_columns
    from tallyveil.geography.tables import GEOCODE
    from tallyveil.storage.read import collect, require_text, scan_table

    named = _pairs(columns, "--column", geolevels)
    wanted = {name: named.get(name, GEOCODE if name == geolevels[-1] else name.lower()) for name in geolevels}
    root = geolevels[0]
    # A table of one country seldom has a column for it. Then the root is one geounit with the name of the geolevel.
    if len(geolevels) > 1 and wanted[root] not in _columns_of(path) and root not in named:
        del wanted[root]
    scan = scan_table(path, list(wanted.values()), "geography")
    for column in wanted.values():
        require_text(scan, column, path, "geography")
    table = collect(scan, path, "geography")
    given = {name: table[column] for name, column in wanted.items()}
    if root not in given:
        given[root] = pl.repeat(root, table.height, dtype=pl.String, eager=True)
    return spine_from_columns(given, geolevels)


def read_families(
    path: Path | None,
    spine: "Spine",
    families: Sequence[str],
    geography: Path | None = None,
    *,
    blank: bool = False,
) -> "tuple[EntityFamily, ...]":
    """Families of a table of entities, on a spine.

    Args:
        path: Parquet or CSV with a row for each finest geounit and a column for each family; None for none.
        spine: The spine.
        families: Columns; empty for every column of text that is no geolevel of the spine (`family_columns`).
        geography: Table to take a column from that the table of entities lacks, such as block_group.
        blank: Whether an empty text stands for "in none", as null does; so it does where no columns are named.

    Raises:
        ConfigError: a column is absent, or families without a table.
        GeographyError: the table does not fit the spine.
    """
    import polars as pl

    from tallyveil.geography import entities_from_columns
    from tallyveil.geography.tables import GEOCODE, family_columns, read_assignments
    from tallyveil.storage.read import read_table

    if path is None:
        if families:
            raise ConfigError(
                f"families {', '.join(families)} need a table of entities: give --entities FILE.",
                code="bad-flag",
            )
        return ()
    chosen = list(families) or [name for name in family_columns(path) if name not in spine.geolevels]
    # A family that only the geography table has, such as the block group, is joined by geocode; the order stays.
    beside = [name for name in chosen if geography is not None and name not in _columns_of(path)]
    beside = [name for name in beside if geography is not None and name in _columns_of(geography)]
    in_table = [name for name in chosen if name not in beside]
    table = read_assignments(path, in_table, "entities")
    if beside and geography is not None:
        others = read_table(geography, [GEOCODE, *beside], "geography")
        table = table.join(others, on=GEOCODE, how="left", maintain_order="left")
    if blank or not families:
        table = table.with_columns(pl.col(name).replace("", None) for name in chosen)
    return entities_from_columns(spine, {name: table[name] for name in table.columns}, chosen)


def read_points(path: Path) -> "pl.DataFrame | None":
    """Geocode, latitude and longitude of every block, where the table has them."""
    from tallyveil.geography.tables import COORDINATES, read_assignments

    if not set(COORDINATES) <= set(_columns_of(path)):
        return None
    return read_assignments(path, COORDINATES, "entities")


def weights(given: Sequence[str], known: Sequence[str]) -> dict[str, Fraction]:
    """Exact weights written "NAME" or "NAME=WEIGHT".

    Raises:
        ConfigError: a weight that is no number above 0, or an unknown name.
    """
    from tallyveil.budget.strategy import parse_fraction
    from tallyveil.errors import TallyveilError

    by_name = {}
    for item in given:
        name, _, text = item.partition("=")
        try:
            value = parse_fraction(text or "1", "weight")
        except TallyveilError:
            # Refused below, with the same sentence as a weight of 0.
            value = Fraction(0)
        if not value > 0 or name not in known:
            raise ConfigError(
                f"'{item}' is no name with a weight above 0; wanted NAME or NAME=WEIGHT, where NAME is one of "
                f"{', '.join(known)}.",
                code="bad-flag",
            )
        by_name[name] = value
    return by_name


def _pairs(given: Sequence[str], flag: str, known: Sequence[str]) -> dict[str, str]:
    pairs = dict(item.partition("=")[::2] for item in given)
    wrong = [item for item in given if item.partition("=")[0] not in known or not item.partition("=")[2]]
    if wrong:
        raise ConfigError(
            f"{flag} {wrong[0]}: wanted GEOLEVEL=COLUMN with a geolevel among {', '.join(known)}.",
            code="bad-flag",
        )
    return pairs


def _columns_of(path: Path) -> list[str]:
    from tallyveil.errors import StoreError
    from tallyveil.storage.read import column_names

    try:
        return list(column_names(path, "geography"))
    except StoreError:
        return []  # reading it says what is wrong
