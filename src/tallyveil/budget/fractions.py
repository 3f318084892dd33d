"""Exact fractions out of text."""

import re
from fractions import Fraction

from tallyveil.errors import ConfigError

_RATIO = re.compile(r"[+-]?\d+/\d+", re.ASCII)
# The exponent is kept to three digits: a longer one would be an accident, and take gigabytes to hold.
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


def parse_fraction(value: object, where: str) -> Fraction:
    """The exact number a value stands for.

    Args:
        value: Text such as '293764/114921', '3', '0.25' or '1e-10', or an integer.
        where: What the number is, such as 'geolevel_shares.US', for the error.

    Raises:
        ConfigError: a float, or text of any other form.
    """
    if isinstance(value, float):
        raise ConfigError(
            f"{where} is the float {value!r}, which is not the decimal it was written as: a share would no longer "
            f'be exact. Write it as a string: "{value!r}", or better an exact fraction such as "1/3".'
        )
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    text = value.strip() if isinstance(value, str) else ""
    is_ratio = _RATIO.fullmatch(text) is not None
    if not is_ratio and _DECIMAL.fullmatch(text) is None:
        raise ConfigError(
            f'{where} is {value!r}, which is no exact number. Write a fraction "104/4099", an integer, or a '
            'decimal "0.25" or "1e-10", as a string.'
        )
    if is_ratio and int(text.partition("/")[2]) == 0:
        raise ConfigError(f"{where} is {value!r}, a fraction over 0. Write a denominator above 0.")
    return Fraction(text)
