"""Bounds are kept in four bytes and read back as they were."""

import numpy as np
import pytest

from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.schema.counts import NO_LIMIT, narrow_limits, widen_limits


def test_the_estimator_means_the_same_by_no_bound():
    assert NO_LIMIT == UNBOUNDED


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0, 7, NO_LIMIT], np.int32),
        ([2**31 - 2, NO_LIMIT + 5], np.int32),
        ([2**31 - 1, NO_LIMIT], np.int64),  # a bound that the narrow form would take for none
        ([-(2**40), 3], np.int64),
        ([], np.int32),
    ],
)
def test_bounds_survive_being_narrow(values, dtype):
    array = np.array(values, dtype=np.int64)
    narrowed = narrow_limits(array)
    assert narrowed.dtype == dtype
    assert np.array_equal(widen_limits(narrowed), np.minimum(array, NO_LIMIT) if dtype == np.int32 else array)
    assert narrow_limits(narrowed).dtype == dtype
    assert not narrowed.flags.writeable
