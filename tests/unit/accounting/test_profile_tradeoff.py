"""The trade-off function from delta alone, beside the tests at all losses of a lattice and beside normal noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from tallyveil.accounting import DiscreteGaussian, compose
from tallyveil.accounting.curves import beta_at, betas_at, zcdp_cost
from tallyveil.accounting.engines.choose import choose_engine
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss, merged
from tallyveil.accounting.profile_tradeoff import betas_from_profile

ALPHAS = (*tuple(Fraction(i, 100) for i in range(1, 100)), Fraction(1, 10**9), 1 - Fraction(1, 10**9))


@pytest.mark.parametrize(
    "factors",
    [
        (GaussianLoss(Fraction(600), 2, 30), GaussianLoss(Fraction(700), 1, 30)),
        (GaussianLoss(Fraction(3), 2, 2), LaplaceLoss(Fraction(3), 1, 1)),
        (LaplaceLoss(Fraction(1, 2), 3, 2),),
    ],
    ids=["many small steps", "both noises", "few atoms"],
)
def test_delta_alone_gives_the_errors_of_the_best_tests(factors) -> None:
    engine = choose_engine(merged(factors))
    found = betas_from_profile(engine, zcdp_cost(factors), ALPHAS)
    for alpha, (_, beta) in zip(ALPHAS, found, strict=True):
        _, wanted = beta_at(engine, merged(factors), alpha)
        assert beta.lower <= wanted.upper
        assert wanted.lower <= beta.upper
        assert beta.width < 1e-9


def test_off_the_lattice_both_ends_are_close_on_the_whole_curve() -> None:
    """So many incommensurable answers are nearly one normal answer."""
    law = merged(tuple(GaussianLoss(Fraction(40 + math.sqrt(n)), 1, 3) for n in (2, 3, 5, 7, 11, 13)))
    engine = Dithered.build(law, 1e-9)
    assert engine is not None
    mu = math.sqrt(2 * zcdp_cost(law))
    for alpha, (loss, beta) in zip(ALPHAS, betas_at(engine, law, ALPHAS), strict=True):
        assert norm.cdf(norm.isf(float(alpha)) - mu) == pytest.approx(beta.lower, rel=1e-6)
        assert beta.width <= 1e-7 * beta.upper + 1e-13
        # The loss that supports the curve is that of the normal test, too.
        assert float(loss) == pytest.approx(mu * norm.isf(float(alpha)) - mu * mu / 2, abs=0.01 * mu)


def test_tiny_errors_keep_their_digits() -> None:
    """With mu = 16, type II errors are as small as 1e-132, and known to eight digits."""
    variances = [2 + math.sqrt(prime) % 1 for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)]
    law = merged(tuple(GaussianLoss(Fraction(variance), 1, 62) for variance in variances))
    engine = Dithered.build(law, 1e-8)
    assert engine is not None
    for _, beta in betas_at(engine, law, [Fraction(1, 10**10), Fraction(1, 2), Fraction(99, 100)]):
        assert 0 < beta.width <= 1e-6 * beta.lower


def test_noise_that_protects_nobody_has_next_to_no_errors() -> None:
    found = compose(
        DiscreteGaussian(50, multiplicity=10**10), DiscreteGaussian("61.7283945"), neighbours="unbounded"
    )
    for alpha in ("1e-10", "0.5", "0.999"):
        assert found.beta(alpha).upper < 1e-299
    levels, betas = found.tradeoff_curve(12)
    assert (np.diff(levels) >= 0).all()
    assert (betas[0].upper, betas[-1].upper) == (1, 0)
