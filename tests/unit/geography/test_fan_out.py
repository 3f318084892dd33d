"""Limits to the number of children."""

import numpy as np

from tallyveil.geography.steps import FanOutLimit


def test_the_limit_is_a_whole_number_from_the_root_of_n():
    assert [FanOutLimit(0).limit(n) for n in (1, 3, 4, 99, 100)] == [1, 1, 2, 9, 10]
    assert FanOutLimit().limit(100) == 22
    assert FanOutLimit(5, 7).limits(np.array([1, 4, 100])).tolist() == [6, 7, 7]
