"""What the codes of blocks mean: States, tribal areas, kinds of areas, and the rules that make entities of them.

A spine brings some areas nearer: tribal areas, and in each State either its minor civil divisions or its
places. The columns of these rules (`tribal_area`, `county_subdivision`, `place`, ...) have the names that the
spine presets need. The `published_` columns beside them hold all areas as they are tabulated.
"""

from typing import Final, NamedTuple

import polars as pl


class State(NamedTuple):
    """A State, the District of Columbia or Puerto Rico."""

    abbreviation: str
    name: str


STATES: Final = {
    "01": State("AL", "Alabama"),
    "02": State("AK", "Alaska"),
    "04": State("AZ", "Arizona"),
    "05": State("AR", "Arkansas"),
    "06": State("CA", "California"),
    "08": State("CO", "Colorado"),
    "09": State("CT", "Connecticut"),
    "10": State("DE", "Delaware"),
    "11": State("DC", "District of Columbia"),
    "12": State("FL", "Florida"),
    "13": State("GA", "Georgia"),
    "15": State("HI", "Hawaii"),
    "16": State("ID", "Idaho"),
    "17": State("IL", "Illinois"),
    "18": State("IN", "Indiana"),
    "19": State("IA", "Iowa"),
    "20": State("KS", "Kansas"),
    "21": State("KY", "Kentucky"),
    "22": State("LA", "Louisiana"),
    "23": State("ME", "Maine"),
    "24": State("MD", "Maryland"),
    "25": State("MA", "Massachusetts"),
    "26": State("MI", "Michigan"),
    "27": State("MN", "Minnesota"),
    "28": State("MS", "Mississippi"),
    "29": State("MO", "Missouri"),
    "30": State("MT", "Montana"),
    "31": State("NE", "Nebraska"),
    "32": State("NV", "Nevada"),
    "33": State("NH", "New Hampshire"),
    "34": State("NJ", "New Jersey"),
    "35": State("NM", "New Mexico"),
    "36": State("NY", "New York"),
    "37": State("NC", "North Carolina"),
    "38": State("ND", "North Dakota"),
    "39": State("OH", "Ohio"),
    "40": State("OK", "Oklahoma"),
    "41": State("OR", "Oregon"),
    "42": State("PA", "Pennsylvania"),
    "44": State("RI", "Rhode Island"),
    "45": State("SC", "South Carolina"),
    "46": State("SD", "South Dakota"),
    "47": State("TN", "Tennessee"),
    "48": State("TX", "Texas"),
    "49": State("UT", "Utah"),
    "50": State("VT", "Vermont"),
    "51": State("VA", "Virginia"),
    "53": State("WA", "Washington"),
    "54": State("WV", "West Virginia"),
    "55": State("WI", "Wisconsin"),
    "56": State("WY", "Wyoming"),
    "72": State("PR", "Puerto Rico"),
}
"""The fifty States, the District of Columbia and Puerto Rico, by FIPS code."""

STRONG_MCD_STATES: Final = ("09", "23", "25", "26", "27", "33", "34", "36", "42", "44", "50", "55")
"""States whose minor civil divisions govern. Source: Cumings-Menon et al. 2023, section 6."""

PUERTO_RICO: Final = "72"


def uses_subdivisions(state: str) -> bool:
    """Whether the spine uses the minor civil divisions of a State, rather than its places."""
    return state in STRONG_MCD_STATES


class TribalClass(NamedTuple):
    """A class of areas.

    Attributes:
        name: What the areas are.
        first: First code of the class.
        last: Last code of the class.
        in_spine: Whether the spine of the 2020 Census has a branch for the areas of this class.
        state: The only State with areas of this class; None if several have some.
    """

    name: str
    first: str
    last: str
    in_spine: bool
    state: str | None = None


CLASSES: Final = (
    TribalClass("federally recognised reservation or trust land", "0001", "4799", True),
    TribalClass("joint-use area of reservations", "4800", "4989", True),
    TribalClass("Hawaiian home land", "5000", "5499", True, "15"),
    TribalClass("Oklahoma tribal statistical area", "5500", "5899", True, "40"),
    TribalClass("joint-use Oklahoma tribal statistical area", "5900", "5999", True, "40"),
    TribalClass("Alaska Native village statistical area", "6000", "7999", True, "02"),
    TribalClass("tribal designated statistical area", "8000", "8999", False),
    TribalClass("state-recognised reservation", "9000", "9499", True),
    TribalClass("state designated tribal statistical area", "9500", "9998", False),
)
"""All classes, in the order of their codes. Source: the released code of the 2020 spines, `AIANNHCE_ranges.csv`."""

