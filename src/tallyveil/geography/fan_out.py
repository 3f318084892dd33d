"""Limits on the number of children in a group of siblings."""

from dataclasses import dataclass
from math import isqrt

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.declared import Declared, Whole
from tallyveil.errors import GeographyError


@dataclass(frozen=True)
class FanOutLimit(Declared):
    """A group has at most int(sqrt(n) + cutoff) children, where n siblings are to be grouped.

    If n siblings are grouped, the larger of the number of groups and the group size is at least sqrt(n). The cutoff
    allows larger, and therefore fewer, groups.

    Attributes:
        cutoff: Allowance above the square root; 0 or more. Production used 12.
        at_most: An additional limit that does not depend on n; 1 or more.

    Raises:
        GeographyError: no group could keep the limit.
    Source: Cumings-Menon et al. 2023, section 4.
    """

    cutoff: Whole = 12
    at_most: Whole | None = None

    def __post_init__(self) -> None:
        if self.cutoff < 0:
            raise GeographyError(
                f"the fan-out cutoff is {self.cutoff}; wanted 0 or more. It is added to the square root of the "
                "number of siblings.",
                code="fan-out-limit",
            )
        if self.at_most is not None and self.at_most < 1:
            raise GeographyError(
                f"the fan-out limit is {self.at_most}, so no group could have a child. Wanted 1 or more, or no limit.",
                code="fan-out-limit",
            )

    def limit(self, n: int) -> int:
        """Largest number of children in a group, out of n siblings."""
        # int(sqrt(n) + cutoff) is isqrt(n) + cutoff, because the cutoff is an integer.
        bound = isqrt(n) + self.cutoff
        return bound if self.at_most is None else min(bound, self.at_most)

    def limits(self, sizes: Integers) -> Integers:
        """The limit for each number of siblings; an array of the same shape."""
        # A country has millions of parents, but few different numbers of children: each limit is computed once.
        distinct, inverse = np.unique(sizes, return_inverse=True)
        limits = np.array([self.limit(n) for n in distinct.tolist()], dtype=np.int64)
        return limits[inverse.reshape(-1)]


PRODUCTION_LIMIT = FanOutLimit()
"""The limit of the 2020 redistricting production."""
