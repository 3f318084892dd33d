"""Write small TOML tables."""

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_table(name: str, entries: Mapping[str, Any]) -> str:
    """A table with a heading and a line for each entry.

    Args:
        name: The heading, such as "strategy.geolevels". Its parts are written with `toml_key`.
        entries: Texts, whole numbers, truth values, and lists of these.
    """
    return "\n".join([f"[{name}]", *toml_lines(entries)])


def toml_lines(entries: Mapping[str, Any]) -> list[str]:
    """A line for each entry."""
    return [f"{toml_key(key)} = {toml_value(value)}" for key, value in entries.items()]


def toml_key(name: str) -> str:
    """A key, quoted where it has other characters than letters, digits, hyphens and underscores."""
    return name if _BARE_KEY.fullmatch(name) else toml_value(name)


def toml_value(value: Any) -> str:
    """A value, which TOML writes as JSON does, except for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
