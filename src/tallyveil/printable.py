"""Text of strangers made safe to show: names, paths and headers may hold characters that a terminal obeys.

There is one rule: what is shown holds printable characters, spaces, tabs and line feeds. Every other character is shown
as its escape, such as `\\u001b` for the character that begins a terminal's commands. The escapes are those of JSON, so
JSON that passes through here keeps its meaning.
"""

import re
from unicodedata import category

OBEYED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that are shown as escapes: controls, formats (such as those that turn the direction of text),
halves of characters, what is private or not assigned, and the separators of lines and paragraphs."""

_PLAIN = re.compile(r"[\n\t -~]*")


def shown(text: str) -> str:
    """The text, with an escape in the place of every character that a terminal would obey and not show."""
    if _PLAIN.fullmatch(text):
        return text
    return "".join(_escape(c) if category(c) in OBEYED and c not in "\n\t" else c for c in text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))
