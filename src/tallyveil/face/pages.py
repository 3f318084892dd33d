"""Small HTML pieces that notebooks show for an object."""

from collections.abc import Iterable
from html import escape


def described(title: str, lines: Iterable[tuple[str, str]]) -> str:
    """A heading, and a table with a name and a text in each row. Everything is escaped.

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
