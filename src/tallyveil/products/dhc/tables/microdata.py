"""The microdata of the Demographic and Housing Characteristics in their published layouts: a row for each record.

A file stands there twice: as Parquet, and as text with a header line and "|" between the fields. Rows are sorted by
block. All columns are text, except the running number of persons and the age. Columns of persons follow from the level
codes of schema preset "dhc-persons", those of units from "dhc-units": each from the level of one attribute, except
three of units that depend on the householder's sex and the household type. Vacant units and group quarters have zeros
in all columns of households.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.files.histograms import enum_column, record_pieces
from tallyveil.products.topdown.pl94.publication import require
from tallyveil.schema.counts import PublicCounts, TripletSum, distinct
from tallyveil.schema.household_types import Couple, HouseholdType, MinorAges, household_types
from tallyveil.schema.schema import Schema
from tallyveil.storage.paths import inside
from tallyveil.storage.read import collect_batches, scan_parquet
from tallyveil.storage.write import write_file, write_parquet_chunks

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
    # Looked at before anything is written; one bad code is enough.
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
"""The first so many types of group quarters, 101 to 405, are institutional; the codes from 501 on are not."""
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


N_TENURES: Final = 4
"""Levels of `tenvacgq` of occupied units; they come first."""
N_VACANCIES: Final = 7
"""Levels of `tenvacgq` of vacant units, after the tenures; the types of group quarters follow."""
N_AGES_OF_OLDEST: Final = 4
"""Levels of `oldest`, without "none"."""
_N_UNITS: Final = N_TENURES + N_VACANCIES

OF_TENVACGQ: Final[dict[str, tuple[str, ...]]] = {
    "RTYPE": ("2",) * _N_UNITS + ("4",) * _N_QUARTERS,
    "GQTYPE": (NOT_GROUP_QUARTERS,) * _N_UNITS + GROUP_QUARTERS_CODES,
    "TEN": ("1", "2", "3", "4") + ("0",) * (N_VACANCIES + _N_QUARTERS),
    "VACS": ("0",) * N_TENURES + tuple("1234567") + ("0",) * _N_QUARTERS,
}
"""The value of each column that follows from the level of `tenvacgq`."""

ORDER: Final = (
    *(
        "RTYPE",
        "GQTYPE",
        "TEN",
        "VACS",
        "HHSIZE",
        "HHT",
        "HHT2",
        "CPLT",
        "UPART",
        "MULTG",
        "THHLDRAGE",
        "THHSPAN",
    ),
    *("THHRACE", "PAOC", "TP18", "TP60", "TP65", "TP75", "PAC", "HHSEX"),
)
"""The columns after the geography, in the published order."""

_PRESENCE: Final = {
    MinorAges.NONE: "4",
    MinorAges.UNDER_6: "1",
    MinorAges.FROM_6_TO_17: "2",
    MinorAges.BOTH: "3",
}


def _hht(household: HouseholdType, female: bool) -> str:
    """Household type: married, other family, or nonfamily; by the householder's sex unless married."""
    if household.couple.married:
        return "1"
    if household.relatives:
        return "3" if female else "2"
    men_and_women = ("4", "6") if household.size == 1 else ("5", "7")
    return men_and_women[female]


def _hht2(household: HouseholdType, female: bool) -> str:
    """Household type with couples and own children, in two digits."""
    if household.couple is not Couple.NO_PARTNER:
        return f"{1 + 2 * household.couple.cohabiting + (not household.own_children):02d}"
    # Alone, with own children, with relatives, with nonrelatives only.
    beside = 0 if household.size == 1 else 1 if household.own_children else 2 if household.relatives else 3
    return f"{(5 if female else 9) + beside:02d}"


def _upart(household: HouseholdType, female: bool) -> str:
    """Unmarried partners by the householder's sex."""
    if household.size == 1:
        return "0"
    if not household.couple.cohabiting:
        return "5"
    same = household.couple is Couple.COHABITING_SAME_SEX
    return str(1 + 2 * female + (not same))


OF_TYPE_AND_SEX: Final[dict[str, tuple[Callable[[HouseholdType, bool], str], str]]] = {
    "HHSIZE": (lambda household, _: str(household.size), "0"),
    "HHT": (_hht, "0"),
    "HHT2": (_hht2, "00"),
    "CPLT": (lambda household, _: "0" if household.size == 1 else str(household.couple + 1), "0"),
    "UPART": (_upart, "0"),
    "MULTG": (
        lambda household, _: "0" if household.size <= 2 else "2" if household.multigenerational else "1",
        "0",
    ),
    "PAOC": (lambda household, _: _PRESENCE[household.own_children], "0"),
    "PAC": (lambda household, _: _PRESENCE[household.minors], "0"),
    "TP18": (lambda household, _: "1" if household.under_18 else "0", "0"),
}
"""For each column, its value for a household type and whether the householder is female, and for no household."""


@cache
def _words_of_types(name: str) -> tuple[str, ...]:
    """The value of a column for every pair of a householder's sex (male, female, none) and a household type or none."""
    value, nothing = OF_TYPE_AND_SEX[name]
    return tuple(
        value(household, female) if household is not None and female is not None else nothing
        for female in (False, True, None)
        for household in (*household_types(), None)
    )


