"""The one way to the terminal: whatever is printed passes through `shown`, and no text is markup.

Names come from strangers: the name of a release, a CSV header or a folder may hold commands of a terminal, or text that
rich reads as markup. So commands print with `say` and `Screen` only, and a test checks this.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console, ConsoleRenderable
from rich.text import Text

from tallyveil.printable import shown

NARROWEST = 80
"""Columns that tables take at least."""
LONGEST_MESSAGE = 10_000
"""Characters of an error that are shown; a file that is no table may have a header of megabytes."""


def say(text: str, *, err: bool = False) -> None:
    """Print a line of text, on standard error if asked for."""
    typer.echo(shown(text), err=err)


def say_error(code: str, message: str) -> None:
    """Print an error raised on purpose: its code, what it says, where more is said."""
    label = f"error [{code}]"
    styled = label if os.environ.get("NO_COLOR") else typer.style(label, fg="red", bold=True)
    typer.echo(styled, err=True, nl=False)
    say(f" {_short(message)}", err=True)
    say(f"More: tallyveil explain {code}", err=True)


def _short(message: str) -> str:
    """A message that fits some screens: a name in it may have any length."""
    cut = len(message) - LONGEST_MESSAGE
    return message if cut <= 0 else f"{message[:LONGEST_MESSAGE]} ... and {cut:,} more characters."


def headed(heading: str, rest: str = "", style: str = "bold") -> Text:
    """A line that begins with a heading in another style."""
    return Text.assemble((shown(heading), style), shown(rest))


class Screen(Console):
    """A console of rich on which every text, also in a table, is only text."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)
        # The terminal wraps what is too long for it; rich would cut the digits of numbers off. Bars must not wrap.
        if not self.stderr and self.width < NARROWEST:
            self.width = NARROWEST

    def render_str(self, text: str, **settings: Any) -> Text:
        """Text to be laid out, without commands of a terminal and without markup."""
        return super().render_str(shown(text), **{**settings, "markup": False, "emoji": False})

    def print(self, *objects: ConsoleRenderable | str, **settings: Any) -> None:
        """Print as rich does; numbers and words are not coloured."""
        super().print(*objects, **{**settings, "highlight": False, "markup": False})


@contextmanager
def compiled_libraries_silenced() -> Iterator[None]:
    """Send file descriptor 2 nowhere, and Python's own standard error where it went before.

    A compiled library that fails in the middle of reading a file writes why straight to descriptor 2, before Python
    hears of it, and may quote the file. What Python prints itself goes on as it did. The descriptor is moved once for
    the whole command, not while a file is read: a library's threads may still write after the failing call is back.
    """
    try:
        own = os.dup(2)
    except OSError:  # standard error is closed: there is nothing to keep silent
        yield
        return
    before, null = sys.stderr, os.open(os.devnull, os.O_WRONLY)
    moved = _is_standard(before)
    if moved:
        before.flush()
        sys.stderr = io.TextIOWrapper(
            io.FileIO(own, "w", closefd=False), before.encoding, "backslashreplace", line_buffering=True
        )
    os.dup2(null, 2)
    try:
        yield
    finally:
        if moved:
            sys.stderr.close()
            sys.stderr = before
        os.dup2(own, 2)
        os.close(own)
        os.close(null)


def _is_standard(stream: Any) -> bool:
    """Whether a stream writes to descriptor 2."""
    try:
        return bool(stream.fileno() == 2)
    except (
        OSError,
        ValueError,
        AttributeError,
    ):  # a stand-in of another program, without a descriptor, or None
        return False
