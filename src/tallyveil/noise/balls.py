"""Ball arithmetic: numbers that carry a proved error bound.

A ball is a midpoint and a radius that is certain to contain the true number. Whatever the working precision,
the containment holds; precision only decides how narrow the ball is. So every answer taken from a ball here
is either proved or refused.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Final

from flint import arb, ctx, fmpq

from tallyveil.errors import SolverError

MAX_PRECISION: Final = 1 << 16
"""Bits of working precision above which a number is reported as undecidable."""

_FLOAT_BITS: Final = 48
_SMALLEST_FLOAT_EXPONENT: Final = -1080

# The library keeps one precision for the whole process. The lock does not protect correctness (a ball is
# right at any precision) but keeps a thread from narrowing or widening another one's balls midway.
_PRECISION_LOCK: Final = threading.RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work at `bits` bits inside the block; one thread at a time."""
    with _PRECISION_LOCK, ctx.workprec(bits):
        yield


def rational(value: Fraction) -> arb:
    """The ball of an exact fraction at the current precision."""
    return arb(fmpq(value.numerator, value.denominator))


def power_of_two(exponent: int) -> arb:
    """Exactly 2 to the power `exponent`."""
    return arb(2) ** exponent


def between_zero_and(bound: arb) -> arb:
    """A ball that contains the whole interval from zero to `bound` (which must not be negative)."""
    return bound * arb(0.5, 0.5)


def certified_floor(ball: arb) -> int | None:
    """The floor of the number inside `ball`, if it is certain and the number is certainly no integer."""
    floor = ball.floor().unique_fmpz()
    if floor is None or not ball > floor:
        return None
    return int(floor)


def certified_float(ball: arb) -> float:
    """The number inside `ball` as a float, relative error below 2**-47 (or below 2**-1079 absolute).

    Raises:
        SolverError: the ball is too wide for that.
    """
    if ball.abs_upper() < power_of_two(_SMALLEST_FLOAT_EXPONENT):
        return 0.0
    if ball.rel_accuracy_bits() < _FLOAT_BITS:
        raise SolverError(
            f"A certified number has only {ball.rel_accuracy_bits()} proved bits, wanted {_FLOAT_BITS}. "
            "This is a defect of the precision chosen, not of the input: please report the parameters used."
        )
    return float(ball)
