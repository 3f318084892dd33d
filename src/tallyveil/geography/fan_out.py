"""How many children a group of siblings may have."""

from dataclasses import dataclass
from math import isqrt

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError


@dataclass(frozen=True, slots=True)
class FanOutLimit:
    """At most int(sqrt(n) + cutoff) children a group, where n siblings are to be grouped.

    With n siblings, the least that can be had for the larger of the number of groups and their size is the
    square root of n, rounded up; the cutoff allows groups to be larger, and so to be fewer.

    Attributes:
        cutoff: Allowance above the square root; 0 or more. Production used 12.
        at_most: A limit that holds whatever n is; 1 or more.

    Raises:
        GeographyError: a limit that no group could keep.
    Source: Cumings-Menon et al. 2023, section 4.
    """

    cutoff: int = 12
    at_most: int | None = None

    def __post_init__(self) -> None:
        if self.cutoff < 0:
            raise GeographyError(
                f"the fan-out cutoff is {self.cutoff}; wanted 0 or more. It is added to the square root of the "
                "number of siblings.",
                code="fan-out-limit",
            )
        if self.at_most is not None and self.at_most < 1:
            raise GeographyError(
                f"the fan-out limit is {self.at_most}: no group could have a child. Wanted 1 or more, or none.",
                code="fan-out-limit",
            )

    def limit(self, n: int) -> int:
        """Most children of a group of n siblings."""
        # int(sqrt(n) + cutoff) in integers: the root of a whole number, rounded down, plus a whole number.
        bound = isqrt(n) + self.cutoff
        return bound if self.at_most is None else min(bound, self.at_most)

    def limits(self, sizes: Integers) -> Integers:
        """The limit for each number of siblings; same shape."""
        distinct, inverse = np.unique(sizes, return_inverse=True)
        found = np.array([self.limit(n) for n in distinct.tolist()], dtype=np.int64)
        return found[inverse.reshape(-1)]


PRODUCTION_LIMIT = FanOutLimit()
"""What the 2020 redistricting production used."""
