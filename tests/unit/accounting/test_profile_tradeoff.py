"""The trade-off function from delta alone, beside the tests at all losses of a lattice and beside normal noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from tallyveil.accounting import DiscreteGaussian, compose
from tallyveil.accounting.curves import (
    _cap,
    _Places,
    _Search,
    betas_at,
    betas_from_profile,
    zcdp_cost,
)
from tallyveil.accounting.engines.choose import choose_engine
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.tails import ManyBounds
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, merged

ALPHAS = (*tuple(Fraction(i, 100) for i in range(1, 100)), Fraction(1, 10**9), 1 - Fraction(1, 10**9))


@pytest.mark.parametrize(
    "factors",
    [
        pytest.param(
            (GaussianLoss(Fraction(600), 2, 30), GaussianLoss(Fraction(700), 1, 30)),
            marks=pytest.mark.nightly,
        ),
        (GaussianLoss(Fraction(3), 2, 2), LaplaceLoss(Fraction(3), 1, 1)),
        (LaplaceLoss(Fraction(1, 2), 3, 2),),
    ],
    ids=["many small steps", "both noises", "few atoms"],
)
def test_delta_alone_gives_the_errors_of_the_best_tests(factors) -> None:
    engine = choose_engine(merged(factors))
    found = betas_from_profile(engine, zcdp_cost(factors), ALPHAS)
    for alpha, (_, beta) in zip(ALPHAS, found, strict=True):
        _, wanted = betas_at(engine, merged(factors), [alpha])[0]
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


class Known:
    """An engine with ln delta = -1 - epsilon / 4 from below, and a little more from above."""

    name = "known"

    def log_deltas(self, epsilons):
        lower = -1.0 - np.array([float(epsilon) for epsilon in epsilons]) / 4
        return ManyBounds(lower, lower + 1e-3)


def test_values_of_g_take_the_ends_that_hurt_and_their_roundings() -> None:
    """g = 1 - delta - exp(epsilon) alpha. What is found bounds beta from below, and the best of it is kept."""
    alphas = np.array([0.3, 0.02, 0.5])
    search = _Search(Known(), alphas, np.ones(3))
    which, losses = np.array([2, 0]), np.array([-0.5, 0.75])
    found = search._at(which, losses)
    for i, (alpha, loss) in enumerate(((0.5, -0.5), (0.3, 0.75))):
        log = -1 - loss / 4
        low, high = 1 - math.exp(log + 1e-3), 1 - math.exp(log)
        taken = math.exp(loss) * alpha
        assert found.g.lower[i] == pytest.approx(low - taken, rel=1e-11)
        assert found.g.upper[i] == pytest.approx(high - taken, rel=1e-11)
        slack = 1e-14 * (high + (1 + abs(loss)) * taken)
        assert low - taken - found.g.lower[i] == pytest.approx(slack, rel=0.05, abs=0)
        assert found.g.upper[i] - (high - taken) == pytest.approx(slack, rel=0.05, abs=0)
    assert search.lower.tolist() == [found.g.lower[1], -math.inf, found.g.lower[0]]
    assert search.best.tolist() == [0.75, 0.0, -0.5]
    search._at(np.array([0, 2]), np.array([9.0, -0.9]))  # worse, and better
    assert (search.lower[0], search.best[0]) == (found.g.lower[1], 0.75)
    assert search.best[2] == -0.9
    steep = search._at(np.array([1]), np.array([700.5]))
    assert steep.g.lower.tolist() == [-math.inf]


def test_two_lines_through_the_middle_bound_the_maximum_between() -> None:
    """Of a concave g(kappa), drawn on from the other side, in the exponential of epsilon."""
    places = [
        _Places(np.array([at]), ManyBounds(np.array([low]), np.array([high])))
        for at, low, high in ((-0.4, 0.1, 0.15), (0.1, 0.3, 0.32), (0.9, 0.2, 0.22))
    ]
    search = _Search(Known(), np.full(2, 0.3), np.array([9.0, 8.0]))
    search._bound_above(np.array([1]), *places)
    k1, k2, k3 = (math.exp(at) for at in (-0.4, 0.1, 0.9))
    lines = 0.32 + (0.32 - 0.1) * (k3 - k2) / (k2 - k1), 0.32 + (0.32 - 0.2) * (k2 - k1) / (k3 - k2)
    assert search.upper.tolist() == pytest.approx([9.0, max(lines)], rel=1e-12)
    assert search.upper[1] > max(lines)
    search._bound_above(np.array([0]), *places)
    assert search.upper[0] == search.upper[1]
    search.upper[0] = 0.1
    search._bound_above(np.array([0]), *places)
    assert search.upper[0] == 0.1
    far = [*places[:2], _Places(np.array([900.0]), places[2].g)]
    search._bound_above(np.array([1]), *far)
    assert search.upper[1] == pytest.approx(max(lines), rel=1e-12)


def test_the_error_is_at_most_what_an_outcome_of_ratio_alpha_allows() -> None:
    for alpha in (Fraction(1, 50), Fraction(49, 50)):
        wanted = min(float(1 - alpha), 1 - math.exp(-1 + math.log(alpha) / 4))
        found = _cap(Known(), alpha)
        assert wanted <= found <= wanted * (1 + 1e-13)
