"""The Gaussian curve below a composition without a lattice, beside the one found from all knots on a lattice."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from tallyveil.accounting import ZCDP, Gaussian, Laplace, Neighbours, RandomizedResponse, compose, envelope
from tallyveil.accounting.engines.ball_tails import Normal
from tallyveil.accounting.engines.choose import choose_engine
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.enclosing import WithFailure
from tallyveil.accounting.engines.tails import log_rest
from tallyveil.accounting.envelope import gaussian_envelope, is_central
from tallyveil.accounting.events import DiscreteGaussian
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, NormalLoss, merged


@pytest.mark.nightly
@pytest.mark.parametrize(
    "factors",
    [((600, 2, 30), (700, 1, 30)), ((20, 1, 100), (31, 1, 80))],
)
def test_the_bracket_meets_the_one_from_all_knots(factors) -> None:
    law = merged(tuple(GaussianLoss(Fraction(v), k, n) for v, k, n in factors))
    engine = Dithered.build(law, 1e-5)
    assert engine is not None
    found, knots = envelope.profile_envelope(engine), gaussian_envelope(law)
    assert found.lower <= knots.upper
    assert knots.lower <= found.upper
    assert found.width <= 2e-3 * found.upper


@pytest.mark.nightly
def test_tiny_losses_have_a_finite_mu() -> None:
    found = compose(
        DiscreteGaussian(10**12), DiscreteGaussian(10**12 + 39), neighbours=Neighbours.UNBOUNDED
    ).mu()
    assert math.sqrt(2e-12) * (1 - 1e-4) < found.lower < found.upper < 1.3 * math.sqrt(2e-12)


def test_where_nothing_covers_the_rest_there_is_no_upper_end(monkeypatch) -> None:
    """As for noise that protects next to nobody: the grid then ends before the bound beyond it begins to hold."""
    engine = Dithered.build((GaussianLoss(Fraction(600), 1, 60),), 1e-4)
    assert engine is not None
    monkeypatch.setattr(envelope, "_END", 0.4)
    found = envelope.profile_envelope(engine)
    assert 0 < found.lower < found.upper == math.inf


@pytest.mark.parametrize(
    ("variances", "answers", "width"),
    [
        (["1e30", "1.2345678917e30"], 1, 3e-3),
        pytest.param(["1e9", "1.2345678917e9"], 10**9, 1e-3, marks=pytest.mark.nightly),
        pytest.param(
            [f"{2 + math.sqrt(prime) % 1:.7f}" for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)],
            50,
            1e-3,
            marks=pytest.mark.nightly,
        ),
        (["50", "61.7283945"], 10**10, 0.01),
    ],
    ids=["tiny", "a billion", "large", "protects nobody"],
)
def test_mu_is_bracketed_however_small_or_large(variances, answers, width) -> None:
    """Many answers, or wide ones, are nearly one normal answer, whose mu is the square root of twice rho."""
    events = [DiscreteGaussian(variance, multiplicity=answers) for variance in variances]
    found = compose(*events, neighbours=Neighbours.UNBOUNDED).mu()
    of_normal = math.sqrt(sum(answers / float(variance) for variance in variances))
    assert found.lower < of_normal * (1 + 1e-6)
    assert found.upper > of_normal * (1 - 1e-6)
    assert found.width <= width * of_normal


def test_answers_one_by_one_bound_all_of_them_together() -> None:
    """The bracket by single answers contains the one from all knots."""
    law = merged(
        (GaussianLoss(Fraction(3), 1, 4), GaussianLoss(Fraction(5), 2, 3), LaplaceLoss(Fraction(4), 1, 2))
    )
    knots = gaussian_envelope(law)
    parts = envelope._of_parts(law)
    assert knots.lower <= parts <= 1.05 * knots.upper


def test_normal_noise_beside_integer_noise_has_two_bounds() -> None:
    integer, normal = DiscreteGaussian(40), Gaussian(50)
    found = compose(integer, normal, neighbours="unbounded").mu()
    of_normal = math.sqrt(1 / 40 + 1 / 50)
    assert of_normal * (1 - 1e-3) < found.lower < found.upper < of_normal * (1 + 1e-2)


@pytest.mark.parametrize("noise", [Laplace(2), ZCDP("1/8"), RandomizedResponse("3/2", options=5)])
def test_the_lower_end_holds_where_there_is_no_upper_one(noise) -> None:
    """At this mu delta is above the Gaussian one somewhere."""
    guarantee = compose(noise, neighbours="unbounded")
    found = guarantee.mu()
    assert 0 < found.lower < found.upper == math.inf
    mu = found.lower * (1 - 1e-6)
    epsilons = [0.02 * i for i in range(150)]
    gaussian = [norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) for e in epsilons]
    assert any(
        bounds.upper > delta
        for bounds, delta in zip(guarantee.profile_curve(epsilons), gaussian, strict=True)
    )


@pytest.mark.parametrize("mu", [0.05, 1.0, 9.0])
def test_at_single_epsilons_mu_is_found_to_the_digits_of_delta(mu: float) -> None:
    """For the delta of normal noise itself; where delta is nearly 1, from 1 - delta."""
    engine = Normal(Fraction(mu) ** 2)
    epsilons = np.linspace(0.0, mu * mu / 2 + 3 * mu, 40)
    assert is_central(mu, epsilons).any() == (mu > 2)
    for chosen in (epsilons, epsilons[is_central(mu, epsilons)], epsilons[~is_central(mu, epsilons)]):
        if chosen.size:
            deltas = engine.log_deltas(chosen.tolist())
            found = envelope._reached(chosen, deltas, log_rest(deltas), mu)
            assert mu * (1 - 1e-7) < found <= mu * (1 + 1e-12)


@pytest.mark.parametrize("mu", [0.05, 1.0, 9.0])
def test_lines_are_above_delta_for_a_larger_mu_and_for_no_smaller_one(mu: float) -> None:
    engine = Normal(Fraction(mu) ** 2)
    epsilons = np.linspace(0.0, mu * mu / 2 + 3 * mu, 40)
    deltas = engine.log_deltas(epsilons.tolist())
    rests = log_rest(deltas)
    assert envelope._is_above(mu * (1 + 1e-6), epsilons, epsilons, deltas, rests).all()
    assert not envelope._is_above(mu * (1 - 1e-6), epsilons, epsilons, deltas, rests).any()
    # A line that is best elsewhere is lower.
    moved = epsilons + 0.5 * mu
    assert not envelope._is_above(mu * (1 + 1e-6), moved, epsilons, deltas, rests).any()


def test_a_search_between_two_numbers_has_three_ends() -> None:
    for bound in (2.0, 2.7, 3.999):
        low, high = envelope._between(bound.__le__, 1.0, 4.0)
        assert low < bound <= high
        assert high - low <= 3.1 / 2**30
    assert envelope._between(lambda x: True, 1.0, 4.0) == (0.0, 1.0)
    assert envelope._between(lambda x: False, 1.0, 4.0) == (4.0, 4.0)


def test_each_engine_has_its_way_to_mu() -> None:
    normal = Normal(Fraction(9, 4))
    law = (NormalLoss(Fraction(9, 4), 1),)
    exact = envelope.smallest_mu(law, normal)
    assert exact.lower <= 1.5 <= exact.upper
    assert exact.width < 1e-15
    failing = WithFailure(Fraction(1, 10**9), Fraction(1, 10**9), normal, law)
    assert envelope.smallest_mu(law, failing).lower == math.inf
    factors = (GaussianLoss(Fraction(9), 1, 4),)
    assert envelope.smallest_mu(factors, choose_engine(factors)) == gaussian_envelope(factors)
    assert envelope._of_parts((NormalLoss(Fraction(1, 4), 9),)) == pytest.approx(1.5, rel=1e-11)
    assert envelope._of_parts((NormalLoss(Fraction(1, 4), 9),)) > 1.5


@pytest.mark.nightly
def test_a_grid_that_would_take_too_long_leaves_the_lower_end(monkeypatch) -> None:
    law = (GaussianLoss(Fraction(600), 1, 60),)
    engine = Dithered.build(law, 1e-4)
    assert engine is not None
    whole = envelope.profile_envelope(engine)
    for name, limit in (("_MOST_EPSILONS", 100), ("_MOST_NODES", 1.0)):
        with monkeypatch.context() as patch:
            patch.setattr(envelope, name, limit)
            cut = envelope.profile_envelope(engine)
            assert cut.upper == math.inf
            assert whole.lower * (1 - 1e-3) < cut.lower <= whole.upper
