"""Columns of the published microdata of persons, from the level codes of schema preset "dhc-persons"."""

from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.files.columns import enum_column

GROUP_QUARTERS_CODES: Final = (
    *(
        "101",
        "102",
        "103",
        "104",
        "105",
        "106",
        "201",
        "202",
        "203",
        "301",
        "401",
        "402",
        "403",
        "404",
        "405",
    ),
    *("501", "601", "602", "701", "801", "802", "900", "901", "997"),
)
"""The code of each type of group quarters, in the order of the levels of `relgq` and `tenvacgq`."""

NOT_GROUP_QUARTERS: Final = "000"
N_RELATIONSHIPS: Final = 18
"""Levels of `relgq` of people in households; the others are types of group quarters."""

_N_INSTITUTIONAL: Final = 15
_IN_HOUSEHOLD, _IN_GROUP_QUARTERS = "3", "5"
_INSTITUTIONAL, _NONINSTITUTIONAL = "37", "38"
# RELSHIP 20 is a householder, who lives alone (level 0) or with others (level 1). Levels 2 to 17 are 21 to 36.
_RELSHIP: Final = (
    *("20", *(str(code) for code in range(20, 37))),
    *[_INSTITUTIONAL] * _N_INSTITUTIONAL,
    *[_NONINSTITUTIONAL] * (len(GROUP_QUARTERS_CODES) - _N_INSTITUTIONAL),
)
_N_QUARTERS: Final = len(GROUP_QUARTERS_CODES)

OF_RELGQ: Final[dict[str, tuple[str, ...]]] = {
    "RTYPE": (_IN_HOUSEHOLD,) * N_RELATIONSHIPS + (_IN_GROUP_QUARTERS,) * _N_QUARTERS,
    "GQTYPE": (NOT_GROUP_QUARTERS,) * N_RELATIONSHIPS + GROUP_QUARTERS_CODES,
    "RELSHIP": _RELSHIP,
    "LIVE_ALONE": ("1", *["2"] * (N_RELATIONSHIPS - 1), *["0"] * _N_QUARTERS),
}
"""The value of each column that follows from the level of `relgq`."""


def persons_columns(codes: Integers) -> list[pl.Series]:
    """The columns of persons after the geography and the running number, in the published order.

    Args:
        codes: Level codes of relgq, sex, age, hispanic and cenrace; shape (n, 5).
    """
    relgq, sex, age, hispanic, cenrace = codes.T
    of_relgq = {name: worded(name, words, relgq) for name, words in OF_RELGQ.items()}
    return [
        of_relgq["RTYPE"],
        of_relgq["GQTYPE"],
        of_relgq["RELSHIP"],
        worded("QSEX", ("1", "2"), sex),
        pl.Series("QAGE", age.astype(np.int64)),
        worded("CENHISP", ("1", "2"), hispanic),
        worded("CENRACE", [f"{code:02d}" for code in range(1, 64)], cenrace),
        of_relgq["LIVE_ALONE"],
    ]


def worded(name: str, words: tuple[str, ...] | list[str], codes: Integers) -> pl.Series:
    """A column of the word of each code. Words may be repeated."""
    distinct = list(dict.fromkeys(words))
    places = np.array([distinct.index(word) for word in words], dtype=np.int64)
    return enum_column(name, distinct, places[codes])
