"""The Bureau's table of ZIP Code tabulation areas (ZCTAs) and blocks."""

from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.geography.census.checks import check_code, check_known, check_once
from tallyveil.geography.census.codes import BY_COLUMN
from tallyveil.geography.census.source_files import SourceTable, read_source

BLOCK: Final = "GEOID_TABBLOCK_20"
AREA: Final = "GEOID_ZCTA5_20"
CODE: Final = "ZCTA5CE"


def read_zctas(path: Path, blocks: pl.Series) -> tuple[SourceTable, pl.DataFrame]:
    """The ZCTA of every block.

    The file of the Bureau covers the country. Rows of States that are not imported are passed over, and so are rows of
    a ZCTA without a block.

    Args:
        path: The relationship file, such as `tab20_zcta520_tabblock20_natl.txt`.
        blocks: Blocks of the geography.

    Returns:
        The file with the rows of these States, and columns geocode, ZCTA5CE.

    Raises:
        GeographyError: the file cannot be read, a code has another form, or a block is unknown or there twice.
    """
    table = read_source(path, [BLOCK, AREA])
    check_code(table, AREA, BY_COLUMN[CODE])
    states = blocks.str.slice(0, 2).unique().to_list()
    table = table.filtered(table.rows[BLOCK].str.slice(0, 2).is_in(states).fill_null(False))
    check_known(table, BLOCK, blocks)
    check_once(table, BLOCK)
    return table, table.rows.select(pl.col(BLOCK).alias("geocode"), pl.col(AREA).alias(CODE))
