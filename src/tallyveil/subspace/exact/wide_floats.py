"""Numbers from 0 whose exponents have 64 bits, with sums of products that are rounded up, and exact choices by them.

Problem. Sums of products of many weights are needed whose sizes differ by more than floats can hold. What is small
beside one of these sums may be all of another one.

Steps. A number is a float mantissa, 0 or in [1/2, 1), times a power of two, which it has for itself. The terms of a
sum are brought to the exponent of its largest term before they are added. So what underflow takes from a term is small
beside the sum, whatever the terms of other sums are.

Rounding. The largest term of a sum has a mantissa of 1/4 or more, being a product of two. Terms below 2**-1022 of it
are replaced by larger ones. Each term is off by a share of 2**-53 for its product and by 2**-1074 for its alignment,
and the additions, one after the other, by a share of 2**-53 each. So a sum of n <= 2**20 terms is too small by a share
of at most (n + 2) 2**-53 < 2**-32, and it is multiplied by 1 + 2**-31.

Choices. The numbers are exact binary numbers. A choice compares the digits of a uniform number with their quotients, in
integers. It begins with 128 bits of each numerator and takes more only if these leave the choice open.

Worked case. The sum of 1/2 * 2**-5000 and 1/2 * 2**-5001 is 3/4 * 2**-5000, times 1 + 2**-31.

Source: docs/proofs/integer-subspace.md, section 5.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
from flint import arb

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.noise.balls import power_of_two

MOST_TERMS: Final = 1 << 20
"""Largest number of terms of a sum, and of outcomes of a choice."""

_UP: Final = 1 + 2.0**-31
_OF_ZERO: Final = -(1 << 60)
"""Exponent of 0, far below all others, and such that sums of a few of them fit 64 bits."""
_LEAST_SHIFT: Final = -1022
"""Exponent of the smallest normal float."""
_SPARE_BITS: Final = 64
"""Bits of a numerator beyond those of the uniform number."""


@dataclass(frozen=True, slots=True, eq=False)
class WideFloats:
    """Numbers mantissa * 2**exponent.

    Attributes:
        mantissas: float64 [n], 0 or from 1/2 to below 1.
        exponents: int64 [n].
    """

    mantissas: Floats
    exponents: Integers

    def at(self, places: Integers | slice) -> "WideFloats":
        """The numbers at some places."""
        return WideFloats(self.mantissas[places], self.exponents[places])

    def where(self, wanted: Bools) -> "WideFloats":
        """The numbers at some places, and 0 at the others."""
        return WideFloats(np.where(wanted, self.mantissas, 0.0), np.where(wanted, self.exponents, _OF_ZERO))

    def ball(self, place: int) -> arb:
        """One of the numbers, exactly."""
        return arb(float(self.mantissas[place])) * power_of_two(int(self.exponents[place]))


def wide_floats(balls: Sequence[arb]) -> WideFloats:
    """Numbers of 52 bits that are not below any point of the balls, which are finite and above 0."""
    mantissas, exponents = [], []
    for ball in balls:
        mantissa, exponent = map(int, ball.upper().man_exp())
        spare = max(mantissa.bit_length() - 52, 0)
        mantissas.append(-(-mantissa >> spare))
        exponents.append(exponent + spare)
    return _normal(np.array(mantissas, dtype=np.float64), np.array(exponents, dtype=np.int64))


def ones(n: int) -> WideFloats:
    """The number 1, n times."""
    return WideFloats(np.full(n, 0.5), np.ones(n, dtype=np.int64))


def summed(first: WideFloats, second: WideFloats, starts: Integers) -> WideFloats:
    """Sums of products, rounded up: of those from starts[i] to starts[i + 1], at most `MOST_TERMS`."""
    exponents = first.exponents + second.exponents
    numbers = np.diff(starts)
    run = np.repeat(np.arange(numbers.size), numbers)
    (filled,) = np.nonzero(numbers)
    top = np.full(numbers.size, 2 * _OF_ZERO)
    if filled.size:
        top[filled] = np.maximum.reduceat(exponents, starts[filled])
    aligned = first.mantissas * second.mantissas * _powers(exponents - top[run])
    sums = np.bincount(run, aligned, numbers.size)
    return _normal(np.asarray(sums, dtype=np.float64) * _UP, top)


def convolved(first: WideFloats, second: WideFloats) -> WideFloats:
    """Sums over c of first[c] second[g - c], rounded up, for all places g of `second`; at most `MOST_TERMS`."""
    n = second.mantissas.size
    top = np.full(n, 2 * _OF_ZERO)
    sums = np.zeros(n)
    (places,) = np.nonzero(first.mantissas)
    terms = list(
        zip(places.tolist(), first.mantissas[places].tolist(), first.exponents[places].tolist(), strict=True)
    )
    for place, _, exponent in terms:
        np.maximum(top[place:], exponent + second.exponents[: n - place], out=top[place:])
    # In a fixed order of additions, so that the floats are the same on every machine.
    for place, mantissa, exponent in terms:
        shifts = exponent + second.exponents[: n - place] - top[place:]
        sums[place:] += mantissa * second.mantissas[: n - place] * _powers(shifts)
    return _normal(sums * _UP, top)


def _powers(shifts: Integers) -> Floats:
    """Exactly 2**shift for shifts of at most 0, and 2**-1022 below that."""
    # The bits of a float that is a power of two are its exponent plus 1023.
    powers: Floats = ((np.maximum(shifts, _LEAST_SHIFT) + 1023) << 52).view(np.float64)
    return powers


def _normal(values: Floats, exponents: Integers) -> WideFloats:
    mantissas, more = np.frexp(values)
    return WideFloats(mantissas, np.where(mantissas > 0, exponents + more, _OF_ZERO))


def choose(first: WideFloats, second: WideFloats, whole: WideFloats, digits: Iterator[int]) -> int | None:
    """Outcome j with probability first[j] second[j] / whole, exactly; None with what is left.

    Args:
        first, second: At most `MOST_TERMS` numbers.
        whole: One number, at least the sum of the products.
        digits: All digits of a uniform number, in groups of 64.
    """
    numerators = [a * b for a, b in zip(_integers(first), _integers(second), strict=True)]
    exponents = (first.exponents + second.exponents - int(whole.exponents[0])).tolist()
    (denominator,) = _integers(whole)
    uniform, bits = 0, 0
    while True:
        uniform, bits = uniform << 64 | next(digits), bits + 64
        # Numerators of 106 bits, in units of 2**-accuracy of the power of two of the denominator, rounded down.
        accuracy = bits + _SPARE_BITS
        up_to = list(
            accumulate(_shifted(a, e + accuracy - 106) for a, e in zip(numerators, exponents, strict=True))
        )
        all_of_it = denominator << (accuracy - 53)
        # The sum of the first j + 1 numerators is between up_to[j] and up_to[j] + j + 1 units. Outcome j is the first
        # whose sum is above the uniform number, which lies in [u, u + 1) / 2**bits of all of it.
        least = bisect_right(range(len(up_to)), uniform * all_of_it >> bits, key=lambda j: up_to[j] + j + 1)
        most = bisect_left(up_to, -(-(uniform + 1) * all_of_it >> bits))
        if least == most:
            return least if least < len(up_to) else None


def _integers(values: WideFloats) -> list[int]:
    """The mantissas as multiples of 2**-53."""
    integers: list[int] = np.ldexp(values.mantissas, 53).astype(np.int64).tolist()
    return integers


def _shifted(value: int, by: int) -> int:
    return value << by if by >= 0 else value >> -by
