"""Make text from unknown sources safe to show: names, paths and headers may hold characters that control a terminal.

Shown text holds only printable characters, spaces, tabs and line feeds. Every other character is replaced by its
escape, such as `\\u001b` for the character that begins a terminal command. The escapes are those of JSON, so JSON text
keeps its meaning. In a page, every character that HTML gives a meaning is replaced by its entity.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from html import escape
from typing import Final
from unicodedata import category

OBEYED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories whose characters are shown as escapes.

These are control characters, format characters (for example those that reverse the direction of text), lone
surrogates, private and unassigned characters, and the separators of lines and paragraphs.
"""

LONGEST_NAME: Final = 80
"""Characters of a name that a message shows."""
MOST_NAMES: Final = 40
"""Names that a message shows."""
_NEARLY: Final = 0.85
"""Likeness of a name to a wanted one (of `difflib`, from 0 to 1) that shows a slip of the pen: `geocodes` for `geocode`
has 0.93, `female` for `male` 0.8."""
_CELL = "vertical-align:top;padding:0.1em 1em 0.1em 0"
_PLAIN = re.compile(r"[\n\t -~]*")


def shown(text: str) -> str:
    """The text, with each character that a terminal would not simply print replaced by its escape."""
    if _PLAIN.fullmatch(text):
        return text
    # Line feeds and tabs stay, because texts of several lines are shown as such.
    return "".join(_escape(c) if category(c) in OBEYED and c not in "\n\t" else c for c in text)


def is_one_line(text: str) -> bool:
    """Whether a text may be shown. One of several lines is no name or path, but perhaps the content of a file."""
    return len(text.splitlines()) <= 1


def in_one_line(text: str) -> str:
    """The text with a space wherever it has line feeds, tabs or several spaces."""
    return " ".join(text.split())


def short_name(name: str) -> str:
    """A name as it is. A long one is cut, and ends in three dots. A text of several lines is no name."""
    if not is_one_line(name):
        return "(a text of several lines)"
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..."


def some_names(names: Sequence[str]) -> str:
    """The first names, such as those of the columns of a file, with commas between them. Long ones are cut."""
    first = ", ".join(map(short_name, names[:MOST_NAMES]))
    return first if len(names) <= MOST_NAMES else f"{first} and {len(names) - MOST_NAMES:,} more"


def header_of(present: Iterable[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """The names of a table's columns, if a refusal may show them; else none.

    If a header was forgotten, the values of the first record are in its place. So names are shown only where one of
    them proves that they are names: it is a wanted one, or nearly so. No reader asks for names that it read from the
    same table.

    Args:
        present: Names of the columns, or what is in their place.
        wanted: Names that a table for this purpose has.
    """
    names = tuple(present)
    # Nearly is enough, so that a slip of the pen in the header still shows the columns beside it.
    close = (get_close_matches(name, names, n=1, cutoff=_NEARLY) for name in wanted)
    return names if any(close) else ()


def present_columns(present: Sequence[str], wanted: Iterable[str]) -> str:
    """What every refusal of a table says of the columns that it has; arguments as for `header_of`."""
    # The number of columns shows nothing of a record.
    if names := header_of(present, wanted):
        return f"It has: {some_names(names)}."
    return (
        f"It has {len(present):,} column(s), and none of the wanted names. Its first line is not shown, because it may "
        "be a record."
    )


def has_bytes(text: str) -> bool:
    """Whether a text holds bytes that are no UTF-8. Python reads such bytes from names of files and from terminals."""
    # Python turns byte 0x80 + n into the lone surrogate U+DC80 + n, which no valid text has.
    return any("\ud800" <= character <= "\udfff" for character in text)


def described(title: str, lines: Iterable[tuple[str, str]], lead: str = "") -> str:
    """HTML of a heading, a sentence, and a table with a name and a text in each row. Notebooks show it for an object.

    Everything is escaped. Colours are those of the notebook.

    Args:
        title: The heading.
        lines: Name and text of each row.
        lead: What the object is, in a sentence; "" for none.
    """
    rows = "".join(f"<tr>{_heading(name, 'row')}{_cell(text)}</tr>" for name, text in lines)
    return _box(title, lead, rows)


def tabulated(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], lead: str = "", *, n_names: int = 1
) -> str:
    """HTML of a heading, a sentence, and a table with a heading for each column; else as `described`.

    Args:
        title: The heading.
        headings: One for each column.
        rows: Texts of each row.
        lead: What the object is, in a sentence; "" for none.
        n_names: How many columns have names. The others have numbers, which stand to the right.
    """
    sides = ["left"] * n_names + ["right"] * (len(headings) - n_names)
    head = "".join(_heading(text, "col", side) for text, side in zip(headings, sides, strict=True))
    body = "".join(
        f"<tr>{_heading(row[0], 'row')}{''.join(map(_cell, row[1:], sides[1:]))}</tr>" for row in rows
    )
    return _box(title, lead, f"<tr>{head}</tr>{body}")


def _box(title: str, lead: str, rows: str) -> str:
    sentence = f"<p style='margin:0.3em 0'>{_safe(lead)}</p>" if lead else ""
    return (
        f"<div style='max-width:60em;overflow-x:auto'><strong>{_safe(title)}</strong>{sentence}"
        f"<table>{rows}</table></div>"
    )


def _heading(text: str, scope: str, side: str = "left") -> str:
    return f"<th scope='{scope}' style='text-align:{side};{_CELL}'>{_safe(text)}</th>"


def _cell(text: str, side: str = "left") -> str:
    return f"<td style='text-align:{side};{_CELL}'>{_safe(text)}</td>"


def _safe(text: str) -> str:
    return escape(shown(text))


def _escape(character: str) -> str:
    # UTF-16: characters beyond U+FFFF are two escapes, as in JSON.
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))
