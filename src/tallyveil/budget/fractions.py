"""Reads exact fractions from text, and says which of them a search in floats can use."""

from fractions import Fraction
from typing import Final

from tallyveil.errors import ConfigError
from tallyveil.exact import as_given, exact_value

LARGEST_WANTED: Final = Fraction(10**9)
"""Largest weight, and largest wanted standard deviation, of a search in floats. The smallest is 1 over it."""


def can_be_wanted(value: Fraction) -> bool:
    """Whether a weight or a standard deviation is one that a search in floats can use: from 1e-9 to 1e9."""
    return 1 / LARGEST_WANTED <= value <= LARGEST_WANTED


def parse_fraction(value: object, where: str) -> Fraction:
    """The exact number that a value denotes.

    Args:
        value: Text such as '293764/114921', '3', '0.25' or '1e-10', or an integer.
        where: Name of the number, such as 'geolevel_shares.US', for the error message.

    Raises:
        ConfigError: the value is a float, or text of any other form.
    """
    if isinstance(value, float):
        raise ConfigError(
            f"{where} is the float {value!r}. A float is only close to the decimal that was written, so the number "
            f'would not be exact. Write it as a string: "{value!r}", or better as an exact fraction such as "1/3".'
        )
    number = exact_value(value)
    if number is None:
        raise ConfigError(
            f'{where} is {as_given(value)}, which is no exact number. Write a fraction "104/4099" (not over 0), an '
            'integer, or a decimal "0.25" or "1e-10", as a string.'
        )
    return number
