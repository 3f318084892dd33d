"""The Bureau's lists of places and county subdivisions, whose functional statuses primitives need."""

from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from tallyveil.errors import GeographyError
from tallyveil.geography.census.checks import check_code, check_form
from tallyveil.geography.census.codes import BY_COLUMN
from tallyveil.geography.census.source_files import SourceTable, read_source

STATUS: Final = "FUNCSTAT"


class AreaList(NamedTuple):
    """A kind of list.

    Attributes:
        keys: Columns that together name an area.
        code: The last of them: the code that blocks have.
        status: Column of the blocks' tables for the functional status.
        prefix: Number of digits of a block that the keys before the code are.
    """

    keys: tuple[str, ...]
    code: str
    status: str
    prefix: int


LISTS: Final = (
    AreaList(("STATEFP", "COUNTYFP", "COUSUBFP"), "COUSUBFP", "COUSUBFS", 5),
    AreaList(("STATEFP", "PLACEFP"), "PLACEFP", "PLACEFS", 2),
)
DIGITS: Final = {"STATEFP": 2, "COUNTYFP": 3, "COUSUBFP": 5, "PLACEFP": 5}


def with_statuses(path: Path, blocks: pl.DataFrame) -> tuple[SourceTable, pl.DataFrame]:
    """Blocks with the functional status of their place or county subdivision.

    Args:
        path: A list such as `national_place2020.txt` or `national_cousub2020.txt`.
        blocks: Columns geocode and the codes. A status that a block has already is kept.

    Returns:
        The list, and the blocks with the status.

    Raises:
        GeographyError: the file cannot be read, is neither kind of list, names an area twice, or lacks an area of the
            blocks.
    """
    table = read_source(path, ["STATEFP", STATUS], ["COUNTYFP", "COUSUBFP", "PLACEFP"])
    kind = next((area_list for area_list in LISTS if set(area_list.keys) <= set(table.rows.columns)), None)
    if kind is None:
        raise GeographyError(
            f"{path}: got a list without PLACEFP, and without COUNTYFP and COUSUBFP; wanted one of the Bureau's lists "
            "of places or of county subdivisions, such as national_place2020.txt. Use such a list.",
            code="census-file",
        )
    for name in kind.keys:
        check_form(table, name, f"[0-9]{{{DIGITS[name]}}}", f"{DIGITS[name]} digits", may_be_empty=False)
    check_code(table, STATUS, BY_COLUMN[kind.status], may_be_empty=False)
    names = table.rows.select(pl.concat_str(kind.keys).alias("area"), pl.col(STATUS).alias("listed"))
    _refuse_repeated(table, names["area"], kind)
    # A code that means "in none" becomes null, so that its blocks join nothing and are not reported as unlisted.
    code = pl.when(~pl.col(kind.code).is_in(BY_COLUMN[kind.code].none)).then(pl.col(kind.code))
    # The list names areas by State (and county); the digits of the block say which these are.
    area = pl.col("geocode").str.slice(0, kind.prefix) + code
    # The join keeps the order of the blocks, on which the tables of all families rely.
    joined = blocks.with_columns(area.alias("area")).join(names, on="area", how="left", maintain_order="left")
    known = pl.col(kind.status) if kind.status in blocks.columns else pl.lit(None, dtype=pl.String)
    # What a block has already comes from a reference file, which is nearer to the block than a list.
    joined = joined.with_columns(pl.coalesce(known, "listed").alias(kind.status))
    _refuse_unlisted(path, joined, kind)
    return table, joined.drop("area", "listed")


def _refuse_repeated(table: SourceTable, areas: pl.Series, kind: AreaList) -> None:
    again = (~areas.is_first_distinct()).arg_true()
    if len(again):
        raise table.error(
            again[0],
            f"{', '.join(kind.keys)} '{areas[again[0]]}' a second time",
            "every area once",
            "Remove one of the rows.",
            code="census-file",
        )


def _refuse_unlisted(path: Path, joined: pl.DataFrame, kind: AreaList) -> None:
    lost = joined.filter(pl.col("area").is_not_null() & pl.col(kind.status).is_null())
    if lost.height:
        raise GeographyError(
            f"{path}: got no row for {', '.join(kind.keys)} '{lost['area'][0]}', in which block '{lost['geocode'][0]}' "
            f"is ({lost.height} blocks are in such areas); wanted every area of the blocks. Use a list of the year and "
            "the States of the blocks.",
            code="census-file",
        )
