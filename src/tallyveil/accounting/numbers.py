"""Numbers of accounting: read exactly, bounded on two sides, rounded and printed in the safe direction.

A printed number must not claim more than the computed one. So an upper bound is rounded up and a lower bound
down, in exact whole-number arithmetic. A number with few enough digits is printed as it is. Every printed
epsilon, delta or other bound comes from here.
"""

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Protocol, TypeAlias

import flint

from tallyveil.errors import BudgetError
from tallyveil.exact import as_given, exact_value, exactly


def round_up(ball: flint.arb) -> float:
    """The least float that is not below any point of the ball."""
    end = exact_upper(ball)
    if end is None:
        return math.inf
    mantissa, exponent = end
    size = mantissa.bit_length() + exponent  # 2^(size - 1) <= |end| < 2^size: may be far out of range
    if mantissa > 0 and size > sys.float_info.max_exp:
        return math.inf
    if size < sys.float_info.min_exp - sys.float_info.mant_dig:
        return math.ulp(0.0) if mantissa > 0 else 0.0
    exact = Fraction(mantissa) * Fraction(2) ** exponent
    # The nearest float may lie below: then the next one up is the least that does not.
    nearest = max(as_float(exact), -sys.float_info.max)
    return nearest if math.isinf(nearest) or Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def exact_upper(ball: flint.arb) -> tuple[int, int] | None:
    """(mantissa, exponent) of a number that is not below any point of the ball, or None if there is none."""
    end = ball.upper()
    if not end.is_finite():
        return None
    mantissa, exponent = end.man_exp()
    return int(mantissa), int(exponent)


def as_float(value: Fraction) -> float:
    """The nearest float; an infinity for a number beyond the largest float."""
    try:
        return float(value)
    except OverflowError:  # Fraction has no infinity to round to
        return math.inf if value > 0 else -math.inf


def log_of(value: Fraction) -> float:
    """Natural logarithm of a positive fraction, to about the precision of a float; the fraction may have any size."""
    if Fraction(1, 2) < value < 2:  # beside 1 a difference of two logarithms has no digits
        return math.log1p(as_float(value - 1))
    return math.log(value.numerator) - math.log(value.denominator)


DIGITS: Final = 6
"""Significant digits, unless the caller asks for another number of them."""

MOST_DIGITS: Final = 17
"""With this many significant digits any two different floats have different texts."""

# As in Python's own text of a float: 1e16 is the first power of ten with an exponent.
_LARGEST_PLAIN: Final = 16
_SMALLEST_PLAIN: Final = -5
"""Powers of ten between which numbers are written without an exponent."""


class TwoEnds(Protocol):
    """A number known from both sides; `accounting/numbers.py` has the class."""

    @property
    def lower(self) -> float:
        """Never above the number."""

    @property
    def upper(self) -> float:
        """Never below the number."""


def at_most(value: Fraction | float, digits: int = DIGITS, *, places: int | None = None) -> str:
    """An upper bound as text: the least decimal of the given number of digits that is not below the value.

    Args:
        value: The bound.
        digits: Significant digits; trailing zeros are left out.
        places: Digits after the point instead, zeros included: for columns of numbers. A number of more than 16
            digits before the point is written with `digits` significant digits and an exponent.
    """
    return _text(value, digits, places, up=True)


def claim_text(value: Fraction | float, places: int = 3) -> str:
    """The upper bound of a claim about a release, such as its epsilon: the same digits wherever the claim is shown.

    Args:
        value: The bound.
        places: Digits after the point. A bound below 1 has one significant digit more than that instead: with fixed
            places, a small epsilon would be shown several times too large.
    """
    return at_most(value, places=places) if value >= 1 else at_most(value, places + 1)


def claim_sentence(epsilon: str, delta: str) -> str:
    """A claim of approximate differential privacy, with the texts of its epsilon and its delta."""
    return f"epsilon <= {epsilon} at delta = {delta}"


def bound_cell(epsilon: Fraction | float) -> str:
    """An upper bound of epsilon in a column of a table, where accountants are compared: to six digits after the point.

    The digits of a claim (`claim_text`) would hide by how little one accountant is better than another.
    """
    return at_most(epsilon, places=6)


def spent_cell(cost: Fraction) -> str:
    """A cost in a column of a table, in the unit of its budget: rounded up, to five digits after the point."""
    return at_most(cost, places=5)


def within(bounds: TwoEnds) -> str:
    """Both ends of a number in words."""
    return "between {} and {}".format(*both_ends(bounds))


def at_least(value: Fraction | float, digits: int = DIGITS, *, places: int | None = None) -> str:
    """A lower bound as text: the greatest decimal of the given number of digits that is not above it."""
    return _text(value, digits, places, up=False)


def both_ends(bounds: TwoEnds, digits: int = DIGITS) -> tuple[str, str]:
    """The lower end rounded down and the upper end rounded up, with enough digits to show how far they are apart.

    Args:
        bounds: The number's bounds.
        digits: Significant digits of the upper end, at least. More are taken where the two ends differ by less than
            a few units of the last one, up to 17.
    """
    if not (math.isfinite(bounds.lower) and math.isfinite(bounds.upper)):
        return at_least(bounds.lower, digits), at_most(bounds.upper, digits)
    lower, upper = Fraction(bounds.lower), Fraction(bounds.upper)
    largest = max(abs(lower), abs(upper))
    if lower != upper:
        # Digits down to the first one in which the two ends differ.
        seen = _leading_power(largest) - _leading_power(upper - lower) + 1
        digits = max(digits, min(seen, MOST_DIGITS))
    unit = _leading_power(largest) - digits + 1 if largest else 0
    return _written(lower, unit, up=False, plain=False), _written(upper, unit, up=True, plain=False)


