"""Tables that say of each finest geounit in which areas it lies: tables of entities, block assignment files, districts.

A table has a row for each finest geounit, with its geocode and the names of areas. The column of geocodes is called
`geocode`, or as the Census Bureau calls it: BLOCKID, GEOID, GEOID20. Every command that takes such a table reads it
here, so that a file which one command understands is understood by all.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import ConfigError, GeographyError
from tallyveil.printable import present_columns, short_name, some_names
from tallyveil.storage.read import (
    collect,
    column_names,
    require_levels,
    require_text,
    scan_table,
    text_columns,
)

GEOCODE: Final = "geocode"
_BLOCK_NAME: Final = re.compile(
    r"(geocode|blockid|geoid|geoid_tabblock)(_?[1-9]0)?", re.ASCII | re.IGNORECASE
)
"""Names of the column of geocodes, some with the year of the census: BLOCKID, GEOID, GEOID20, GEOID_TABBLOCK_20."""
USUAL: Final = (GEOCODE, "BLOCKID", "GEOID", "GEOID20")
"""The names that messages propose."""


def is_block_name(name: str) -> bool:
    """Whether a column of this name usually holds the geocodes of blocks."""
    return _BLOCK_NAME.fullmatch(name) is not None


def geocode_column(names: Sequence[str], path: Path, what: str, wanted: str = GEOCODE) -> str:
    """The column of finest geocodes of a table.

    Args:
        names: All columns of the table.
        path: The file, for messages.
        what: As in `scan_table`.
        wanted: The column's name. If it is one of the usual names, the other usual names stand for it.
    Raises:
        ConfigError: there is no such column, or several columns could be meant.
    """
    if wanted in names or not is_block_name(wanted):
        return wanted
    usual = [name for name in names if is_block_name(name)]
    if not usual:
        raise ConfigError(
            f"the {what} file {path} lacks the column of finest geocodes. {present_columns(names, USUAL)} Wanted a "
            f"header line in which that column is called {' or '.join(USUAL)}. Add the line, or rename the column.",
            code="column-missing",
        )
    if len(usual) > 1:
        raise ConfigError(
            f"the {what} file {path} has the columns {', '.join(usual)}, so it is not clear which of them holds the "
            f"finest geocodes. Call that column {GEOCODE}, or keep only one of them.",
            code="column-twice",
        )
    return usual[0]


def area_columns(path: Path, what: str, wanted: str = GEOCODE, *, text: bool = True) -> list[str]:
    """The other columns of such a table, in order.

    Args:
        path: The file.
        what: As in `scan_table`.
        wanted: As in `geocode_column`.
        text: Whether only columns of text are given.
    Raises:
        StoreError, ConfigError: the file is missing or unreadable, or it is not clear which column holds the geocodes.
    """
    names = column_names(path, what)
    key = geocode_column(names, path, what, wanted)
    # Also where all columns are wanted: without the key, the first line may be a row and no header.
    texts = text_columns(path, key, what)
    return [name for name in (texts if text else names) if name != key]


def read_assignments(path: Path, columns: Sequence[str], what: str, wanted: str = GEOCODE) -> pl.DataFrame:
    """Read the geocodes of a table, as the column `geocode`, and the columns that name areas.

    Args:
        path: Parquet, or text with commas or `|` between its columns.
        columns: Columns of areas.
        what: As in `scan_table`.
        wanted: As in `geocode_column`.
    Raises:
        ConfigError: a column is missing or occurs twice, or geocodes are not text.
        SchemaError: a column holds lists, structures or bytes.
        StoreError: the file is missing or unreadable.
    """
    key = geocode_column(column_names(path, what), path, what, wanted)
    frame = scan_table(path, [key, *columns], what)
    require_text(frame, key, path, what)
    require_levels(frame, list(columns), path, what)
    return collect(frame, path, what).rename({key: GEOCODE})


@dataclass(frozen=True, slots=True, eq=False)
class Districts:
    """The districts of a file, as sets of finest geocodes.

    Attributes:
        path: The file.
        column: Column that names the district of each finest geounit; None if the file lists the finest geounits of one
            district.
        geocodes: Finest geocodes by the name of the district, in the order of the names. The only district of a file
            without such a column has the name "". Finest geounits for which the column is blank are in no district.
    """

    path: Path
    column: str | None
    geocodes: dict[str, pl.Series]

    def only(self, flag: str) -> pl.Series:
        """The geocodes of the one district of a file that lists no others.

        Args:
            flag: The flag or argument that takes the file, for the message.
        Raises:
            ConfigError: the file is a plan with a column of districts.
        """
        if self.column is not None:
            raise ConfigError(
                f"{flag} takes the finest geounits of one district, and {self.path} names a district for each of them "
                f"in its column {short_name(self.column)}. Write the geocodes of one district to a file of their own.",
                code="district-plan",
            )
        return self.geocodes[""]


def read_districts(path: Path, column: str | None, flag: str) -> Districts:
    """Read one district (a list of geocodes), or a districting plan (a district for each geocode).

    A column that says the same in every row names no districts. A file with a column whose values differ, or are blank
    in some rows, is a plan. It is never read as one district.

    Args:
        path: The file.
        column: Column of the districts; None for the only column whose values differ.
        flag: How a user names the column, such as "--district-column", for messages.
    Raises:
        ConfigError: it is not clear which column names the districts, or there is no such column.
        GeographyError: no district has a geounit, or a geounit is listed twice.
        SchemaError, StoreError: as `read_assignments` raises them.
    """
    what = "district"
    # A column without a name is the index that pandas writes: it numbers the rows. Another column that is called as
    # geocodes are holds those of some other year, and names no districts.
    columns = area_columns(path, what, text=False) if column is None else [column]
    others = [name for name in columns if name and (name == column or not is_block_name(name))]
    table = read_assignments(path, others, what)
    named = {name: _names(table[name]) for name in others}
    if column is None:
        # Blank in some rows counts as a difference: the blank rows are in no district, so the column is a plan.
        differing = [name for name, values in named.items() if values.null_count() or values.n_unique() > 1]
        if len(differing) > 1:
            raise ConfigError(
                f"the district file {path} has the columns {some_names(differing)}, whose values differ, so it is not "
                f"clear which of them names the district of each geounit. Say it with {flag}. If the file lists one "
                "district, leave these columns out.",
                code="district-plan",
            )
        if not differing:
            return Districts(path, None, {"": table[GEOCODE]})
        (column,) = differing
    frame = pl.DataFrame({GEOCODE: table[GEOCODE], what: named[column]})
    # A repeated geocode would put one block into two districts, and its people would count in both.
    if not frame[GEOCODE].is_unique().all():
        twice = frame.filter(pl.col(GEOCODE).is_duplicated())[GEOCODE].drop_nulls()
        raise GeographyError(
            f"the district file {path} lists {twice.n_unique()} geocode(s) more than once"
            f"{f', such as {short_name(str(twice[0]))!r}' if len(twice) else ''}. A finest geounit is in one district "
            "or in none. Keep one row of each.",
            code="district-plan",
        )
    assigned = frame.drop_nulls(what)
    if assigned.is_empty():
        raise GeographyError(
            f"the column {short_name(column)} of the district file {path} is blank in every row, so that there is no "
            "district. Name the district of each finest geounit.",
            code="district-plan",
        )
    parts = assigned.partition_by(what, as_dict=True, include_key=False)
    geocodes = {str(name): part[GEOCODE] for (name,), part in sorted(parts.items(), key=_place)}
    return Districts(path, column, geocodes)


def _place(item: tuple[tuple[object, ...], pl.DataFrame]) -> tuple[int, str]:
    """Key by which districts are sorted: numbers by their value, before all names."""
    name = str(item[0][0])
    # At most nine digits, so that every number is below the 10**9 that stands for all names.
    return (int(name), name) if name.isascii() and name.isdecimal() and len(name) < 10 else (10**9, name)


def _names(values: pl.Series) -> pl.Series:
    """Names of districts as text; null where there is none."""
    if values.dtype.is_float():
        # A table of whole numbers in which some are missing is often stored as decimal numbers, with NaN for none.
        values = values.fill_nan(None)
        whole = values.cast(pl.Int64, strict=False)
        values = whole if (whole == values).all() else values
    return values.cast(pl.String).str.strip_chars().replace("", None)
