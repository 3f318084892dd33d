"""Exact numbers as text, and out of it."""

import re
from fractions import Fraction

from tallyveil.accounting.decimals import at_most
from tallyveil.errors import BudgetError

_RATIO = re.compile(r"[+-]?\d{1,4000}/\d{1,4000}", re.ASCII)
# Three digits of exponent: a longer one would be an accident, and take gigabytes to hold.
_DECIMAL = re.compile(r"[+-]?(\d{1,2000}(\.\d{0,2000})?|\.\d{1,2000})([eE][+-]?\d{1,3})?", re.ASCII)


def exact_text(value: Fraction) -> str:
    """The fraction and, unless it is an integer, its decimal, rounded up: `293764/114921 (2.556226)`."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{value} ({at_most(value, 7)})"


def exact_number(value: Fraction | int | str, where: str) -> Fraction:
    """The fraction a value stands for.

    Args:
        value: A Fraction, an integer, or text such as '293764/114921', '3', '0.25' or '1e-10'.
        where: What the number is, for the error.
    Raises:
        BudgetError: a float, whose decimal is not what was written; or anything else that is no exact number.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, str):
        text = value.strip()
        ratio = _RATIO.fullmatch(text)
        if (ratio and int(text.partition("/")[2]) != 0) or (not ratio and _DECIMAL.fullmatch(text)):
            return Fraction(text)
    raise BudgetError(
        f"{where} must be an exact number, got {value!r:.80}. "
        "Give a Fraction, an integer, or text such as '5/2' or '0.25'; a float is not the decimal it was written as."
    )
