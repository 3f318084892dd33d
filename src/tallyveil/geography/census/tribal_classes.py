"""Classes of American Indian, Alaska Native and Native Hawaiian areas, by ranges of their codes."""

from typing import Final, NamedTuple


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
