"""Exact numbers out of text: the one place where text becomes a fraction.

`Fraction(text)` sets no bounds: '1e99999999' would fill the memory, and a number of ten thousand digits would fail in
the middle of the work. So this module bounds the digits and the exponent of a number before it computes anything.
"""

import re
from dataclasses import fields, is_dataclass
from fractions import Fraction

MOST_DIGITS = 2000
"""Most digits of a whole number, of a numerator, of a denominator, or of either side of a decimal point."""

MOST_SHOWN = 200
"""Characters of a value that a message shows."""

_DIGITS = rf"[0-9]{{1,{MOST_DIGITS}}}"
_RATIO = re.compile(rf"[+-]?{_DIGITS}/{_DIGITS}")
_DECIMAL = re.compile(rf"[+-]?({_DIGITS}(\.[0-9]{{0,{MOST_DIGITS}}})?|\.{_DIGITS})([eE][+-]?[0-9]{{1,3}})?")


def fraction_of(text: str) -> Fraction | None:
    """The fraction that a text such as '293764/114921', '3', '0.25' or '1e-10' stands for; None where there is none.

    Also None: a fraction over 0, more digits than `MOST_DIGITS`, an exponent of more than three digits.
    """
    text = text.strip()
    if _RATIO.fullmatch(text):
        return None if int(text.partition("/")[2]) == 0 else Fraction(text)
    return Fraction(text) if _DECIMAL.fullmatch(text) else None


def exact_value(value: object) -> Fraction | None:
    """The fraction that a Fraction, an integer or a text stands for; None for a float, a bool and anything else."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    return fraction_of(value) if isinstance(value, str) else None


def as_given(value: object) -> str:
    """A value as a message shows it, cut off after 200 characters.

    A fraction is shown as it is written, such as `-5` or `7/3`. A dataclass is shown by its name and its fields in
    the same way. Anything else is shown as Python writes it, so that the text '5' differs from the number.
    """
    if isinstance(value, Fraction):
        text = str(value)
    elif is_dataclass(value) and not isinstance(value, type):
        parts = (f"{field.name}={as_given(getattr(value, field.name))}" for field in fields(value))
        text = f"{type(value).__name__}({', '.join(parts)})"
    else:
        text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def whole_number_of(text: str) -> int | None:
    """The whole number, 0 or more, that a text of ASCII digits shows; None for any other text, or one too long."""
    return int(text) if re.fullmatch(_DIGITS, text) else None
