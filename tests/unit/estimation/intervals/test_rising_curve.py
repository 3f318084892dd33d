"""The curve is scipy's, to the bit."""

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

from tallyveil.estimation.intervals.interval import unified_belt
from tallyveil.estimation.intervals.rising_curve import rising_curve


@pytest.mark.parametrize("seed", range(10))
def test_a_curve_is_that_of_scipy_also_beyond_its_ends(seed):
    generator = np.random.default_rng(seed)
    # Cubes of exponentials: neighbouring steps differ by factors of thousands, so that end slopes are cut off at 0.
    x, y = (np.cumsum(generator.exponential(size=3 + 4 * seed) ** 3 + 1e-9) for _ in range(2))
    places = np.concatenate([x, np.nextafter(x, -np.inf), generator.uniform(x[0] - 1, x[-1] + 1, 500)])
    assert np.array_equal(rising_curve(x, y).at(places), PchipInterpolator(x, y)(places))


@pytest.mark.parametrize("level", [0.5, 0.95, 1 - 1e-12])
def test_the_curves_of_a_belt_rise(level):
    belt = unified_belt(level)
    for curve in (belt.low_end, belt.high_end):
        places = np.linspace(curve.knots[0], curve.knots[-1], 20_001)
        assert (np.diff(curve.at(places)) >= 0).all()
