"""Numbers that a paper prints, kept in the file `printed.toml` of the paper's folder."""

import tomllib
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any

from tallyveil.errors import ConfigError
from tallyveil_studies.comparison import Comparison, PrintedClaim, PrintedNumber


def printed_numbers(paper: str, section: str) -> dict[str, PrintedNumber]:
    """The numbers of one section, by name.

    Args:
        paper: Folder of the paper under `studies`.
        section: Section of its `printed.toml`.

    Raises:
        ConfigError: there is no such section.
    """
    sections = _sections(paper)
    if section not in sections:
        raise ConfigError(
            f"there is no section '{section}' of printed numbers; there are {', '.join(sections)}."
        )
    table = sections[section]
    remarks = table.get("remarks", {})
    return {
        name: PrintedNumber(
            text, table["source"], PrintedClaim(table.get("kind", "value")), remarks.get(name, "")
        )
        for name, text in table["values"].items()
    }


def beside_ours(
    paper: str, section: str, ours: Mapping[str, float | Fraction], what: str
) -> tuple[Comparison, ...]:
    """The printed numbers of a section beside ours.

    Args:
        paper: Folder of the paper under `studies`.
        section: Section of its `printed.toml`.
        ours: Our numbers by the same names. Names that the paper does not print are left out.
        what: The quantity, in words.

    Raises:
        ConfigError: there is no such section.
    """
    return tuple(
        Comparison(f"{what}, {name}", number, ours[name])
        # In the order of the paper.
        for name, number in printed_numbers(paper, section).items()
        if name in ours
    )


@cache
def _sections(paper: str) -> Mapping[str, Any]:
    # Read from the package, so that an installed copy has it, too.
    text = (resources.files("tallyveil_studies") / paper / "printed.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
