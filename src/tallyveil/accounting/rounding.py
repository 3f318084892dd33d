"""From balls and fractions to floats: rounded in a stated direction, over any range."""

import math
import sys
from fractions import Fraction

import flint


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
