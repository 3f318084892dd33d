"""Tables and headed lines on the terminal, laid out by rich, of which no text is read as markup.

Apart from `terminal`, so that a command that prints plain lines does not wait for rich.
"""

from typing import Any

from rich.console import Console, ConsoleRenderable
from rich.text import Text

from tallyveil.printable import shown

NARROWEST = 80
"""Smallest width of tables, in characters."""


def headed(heading: str, rest: str = "", style: str = "bold") -> Text:
    """A line of text that begins with a heading in the given style."""
    return Text.assemble((shown(heading), style), shown(rest))


class Screen(Console):
    """A rich console that treats every text as plain text, in tables as well."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)
        # On a narrow terminal rich would cut digits off numbers, so tables keep a minimum width and the terminal wraps
        # their lines. Progress bars, on standard error, must not wrap.
        if not self.stderr and self.width < NARROWEST:
            self.width = NARROWEST

    def render_str(self, text: str, **settings: Any) -> Text:
        """Turn a string into text for the layout, without terminal commands and without markup."""
        return super().render_str(shown(text), **{**settings, "markup": False, "emoji": False})

    def print(self, *objects: ConsoleRenderable | str, **settings: Any) -> None:
        """Print as rich does, but do not colour numbers and words."""
        super().print(*objects, **{**settings, "highlight": False, "markup": False})
