"""The five columns of a block's code in the published microdata."""

from typing import Final

import polars as pl

from tallyveil.errors import GeographyError

GEOGRAPHY_COLUMNS: Final = {
    "TABBLKST": (0, 2),
    "TABBLKCOU": (2, 3),
    "TABTRACTCE": (5, 6),
    "TABBLKGRPCE": (11, 1),
    "TABBLK": (11, 4),
}
"""For each column, the first digit of the block's code that it has, counted from 0, and the number of its digits."""

_CODE: Final = r"^\d{15}$"


def require_block_codes(codes: pl.Series, geolevel: str) -> None:
    """Refuse finest geounits whose codes are not those of census blocks.

    Args:
        codes: Geocodes of the finest geolevel.
        geolevel: Its name.
    Raises:
        GeographyError: a code does not consist of 15 digits.
    """
    wrong = codes.filter(~codes.str.contains(_CODE))
    if len(wrong):
        raise GeographyError(
            f"the published microdata have columns for the state, county, tract, block group and block of each record. "
            f"They are cut out of block codes of 15 digits, and the {geolevel} '{wrong[0]}' has no such code. Make the "
            "release with census blocks as its finest geolevel, or publish tables only.",
            code="publish-geography",
        )


def geography_columns(codes: pl.Series) -> list[pl.Series]:
    """The columns of `GEOGRAPHY_COLUMNS`, cut out of block codes."""
    return [codes.str.slice(start, digits).alias(name) for name, (start, digits) in GEOGRAPHY_COLUMNS.items()]
