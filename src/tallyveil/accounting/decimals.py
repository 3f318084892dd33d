"""Bounds as decimal text, rounded in the safe direction.

A printed number must not claim more than the computed one. So an upper bound is rounded up and a lower bound down, in
exact whole-number arithmetic. A number with few enough digits is printed as it is. Every printed epsilon, delta or
other bound comes from here.
"""

import math
from fractions import Fraction
from typing import Final, Protocol

DIGITS: Final = 6
"""Significant digits, unless the caller asks for another number of them."""

MOST_DIGITS: Final = 17
"""With this many significant digits any two different floats have different texts."""

# As in Python's own text of a float: 1e16 is the first power of ten with an exponent.
_LARGEST_PLAIN: Final = 16
_SMALLEST_PLAIN: Final = -5
"""Powers of ten between which numbers are written without an exponent."""


class TwoEnds(Protocol):
    """A number known from both sides; `accounting/bounds.py` has the class."""

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
