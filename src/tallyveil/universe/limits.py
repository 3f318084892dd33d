"""How large counts may be, and bounds on counts, kept small: int32 where they fit, else int64.

The largest int32 stands for "no upper bound" in a narrow array.

Bounds on eight answers of eight million blocks are a gigabyte as int64. Kept arrays are narrow; whoever computes
with them widens the rows wanted first (`widen_limits`), and then sees 2**62 for "no upper bound" as everywhere.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.universe.counts import LARGEST_INT32

LARGEST_COUNT: Final = 2**32
"""The most that a count, and all counts of a release together, may be: three times the people of any country.

Every number after it then fits where it is computed. Whole numbers: sums over the geounits and cells of a release stay
below 2**63, and so do estimates in the rounding's units of 2**-20. Floats: they hold all of these units exactly up to
2**33, which leaves as much again for noise (`tallyveil.budget.noise_size` refuses noise that would need more).

Least squares is not proved to certify every family of such counts, but measured: docs/release-file.md, "Sizes".
"""

NO_LIMIT: Final = 2**62
"""An upper bound at or above this, in int64, means: none. The estimator's UNBOUNDED."""


def narrow_limits(values: NDArray[Any]) -> NarrowArray:
    """The same bounds, read-only: int32 where every bound that is one is below 2**31 - 1, which then means none.

    Args:
        values: Lower or upper bounds, int64 (`NO_LIMIT` or more: none) or narrow already.
    """
    if values.dtype == np.int32:
        array: NarrowArray = values.view()
    else:
        none = values >= NO_LIMIT
        finite = np.where(none, 0, values)
        if finite.size and (int(finite.max()) >= LARGEST_INT32 or int(finite.min()) < -LARGEST_INT32):
            array = values.astype(np.int64)
        else:
            array = np.where(none, LARGEST_INT32, values).astype(np.int32)
    array.setflags(write=False)
    return array


def widen_limits(values: NDArray[Any]) -> Integers:
    """The same bounds as int64, with `NO_LIMIT` where there is none."""
    if values.dtype != np.int32:
        return values.astype(np.int64, copy=False)
    return np.where(values == LARGEST_INT32, NO_LIMIT, values.astype(np.int64))
