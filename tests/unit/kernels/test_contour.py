"""Kernels of the quadrature against their numpy twins."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting.engines.quadrature_nodes import contour_nodes, laplace_part
from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss
from tallyveil.kernels import contour as kernels


@pytest.mark.parametrize("kind", [kernels.FIRST, kernels.SECOND, kernels.DELTA])
@pytest.mark.parametrize(
    ("weights", "variances", "powers"),
    [([1], [5], [10]), ([3, 4], [3, 4], [2, 3]), ([2, 5], ["1/4", "3/10"], [3, 1])],
)
@pytest.mark.parametrize("deviations", [0.5, 4.0, 9.0])
def test_contour_sum(
    kind: int, weights: list[int], variances: list[str], powers: list[int], deviations: float
) -> None:
    factors = [
        (GaussianLoss(Fraction(v), 1, n), a) for v, n, a in zip(variances, powers, weights, strict=True)
    ]
    variance = sum(a * a * n * float(Fraction(v)) for a, n, v in zip(weights, powers, variances, strict=True))
    n_points = 24 * math.ceil(math.sqrt(variance)) | 1
    nodes, laplace = (
        contour_nodes(factors, [], n_points),
        laplace_part([], np.zeros(0, dtype=np.int64), n_points),
    )
    assert not isinstance(nodes, str)
    first, step, gap = round(deviations * math.sqrt(variance)), 0.2, 0.07
    tau = (deviations + 1.6) / math.sqrt(variance)
    no_laplace = kernels.LaplaceFactors(
        np.zeros((nodes.rule.nodes.size, 0)), laplace.powers, np.zeros((0, 1))
    )
    value, error, largest = kernels.contour_sum(
        kind, tau, kernels.FirstLoss(first % n_points, gap), step, nodes.rule, nodes.images, no_laplace
    )
    gaussians = kernels.GaussianFactors(
        np.array(weights), np.array([float(Fraction(v)) for v in variances]), np.array(powers)
    )
    plain = kernels.contour_sum_reference(kind, tau, kernels.FirstLoss(first, gap), step, n_points, gaussians)
    # The reference has no unit for the phase at the mean of the tilted law taken out: compare in the same units.
    scale = math.exp(0.0)
    assert value == pytest.approx(plain * scale, rel=1e-11, abs=error + largest * nodes.left_out)


def test_log_magnitudes_are_those_of_the_transform() -> None:
    a, v, n = np.array([2, 3]), np.array([0.25, 2.0]), np.array([1.0, 2.0])
    got = kernels.log_magnitudes(a, v, n, 101, -700.0)
    theta = 2 * np.pi * np.arange(51) / 101
    x = np.arange(-60, 61)
    expected = np.zeros(51)
    for weight, variance, power in zip(a, v, n, strict=True):
        mass = np.exp(-x * x / (2 * variance)) / math.sqrt(2 * math.pi * variance)
        expected += power * np.log(np.abs(mass @ np.exp(1j * np.outer(x, weight * theta))))
    strong = expected > -25
    np.testing.assert_allclose(got[strong], expected[strong], atol=1e-4 * math.exp(-20) + 1e-9)


def test_tilted_laplace_moments() -> None:
    part = laplace_part([(LaplaceLoss(Fraction(3, 2), 3, 2), 5)], np.arange(3), 11)
    masses = np.empty_like(part.log_masses)
    slope, curvature = kernels.tilted_laplace(0.1, part.weights, part.log_masses, masses)
    values = np.arange(4)
    tilted = np.exp(part.log_masses[0] + 0.5 * values)
    assert part.weights[0, 2] == pytest.approx(math.log(tilted.sum()))
    tilted /= tilted.sum()
    np.testing.assert_allclose(masses[0], tilted)
    mean = tilted @ values
    assert slope == pytest.approx(2 * 5 * mean)
    assert curvature == pytest.approx(2 * 25 * (tilted @ (values - mean) ** 2))


@pytest.mark.parametrize("target", [0.5, 10.0, 27.0, 29.5])
def test_saddle(target: float) -> None:
    part = laplace_part([(LaplaceLoss(Fraction(3, 2), 3, 2), 5)], np.arange(3), 11)
    masses = np.empty_like(part.log_masses)
    tau = kernels.saddle(target, 0.0, part.weights, part.log_masses, masses)
    slope, curvature = kernels.tilted_laplace(tau, part.weights, part.log_masses, masses)
    assert abs(slope - target) <= 0.05 * math.sqrt(curvature) * (1 + 1e-9)


def test_log_magnitudes_that_are_negligible_are_upper_bounds_below_the_limit() -> None:
    a, v, n = np.array([3, 7, 20]), np.array([2.0, 0.9, 0.25]), np.array([9.0, 4.0, 2.0])
    limit = -12.0
    exact = kernels.log_magnitudes(a, v, n, 4001, -1e6)
    bounds = kernels.log_magnitudes(a, v, n, 4001, limit)
    counts = bounds >= limit
    assert 0 < counts.sum() < counts.size / 2
    np.testing.assert_array_equal(bounds[counts], exact[counts])
    assert (bounds[~counts] >= exact[~counts]).all()
