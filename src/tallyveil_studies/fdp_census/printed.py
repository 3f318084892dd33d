"""The paper's printed numbers, by section of `printed.toml`."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from tallyveil_studies.comparison import Comparison, PrintedNumber
from tallyveil_studies.printed import beside_ours, printed_numbers

_PAPER: Final = "fdp_census"


def printed(section: str) -> dict[str, PrintedNumber]:
    """The numbers of one section, by name.

    Raises:
        ConfigError: there is no such section.
    """
    return printed_numbers(_PAPER, section)


def compared(section: str, ours: Mapping[str, float | Fraction], what: str) -> tuple[Comparison, ...]:
    """The printed numbers of a section beside ours, as `beside_ours` makes them."""
    return beside_ours(_PAPER, section, ours, what)
