"""Laws on the integers whose probabilities are fractions, in the form that the tables of noise are made from."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import floor
from random import Random

from flint import arb

from tallyveil.noise.balls import rational
from tallyveil.noise.laws import IntegerLaw
from tallyveil.subspace.exact.convolution import ConvolvedSums, SumLaws

Masses = dict[int, Fraction]


def convolved(one: Masses, other: Masses) -> Masses:
    """The law of the sum of two independent integers."""
    total: Masses = {}
    for x, p in one.items():
        for y, q in other.items():
            total[x + y] = total.get(x + y, Fraction(0)) + p * q
    return total


def random_masses(random, reach: int, largest: int = 1000, symmetric: bool = True) -> Masses:
    """Probabilities above zero of -reach .. reach, with a common denominator that is odd."""
    right = [random.randint(1, largest) for _ in range(reach)]
    left = list(reversed(right)) if symmetric else [random.randint(1, largest) for _ in right]
    middle = random.randint(1, largest)
    weights = [*left, middle + 1 - (sum(left + right) + middle) % 2, *right]
    whole = sum(weights)
    return {x - reach: Fraction(weight, whole) for x, weight in enumerate(weights)}


@dataclass(frozen=True, eq=False)
class RationalSums(SumLaws):
    """Tables of sums of cells with a law of fractions; the exact laws are known, too."""

    cell: Masses = field(default_factory=dict)

    def exact(self, n: int) -> Masses:
        """The law of the sum of n cells."""
        total = {0: Fraction(1)}
        for _ in range(n):
            total = convolved(total, self.cell)
        return total

    def _single(self, bits: int) -> ConvolvedSums:
        reach = max(self.cell)
        values = tuple(floor(self.cell[x] * 2**bits) for x in range(-reach, reach + 1))
        return ConvolvedSums(bits, reach, 2, values)


def sums_of(cell: Masses) -> RationalSums:
    """The tables of a law of fractions."""
    return RationalSums("a law of fractions", cell=cell)


@cache
def _power(ratio: Fraction, x: int) -> Fraction:
    return ratio**x


@dataclass(frozen=True)
class TwoSidedGeometric(IntegerLaw):
    """P(X >= x) = ratio^x / (1 + ratio) for x >= 1, with a ratio of an even and an odd number.

    So no boundary has finitely many binary digits."""

    ratio: Fraction

    def tail(self, x: int) -> Fraction:
        """P(X >= x) for x >= 1."""
        return _power(self.ratio, x) / (1 + self.ratio)

    def up_to(self, j: int) -> Fraction:
        """P(X <= j)."""
        return self.tail(-j) if j < 0 else 1 - self.tail(j + 1)

    @property
    def _guard_bits(self) -> int:
        return 64

    def _tails(self, unit: arb) -> Iterator[arb]:
        tail = unit / rational(1 + self.ratio)
        while True:
            tail = tail * rational(self.ratio)
            yield tail

    def _tail_bound(self, x: int) -> arb:
        return rational(self.tail(x))

    def _probability(self, x: int) -> arb:
        raise NotImplementedError

    def _variance(self) -> arb:
        raise NotImplementedError


def split_law(left: Masses, right: Masses, t: int) -> Masses:
    """The law of the left sum, given that both sums add up to t."""
    joint = {s: p * right[t - s] for s, p in left.items() if t - s in right}
    total = sum(joint.values())
    return {s: mass / total for s, mass in joint.items()}


def random_block(seed: int) -> tuple[Random, "RationalSums", int]:
    """A random law of a cell, and a number of cells."""
    random = Random(f"alias {seed}")
    return random, sums_of(random_masses(random, random.randint(1, 3))), random.randint(2, 6)