OUTSIDE: Final = "9999"
"""The code of a block that is in none of these areas."""


def class_of(code: str) -> TribalClass | None:
    """The class of a code of four digits; None if no class has the code."""
    # Codes have four digits, so that their order as text is that as numbers.
    return next(
        (tribal_class for tribal_class in CLASSES if tribal_class.first <= code <= tribal_class.last), None
    )


BLOCK: Final = r"[0-9]{15}"
"""A block: State (2 digits), county (3), tract (6), block (4), whose first digit is the block group."""


class Code(NamedTuple):
    """A code of a block.

    Attributes:
        column: Name of the code in a geographic reference file, and in the tables of this room.
        kind: Last part of the name of the block assignment file that has the code; None if none has it.
        assigned: Column of that file.
        form: Regular expression of the whole code.
        wanted: The form in words.
        none: Codes that mean "in no entity". An empty field means this as well.
        prefix: Number of digits of the block that are put before the code, so that it is unique in the country.
        family: Column of the entity table; None if a rule makes the column from several codes.
    """

    column: str
    kind: str | None
    assigned: str
    form: str
    wanted: str
    none: tuple[str, ...]
    prefix: int
    family: str | None


NO_DISTRICT: Final = ("99997", "99998", "99999")

CODES: Final = (
    Code("COUSUBFP", "MCD", "COUSUBFP", "[0-9]{5}", "5 digits", ("00000", "99999"), 5, "published_county_subdivision"),
    Code("PLACEFP", "INCPLACE_CDP", "PLACEFP", "[0-9]{5}", "5 digits", ("00000", "99999"), 2, "published_place"),
    Code("AIANNHCE", "AIANNH", "AIANNHCE", "[0-9]{4}", "4 digits", ("9999",), 0, "published_tribal_area"),
    Code("SDUNILEA", "SDUNI", "DISTRICT", "[0-9]{5}", "5 digits", NO_DISTRICT, 2, "unified_school_district"),
    Code("SDSECLEA", "SDSEC", "DISTRICT", "[0-9]{5}", "5 digits", NO_DISTRICT, 2, "secondary_school_district"),
    Code("SDELMLEA", "SDELM", "DISTRICT", "[0-9]{5}", "5 digits", NO_DISTRICT, 2, "elementary_school_district"),
    Code("VTDST", "VTD", "DISTRICT", "[ -~]{1,6}", "1 to 6 characters", ("ZZZZZZ", "999999"), 5, "voting_district"),
    Code("CDFP", "CD", "DISTRICT", "[0-9Z]{2}", "2 digits", ("ZZ",), 2, "congressional_district"),
    Code("SLDUST", "SLDU", "DISTRICT", "[ -~]{3}", "3 characters", ("ZZZ",), 2, "state_senate"),
    Code("SLDLST", "SLDL", "DISTRICT", "[ -~]{3}", "3 characters", ("ZZZ",), 2, "state_house"),
    Code("ZCTA5CE", None, "", "[0-9]{5}", "5 digits", ("99999",), 0, "zcta"),
    Code("CBSAFP", None, "", "[0-9]{5}", "5 digits", ("99999",), 0, "cbsa"),
    Code("COUSUBFS", None, "", "[A-Z]", "1 capital letter", (), 0, None),
    Code("PLACEFS", None, "", "[A-Z]", "1 capital letter", (), 0, None),
)  # fmt: skip
"""All codes. Functional statuses (`COUSUBFS`, `PLACEFS`) say whether an area has a government of its own."""

BY_COLUMN: Final = {code.column: code for code in CODES}
BY_KIND: Final = {code.kind: code for code in CODES if code.kind is not None}
SCHOOL_COLUMNS: Final = ("SDUNILEA", "SDSECLEA", "SDELMLEA")


GOVERNS: Final = ("A", "B", "C")
"""Functional statuses of county subdivisions that make their county one of minor civil divisions."""
GOVERNED_PLACE: Final = ("A", "B", "F")
"""Functional statuses of the places that are primitives."""
PLACES_BESIDE: Final = ("2236255", "1150000", "1571550", "2071450")
"""Places that are primitives, whatever their status. Source: the released code of the 2020 spines."""
NO_CODE: Final = "99999"

STATE, COUNTY = pl.col("geocode").str.slice(0, 2), pl.col("geocode").str.slice(0, 5)
HIERARCHY: Final = {"state": 2, "county": 5, "tract": 11, "block_group": 12}


