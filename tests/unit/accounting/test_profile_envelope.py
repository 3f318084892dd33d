"""The Gaussian curve below a composition without a lattice, beside the one found from all knots on a lattice."""

import math
from fractions import Fraction

import pytest

from tallyveil.accounting import Neighbours, compose, profile_envelope
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.envelope import gaussian_envelope
from tallyveil.accounting.events import DiscreteGaussian
from tallyveil.accounting.losses.factors import GaussianLoss, merged


@pytest.mark.parametrize("factors", [((600, 2, 30), (700, 1, 30)), ((20, 1, 100), (31, 1, 80))])
def test_the_bracket_meets_the_one_from_all_knots(factors) -> None:
    law = merged(tuple(GaussianLoss(Fraction(v), k, n) for v, k, n in factors))
    engine = Dithered.build(law, 1e-5)
    assert engine is not None
    found, knots = profile_envelope.profile_envelope(engine), gaussian_envelope(law)
    assert found.lower <= knots.upper
    assert knots.lower <= found.upper
    assert found.width <= 2e-3 * found.upper


def test_tiny_losses_have_a_finite_mu() -> None:
    found = compose(
        DiscreteGaussian(10**12), DiscreteGaussian(10**12 + 39), neighbours=Neighbours.UNBOUNDED
    ).mu()
    assert math.sqrt(2e-12) * (1 - 1e-4) < found.lower < found.upper < 1.3 * math.sqrt(2e-12)


def test_where_nothing_covers_the_rest_there_is_no_upper_end(monkeypatch) -> None:
    """As for noise that protects next to nobody: the grid then ends before the bound beyond it begins to hold."""
    engine = Dithered.build((GaussianLoss(Fraction(600), 1, 60),), 1e-4)
    assert engine is not None
    monkeypatch.setattr(profile_envelope, "_END", 0.4)
    found = profile_envelope.profile_envelope(engine)
    assert 0 < found.lower < found.upper == math.inf
