import numpy as np

from tallyveil.estimation.least_squares import LARGEST_NUMBER, power_of_two_for


def test_a_bound_that_is_not_there_does_not_count():
    """It made the unit infinite: a family with an upper bound alone, whose compiled solution failed, was lost."""
    assert power_of_two_for(np.array([3.0, -np.inf, np.inf])) == 1.0
    assert power_of_two_for(np.array([LARGEST_NUMBER * 5, -np.inf])) == 8.0