def geography_of(blocks: pl.DataFrame) -> pl.DataFrame:
    """The geography table: every block with its State, county, tract and tabulation block group.

    The tabulation block group is the first digit of the block number.
    """
    return blocks.select(
        "geocode", *(pl.col("geocode").str.slice(0, length).alias(name) for name, length in HIERARCHY.items())
    )


def entities_of(blocks: pl.DataFrame) -> pl.DataFrame:
    """The entity table: for every block, its entity in every family; null for none.

    Args:
        blocks: Columns geocode and those of `CODES`, as the files give them. All families are made whose codes are
            there.
    """
    published = blocks.select("geocode", *_published(blocks))
    tribal = _tribal_areas(published)
    # In these States minor civil divisions govern; in the others, and inside tribal areas, places are brought nearer.
    subdivisions = STATE.is_in(STRONG_MCD_STATES)
    by_subdivision = subdivisions & pl.col("tribal_area").is_null()
    entities = published.with_columns(tribal).with_columns(
        pl.when(by_subdivision).then(pl.col("published_county_subdivision")).alias("county_subdivision"),
        pl.when(~by_subdivision).then(pl.col("published_place")).alias("place"),
    )
    entities = entities.with_columns(*_school_district(entities), *_prim(blocks))
    first = ["geocode", "tribal_area", "county_subdivision", "place"]
    rest = [name for name in entities.columns if name not in first]
    return entities.select(
        # The families that presets name come first, those that are only tabulated last; otherwise the order stays.
        *first,
        *sorted(rest, key=lambda name: (name.startswith("published_"), rest.index(name))),
    )


def _published(blocks: pl.DataFrame) -> list[pl.Expr]:
    """Names of the entities of all codes, unique in the country."""
    families = []
    for code in CODES:
        if code.family is None:
            continue
        if code.column not in blocks.columns:
            # A published family without its file is an empty column, so that presets find the name; others are absent.
            if code.family.startswith("published_"):
                families.append(pl.lit(None, dtype=pl.String).alias(code.family))
            continue
        code_text = pl.when(~pl.col(code.column).is_in(code.none)).then(pl.col(code.column))
        # The digits before the code make it unique in the country: two States may use the same code.
        families.append((pl.col("geocode").str.slice(0, code.prefix) + code_text).alias(code.family))
    return families


def _tribal_areas(published: pl.DataFrame) -> pl.Expr:
    """The tribal areas for which the spine has a branch."""
    codes = published["published_tribal_area"].drop_nulls().unique().to_list()
    chosen = [code for code in codes if (area_class := class_of(code)) is not None and area_class.in_spine]
    column = pl.col("published_tribal_area")
    return pl.when(column.is_in(chosen)).then(column).alias("tribal_area")


def _school_district(entities: pl.DataFrame) -> list[pl.Expr]:
    """The combination of a block's school districts, so that one disjoint family tells all of them apart."""
    families = [
        code.family for code in CODES if code.column in SCHOOL_COLUMNS and code.family in entities.columns
    ]
    if not families:
        return []
    # One entity a block: two kinds of districts may overlap, and their combination may not.
    joined = pl.concat_str(families, separator="+", ignore_nulls=True)
    return [pl.when(joined != "").then(joined).alias("school_district")]


def _prim(blocks: pl.DataFrame) -> list[pl.Series]:
    """The primitive: minor civil division and governed place, within the county. Null is the rest of the county.

    Source: `create_prims` of the released code of the 2020 spines; Cumings-Menon et al. 2023, section 6.
    """
    if not {"COUSUBFS", "PLACEFS"} <= set(blocks.columns):
        return []
    # One subdivision with a government is enough to make its whole county one of minor civil divisions.
    governs = pl.col("COUSUBFS").is_in(GOVERNS).fill_null(False).max().over(COUNTY)
    governed = pl.col("PLACEFS").is_in(GOVERNED_PLACE) | (STATE + pl.col("PLACEFP")).is_in(PLACES_BESIDE)
    mcd = pl.when(governs).then(pl.col("COUSUBFP")).fill_null(NO_CODE)
    place = pl.when(governed.fill_null(False)).then(pl.col("PLACEFP")).fill_null(NO_CODE)
    # Blocks in neither are the rest of their county, which is null. Puerto Rico has no primitives.
    divided = (STATE != PUERTO_RICO) & ~((mcd == NO_CODE) & (place == NO_CODE))
    return [blocks.select(pl.when(divided).then(COUNTY + mcd + place).alias("prim"))["prim"]]
