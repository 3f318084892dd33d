"""The largest allowed counts and coverages, and bounds on counts in compact arrays: int32 if they fit, otherwise int64.

In a compact int32 array, the largest int32 means "no upper bound".

Lower and upper bounds on eight answers of eight million blocks would take a gigabyte as int64. Arrays are therefore
stored in compact form. Code that computes with bounds first widens the rows that it needs (`widen_limits`). The widened
arrays use 2**62 for "no upper bound", as everywhere else.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.schema.counts import LARGEST_INT32

LARGEST_COUNT: Final = 2**32
"""Largest value of a count, and of the sum of all counts of a release: three times the population of any country.

With this limit every later number can be represented exactly. Integers: sums over the geounits and cells of a release
are below 2**63, and so are estimates in the rounding's units of 2**-20. Floats: they represent all of these units
exactly up to 2**33. The range above 2**32 is left for noise (`tallyveil.budget.noise_size` refuses noise that would
need more).

It is not proved that least squares certifies every family with such counts; docs/release-file.md ("Sizes") gives
measurements.
"""

LARGEST_LEVEL: Final = 1 - 2.0**-52
"""Largest coverage of one interval. From the next float on, normal quantiles of floats are infinite."""

NO_LIMIT: Final = 2**62
"""In int64, an upper bound at or above this value means "none". It equals the estimator's UNBOUNDED."""


def narrow_limits(values: NDArray[Any]) -> NarrowArray:
    """The same bounds, read-only: int32 if every finite bound is below 2**31 - 1, which then means "none".

    Args:
        values: Lower or upper bounds, int64 (`NO_LIMIT` or more means none) or already compact.
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
    """The same bounds as int64, with `NO_LIMIT` for "none"."""
    if values.dtype != np.int32:
        return values.astype(np.int64, copy=False)
    return np.where(values == LARGEST_INT32, NO_LIMIT, values.astype(np.int64))
