"""Tables with a row for each finest geounit: the areas in which it lies, families of entities, and whole spines.

The column of geocodes is called `geocode`, or as the Census Bureau calls it: BLOCKID, GEOID, GEOID20. Every
command that takes a table of areas (entities, block assignment files, districts) reads it here, so that a
file which one command understands is understood by all.

A spine as a Parquet file has one column of geocodes for each geolevel.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import ConfigError, GeographyError, StoreError
from tallyveil.exact import fraction_of
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import GeounitShares, Spine, TextColumn, text_column
from tallyveil.printable import present_columns, short_name, some_names
from tallyveil.schema.names import check_name
from tallyveil.storage.read import (
    UNREADABLE,
    collect,
    column_names,
    names_of_tag,
    parquet_columns,
    parquet_metadata,
    published_tags,
    require_levels,
    require_text,
    scan_table,
    text_columns,
)
from tallyveil.storage.write import write_parquet

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
        SchemaError: a column holds lists, structures, bytes or durations.
        StoreError: the file is missing or unreadable.
    """
    key = geocode_column(column_names(path, what), path, what, wanted)
    frame = scan_table(path, [key, *columns], what)
    require_text(frame, key, path, what)
    require_levels(frame, list(columns), path, what)
    return collect(frame, path, what).rename({key: GEOCODE})


def read_public_numbers(
    path: Path, spine: Spine, most: int, beside: Sequence[str] = ()
) -> tuple[tuple[str, ...], Floats]:
    """Read public numbers of every finest geounit, such as housing units: all columns but that of the geocodes.

    Args:
        path: Parquet, or text with commas or `|` between its columns.
        spine: The spine that has the finest geounits.
        most: Largest number of columns, with those of other files.
        beside: Names of the numbers from other files.
    Returns:
        Names of the columns, and their numbers in the spine's order; shape (finest geounits, columns).
    Raises:
        ConfigError: there are no such columns or too many, a number is missing, negative or not finite, or all numbers
            of a column are alike; or as `read_assignments` raises it.
        GeographyError: a finest geounit has no row or two, or a row has a geocode that is not on the spine.
        SchemaError: files and pages cannot show the name of a column.
        StoreError: the file is missing or unreadable.
    """
    what = "covariates"
    names = tuple(area_columns(path, what, text=False))
    if not 1 <= len(names) <= most - len(beside):
        counted = f", counting the {some_names(beside)} from another file" if beside else ""
        raise ConfigError(
            f"the {what} file {path} has {len(names)} columns besides the geocodes, wanted 1 to {most}{counted}. Every "
            "such column enters the model: keep only columns that say how many people live in a finest geounit.",
            code="draws-covariates",
        )
    for name in names:
        check_name(name, "covariate")
    table = read_assignments(path, names, what)
    rows = _rows_on(spine, table[GEOCODE], f"the {what} file {path}")
    times = np.bincount(rows, minlength=spine.n_geounits(spine.finest))
    if (times != 1).any():
        place = int(np.argmax(times != 1))
        raise GeographyError(
            f"{int((times != 1).sum()):,} finest geounits have no row, or more than one, in the {what} file {path}, "
            f"such as {spine.geolevels[-1]} '{spine.geocodes[-1][place]}'. Give every finest geounit one row, also if "
            "nobody lives there.",
            code="draws-covariates",
        )
    numbers = np.empty((len(rows), len(names)))
    for column, name in enumerate(names):
        # By way of text: dates and truth values are no numbers.
        values = table[name].cast(pl.String).cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
        if wrong := int((~((values >= 0) & np.isfinite(values))).sum()):
            raise ConfigError(
                f"{wrong:,} rows of column '{name}' of the {what} file {path} have no number, or a number that is "
                "negative or infinite; wanted a number of 0 or more. Leave out a column that is not known everywhere.",
                code="draws-covariates",
            )
        if (values == values[0]).all():
            raise ConfigError(
                f"all numbers in column '{name}' of the {what} file {path} are alike, so that they say nothing of "
                "any finest geounit. Leave the column out.",
                code="draws-covariates",
            )
        numbers[rows, column] = values
    return names, numbers


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


# Ending of a column that holds the readable name of what the column without it holds the code of.
NAMES = "_name"
# A table of the Bureau gives each block an internal point; as text in a CSV it would look like names of areas.
COORDINATES = ("latitude", "longitude")


