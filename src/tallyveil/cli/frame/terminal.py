"""All printing on the terminal. Everything printed passes through `shown`, and no text is read as markup.

Names come from unknown sources. The name of a release, a CSV header or a folder may contain terminal commands, or text
that rich reads as markup. So commands print only with `say` and with `Screen` of `screen`. A test checks this.
"""

import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import typer

from tallyveil.printable import shown

LONGEST_MESSAGE = 10_000
"""Largest number of characters of an error message. A file that is no table may have a header of several megabytes."""


def say(text: str, *, err: bool = False) -> None:
    """Print a line of text, on standard error if `err` is true."""
    typer.echo(shown(text), err=err)


def say_headed(heading: str, rest: str) -> None:
    """Print a line that begins with a heading, bold on a terminal. `screen.headed` is the same for rich."""
    typer.echo(_styled(shown(heading), bold=True), nl=False)
    say(rest)


def _styled(text: str, **style: Any) -> str:
    return text if os.environ.get("NO_COLOR") else typer.style(text, **style)


def say_json(value: object, *, indent: int | None = None, err: bool = False) -> None:
    """Print a value as JSON, which has no infinity: that is the text "Infinity", which float() of Python reads."""
    say(json.dumps(_in_json(value), indent=indent, allow_nan=False), err=err)


def _in_json(value: Any) -> Any:
    match value:
        case dict():
            return {key: _in_json(item) for key, item in value.items()}
        case list() | tuple():
            return [_in_json(item) for item in value]
        case Fraction():
            return _in_json(float(value))
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case _:
            return value


def say_error(code: str, message: str) -> None:
    """Print an error that was raised on purpose: its code, its message, and the command that explains it."""
    typer.echo(_styled(f"error [{code}]", fg="red", bold=True), err=True, nl=False)
    say(f" {_short(message)}", err=True)
    say(f"More: tallyveil explain {code}", err=True)


def _short(message: str) -> str:
    """The message, cut to `LONGEST_MESSAGE` characters, because names in it may have any length."""
    cut = len(message) - LONGEST_MESSAGE
    return message if cut <= 0 else f"{message[:LONGEST_MESSAGE]} ... and {cut:,} more characters."


@contextmanager
def compiled_libraries_silenced() -> Iterator[None]:
    """Redirect file descriptor 2 to nowhere, while Python's own standard error still goes where it went before.

    If a compiled library fails while it reads a file, it writes a message directly to descriptor 2, before Python
    learns of the error. This message may quote the file. The descriptor is redirected for the whole command, not only
    while a file is read, because threads of a library may still write after the failing call has returned.
    """
    try:
        copy = os.dup(2)
    except OSError:  # standard error is closed, so nothing can be written to it
        yield
        return
    before, null = sys.stderr, os.open(os.devnull, os.O_WRONLY)
    moved = _is_standard(before)
    if moved:
        before.flush()
        # On a console of Windows, only this opener writes every character.
        sys.stderr = os.fdopen(copy, "w", 1, before.encoding, "backslashreplace", closefd=False)
    os.dup2(null, 2)
    try:
        yield
    finally:
        if moved:
            sys.stderr.close()
            sys.stderr = before
        os.dup2(copy, 2)
        os.close(copy)
        os.close(null)


def _is_standard(stream: Any) -> bool:
    """Whether a stream writes to descriptor 2."""
    try:
        return bool(stream.fileno() == 2)
    except (OSError, ValueError, AttributeError):
        return False  # None, or an object without a descriptor that another program put in the place of the stream
