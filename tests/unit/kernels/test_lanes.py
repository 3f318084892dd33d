"""Four sums side by side against the same sums number by number."""

import numpy as np
import pytest
from numba import njit

from tallyveil.kernels.vectors import four_sums


@njit
def compiled(values, n, shift):
    return four_sums(values, n, shift)


@pytest.mark.parametrize("n", [0, 4, 8, 160])
def test_the_same_bits(n):
    values = np.random.default_rng(n).normal(size=n + 3)
    for shift in (-0.3, 0.0, 0.5):
        assert compiled(values, n, shift) == four_sums(values, n, shift)


def test_the_worked_case():
    values = np.array([5.0, 1.0, 2.0, 9.0, 7.0, 0.0, 0.0, 0.0])
    assert compiled(values, 8, 2.0) == ((8.0, 0.0, 0.0, 7.0), 3)
