"""Read exact numbers from text. Text becomes a fraction only here.

`Fraction(text)` has no limits: '1e99999999' would fill the memory, and a number with ten thousand digits would raise an
error in the middle of a computation. This module checks the number of digits and the exponent before it computes.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from numbers import Integral, Number
from typing import Any

from tallyveil.printable import is_one_line

MOST_DIGITS = 2000
"""Largest number of digits of an integer, a numerator, a denominator, or either side of a decimal point."""

MOST_SHOWN = 200
"""Characters of a value that a message shows."""
_HERE = f"{__name__.partition('.')[0]}."

_READABLE = 40
"""Characters of a fraction that are shown as they are. Longer ones are shown as powers of ten where that is exact."""

_FEW_DIGITS = 17
"""Digits of a number that is shown with a power of ten; as many as the shortest text of any float has."""

# The limits are in the patterns, so that a text is refused before anything is computed from it. ASCII digits alone:
# \d would take those of other scripts.
_DIGITS = rf"[0-9]{{1,{MOST_DIGITS}}}"
_RATIO = re.compile(rf"[+-]?{_DIGITS}/{_DIGITS}")
_DECIMAL = re.compile(rf"[+-]?({_DIGITS}(\.[0-9]{{0,{MOST_DIGITS}}})?|\.{_DIGITS})([eE][+-]?[0-9]{{1,3}})?")


def fraction_of(text: str) -> Fraction | None:
    """The value of a text such as '293764/114921', '3', '0.25' or '1e-10'; None if the text is no number.

    The result is also None if the denominator is 0, if there are more than `MOST_DIGITS` digits, or if the exponent
    has more than three digits.
    """
    # A match of the whole text: neither a partial number nor an underscore of Python's passes.
    text = text.strip()
    if _RATIO.fullmatch(text):
        return None if int(text.partition("/")[2]) == 0 else Fraction(text)
    return Fraction(text) if _DECIMAL.fullmatch(text) else None


def exact_value(value: object) -> Fraction | None:
    """The value of a Fraction, a Decimal, an integer (also of numpy) or a text; None for a float, a bool or the rest.

    A Decimal is read as the text that it is printed as, with the same limits.
    """
    if isinstance(value, Fraction):
        return value
    # True and False are integers of Python; nobody means 1 by them here.
    if isinstance(value, Integral) and not isinstance(value, bool):
        return Fraction(int(value))
    return fraction_of(str(value)) if isinstance(value, str | Decimal) else None


def type_of(value: object) -> str:
    """The type of something, as a message names it. A value in a list, for example, may be one of a record."""
    return f"a value of type {type(value).__name__}"


def as_given(value: object) -> str:
    """What a message shows of something that was given, cut off after 200 characters.

    Numbers and texts of one line are shown, because they are what people mistype. A fraction is shown as it is written,
    such as `-5` or `7/3`, and an object of this library by its name and its fields. Everything else may be a table of
    records, so only its type is named.
    """
    if isinstance(value, Fraction):
        text = exactly(value)
    elif isinstance(value, str):
        text = repr(value) if is_one_line(value) else "a text of several lines"
    elif value is None or isinstance(value, Number):
        text = _number(value)
    # By module and not by content: even the length of a foreign text may say something of a record.
    elif not type(value).__module__.startswith(_HERE):
        text = type_of(value)
    elif is_dataclass(value):
        text = f"{type(value).__name__}({', '.join(_fields(value))})"
    else:
        text = repr(value) if isinstance(value, Enum) else type_of(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _fields(value: Any) -> Iterator[str]:
    """The fields of an object of this library, of which a tuple may hold others."""
    for field in fields(value):
        held = getattr(value, field.name)
        text = f"({', '.join(map(as_given, held))})" if isinstance(held, tuple) else as_given(held)
        yield f"{field.name}={text}"


def _number(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # Python refuses to print an integer with several thousand digits
        return "a number of thousands of digits"


def exactly(value: Fraction) -> str:
    """An exact number as it is written, such as `7/3`; a long one as `-2.5e400` if a few digits suffice."""
    text = str(value)
    if len(text) <= _READABLE:
        return text
    # An estimate of the power of ten; the fraction is short only if the scaled number is whole.
    power = len(str(abs(value.numerator))) - len(str(value.denominator))
    scaled = value / Fraction(10) ** (power - _FEW_DIGITS)
    if scaled.denominator != 1:
        return text
    figures = str(abs(scaled.numerator))
    power += len(figures) - 1 - _FEW_DIGITS
    rest = figures[1:].rstrip("0")
    return f"{'-' if value < 0 else ''}{figures[0]}{'.' + rest if rest else ''}e{power}"


def in_short(value: Fraction) -> str:
    """A number with six digits, for a message; about its power of ten where no float comes near it."""
    sign, size = "-" if value < 0 else "", abs(value)
    # By lengths in bits, since a float would overflow beyond 10**308.
    digits = round(math.log10(2) * (size.numerator.bit_length() - size.denominator.bit_length()))
    return f"{float(value):.6g}" if not value or abs(digits) < 300 else f"{sign}10**{digits}"


def whole_number_of(text: str) -> int | None:
    """The integer, 0 or more, that a text of ASCII digits shows; None if the text is anything else or too long."""
    return int(text) if re.fullmatch(_DIGITS, text) else None
