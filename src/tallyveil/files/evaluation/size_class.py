"""Classes of geounits by their true total, in which errors are usually reported."""

from enum import Enum

import numpy as np

from tallyveil.arrays import Integers


class SizeClass(Enum):
    """The true number of records in a geounit. The value is the label in the metrics."""

    EMPTY = "0"
    ONES = "1-9"
    TENS = "10-99"
    HUNDREDS = "100-999"
    THOUSANDS = "1,000-9,999"
    LARGEST = "10,000+"


ALL_SIZES = "all"
"""Label of the row for all geounits, whatever their size."""

# The smallest total, in records, of each class but the first, which holds what is below 1.
_SMALLEST = np.array([1, 10, 100, 1_000, 10_000], dtype=np.int64)


def size_classes(totals: Integers) -> Integers:
    """Number of the size class of each total, in the order of `SizeClass`; an array of the same shape."""
    return np.searchsorted(_SMALLEST, totals, side="right").astype(np.int64, copy=False)
