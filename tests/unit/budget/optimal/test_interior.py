"""The steps from inside: Newton's method ends at the minimum of the barrier function."""

import numpy as np
import pytest

from tallyveil.budget.optimal.interior import DECREMENT, _Barrier, _centred
from tallyveil.budget.optimal.program import Evaluated, Program

FACTORS = np.array([1.0, 4.0, 9.0])


def variances(shares):
    """Each share buys one count."""
    return Evaluated(FACTORS / shares, np.diag(-FACTORS / shares**2))


@pytest.mark.parametrize("of_maximum", [False, True])
def test_centring_ends_where_no_move_improves(of_maximum):
    program = Program(np.ones(3), of_maximum, np.array([20.0, np.inf, np.inf]), np.full(3, 1e-3))
    start = np.full(3, 1 / 3)
    first = variances(start)
    barrier = _Barrier(program, variances, first, size=2.0)
    point, found = _centred(barrier, variances, np.append(start, 1.1 * first.values.max()), first)
    assert found.values == pytest.approx(FACTORS / point[:-1])
    least = barrier.at(point, found)
    assert least < barrier.at(np.append(start, 1.1 * first.values.max()), first)
    for move in np.random.default_rng(1).normal(size=(500, 4)) * np.array([0.1, 0.1, 0.1, 5.0]):
        move[:3] -= move[:3].mean()  # shares keep their sum
        there = point + move
        if there[:-1].min() > 1e-3:
            assert barrier.at(there, variances(there[:-1])) > least - DECREMENT
