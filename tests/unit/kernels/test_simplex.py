"""The projection on a simplex against its twin."""

import numpy as np
import pytest
from tests.from_python import from_python
from tests.oracles.simplex import simplex_shift_reference, weighted_shift_reference

from tallyveil.kernels.vectors import simplex_shift, weighted_shift

simplex_shift = from_python(simplex_shift)
weighted_shift = from_python(weighted_shift)


@pytest.mark.parametrize("n", [1, 2, 7, 200, 1500])
def test_simplex_shift(n):
    rng = np.random.default_rng(n)
    for scale in (1e-3, 1.0, 1e6):
        values = rng.normal(size=n) * scale
        for start in (-1e9, 0.0, float(values.mean()), 1e9):
            shift = simplex_shift(values, n, 2.5, start)
            assert shift == pytest.approx(simplex_shift_reference(values, n, 2.5, start), abs=1e-9 * scale)
            assert np.maximum(values - shift, 0).sum() == pytest.approx(2.5, rel=1e-6)


@pytest.mark.parametrize("n", [1, 2, 7, 200, 1500])
def test_weighted_shift(n):
    rng = np.random.default_rng([1, n])
    for scale in (1e-3, 1.0, 1e6):
        values = rng.normal(size=n) * scale
        slack = rng.choice([0.01, 1.0, 16384.0], n) * rng.choice([1e-3, 1.0, 1e3])
        for start in (-1e9, 0.0, float(values.mean()), 1e9):
            shift = weighted_shift(values, slack, n, 2.5, start)
            expected = weighted_shift_reference(values, slack, n, 2.5, start)
            assert shift == pytest.approx(expected, rel=1e-9, abs=1e-12 * scale / slack.max())
            assert np.maximum(values - shift * slack, 0).sum() == pytest.approx(2.5, rel=1e-6)
            alike = np.full(n, slack[0])
            assert weighted_shift(values, alike, n, 2.5, start) * slack[0] == pytest.approx(
                simplex_shift_reference(values, n, 2.5, start), rel=1e-9, abs=1e-12 * scale
            )
