import numpy as np

from tallyveil.estimation.interior_point import LARGEST_NUMBER, _unit


def test_a_bound_that_is_not_there_does_not_count():
    """It made the unit infinite: a family with an upper bound alone, whose compiled solution failed, was lost."""
    assert _unit(np.array([3.0, -np.inf, np.inf])) == 1.0
    assert _unit(np.array([LARGEST_NUMBER * 5, -np.inf])) == 8.0
