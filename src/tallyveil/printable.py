"""Make text from unknown sources safe to show: names, paths and headers may hold characters that control a terminal.

Shown text holds only printable characters, spaces, tabs and line feeds. Every other character is replaced by its
escape, such as `\\u001b` for the character that begins a terminal command. The escapes are those of JSON, so JSON text
keeps its meaning. In a page, every character that HTML gives a meaning is replaced by its entity.
"""

import re
from collections.abc import Iterable
from html import escape
from unicodedata import category

OBEYED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories whose characters are shown as escapes.

These are control characters, format characters (for example those that reverse the direction of text), lone
surrogates, private and unassigned characters, and the separators of lines and paragraphs.
"""

_PLAIN = re.compile(r"[\n\t -~]*")


def shown(text: str) -> str:
    """The text, with each character that a terminal would not simply print replaced by its escape."""
    if _PLAIN.fullmatch(text):
        return text
    return "".join(_escape(c) if category(c) in OBEYED and c not in "\n\t" else c for c in text)


def has_bytes(text: str) -> bool:
    """Whether a text holds bytes that are no UTF-8. Python reads such bytes from names of files and from terminals."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def described(title: str, lines: Iterable[tuple[str, str]]) -> str:
    """HTML of a heading and a table with a name and a text in each row. Notebooks show it for an object.

    Everything is escaped.

    Args:
        title: The heading.
        lines: Name and text of each row.
    """
    rows = "".join(
        f"<tr><th style='text-align:left;vertical-align:top'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in lines
    )
    return f"<div><strong>{escape(title)}</strong><table>{rows}</table></div>"


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))
