"""Draws a table without negative counts from the l1 Laplace law restricted to such tables, exactly.

Problem. Given the true counts x >= 0 of the cells of a block, wanted is y >= 0 with the sum of x and with probability
proportional to exp(-epsilon |y - x|_1).

Variables. For any tilt t > -epsilon, a cell has the law p(y) ~ exp(-epsilon |y - x| - t y) on y >= 0. Given their sum,
independent cells with these laws have the wanted law, whatever the tilt, because exp(-t sum y) is a constant then.

Steps. The tilt is chosen so that the expected sum of the cells is about the wanted sum. A trial draws all cells but the
pivot, the cell with the largest count. The sum determines the pivot. The trial succeeds with probability p(pivot) /
max p, and never if the pivot would be negative. Cells that no constraint names are drawn from p with tilt 0.

A cell has two sides: the counts up to x and the counts above x. One uniform number chooses the side by the masses of
the two, another one chooses the place on it, by inversion: both sides are (truncated) geometric. All decisions are
taken in ball arithmetic and with as many digits of the uniform numbers as they need, so that the law is exact. The tilt
itself needs no accuracy: it changes the number of trials only.

Stopping rule. A draw ends with its first successful trial. With the tilt chosen like this, about one trial in 2 sqrt(n)
succeeds for a block of n cells, whatever the counts.

Worked case. x = (0, 0, 1). Without a tilt the expected sum is far above 1 if epsilon is small. With a tilt near ln 4
each cell has about 1/3 in expectation, and every few trials the first two cells sum to 0 or 1.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

import numpy as np
from flint import arb

from tallyveil.arrays import Integers
from tallyveil.noise.balls import certified_floor, precision, rational
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.structure import Structure

_BITS: Final = 256
"""Bits of ball arithmetic. Draws that they leave undecided are decided with more."""
_TILT_STEPS: Final = 32
"""Halvings of the interval of the tilt. Given the sum, the tilt cancels: it decides only how many trials succeed."""
Digits: TypeAlias = Callable[[int], Iterator[int]]
Answer = TypeVar("Answer", int, bool)


@dataclass(frozen=True, slots=True)
class TiltedCell:
    """The law p(y) ~ exp(-epsilon |y - count| - tilt y) on y >= 0.

    Attributes:
        count: The true count. Confidential.
        epsilon: Rate of the Laplace law.
        tilt: 0 or more.
    """

    count: int
    epsilon: Fraction
    tilt: Fraction

    def draw(self, digits: Digits) -> int:
        """One draw; `digits` gives the binary digits of the uniform numbers 0 and 1."""
        if _positive(digits(0), lambda u: u * (self._mass_up_to() + self._mass_above()) - self._mass_up_to()):
            above = self.epsilon + self.tilt
            return self.count + 1 + _floor(digits(1), lambda u: -u.log() / rational(above))
        return self._place_up_to(digits(1))

    def excess(self) -> arb:
        """The expectation minus the count."""
        low, high = self._mass_up_to(), self._mass_above()
        above = rational(self.epsilon + self.tilt)
        return (high / -(-above).expm1() - low * self._mean_below()) / (low + high)

    def keeps(self, value: int, digits: Iterator[int]) -> bool:
        """Whether a value is kept, with probability p(value) / max p."""
        if value < 0:
            return False
        mode = self.count if self.tilt <= self.epsilon else 0
        loss = self._energy(value) - self._energy(mode)

        def beyond(u: arb) -> arb:
            return u - (-rational(loss)).exp()

        return not loss or not _positive(digits, beyond)

    def _energy(self, value: int) -> Fraction:
        return self.epsilon * abs(value - self.count) + self.tilt * value

    def _mass_up_to(self) -> arb:
        """Mass of 0, ..., count, in units of the weight of `count`."""
        slope = self.epsilon - self.tilt
        if not slope:
            return arb(self.count + 1)
        rate = rational(slope)
        return (-rate * (self.count + 1)).expm1() / (-rate).expm1()

    def _mass_above(self) -> arb:
        """Mass of count + 1, count + 2, ..., in the same units."""
        rate = rational(self.epsilon + self.tilt)
        return (-rate).exp() / -(-rate).expm1()

    def _mean_below(self) -> arb:
        """Expectation of count - y, given that y is at most the count."""
        slope, n = self.epsilon - self.tilt, self.count + 1
        if not slope:
            return arb(self.count) / 2
        rate = rational(abs(slope))
        mean = 1 / rate.expm1() - n / (rate * n).expm1()
        return mean if slope > 0 else self.count - mean

    def _place_up_to(self, digits: Iterator[int]) -> int:
        """A draw given that it is at most the count: geometric from the count down, or from 0 up."""
        slope, n = self.epsilon - self.tilt, self.count + 1
        if not slope:
            return _floor(digits, lambda u: u * n)
        rate = rational(abs(slope))
        place = _floor(digits, lambda u: -(1 + u * (-rate * n).expm1()).log() / rate)
        return self.count - place if slope > 0 else place


def draw_restricted(
    address: NoiseAddress, counts: Integers, structure: Structure, epsilon: Fraction
) -> Integers:
    """A table without negative counts, with the block sums of `counts`, from the restricted law.

    Args:
        address: Place of the draw in the address space.
        counts: int64 [n_cells], from 0; the true table. Confidential.
        structure: A structure whose block sums vanish on the lattice (`Structure.sums_vanish`).
        epsilon: Rate of the law, for each unit of l1 distance.
    Returns:
        int64 [n_cells].
    Privacy: epsilon times twice the l1 distance, between tables with the same block sums. The time that a draw takes
        depends on the counts.
    """
    drawn = np.zeros_like(counts)
    for cell in structure.free.tolist():
        law = TiltedCell(int(counts[cell]), epsilon, Fraction(0))
        drawn[cell] = law.draw(_sites(address, cell, 0, 1)(0))
    for block in structure.blocks:
        drawn[block] = _block(address, counts[block], int(block[0]), epsilon)
    return drawn


def _block(address: NoiseAddress, counts: Integers, place: int, epsilon: Fraction) -> list[int]:
    total = int(counts.sum())
    # The only table of counts from 0 with this sum: nothing to draw.
    if total == 0:
        return [0] * counts.size
    pivot = int(np.argmax(counts))
    with precision(_BITS):
        tilt = _tilt(counts, epsilon)
        laws = [TiltedCell(int(count), epsilon, tilt) for count in counts]
    trial = 0
    while True:
        vector = _trial(laws, pivot, total, _sites(address, place, trial * counts.size, counts.size))
        if vector is not None:
            return vector
        trial += 1


def _trial(
    laws: list[TiltedCell], pivot: int, total: int, sites: Callable[[int], Digits]
) -> list[int] | None:
    """One trial: the cells, or None. The pivot comes last and is what the others leave."""
    values, left = [0] * len(laws), total
    for i, law in enumerate(laws):
        if i != pivot:
            values[i] = law.draw(sites(i))
            left -= values[i]
        if left < 0:
            return None
    values[pivot] = left
    return values if laws[pivot].keeps(left, sites(pivot)(0)) else None


def _tilt(counts: Integers, epsilon: Fraction) -> Fraction:
    """A tilt at which the expected sum is about the sum of the counts. No tilt makes it larger, a large one smaller."""
    kinds, numbers = np.unique(counts, return_counts=True)
    low, high = Fraction(0), epsilon + math.ceil(math.log2(counts.size + 1)) + 1
    for _ in range(_TILT_STEPS):
        middle = (low + high) / 2
        excess = arb(0)
        for kind, number in zip(kinds.tolist(), numbers.tolist(), strict=True):
            excess += number * TiltedCell(kind, epsilon, middle).excess()
        low, high = (middle, high) if excess.mid() > 0 else (low, middle)
    return (low + high) / 2


def _sites(address: NoiseAddress, draw: int, first: int, pairs: int) -> Callable[[int], Digits]:
    """The two uniform numbers of each of some cells, from a pair of sites on: for a cell, its digits by number."""
    words = address.numbers(np.array([draw], dtype=np.int64), 2 * first, 2 * pairs)[0].tolist()

    def of_cell(cell: int) -> Digits:
        def digits(trial_number: int) -> Iterator[int]:
            yield words[2 * cell + trial_number]
            yield from address.source.digits(
                address.geolevel, address.query, draw, 2 * (first + cell) + trial_number
            )

        return digits

    return of_cell


def _floor(digits: Iterator[int], value: Callable[[arb], arb]) -> int:
    """The floor of a value of a uniform number."""
    return _answer(digits, lambda u: certified_floor(value(u)))


def _positive(digits: Iterator[int], value: Callable[[arb], arb]) -> bool:
    """Whether a value of a uniform number is positive."""

    def sign(u: arb) -> bool | None:
        ball = value(u)
        return True if ball > 0 else False if ball < 0 else None

    return _answer(digits, sign)


def _answer(digits: Iterator[int], question: Callable[[arb], Answer | None]) -> Answer:
    """The answer of a question about a uniform number, with as many of its digits as that takes."""
    known, bits = 0, 0
    while True:
        known, bits = known << 64 | next(digits), bits + 64
        with precision(_BITS + bits):
            # The ball below holds every number that begins with the known digits, so an answer is final.
            half = arb(2) ** -(bits + 1)
            answer = question((2 * known + 1) * half + arb(0, half))
        if answer is not None:
            return answer
