"""The codes that the Bureau's files give a block: their columns, their form, and the entities that they name."""

from typing import Final, NamedTuple

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
    Code("COUSUBFS", None, "", "[A-Z]", "1 capital letter", (), 0, None),
    Code("PLACEFS", None, "", "[A-Z]", "1 capital letter", (), 0, None),
)  # fmt: skip
"""All codes. Functional statuses (`COUSUBFS`, `PLACEFS`) say whether an area has a government of its own."""

BY_COLUMN: Final = {code.column: code for code in CODES}
BY_KIND: Final = {code.kind: code for code in CODES if code.kind is not None}
SCHOOL_COLUMNS: Final = ("SDUNILEA", "SDSECLEA", "SDELMLEA")
