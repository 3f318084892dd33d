"""The paper's printed numbers, by section of `printed.toml`."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from tallyveil.errors import ConfigError
from tallyveil.studies.comparison import Comparison, Kind, PrintedNumber


def printed(section: str) -> dict[str, PrintedNumber]:
    """The numbers of one section, by name.

    Raises:
        ConfigError: there is no such section.
    """
    sections = _sections()
    if section not in sections:
        raise ConfigError(
            f"there is no section '{section}' of printed numbers; there are {', '.join(sections)}."
        )
    table = sections[section]
    remarks = table.get("remarks", {})
    return {
        name: PrintedNumber(text, table["source"], Kind(table.get("kind", "value")), remarks.get(name, ""))
        for name, text in table["values"].items()
    }


def compared(section: str, ours: Mapping[str, float], what: str) -> tuple[Comparison, ...]:
    """The printed numbers of a section beside ours.

    Args:
        section: Section of `printed.toml`.
        ours: Our numbers by the same names. Names that the paper does not print are left out.
        what: The quantity, in words.
    """
    return tuple(
        Comparison(f"{what}, {name}", number, ours[name])
        for name, number in printed(section).items()
        if name in ours
    )


@cache
def _sections() -> Mapping[str, Any]:
    text = (resources.files("tallyveil.studies.fdp_census") / "printed.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
