"""Scale reduction and effective sizes of series whose values are known, and parameters of noise from its variance."""

from fractions import Fraction

import numpy as np
import pytest
from tests.oracles.effective_size import effective_size

from tallyveil.estimation.posterior.convergence import effective_sizes, moments
from tallyveil.estimation.posterior.problem import inverse_parameters
from tallyveil.noise.laws import DiscreteGaussian
from tallyveil.subspace.diagnostics import potential_scale_reduction, scale_reduction


def autoregressive(rng, correlation, shape):
    """Series with a given correlation of neighbours and variance 1."""
    out = np.empty(shape)
    out[:, 0] = rng.normal(size=shape[0])
    for i in range(1, shape[1]):
        out[:, i] = correlation * out[:, i - 1] + np.sqrt(1 - correlation**2) * rng.normal(size=shape[0])
    return out


def parts_of(series, parts):
    """Means and variances of equal parts of each chain, from their sums and squares alone, and the states of a part."""
    pieces = np.concatenate(np.split(series, parts, axis=1))
    sums = [np.stack([piece.sum(axis=0), (piece**2).sum(axis=0)]) for piece in pieces]
    return *moments(sums, pieces.shape[1]), pieces.shape[1]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_effective_sizes_are_those_of_their_law(correlation):
    series = autoregressive(np.random.default_rng(2), correlation, (4, 20_000))
    wanted = series.size * (1 - correlation) / (1 + correlation)
    # 400 means, whose variance has a relative standard error of 7 %.
    size = float(effective_sizes(*parts_of(series[:, :, None], 100))[0])
    assert size == pytest.approx(wanted, rel=0.2)
    assert size == pytest.approx(sum(effective_size(chain) for chain in series), rel=0.2)


def test_chains_that_differ_or_drift_are_noticed():
    rng = np.random.default_rng(3)
    alike = 1e6 + rng.normal(size=(4, 400))
    apart = alike + np.array([0.0, 0.0, 0.0, 0.5])[:, None]
    drifting = alike + np.linspace(0, 1, 400)
    still, stuck = np.ones((4, 400)), np.arange(4.0)[:, None] * np.ones(400)
    series = np.stack([alike, apart, drifting, still, stuck], axis=2)
    reduction = scale_reduction(*parts_of(series, 2))
    assert reduction == pytest.approx(
        potential_scale_reduction(np.concatenate([series[:, :200], series[:, 200:]])), abs=1e-4
    )
    assert reduction[0] < 1.01 < min(reduction[1], reduction[2])
    assert reduction[3] == 1.0
    assert reduction[4] == np.inf
    sizes = effective_sizes(*parts_of(series, 10))
    assert sizes[0] > 800
    assert sizes[3] == 1_600
    assert max(sizes[1], sizes[2], sizes[4]) < 600


@pytest.mark.parametrize("parameter", ["1/20", "1/4", "1", "19/10", "7"])
def test_the_parameter_of_a_law_follows_from_its_variance(parameter):
    law = DiscreteGaussian(Fraction(parameter))
    inverse = inverse_parameters(np.array([1.0 / law.variance_float()]), gaussian=True)
    assert 1.0 / inverse[0] == pytest.approx(float(law.variance), rel=1e-9)
