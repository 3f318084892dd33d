"""Facilities of group quarters: bounds on the people of every block, and the kinds that a block has."""

from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.geography.census.checks import check_form, check_known
from tallyveil.geography.census.source_files import SourceTable, read_source

BLOCKID, KIND, NUMBER = "BLOCKID", "GQTYPE", "FACILITIES"
HOUSEHOLD: Final = "household"
KINDS: Final = {
    "1": "adult_correctional",
    "2": "juvenile",
    "3": "nursing",
    "4": "other_institutional",
    "5": "college",
    "6": "military",
    "7": "other_noninstitutional",
    "8": "other_noninstitutional",
    "9": "other_noninstitutional",
}
"""The major kind of group quarters by the first digit of the Bureau's type of three digits. They are levels of hhgq."""


def read_facilities(path: Path, blocks: pl.Series) -> tuple[SourceTable, pl.DataFrame]:
    """The facilities of every block and major kind.

    Args:
        path: A file with the columns BLOCKID, GQTYPE (three digits, or the name of a major kind) and FACILITIES.
        blocks: Blocks of the geography.

    Returns:
        The file, and the number of facilities: columns geocode, hhgq, facilities; only numbers above 0.

    Raises:
        GeographyError: the file cannot be read, a block is unknown, or a type or a number has another form.
    """
    table = read_source(path, [BLOCKID, KIND, NUMBER])
    check_form(table, BLOCKID, "[0-9]{15}", "a block of 15 digits", may_be_empty=False)
    check_known(table, BLOCKID, blocks)
    names = "|".join(dict.fromkeys(KINDS.values()))
    wanted = f"a type of three digits from 101 to 999, or one of {names.replace('|', ', ')}"
    check_form(table, KIND, f"[1-9][0-9]{{2}}|{names}", wanted, may_be_empty=False)
    # Nine digits at most, so that sums over a country stay far below 2**63.
    check_form(table, NUMBER, "[0-9]{1,9}", "a whole number, 0 or more", may_be_empty=False)
    _check_pairs(table)
    # A type of three digits gives its first digit's kind; a name of a kind is no key of the table and stays.
    kind = pl.col(KIND).str.slice(0, 1).replace_strict(KINDS, default=None).fill_null(pl.col(KIND))
    facilities = (
        table.rows.select(pl.col(BLOCKID).alias("geocode"), kind.alias("hhgq"), pl.col(NUMBER).cast(pl.Int64))
        .group_by("geocode", "hhgq")
        .agg(pl.col(NUMBER).sum().alias("facilities"))
        # No row means no facility, and bounds treat it so; a row with 0 would say the same twice.
        .filter(pl.col("facilities") > 0)
        .sort("geocode", "hhgq")
    )
    return table, facilities


def kinds_of_group_quarters(facilities: pl.DataFrame) -> pl.DataFrame:
    """For every block with group quarters, the combination of their kinds: columns geocode, group_quarters.

    Args:
        facilities: Columns geocode, hhgq and lower (the number of facilities; 0 for households), as `bounds_of` makes.
    """
    # Sorted by kind, so that one combination has one name.
    present = facilities.filter(pl.col("lower") > 0).sort("geocode", "hhgq")
    return present.group_by("geocode", maintain_order=True).agg(
        pl.col("hhgq").str.join("+").alias("group_quarters")
    )


def bounds_of(blocks: pl.Series, facilities: pl.DataFrame) -> pl.DataFrame:
    """Bounds on the people of a block by hhgq: at least one person in every facility, nobody in a kind that is absent.

    The Bureau's public files do not say which blocks have housing units. So every block may have households.

    Args:
        blocks: Every block.
        facilities: As `read_facilities` gives them.

    Returns:
        Columns geocode, hhgq, lower, upper. A pair without a row has the upper bound 0; null is no bound.
    """
    homes = pl.DataFrame({"geocode": blocks}).with_columns(
        pl.lit(HOUSEHOLD).alias("hhgq"), pl.lit(0, dtype=pl.Int64).alias("facilities")
    )
    # Households have the lower bound 0: a block may be without any.
    both = pl.concat([homes, facilities.select(homes.columns)]).sort("geocode", "hhgq")
    return both.select(
        "geocode", "hhgq", pl.col("facilities").alias("lower"), pl.lit(None, dtype=pl.Int64).alias("upper")
    )


def _check_pairs(table: SourceTable) -> None:
    first = table.rows.select(pl.struct(BLOCKID, KIND).is_first_distinct().alias("first"))["first"]
    if len(again := (~first).arg_true()):
        row = again[0]
        raise table.error(
            row,
            f"type '{table.rows[KIND][row]}' in block '{table.rows[BLOCKID][row]}' a second time",
            "one row for each type in a block",
            "Add the numbers of facilities in one row.",
            code="census-block",
        )
