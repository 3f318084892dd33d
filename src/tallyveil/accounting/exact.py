"""Exact numbers as text, and out of it."""

from fractions import Fraction

from tallyveil.accounting.decimals import at_most
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given, exact_value


def exact_text(value: Fraction) -> str:
    """The fraction and, unless it is an integer, its decimal, rounded up: `293764/114921 (2.556226)`."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{value} ({at_most(value, 7)})"


LARGEST = Fraction(10) ** 100
LEAST = 1 / LARGEST
"""Of a parameter of noise. Beyond them floats, with which some engines search, come to their ends."""


def parameter_of_noise(value: Fraction | int | str, where: str) -> Fraction:
    """The exact number above 0 that a parameter of noise, such as a variance, stands for.

    Raises:
        BudgetError: it is no exact number, not above 0, or beyond 10**100 or 10**-100.
    """
    number = exact_number(value, where)
    if number <= 0:
        raise BudgetError(f"{where} must be above 0, got {as_given(value)}. Leave out what is not measured.")
    if not LEAST <= number <= LARGEST:
        raise BudgetError(
            f"{where} must lie between 1e-100 and 1e100, got {as_given(value)}. Check its exponent."
        )
    return number


def exact_number(value: Fraction | int | str, where: str) -> Fraction:
    """The fraction a value stands for.

    Args:
        value: A Fraction, an integer, or text such as '293764/114921', '3', '0.25' or '1e-10'.
        where: What the number is, for the error.
    Raises:
        BudgetError: a float, whose decimal is not what was written; or anything else that is no exact number.
    """
    if (number := exact_value(value)) is not None:
        return number
    raise BudgetError(
        f"{where} must be an exact number, got {as_given(value)}. "
        "Give a Fraction, an integer, or text such as '5/2' or '0.25'; a float is not the decimal it was written as."
    )