def units_columns(codes: Integers) -> list[pl.Series]:
    """The columns of units after the geography, in the published order.

    Args:
        codes: Level codes of tenvacgq, householder_sex, householder_age, householder_hispanic, householder_race, oldest
            and household; shape (n, 7).
    """
    tenvacgq, sex, age, hispanic, race, oldest, household = codes.T
    # Sex and type as one code, so that a table of words replaces a function call for each row.
    types = sex * (len(household_types()) + 1) + household
    columns = {name: worded(name, words, tenvacgq) for name, words in OF_TENVACGQ.items()}
    columns |= {name: worded(name, _words_of_types(name), types) for name in OF_TYPE_AND_SEX}
    columns |= {
        "THHLDRAGE": worded("THHLDRAGE", tuple("1234567890"), age),
        "THHSPAN": worded("THHSPAN", tuple("120"), hispanic),
        "THHRACE": worded("THHRACE", (*(f"{code:02d}" for code in range(1, 8)), "00"), race),
        "HHSEX": worded("HHSEX", tuple("120"), sex),
    }
    for least, name in enumerate(("TP60", "TP65", "TP75"), start=1):
        present = ["1" if least <= level < N_AGES_OF_OLDEST else "0" for level in range(N_AGES_OF_OLDEST + 1)]
        columns[name] = worded(name, present, oldest)
    return [columns[name] for name in ORDER]


MICRODATA: Final = "microdata"
RUNNING_NUMBER: Final = "EPNUM"
CHECK: Final = "microdata hold exactly the records of the release"
_BUILD: Final = "1.1.0"
_TYPE_CODES: Final = {"persons": "MPD", "units": "MUD"}
_COLUMNS: Final[Mapping[str, Callable[[Integers], list[pl.Series]]]] = {
    "persons": persons_columns,
    "units": units_columns,
}


def write_records(
    out: Path, records: str, counts: PublicCounts, codes: pl.Series, schema: Schema, tags: Mapping[str, str]
) -> list[str]:
    """Write the records of all blocks as Parquet and as text, and read them back.

    Args:
        out: Folder of the publication.
        records: "persons" or "units".
        counts: Counts of the finest geolevel, in the order of the block codes.
        codes: Block codes, ascending.
        schema: The universe.
        tags: What the Parquet file says of itself.
    Returns:
        Paths of the files in the folder.
    Raises:
        GeographyError: a geounit has no block code of 15 digits.
        SolverError: the written records are not those of the counts.
        StoreError: a file cannot be written or read.
    """
    require_block_codes(codes, counts.geolevel)
    path = inside(out, MICRODATA, f"{records}.parquet")
    # The text is made from the Parquet file that was checked, so that both hold the same rows.
    write_parquet_chunks(path, _frames(records, counts, codes, schema), tags)
    _check(path, records, counts, codes, schema)
    text = path.with_suffix(".txt")
    write_file(
        text, lambda temporary: scan_parquet(path).sink_csv(temporary, separator="|", quote_style="never")
    )
    return [f"{MICRODATA}/{path.name}", f"{MICRODATA}/{text.name}"]


def _frames(records: str, counts: PublicCounts, codes: pl.Series, schema: Schema) -> Iterator[pl.DataFrame]:
    """The rows in pieces."""
    written = 0
    # A piece of the records at a time: a country of people does not fit into memory as text columns.
    for geounits, cells in record_pieces(counts):
        nowhere = np.zeros(len(cells), dtype=np.int64)
        columns = [
            enum_column("SCHEMA_TYPE_CODE", [_TYPE_CODES[records]], nowhere),
            enum_column("SCHEMA_BUILD_ID", [_BUILD], nowhere),
            *geography_columns(codes.gather(geounits)),
        ]
        if records == "persons":
            columns.append(pl.Series(RUNNING_NUMBER, np.arange(written + 1, written + len(cells) + 1)))
        yield pl.DataFrame([*columns, *_COLUMNS[records](schema.decode(cells))])
        written += len(cells)


def _check(path: Path, records: str, counts: PublicCounts, codes: pl.Series, schema: Schema) -> None:
    """Verify that the written rows give back the counts: each row names one cell and one block."""
    cells = distinct(counts.cells)
    # The inverse of the columns: each row must name one cell, or two cells would be published as one.
    known = pl.DataFrame([*_COLUMNS[records](schema.decode(cells)), pl.Series("__cell", cells)])
    names = known.columns[:-1]
    place = pl.DataFrame({"__block": codes, "__row": np.arange(len(codes))})
    rows = scan_parquet(path).select(
        # TABBLKGRPCE is the first digit of TABBLK, and would be there twice.
        pl.concat_str([name for name in GEOGRAPHY_COLUMNS if name != "TABBLKGRPCE"]).alias("__block"),
        *names,
    )
    total = TripletSum(counts.n_geounits, schema.size)
    for batch in collect_batches(rows, path, "published"):
        placed = batch.join(known, on=names, how="left").join(place, on="__block", how="left")
        require(path, CHECK, placed.height == batch.height and not sum(placed.null_count().row(0)))
        total.add(
            placed["__row"].to_numpy(), placed["__cell"].to_numpy(), np.ones(len(placed), dtype=np.int64)
        )
    for computed, wanted in zip(total.finish(), (counts.offsets, counts.cells, counts.counts), strict=True):
        require(path, CHECK, np.array_equal(computed, wanted))
