"""Reads families of off-spine entities from a table of finest geounits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.assignments import GEOCODE, area_columns
from tallyveil.geography.columns import TextColumn, text_column
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.printable import present_columns, short_name, some_names

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
