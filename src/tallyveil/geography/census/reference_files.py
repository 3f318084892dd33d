"""Geographic reference files: one row for each block, with all its tabulation codes."""

from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.geography.census.assignment_files import StateBlocks
from tallyveil.geography.census.checks import Part, check_blocks, check_code, check_form, check_part
from tallyveil.geography.census.codes import BY_COLUMN, CODES
from tallyveil.geography.census.source_files import SourceTable, read_source

PARTS: Final = (
    ("TABBLKST", "[0-9]{2}", "2 digits"),
    ("TABBLKCOU", "[0-9]{3}", "3 digits"),
    ("TABTRACTCE", "[0-9]{6}", "6 digits"),
    ("TABBLK", "[0-9]{4}", "4 digits"),
)
"""The columns that make up a block, in order, and their form."""

BLOCK_GROUP: Final = "TABBLKGRPCE"
GEOID: Final = "GEOID"
REQUIRED_CODES: Final = ("AIANNHCE", "COUSUBFP", "PLACEFP")
"""Codes that every block has in a geographic reference file, if only as "in none"."""

DIGITS: Final = {
    "TABBLKST": Part(0, 2, "State"),
    "TABBLKCOU": Part(2, 3, "county"),
    "TABTRACTCE": Part(5, 6, "tract"),
    "TABBLK": Part(11, 4, "block number"),
    BLOCK_GROUP: Part(11, 1, "block group, which is the first digit of the block number"),
}
"""The digits of the block that each column repeats."""


def read_reference_file(path: Path) -> list[StateBlocks]:
    """The blocks of every State of a file.

    Raises:
        GeographyError: the file cannot be read, a code has another form, columns contradict each other, or a block is
            there twice.
    """
    parts = [name for name, _, _ in PARTS]
    optional = [BLOCK_GROUP, GEOID, *(code.column for code in CODES if code.column not in REQUIRED_CODES)]
    table = read_source(path, [*parts, *REQUIRED_CODES], optional)
    for column, form, wanted in PARTS:
        check_form(table, column, form, wanted, may_be_empty=False)
    # The block is made of its parts after their form is checked, so that it always has 15 digits.
    table = _with_blocks(table)
    check_blocks(table, "geocode")
    # The file states the block a second time. Both must agree, because either could be the wrong one.
    if GEOID in table.rows.columns:
        check_blocks(table, GEOID)
        for column in parts:
            check_part(table, GEOID, column, DIGITS[column])
    if BLOCK_GROUP in table.rows.columns:
        check_form(table, BLOCK_GROUP, "[0-9]", "1 digit", may_be_empty=False)
        check_part(table, "geocode", BLOCK_GROUP, DIGITS[BLOCK_GROUP])
    # All codes, known to be needed or not: what a later rule reads has been checked here.
    for column in table.rows.columns:
        if column in BY_COLUMN:
            check_code(table, column, BY_COLUMN[column], may_be_empty=column not in REQUIRED_CODES)
    return _by_state(table)


def _with_blocks(table: SourceTable) -> SourceTable:
    """The same table, with a column of blocks."""
    blocks = pl.concat_str([name for name, _, _ in PARTS]).alias("geocode")
    return SourceTable(table.path, table.rows.with_columns(blocks), table.notes, table.counts_lines)


def _by_state(table: SourceTable) -> list[StateBlocks]:
    columns = ["geocode", *(name for name in table.rows.columns if name in BY_COLUMN)]
    parts = table.rows.sort("geocode").partition_by("TABBLKST", as_dict=True, maintain_order=True)
    return [
        StateBlocks(str(state), "geographic reference file", rows.select(columns), (table,))
        for (state,), rows in parts.items()
    ]
