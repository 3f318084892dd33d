"""Tilts and windows of losses: where the mean is, and how much lies outside."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tallyveil.accounting.engines.moments import estimated_length, saddle_point, tilt_grid, window
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, LossFactor, lattice_of

COMPOSITIONS: list[tuple[LossFactor, ...]] = [
    (GaussianLoss(Fraction(5, 2), 1, 3),),
    (GaussianLoss(Fraction(1, 6), 1, 2), LaplaceLoss(Fraction(3), 2, 1)),
    (LaplaceLoss(Fraction(2), 1, 12),),
    (LaplaceLoss(Fraction(9, 2), 6, 2), GaussianLoss(Fraction(9), 2, 2)),
]


@cache
def law_of(factors: tuple[LossFactor, ...]) -> tuple[np.ndarray, np.ndarray]:
    """All losses and the logarithms of their probabilities."""
    losses, masses = np.zeros(1), np.ones(1)
    for factor in factors:
        if isinstance(factor, GaussianLoss):
            reach = math.ceil(math.sqrt(600 * float(factor.variance))) + 2
            x = np.arange(-reach, reach + 1)
            one = np.exp(-x * x / (2 * float(factor.variance)))
        else:
            x, k, a = (
                np.arange(factor.sensitivity + 1),
                factor.sensitivity,
                math.exp(-1 / float(factor.scale)),
            )
            one = np.where(x == k, 1.0, np.where(x == 0, a**k, (1 - a) * a ** (k - x)))
        for _ in range(factor.multiplicity):
            sums = np.add.outer(losses, float(factor.offset) + float(factor.step) * x).ravel()
            losses, place = np.unique(sums.round(9), return_inverse=True)
            masses = np.bincount(place, np.multiply.outer(masses, one / one.sum()).ravel())
            losses, masses = losses[masses > 1e-250], masses[masses > 1e-250]
    return losses, np.log(masses)


def tilted(factors: tuple[LossFactor, ...], tilt: float) -> tuple[np.ndarray, np.ndarray]:
    losses, logs = law_of(factors)
    logs = logs + tilt * losses
    return losses, np.exp(logs - np.logaddexp.reduce(logs))


@pytest.mark.parametrize("factors", COMPOSITIONS)
def test_the_tilted_mean_is_near_epsilon_and_the_spread_is_the_deviation(
    factors: tuple[LossFactor, ...],
) -> None:
    losses, masses = tilted(factors, 0.0)
    deviation = math.sqrt(masses @ losses**2 - (masses @ losses) ** 2)
    for epsilon in (masses @ losses + deviation * np.array([-2.0, -0.3, 0.0, 0.7, 1.8])).tolist():
        tilt, spread = saddle_point(factors, epsilon)
        there, weights = tilted(factors, tilt)
        mean = float(weights @ there)
        assert abs(mean - epsilon) <= 0.06 * spread
        assert spread == pytest.approx(math.sqrt(weights @ (there - mean) ** 2), rel=1e-6)
        for coarseness in (0.25, 1.0):
            near = tilt_grid(factors, epsilon, coarseness)
            assert abs(float(near) - tilt) * spread <= coarseness / 2
            # On a power of two, so that neighbouring epsilons share it.
            assert near.denominator & (near.denominator - 1) == 0
            assert near == 0 or near.numerator <= 2 * abs(tilt) * near.denominator + 1
            assert tilt_grid(factors, epsilon + 1e-9 * spread, coarseness) == near or epsilon == 0


@pytest.mark.parametrize("outside", [3.0, 20.0, 50.0])
@pytest.mark.parametrize("tilt", [0.0, 0.4, -0.5, 2.0])
@pytest.mark.parametrize("factors", COMPOSITIONS)
def test_little_lies_outside_of_a_window_and_it_is_hardly_wider_than_that(
    factors: tuple[LossFactor, ...], tilt: float, outside: float
) -> None:
    low, high = window(factors, tilt, outside)
    losses, masses = tilted(factors, tilt)
    assert masses[losses < low].sum() <= math.exp(-outside)
    assert masses[losses > high].sum() <= math.exp(-outside)
    mean = masses @ losses
    deviation = math.sqrt(masses @ (losses - mean) ** 2)
    if factors == COMPOSITIONS[0]:  # a normal law, nearly
        assert mean - low < 1.1 * math.sqrt(2 * outside) * deviation
        assert high - mean < 1.1 * math.sqrt(2 * outside) * deviation
    if factors == COMPOSITIONS[2]:
        assert high <= 6 * (1 + 1e-11)
        assert low >= -6 * (1 + 1e-11)


def test_the_estimated_length_is_that_of_the_window() -> None:
    for factors in COMPOSITIONS:
        low, high = window(factors, 0.0)
        assert estimated_length(factors, lattice_of(factors)) == pytest.approx(
            1 + (high - low) / float(lattice_of(factors).step)
        )
