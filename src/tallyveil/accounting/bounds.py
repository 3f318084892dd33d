"""Two-sided answers."""

import math
from dataclasses import dataclass

from tallyveil.accounting.decimals import both_ends
from tallyveil.errors import BudgetError


@dataclass(frozen=True, slots=True, repr=False)
class Bounds:
    """A number known from both sides: the truth lies in [lower, upper].

    Attributes:
        lower: Never above the truth.
        upper: Never below the truth; what a privacy claim may state.
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if math.isnan(self.lower) or math.isnan(self.upper) or self.lower > self.upper:
            raise BudgetError(
                f"a pair of bounds must have lower <= upper, got [{self.lower!r}, {self.upper!r}]"
            )

    @property
    def width(self) -> float:
        """upper - lower."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    def to_mapping(self) -> dict[str, float]:
        """JSON form."""
        return {"lower": self.lower, "upper": self.upper}

    def __repr__(self) -> str:
        """Both ends, rounded outwards to the digits that show how far they are apart."""
        lower, upper = both_ends(self)
        return f"Bounds(lower={lower}, upper={upper})"
