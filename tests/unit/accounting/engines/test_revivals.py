"""The scan for revivals: no frequency at which the transform may count is missed."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting.engines.revivals import Depth, GaussianFactors, find_windows, nodes_within
from tallyveil.accounting.losses.factors import GaussianLoss

PARTS = 12


def factors_of(seed: int) -> GaussianFactors:
    draw = random.Random(seed)
    return GaussianFactors.of(
        [
            GaussianLoss(Fraction(draw.uniform(0.3, 12)), draw.randint(1, 3), draw.randint(1, 3))
            for _ in range(draw.randint(1, 4))
        ]
    )


def log_size(factors: GaussianFactors, u: np.ndarray) -> np.ndarray:
    """ln of the product of the sums of all images: the largest modulus of the transform on any contour, times C."""
    total = np.zeros(u.size)
    for v, k, m in zip(factors.variances, factors.sensitivities, factors.powers, strict=True):
        nearest = np.round(k * u / (2 * np.pi * v))
        images = [-((k * u - 2 * np.pi * v * (nearest + j)) ** 2) / (2 * v) for j in range(-4, 5)]
        total += m * np.logaddexp.reduce(images, axis=0)
    return total


@pytest.mark.parametrize("seed", range(6))
def test_outside_the_windows_the_transform_is_below_the_bound(seed: int) -> None:
    factors, depth = factors_of(seed), Depth(14.0, 0.05, PARTS)
    windows = find_windows(factors, depth)
    assert windows is not None
    u = np.linspace(0, windows.end, 100_001)
    order = np.argsort(windows.lows)
    lows, highs = windows.lows[order], np.maximum.accumulate(windows.highs[order])
    place = np.searchsorted(lows, u, side="right") - 1
    inside = (place >= 0) & (u <= highs[np.maximum(place, 0)])
    begin = windows.first * 2.0 ** np.floor(np.log2(np.maximum(u, windows.first) / windows.first))
    bound = np.array(
        [depth.depth if x < windows.first else depth.at(float(b)) for x, b in zip(u, begin, strict=True)]
    )
    assert np.all(inside | (log_size(factors, u) <= -bound + 1e-9))
    assert depth.at(windows.end) <= 0 < depth.at(windows.end / 2)
    if factors.count > 1:
        assert inside.mean() < 0.9  # and it does leave most of the range out


def test_no_node_on_the_edge_of_a_window_is_missed() -> None:
    """Quotients of floats are off by more than any fixed distance where nodes are many."""
    for step in (0.1, 1 / 3, 7e-5):
        wanted = np.array([0, 1, 17, 10**5 + 3, 3 * 10**8 + 1, 7 * 10**10 + 9])
        edges = wanted * step
        found = nodes_within(edges, edges, step)
        assert set(wanted.tolist()) <= set(found.tolist())
        assert nodes_within(edges[:4], edges[:4] + 2.5 * step, step).tolist() == sorted(
            {int(one) + more for one in wanted[:4] for more in (0, 1, 2)}
        )


def test_one_factor_has_a_window_at_every_multiple_of_its_period() -> None:
    factors = GaussianFactors.of([GaussianLoss(Fraction(40), 2, 3)])
    windows = find_windows(factors, Depth(20.0, 0.01, PARTS))
    assert windows is not None
    period = 2 * math.pi * 40 / 2
    centres = {
        round(float(low + high) / 2 / period) for low, high in zip(windows.lows, windows.highs, strict=True)
    }
    assert centres == set(range(max(centres) + 1))
    assert max(centres) == round(windows.highs.max() / period)
