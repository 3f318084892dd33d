"""Limits to the number of children."""

import numpy as np
import pytest

from tallyveil.errors import GeographyError
from tallyveil.geography.steps import FanOutLimit


@pytest.mark.parametrize(("cutoff", "at_most"), [(-1, None), (12, 0), (0, -3)])
def test_a_limit_no_group_could_keep_is_refused(cutoff, at_most):
    with pytest.raises(GeographyError, match="fan-out") as caught:
        FanOutLimit(cutoff, at_most)
    assert caught.value.code == "fan-out-limit"


def test_the_limit_is_a_whole_number_from_the_root_of_n():
    assert [FanOutLimit(0).limit(n) for n in (1, 3, 4, 99, 100)] == [1, 1, 2, 9, 10]
    assert FanOutLimit().limit(100) == 22
    assert FanOutLimit(5, 7).limits(np.array([1, 4, 100])).tolist() == [6, 7, 7]