def entities_from_columns(
    spine: Spine, columns: Mapping[str, Any], families: Sequence[str], geocode: str = "geocode"
) -> tuple[EntityFamily, ...]:
    """Disjoint families. For each family, one column names the entity of every finest geounit.

    Args:
        spine: The spine of the families.
        columns: Columns of equal length by name, with one row for each finest geounit, in any order. Those that are
            read are text, as `text_column` takes it. Other columns are ignored.
        families: Columns to read. A null means that the finest geounit is in no entity.
        geocode: Name of the column of finest geocodes.

    Raises:
        GeographyError: a column is missing or has another length, an entity has no name, a geocode is null, repeated or
            not on the spine, or a finest geounit of the spine has no row.
    """
    absent = [name for name in (geocode, *families) if name not in columns]
    if absent:
        raise GeographyError(
            f"the entity table has no column {some_names(absent)}. "
            f"{present_columns(tuple(columns), (geocode, *families))} Correct the names of the "
            "columns, or add the column.",
            code="entity-table",
        )
    codes = text_column(columns[geocode], f"column {geocode} of the entity table")
    rows = _rows_on(spine, codes, "the entity table")
    _refuse_repeated_rows(spine, codes, rows)
    # Every row is on the spine and none is repeated here, so that fewer rows than geounits means that some have none.
    if len(rows) < spine.n_geounits(spine.finest):
        raise _without_row(spine, rows)
    entity_families = []
    for name in families:
        entity = text_column(columns[name], f"column {name} of the entity table")
        if len(entity) != len(rows):
            raise GeographyError(
                f"column {name} of the entity table has {len(entity)} rows, column {geocode} has {len(rows)}. "
                "Give every finest geounit one row.",
                code="entity-table",
            )
        given = entity.is_not_null()
        entity_families.append(_family(spine, name, rows[given.to_numpy()], entity.filter(given)))
    return tuple(entity_families)


def family_columns(path: Path, geocode: str = GEOCODE) -> tuple[str, ...]:
    """Columns of a table of finest geounits that can name entities: the text columns, in order.

    Excluded are the geocode, the coordinates of a point (in a CSV file every column is text), and a column such as
    `place_name` if there is a column `place`, because both name the same entities.

    Raises:
        StoreError, ConfigError: the file is missing or unreadable, or it is not clear which column holds the geocodes.
    """
    known = area_columns(path, "entities", geocode)
    beside = {name.removesuffix(NAMES) for name in known if name.endswith(NAMES)} & set(known)
    left_out = {*COORDINATES, *(name + NAMES for name in beside)}
    return tuple(name for name in known if name not in left_out)


def entities_from_pairs(
    spine: Spine, name: str, geocodes: TextColumn, entities: TextColumn, *, disjoint: bool = False
) -> EntityFamily:
    """One family in long form: one row for each finest geounit of each entity. Entities may overlap.

    Args:
        spine: The spine of the family.
        name: Name of the family.
        geocodes: Finest geocode of each row.
        entities: Entity of each row.
        disjoint: If true, refuse a finest geounit in two entities.

    Raises:
        GeographyError: columns have different lengths, a name is missing, a geocode is null or not on the spine, a row
            is repeated, or entities overlap although `disjoint` is set.
    """
    codes = text_column(geocodes, f"geocodes of entity family {name}")
    entity = text_column(entities, f"entities of entity family {name}")
    if len(codes) != len(entity):
        raise GeographyError(
            f"entity family {name} has {len(codes)} geocodes and {len(entity)} entities. Give pairs: as many of one "
            "as of the other.",
            code="entity-table",
        )
    if entity.null_count():
        raise GeographyError(
            f"{entity.null_count()} rows of entity family {name} name no entity. "
            "Leave out the finest geounits that are in none.",
            code="entity-table",
        )
    rows = _rows_on(spine, codes, f"entity family {name}")
    pairs = pl.DataFrame({"row": rows, "geocode": codes, "entity": entity})
    _refuse_repeated_pairs(name, pairs)
    if disjoint:
        _refuse_overlap(name, pairs)
    return _family(spine, name, rows, entity)


