"""Kernels of the closed form against their numpy twins."""

import math

import numpy as np
import pytest

from tallyveil.kernels import lattice_gaussian as kernels


@pytest.mark.parametrize("variance", [0.25, 3.0, 999.0, 1001.0, 5e4, 1e6])
@pytest.mark.parametrize("deviations", [-1.0, -0.4, 0.0, 0.3, 2.0, 8.0, 12.0, 37.0])
def test_scaled_tail(variance: float, deviations: float) -> None:
    first = float(math.ceil(deviations * math.sqrt(variance)))
    fast, fast_error = kernels.scaled_tail(first, variance)
    plain, plain_error = kernels.scaled_tail_reference(first, variance)
    assert abs(fast - plain) <= fast_error + plain_error
    assert fast_error < 1e-13 * fast + 1e-15


@pytest.mark.parametrize(
    ("weights", "variances", "multiplicities"),
    [
        ([1], [5.0], [1]),
        ([1], [1.5], [9]),
        ([3, 4], [3.0, 4.5], [2, 3]),
        ([1, 10], [20.0, 2.0], [1, 2]),
        ([2, 3, 7], [0.3, 5.0, 1.0], [3, 1, 2]),
    ],
)
def test_coset_excess(weights: list[int], variances: list[float], multiplicities: list[int]) -> None:
    a, v, n = np.array(weights), np.array(variances), np.array(multiplicities, dtype=float)
    variance = float((a * a * v * n).sum())
    points = 2 * math.ceil(5 * math.sqrt(variance)) + 21
    fast = kernels.coset_excess(a, v, n, variance, points)
    plain = kernels.coset_excess_reference(a, v, n, variance, points)
    assert fast >= plain - 1e-12
    assert fast == pytest.approx(plain, rel=1e-4, abs=1e-11)


def test_one_answer_is_a_gaussian_on_the_lattice() -> None:
    one = np.array([1]), np.array([9.0]), np.array([1.0])
    assert 0 < kernels.coset_excess(*one, 9.0, 51) < 1e-18
