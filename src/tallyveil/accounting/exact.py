"""Exact numbers, to text and from text."""

import math
from fractions import Fraction
from typing import TypeAlias

from tallyveil.accounting.decimals import at_most
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given, exact_value, exactly

Exact: TypeAlias = Fraction | int | str
"""What is taken as an exact number. Decimals and the integers of numpy are taken too."""


def exact_text(value: Fraction) -> str:
    """The fraction and, unless it is an integer, its decimal, rounded up: `293764/114921 (2.556226)`; or `1e400`."""
    text = exactly(value)
    return text if value.denominator == 1 or "/" not in text else f"{text} ({at_most(value, 7)})"


# Squares and cubes of it are still floats (up to 1.8e308); squares of 10**200 would not be.
LARGEST = Fraction(10) ** 100
LEAST = 1 / LARGEST
"""Range of a parameter of noise. Some engines search in floats, which cannot hold numbers far beyond this range."""


def parameter_of_noise(value: Fraction | int | str, where: str) -> Fraction:
    """A parameter of noise, such as a variance, as an exact number above 0.

    Raises:
        BudgetError: it is no exact number, not above 0, or beyond 10**100 or 10**-100.
    """
    number = exact_number(value, where)
    if number <= 0:
        raise BudgetError(f"{where} must be above 0, got {as_given(value)}. Leave out what is not measured.")
    # Refused here, with the name of the parameter, and not by an engine in the middle of a search.
    if not LEAST <= number <= LARGEST:
        raise BudgetError(
            f"{where} must lie between 1e-100 and 1e100, got {as_given(value)}. Check its exponent."
        )
    return number


def exact_number(value: Fraction | int | str, where: str) -> Fraction:
    """The fraction a value stands for.

    Args:
        value: A Fraction, a Decimal, an integer, or text such as '293764/114921', '3', '0.25' or '1e-10'.
        where: What the number is, for the error.
    Raises:
        BudgetError: a float, whose decimal is not what was written; or anything else that is no exact number.
    """
    if (number := exact_value(value)) is not None:
        return number
    advice = "Give a Fraction, an integer, a Decimal, or text such as '5/2' or '0.25'."
    if isinstance(value, float) and math.isfinite(value):
        advice = (
            f"Write '{value!r}', as text, or better an exact fraction such as '1/3': a float is not the decimal it was "
            "written as."
        )
    raise BudgetError(f"{where} must be an exact number, got {as_given(value)}. {advice}")


def count_of(value: int, where: str, least: int = 1) -> int:
    """A whole number, such as a multiplicity.

    Args:
        value: An integer (also of numpy), or a Fraction, a Decimal or text of a whole number.
        where: What the number is, for the error.
        least: The smallest number allowed.

    Raises:
        BudgetError: it is no whole number, or below the least.
    """
    number = exact_value(value)
    # A multiplicity that was cut to a whole number would cost too little: refuse, do not round.
    if number is None or number.denominator != 1 or number < least:
        raise BudgetError(
            f"{where} must be an integer of {least} or more, got {as_given(value)}. Leave the event out."
        )
    return int(number)


def share_of(value: Fraction | int | str, where: str) -> Fraction:
    """A probability, as an exact number from 0 to 1.

    Raises:
        BudgetError: it is no exact number, below 0 or above 1.
    """
    number = exact_number(value, where)
    if not 0 <= number <= 1:
        raise BudgetError(
            f"{where} must lie between 0 and 1, got {as_given(value)}. Give one such as '1e-6'."
        )
    return number
