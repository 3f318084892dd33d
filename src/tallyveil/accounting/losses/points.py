"""The place of an epsilon among the values that a loss on a lattice can take: in exact integers, or surely rounded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.losses.factors import LossLattice
from tallyveil.accounting.losses.log_bounds import log_reflected
from tallyveil.accounting.many_bounds import ManyBounds
from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given

FARTHEST: Final = 1 << 52
"""Whole numbers are exact floats up to here."""

LARGEST_MIRROR: Final = 1 << 60
"""Below it, all points that matter are whole numbers of 64 bits."""

_UNIT: Final = 2.3e-16  # a little more than twice the rounding error of one operation
_FEW: Final = 16  # epsilons placed one by one; it decides speed alone, as both ways are sure


def are_floats(numbers: Sequence[object]) -> bool:
    """Whether all numbers are floats, which arrays hold as they are."""
    return set(map(type, numbers)) <= {float, np.float64}


@dataclass(frozen=True, slots=True)
class EpsilonPlaces:
    """Many epsilons without their signs, and the lattice points above them.

    Attributes:
        sizes: |epsilon|, rounded to nearest, at most 1e300.
        negative: Where epsilon is below 0.
        firsts: The least z whose loss exceeds |epsilon|; `FARTHEST` + 1 if it lies further out.
        gaps: By how much this loss exceeds |epsilon|.
        slips: Bounds on the error of the gaps, but for one rounding; at most 3/4 of the gap.
    """

    sizes: Floats
    negative: Bools
    firsts: Integers
    gaps: Floats
    slips: Floats

    def at(self, chosen: Bools) -> "EpsilonPlaces":
        """The same for some of the epsilons."""
        return EpsilonPlaces(
            self.sizes[chosen],
            self.negative[chosen],
            self.firsts[chosen],
            self.gaps[chosen],
            self.slips[chosen],
        )

    def with_signs(self, log_deltas: ManyBounds) -> ManyBounds:
        """ln delta at the epsilons, from ln delta at |epsilon|."""
        if not self.negative.any():
            return log_deltas
        return log_reflected(-self.sizes, log_deltas).where(self.negative, log_deltas)


@dataclass(frozen=True, slots=True)
class LossPoints:
    """The values (offset + step z) / unit, z any integer, of a total loss.

    Attributes:
        step: Distance of neighbouring values, times the unit.
        offset: Value at z = 0, times the unit.
        unit: Common denominator of step and offset.
        mirror: m = 2 offset / step, a whole number: Q(Z >= z) = P(Z <= -m - z).
    """

    step: int
    offset: int
    unit: int
    mirror: int

    @classmethod
    def of(cls, lattice: LossLattice) -> "LossPoints":
        """The points of a lattice."""
        unit = math.lcm(lattice.step.denominator, lattice.offset.denominator)
        step, offset = int(lattice.step * unit), int(lattice.offset * unit)
        # Twice an offset is a whole number of steps for both kinds of noise, so this division is exact.
        return cls(step, offset, unit, 2 * offset // step)

    def above(self, epsilon: float | Fraction) -> tuple[int, float]:
        """The least z whose loss exceeds epsilon, and by how much it does, rounded to nearest.

        Raises:
            BudgetError: epsilon is no finite number.
        """
        # A fraction is always finite, and only floats need the question.
        if isinstance(epsilon, float) and not math.isfinite(epsilon):
            raise BudgetError(
                f"epsilon must be a finite number, got {as_given(epsilon)}. Give one such as 1.5."
            )
        numerator, denominator = epsilon.as_integer_ratio()
        width = self.step * denominator
        # In integers, so that an epsilon that is itself a loss is never put on the wrong side of it.
        whole, rest = divmod(numerator * self.unit - self.offset * denominator, width)
        return whole + 1, (width - rest) / (denominator * self.unit)

    def places(self, epsilons: Sequence[float | Fraction]) -> EpsilonPlaces:
        """The same for |epsilon|, for many epsilons at once.

        In floats where these are sure which points lie above; see docs/proofs/closed-form.md, "The place of epsilon".

        Raises:
            BudgetError: an epsilon is no finite number.
        """
        if len(epsilons) <= _FEW or not are_floats(epsilons):
            return self._exact_places(epsilons)
        floats = np.asarray(epsilons, dtype=np.float64)
        if not np.isfinite(floats).all():
            return self._exact_places(epsilons)  # it says which one
        sizes, step, offset = np.abs(floats), self.step / self.unit, self.offset / self.unit
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # too far out for floats: not sure, so placed exactly
            turns = (sizes - offset) / step
            whole = np.floor(turns)
            part = turns - whole
        slips = _UNIT * (abs(offset) / step + 2 * np.abs(turns) + 1)
        # Where the rounding could cross a lattice point, exact integers decide.
        sure = (part > slips) & (part + 4 * slips < 1) & (np.abs(turns) < FARTHEST / 2)
        firsts = np.where(sure, whole + 1, 0.0).astype(np.int64)
        places = EpsilonPlaces(sizes, floats < 0, firsts, (1 - part) * step, step * (slips + 2 * _UNIT))
        unsure = np.flatnonzero(~sure)
        if unsure.size:
            exact = self._exact_places(floats[unsure].tolist())
            places.firsts[unsure], places.gaps[unsure] = exact.firsts, exact.gaps
            places.sizes[unsure], places.slips[unsure] = exact.sizes, 0.0
        return places

    def _exact_places(self, epsilons: Sequence[float | Fraction]) -> EpsilonPlaces:
        sizes = [epsilon if epsilon >= 0 else -epsilon for epsilon in epsilons]
        indices = [self.above(size) for size in sizes]
        return EpsilonPlaces(
            sizes=np.array([float(min(size, 10**300)) for size in sizes]),
            negative=np.array([epsilon < 0 for epsilon in epsilons], dtype=np.bool_),
            firsts=np.array([min(first, FARTHEST + 1) for first, _ in indices], dtype=np.int64),
            gaps=np.array([gap for _, gap in indices]),
            slips=np.zeros(len(indices)),
        )
