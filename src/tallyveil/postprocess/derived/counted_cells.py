"""What chosen counts are made of, so that a part can be told from what is no part."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats

ROUNDING = 1e-12
"""Sums of weights differ by this part of the sum when they are equal."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedCells:
    """What chosen counts are made of.

    Attributes:
        places: Whether the area of each count has the finest geounits of each class; shape (classes, counts). Finest
            geounits that the same areas have are one class.
        cells: Whether each cell is in each count; shape (counts, n_cells).
    """

    places: NDArray[np.bool_]
    cells: NDArray[np.bool_]

    def is_part(self, part: Floats, whole: Floats) -> bool:
        """Whether one sum of counts counts nobody more often than another; weights of shape (counts,)."""
        used = (part != 0) | (whole != 0)
        places, cells = np.unique(self.places[:, used], axis=0), self.cells[used]
        rest = np.where(places, (whole - part)[used], 0.0) @ cells
        return bool((rest >= -ROUNDING * np.abs(whole).sum()).all())