def _family(spine: Spine, name: str, rows: Integers, entity: pl.Series) -> EntityFamily:
    if bool((entity == "").any()):
        raise GeographyError(
            f"entity family {name} has an entity whose name is empty. Name it, or write null for 'in none'.",
            code="entity-table",
        )
    # Sorted by code point, as `EntityFamily` wants its names; the order of the rows of the table has no effect.
    codes = entity.unique().sort()
    place = pl.DataFrame({"entity": codes, "index": np.arange(len(codes), dtype=np.int64)})
    index = pl.DataFrame({"entity": entity}).join(place, on="entity", how="left", maintain_order="left")[
        "index"
    ]
    entity_of = index.to_numpy()
    # By entity first, then by row: the members of an entity are neighbours and rise.
    order = np.lexsort((rows, entity_of))
    counts = np.bincount(entity_of, minlength=len(codes))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    n_finest = spine.n_geounits(spine.finest)
    return EntityFamily(name, tuple(codes.to_list()), offsets, rows[order], n_finest)


def _rows_on(spine: Spine, codes: pl.Series, where: str) -> Integers:
    # A null and an unknown geocode are both -1, and both are refused here.
    rows = spine.locate(spine.finest, codes)
    lost = codes.filter(pl.Series(rows < 0))
    if len(lost):
        examples = [f"'{short_name(code)}'" for code in lost.drop_nulls().unique().sort().head(3).to_list()]
        # Where no geocode is known, these may be no geocodes at all, such as the lines of a file of records.
        shown = (
            f", such as {', '.join(examples) or 'null'}" if len(lost) < len(codes) else ", and no row has one"
        )
        raise GeographyError(
            f"{len(lost)} rows of {where} have a geocode that is not the geocode of a {spine.geolevels[-1]} of the "
            f"spine{shown}. Use geocodes of the same year as the spine, as text, and leave other rows out.",
            code="entity-geocode",
        )
    return rows


def _refuse_repeated_rows(spine: Spine, codes: pl.Series, rows: NDArray[np.int64]) -> None:
    repeated = codes.filter(codes.is_duplicated())
    if len(repeated):
        raise GeographyError(
            f"{repeated.n_unique()} finest geounits have more than one row in the entity table, such as "
            f"{spine.geolevels[-1]} '{repeated.sort()[0]}': it would be in two entities of a family. Give each "
            "finest geounit one row, or read overlapping families from a table with a row for each pair of a "
            "geocode and an entity.",
            code="entity-overlap",
        )


def _without_row(spine: Spine, rows: NDArray[np.int64]) -> GeographyError:
    seen = np.zeros(spine.n_geounits(spine.finest), dtype=np.bool_)
    seen[rows] = True
    lost = np.flatnonzero(~seen)
    return GeographyError(
        f"{len(lost)} finest geounits of the spine have no row in the entity table, such as {spine.geolevels[-1]} "
        f"'{spine.geocodes[-1][int(lost[0])]}'. Add a row for each; where it lies in no entity, leave the entity "
        "null.",
        code="entity-geocode",
    )


def _refuse_repeated_pairs(name: str, pairs: pl.DataFrame) -> None:
    twice = pairs.filter(pl.struct("row", "entity").is_duplicated()).sort("row", "entity")
    if len(twice):
        raise GeographyError(
            f"entity family {name} lists {twice.n_unique()} pairs more than once, such as geocode "
            f"'{twice['geocode'][0]}' in entity '{twice['entity'][0]}'. Keep one row of each.",
            code="entity-table",
        )


def _refuse_overlap(name: str, pairs: pl.DataFrame) -> None:
    shared = pairs.filter(pl.col("row").is_duplicated()).sort("row", "entity")
    if len(shared):
        raise GeographyError(
            f"entity family {name} is to be disjoint, but {shared['row'].n_unique()} finest geounits are in more "
            f"than one entity: '{shared['geocode'][0]}' is in '{shared['entity'][0]}' and '{shared['entity'][1]}'. "
            "Put each finest geounit into one entity, or allow overlaps.",
            code="entity-overlap",
        )


# Columns of shares and of geocodes stand side by side; no geolevel's name may begin so (`schema.names`).
SHARE = "share."
GEOLEVELS_TAG = "tallyveil.geolevels"
AIMED_TAG = "tallyveil.aimed"