def short_decimal(value: Fraction) -> str:
    """An exact number: as a decimal if twelve digits suffice to write it, otherwise as a fraction."""
    text = at_most(value, 12)
    return text if Fraction(text) == value else str(value)


def delta_text(delta: Fraction) -> str:
    """The delta of a claim: exactly if twelve digits suffice, otherwise rounded up, but never to 1.

    A claim at delta = 1 says nothing. So a delta next to 1 is written as its distance from 1, which is rounded down.
    """
    # An upper bound of delta claims less, so rounding up is safe.
    text = at_most(delta, 12)
    if Fraction(text) != delta:
        text = at_most(delta)
    return f"1 - {at_least(1 - delta)}" if Fraction(text) == 1 > delta else text


def _text(value: Fraction | float, digits: int, places: int | None, *, up: bool) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "no number" if math.isnan(value) else "infinity" if value > 0 else "minus infinity"
    exact = Fraction(value)
    if places is not None and abs(exact) < 10**_LARGEST_PLAIN:
        return _written(exact, -places, up=up, plain=True)
    return _written(exact, _leading_power(abs(exact)) - digits + 1 if exact else 0, up=up, plain=False)


def _leading_power(value: Fraction) -> int:
    """The power of ten of the leading digit of a number above 0."""
    # Two logarithms, as the quotient may be beyond the floats. Exact comparisons put the guess right.
    power = math.floor(math.log10(value.numerator) - math.log10(value.denominator))
    while Fraction(10) ** power > value:
        power -= 1
    while Fraction(10) ** (power + 1) <= value:
        power += 1
    return power


def _written(value: Fraction, unit: int, *, up: bool, plain: bool) -> str:
    """The value as a multiple of 10^unit, rounded in one direction. `plain` keeps zeros and never has an exponent."""
    scaled = value / Fraction(10) ** unit
    # Exact: `scaled` is a fraction, so that no digit was lost before this one rounding.
    whole = math.ceil(scaled) if up else math.floor(scaled)
    # The sign of what is written: a value that rounds to 0 gets no minus.
    sign, figures = "-" if whole < 0 else "", str(abs(whole))
    # Counted after rounding, which may carry into one more digit, as from 9.99 to 10.
    leading = unit + len(figures) - 1
    if not plain and whole and not _SMALLEST_PLAIN <= leading < _LARGEST_PLAIN:
        rest = figures[1:].rstrip("0")
        return f"{sign}{figures[0]}{'.' + rest if rest else ''}e{leading:+03d}"
    if unit >= 0:
        return sign + str(abs(whole) * 10**unit)
    figures = figures.zfill(1 - unit)
    front, rest = figures[:unit], figures[unit:] if plain else figures[unit:].rstrip("0")
    return sign + front + (f".{rest}" if rest else "")


@dataclass(frozen=True, slots=True, repr=False)
class Bounds:
    """A number known from both sides: the truth lies in [lower, upper].

    Attributes:
        lower: Never above the truth.
        upper: Never below the truth; what a privacy claim may state.
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if math.isnan(self.lower) or math.isnan(self.upper) or self.lower > self.upper:
            raise BudgetError(
                f"a pair of bounds must have lower <= upper, got [{self.lower!r}, {self.upper!r}]"
            )

    @property
    def width(self) -> float:
        """upper - lower."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    def to_mapping(self) -> dict[str, float]:
        """JSON form."""
        return {"lower": self.lower, "upper": self.upper}

    def __repr__(self) -> str:
        """Both ends, rounded outwards to the digits that show how far they are apart."""
        lower, upper = both_ends(self)
        return f"Bounds(lower={lower}, upper={upper})"


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


MOST_ANSWERS: Final = 10**12
"""Largest multiplicity of an event: with 10^15 answers floats no longer tell their losses apart."""


def multiplicity_of(value: int, event: str) -> int:
    """How many answers or samples an event has.

    Raises:
        BudgetError: it is no whole number, or not between 1 and 10^12.
    """
    return count_of(value, f"multiplicity of {event}", most=MOST_ANSWERS)


def count_of(value: int, where: str, least: int = 1, most: int | None = None) -> int:
    """A whole number, such as a multiplicity.

    Args:
        value: An integer (also of numpy), or a Fraction, a Decimal or text of a whole number.
        where: What the number is, for the error.
        least: The smallest number allowed.
        most: The largest number allowed, if there is one.

    Raises:
        BudgetError: it is no whole number, below the least or above the most.
    """
    # An int is compared as it is: events are made by the hundred, and comparing fractions takes five times as long.
    number = value if type(value) is int else exact_value(value)
    # A multiplicity that was cut to a whole number would cost too little: refuse, do not round.
    if number is None or number.denominator != 1 or number < least:
        raise BudgetError(
            f"{where} must be an integer of {least} or more, got {as_given(value)}. Leave the event out."
        )
    if most is not None and number > most:
        raise BudgetError(f"{where} must be at most {most}, got {as_given(value)}. Check its exponent.")
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
