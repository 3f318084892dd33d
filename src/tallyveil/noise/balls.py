"""Ball arithmetic: numbers that carry a proved error bound.

A ball is a midpoint and a radius. Each operation returns a ball that certainly contains the true result, at any working
precision; a higher precision only makes the ball smaller. So a question about the true number (its floor, its size) is
either answered with proof from the ball, or refused because the ball is too wide.

Worked case: the ball 2.999 +- 0.002 leaves open whether the floor is 2 or 3, so `certified_floor` returns None. At a
higher precision the ball may become 2.9994 +- 0.0001, which proves the floor 2.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Final

from flint import arb, ctx, fmpq

from tallyveil.errors import SolverError

MAX_PRECISION: Final = 1 << 16
"""Largest working precision in bits. If it does not decide a question, an error is raised."""

# Proved bits that a float is made from. Rounding to 53 bits adds 2**-53, so the relative error stays below 2**-47,
# which callers' margins are built on (`kernels.subspace`).
_FLOAT_BITS: Final = 48
# Numbers below 2**-1080 become 0. The least positive float is 2**-1074, so such a number would round to 0 anyway;
# between the two, subnormal floats have fewer digits, which is why the promise there is an absolute one.
_SMALLEST_FLOAT_EXPONENT: Final = -1080

# The library has one working precision for the whole process. Balls are correct at any precision. The lock only
# prevents one thread from changing the width of another thread's balls during a computation.
_PRECISION_LOCK: Final = threading.RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Use a working precision of `bits` bits inside the block; only one thread at a time can be in such a block."""
    # The lock is re-entrant, because one certified number may ask for another one inside its own block.
    with _PRECISION_LOCK, ctx.workprec(bits):
        yield


def rational(value: Fraction) -> arb:
    """The ball of an exact fraction at the current precision."""
    # By way of an exact fraction: a division of two balls would round twice.
    return arb(fmpq(value.numerator, value.denominator))


def power_of_two(exponent: int) -> arb:
    """Exactly 2 to the power `exponent`."""
    return arb(2) ** exponent


def between_zero_and(bound: arb) -> arb:
    """A ball that contains the whole interval from zero to `bound`, which must not be negative."""
    # 1/2 +- 1/2 times the bound: contains 0 and the bound, whatever the radius of the bound is.
    return bound * arb(0.5, 0.5)


def certified_floor(ball: arb) -> int | None:
    """The floor of the number in `ball`, or None unless the floor is certain and the number certainly no integer."""
    # The second test refuses a ball that touches a whole number: the mirror of the upper half
    # (`IntegerLaw.floor_bits`) holds only for numbers that are proved to be no integers.
    floor = ball.floor().unique_fmpz()
    if floor is None or not ball > floor:
        return None
    return int(floor)


def certified_float(ball: arb) -> float:
    """The number in `ball` as a float, with relative error below 2**-47 (or absolute error below 2**-1079).

    Raises:
        SolverError: the ball is too wide.
    """
    # Before the test of relative accuracy, since a ball around 0 has none.
    if ball.abs_upper() < power_of_two(_SMALLEST_FLOAT_EXPONENT):
        return 0.0
    if ball.rel_accuracy_bits() < _FLOAT_BITS:
        raise SolverError(
            f"A certified number has only {ball.rel_accuracy_bits()} proved bits, wanted {_FLOAT_BITS}. This is a "
            "defect of the working precision that Tallyveil chose, not of the input: please report the parameters "
            "that you used."
        )
    return float(ball)
