"""Errors in public inputs, all reported at once."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tallyveil.errors import TallyveilError

Made = TypeVar("Made")

SHOWN = 8
"""Number of values that a message shows. A wrong column has millions; twice as many would fill the screen, half
would show no pattern."""

LONGEST = 60
"""Number of characters of a value that are shown."""


def raise_all(problems: Sequence[TallyveilError], what: str) -> None:
    """Raise one error with all problems, with the type of the first one; do nothing if there are none."""
    if not problems:
        return
    if len(problems) == 1:
        raise problems[0]
    lines = [f"{len(problems)} problems with {what}:", *(f"- {problem}" for problem in problems)]
    # The type and code of the first problem, so that programs can tell what to correct first.
    raise type(problems[0])("\n".join(lines), code=problems[0].code)


def made_or_noted(make: Callable[[], Made], problems: list[TallyveilError]) -> Made | None:
    """What a function makes; or None, with its error added to the problems."""
    try:
        return make()
    except TallyveilError as error:
        problems.append(error)
        return None


def some(values: Sequence[str]) -> str:
    """The first few values of a public file, quoted."""
    shown = ", ".join(repr(value[:LONGEST]) for value in values[:SHOWN])
    return shown + (", ..." if len(values) > SHOWN else "")
