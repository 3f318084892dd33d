"""Two-sided answers to many questions at once, as two arrays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.arrays import Bools, Floats
from tallyveil.errors import BudgetError


@dataclass(frozen=True, slots=True, eq=False)
class ManyBounds(Sequence[Bounds]):
    """Many numbers known from both sides; each one, asked for by its place, is a `Bounds`.

    Attributes:
        lower: None is above the truth.
        upper: None is below the truth; what a privacy claim may state.
    """

    lower: Floats
    upper: Floats

    def __post_init__(self) -> None:
        if not (self.lower <= self.upper).all():  # not true of nan either
            raise BudgetError(
                f"arrays of bounds must have lower <= upper everywhere, got {self.lower} and {self.upper}"
            )
        # Shared and cached: a caller who wrote to them would change a certified answer.
        for side in (self.lower, self.upper):
            side.setflags(write=False)

    @classmethod
    def of(cls, bounds: Sequence[Bounds]) -> "ManyBounds":
        """The same numbers as two arrays."""
        return cls(np.array([pair.lower for pair in bounds]), np.array([pair.upper for pair in bounds]))

    @property
    def width(self) -> Floats:
        """upper - lower."""
        with np.errstate(invalid="ignore"):
            # Equal infinities have the width 0, and their difference would be no number.
            widths: Floats = np.where(self.lower == self.upper, 0.0, self.upper - self.lower)
        return widths

    def where(self, chosen: Bools, other: "ManyBounds") -> "ManyBounds":
        """These numbers at the places chosen, and the other ones elsewhere."""
        return ManyBounds(
            np.where(chosen, self.lower, other.lower), np.where(chosen, self.upper, other.upper)
        )

    def at(self, places: slice | Bools) -> "ManyBounds":
        """These numbers at some places."""
        return ManyBounds(self.lower[places], self.upper[places])

    def __len__(self) -> int:
        return self.lower.size

    @overload
    def __getitem__(self, place: int) -> Bounds: ...

    @overload
    def __getitem__(self, place: slice) -> "ManyBounds": ...

    def __getitem__(self, place: int | slice) -> "Bounds | ManyBounds":
        if isinstance(place, slice):
            return self.at(place)
        return Bounds(float(self.lower[place]), float(self.upper[place]))

    def __iter__(self) -> Iterator[Bounds]:
        return map(Bounds, self.lower.tolist(), self.upper.tolist())