def write_spine(
    path: Path, spine: Spine, shares: GeounitShares | None = None, aimed: Sequence[str] = ()
) -> None:
    """Write a spine, with the exact share of every geounit if shares are given.

    The columns are the geolevels, root first. Shares are in columns `share.<geolevel>`, as text such as "104/4099". The
    file's metadata lists the families and geolevels (`aimed`) for which the groups were chosen.

    Raises:
        StoreError: the file cannot be written.
    """
    # Each geocode is repeated for every finest geounit below it; dictionary encoding makes that cheap in Parquet.
    columns = [
        codes.text.gather(spine.ancestors(level)).alias(spine.geolevels[level])
        for level, codes in enumerate(spine.geocodes)
    ]
    if shares is not None:
        columns += [
            share_texts(shares, level).gather(spine.ancestors(level)).alias(SHARE + name)
            for level, name in enumerate(spine.geolevels)
        ]
    write_parquet(
        path,
        pl.DataFrame(columns),
        {"geolevels": json.dumps(list(spine.geolevels)), "aimed": json.dumps(list(aimed))},
    )


def read_spine_file(path: Path) -> tuple[Spine, GeounitShares | None]:
    """Read a spine and its shares; the shares are None if the file has none.

    Raises:
        StoreError: the file is missing or unreadable, or is not a spine.
        GeographyError: the geounits do not form a tree, or a geounit has two shares.
    """
    names = _geolevels(path)
    frame = scan_table(path, names, "spine")
    for name in names:
        require_text(frame, name, path, "spine")
    # All or none: a file with the shares of some geolevels only is read as one without shares.
    shares_given = all(SHARE + name in parquet_columns(path) for name in names)
    wanted = [*names, *(SHARE + name for name in names if shares_given)]
    table = collect(scan_table(path, wanted, "spine"), path, "spine")
    spine = spine_from_columns({name: table[name] for name in names}, names)
    if not shares_given:
        return spine, None
    # The rows of a file may have been reordered by other programs; shares are put back into the spine's order.
    rows = spine.locate(spine.finest, table[names[-1]])
    order = np.empty(len(rows), dtype=np.int64)
    order[rows] = np.arange(len(rows))
    return spine, shares_of_columns(spine, [table[SHARE + name].gather(order) for name in names])


def read_aimed(path: Path) -> tuple[str, ...]:
    """Families and geolevels for which the groups of a spine were chosen; empty for other spines.

    Raises:
        StoreError: the file is missing or unreadable, or is not a spine.
    """
    _geolevels(path)
    return names_of_tag(path, published_tags(path).get(AIMED_TAG, "[]"))


def share_texts(shares: GeounitShares, level: int) -> pl.Series:
    """Share of every geounit of a geolevel as text, such as "104/4099"."""
    texts = pl.Series([str(value) for value in shares.values], dtype=pl.String)
    return texts.gather(shares.positions[level])


def shares_of_columns(spine: Spine, columns: Sequence[pl.Series]) -> GeounitShares:
    """Shares from one column for each geolevel, root first, with one text for each finest geounit in the spine's order.

    Raises:
        GeographyError: a geounit has two shares, or a text is not an exact fraction.
    """
    # The same fraction can be written in two ways, such as 1/2 and 2/4: compare values, not texts.
    texts = sorted({text for column in columns for text in column.unique().to_list()})
    values = sorted({_fraction(text) for text in texts})
    place = {text: values.index(_fraction(text)) for text in texts}
    positions = []
    for level, column in enumerate(columns):
        number = column.replace_strict(place, return_dtype=pl.Int32).to_numpy()
        starts = spine.finest_offsets(level)[:-1]
        # A share is of a geounit, but is stored for each of its finest geounits: all copies must agree.
        if not np.array_equal(np.minimum.reduceat(number, starts), np.maximum.reduceat(number, starts)):
            raise GeographyError(
                f"a geounit of {spine.geolevels[level]} has two shares in the file of the spine. Write one share for "
                "each geounit."
            )
        positions.append(number[starts])
    return GeounitShares(tuple(values), tuple(positions))


def _fraction(text: str | None) -> Fraction:
    number = None if text is None else fraction_of(text)
    if number is None:
        raise GeographyError(
            f"a share in the spine's file is {text!r:.80}; wanted an exact fraction as text, such as '104/4099'."
        )
    return number


# Without the tag the columns could be any table's, and their order says nothing about their geolevels.
def _geolevels(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        raise StoreError(
            f"the spine file {path} does not exist. Make it with `tallyveil spine build`, or correct the path.",
            code="input-missing",
        )
    try:
        stored_names = parquet_metadata(path).get(GEOLEVELS_TAG)
    except UNREADABLE:
        stored_names = None
    if stored_names is None:
        raise StoreError(
            f"{path} is not the file of a spine: it does not name its geolevels. Make such a file with `tallyveil "
            "spine build`.",
            code="input-unreadable",
        )
    return names_of_tag(path, stored_names)
