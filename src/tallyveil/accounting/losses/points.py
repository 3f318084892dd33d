"""The place of an epsilon among the values that a loss on a lattice can take, in exact integers."""

import math
from dataclasses import dataclass
from fractions import Fraction

from tallyveil.accounting.losses.factors import Lattice
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given


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
    def of(cls, lattice: Lattice) -> "LossPoints":
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
        if isinstance(epsilon, float) and not math.isfinite(epsilon):
            raise BudgetError(
                f"epsilon must be a finite number, got {as_given(epsilon)}. Give one such as 1.5."
            )
        numerator, denominator = epsilon.as_integer_ratio()
        width = self.step * denominator
        whole, rest = divmod(numerator * self.unit - self.offset * denominator, width)
        return whole + 1, (width - rest) / (denominator * self.unit)
