"""Guarantees at their edges."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting import Neighbours
from tallyveil.accounting import guarantee as module
from tallyveil.accounting.engines.choose import ENGINES
from tallyveil.accounting.events import ApproximateDP, DiscreteGaussian, DiscreteLaplace, Gaussian
from tallyveil.accounting.guarantee import Guarantee, compose
from tallyveil.accounting.losses import Choice, GaussianLoss, LaplaceLoss
from tallyveil.errors import BudgetError

GAUSSIAN = DiscreteGaussian(Fraction(5), 1, 10)
LAPLACE = DiscreteLaplace(Fraction(3), 1, 5)


def guarantee(*events, engine="auto"):
    return compose(*events, neighbours=Neighbours.UNBOUNDED, engine=engine)


def test_nothing_is_released() -> None:
    empty = guarantee()
    assert empty.epsilon("1e-10").upper == empty.epsilon(0).upper == 0
    assert empty.delta(0).upper == 0
    assert empty.delta(-1).upper == pytest.approx(1 - math.exp(-1), rel=1e-14)
    assert empty.beta("0.25").lower == empty.beta("0.25").upper == 0.75
    assert empty.mu().upper == empty.advantage().upper == 0


def test_epsilon_at_the_ends_of_delta() -> None:
    assert guarantee(GAUSSIAN).epsilon(0).lower == math.inf
    assert guarantee(GAUSSIAN).epsilon(1).upper == 0
    assert guarantee(GAUSSIAN).epsilon(2).upper == 0
    greatest = guarantee(LAPLACE).epsilon(0)
    assert greatest.lower <= 5 / 3 <= greatest.upper
    assert greatest.width <= 3e-16
    assert guarantee(LAPLACE).epsilon("1e-300").upper <= greatest.upper
    total = guarantee(GAUSSIAN).advantage()
    assert guarantee(GAUSSIAN).epsilon(total.upper * (1 + 1e-9)).upper == 0
    assert guarantee(GAUSSIAN).epsilon(total.lower * (1 - 1e-9)).lower > 0


def test_the_width_of_two_laws_that_enclose_the_truth_is_stated() -> None:
    fine = guarantee(DiscreteLaplace(5000, 5000), Gaussian(1))
    bounds = fine.epsilon("1e-6")
    assert fine.width_reached == 1e-9
    assert fine.wider() is None
    assert fine.wider(bounds) == bounds.width > 8e-9
    failing = guarantee(DiscreteLaplace(5000, 5000), Gaussian(1), ApproximateDP(1, "1e-9"))
    assert failing.width_reached == 1e-9
    assert failing.wider(failing.epsilon("1e-6")) > 8e-9
    # Failures alone exceed this delta: an infinite epsilon has no width.
    assert failing.epsilon("1e-10").upper == math.inf
    assert failing.wider(failing.epsilon("1e-10")) is None


@pytest.mark.parametrize("delta", [-1, "-1e-5", math.nan, math.inf, "much", "1e-999999999", None, "1/0"])
def test_refused_deltas(delta) -> None:
    with pytest.raises(BudgetError):
        guarantee(GAUSSIAN).epsilon(delta)


@pytest.mark.parametrize("epsilon", [math.nan, math.inf, "1e99999", None])
def test_refused_epsilons(epsilon) -> None:
    with pytest.raises(BudgetError):
        guarantee(GAUSSIAN).delta(epsilon)


@pytest.mark.parametrize("alpha", [-0.1, 1.1, math.nan, "x"])
def test_refused_alphas(alpha) -> None:
    with pytest.raises(BudgetError):
        guarantee(GAUSSIAN).beta(alpha)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name not in {"direct", "dithered", "cells"}])
def test_engines_agree_on_a_small_composition(engine) -> None:
    found = guarantee(GAUSSIAN, engine=engine)
    assert found.engines == (engine,) or engine == "auto"
    assert found.epsilon("1e-11").upper == pytest.approx(10.124830934481, abs=1e-9)


def test_huge_and_tiny_variances_by_themselves() -> None:
    assert guarantee(DiscreteGaussian(Fraction(10**12))).epsilon("1e-10").upper < 1e-5
    assert guarantee(DiscreteGaussian(Fraction(1, 10**6))).epsilon("1e-10").lower == pytest.approx(
        5e5, rel=1e-4
    )


def test_tradeoff_of_one_laplace_answer() -> None:
    """Randomised response: two outcomes, so three straight pieces."""
    found = guarantee(DiscreteLaplace(Fraction(2)))
    p = 1 / (1 + math.exp(-1 / 2))
    for alpha in (0.0, 0.1, 1 - p, 0.6, 0.95, 1.0):
        truth = max(0, 1 - math.exp(0.5) * alpha, math.exp(-0.5) * (1 - alpha))
        bounds = found.beta(alpha)
        assert bounds.lower - 1e-15 <= truth <= bounds.upper + 1e-15
        assert bounds.width < 1e-11
    assert found.advantage().upper == pytest.approx(2 * p - 1, abs=1e-12)


def test_curves() -> None:
    found = guarantee(GAUSSIAN)
    alphas, betas = found.tradeoff_curve(25)
    assert alphas.size == len(betas) == 25
    assert (np.diff(alphas) > 0).all()
    assert alphas[0] == 0
    assert alphas[-1] == 1
    uppers = [beta.upper for beta in betas]
    assert uppers == sorted(uppers, reverse=True)
    slopes = np.diff(uppers) / np.diff(alphas)
    assert (np.diff(slopes) > -1e-6 * np.abs(slopes[1:])).all()
    assert len(found.profile_curve([0, 1, "2"])) == 3
    with pytest.raises(BudgetError, match="points"):
        found.tradeoff_curve(1)


def test_mu_is_near_the_continuous_gaussian() -> None:
    mu = guarantee(GAUSSIAN).mu()
    assert math.sqrt(2) < mu.lower <= mu.upper < math.sqrt(2) * 1.002
    assert guarantee(DiscreteGaussian(Fraction(500), 1, 1000)).mu().lower == pytest.approx(
        math.sqrt(2), rel=1e-5
    )


def test_alternatives_are_the_worst_of_each() -> None:
    one, other = (GaussianLoss(Fraction(5), 1, 10),), (LaplaceLoss(Fraction(1), 1, 2),)
    both = Guarantee(GAUSSIAN, (Choice((one, other)),), Neighbours.UNBOUNDED)
    apart = [Guarantee(GAUSSIAN, (Choice((law,)),), Neighbours.UNBOUNDED) for law in (one, other)]
    for epsilon in (0.1, 1.0, 1.9, 5.0):
        assert both.delta(epsilon).upper == max(part.delta(epsilon).upper for part in apart)
    assert both.epsilon("1e-3").upper == max(part.epsilon("1e-3").upper for part in apart)
    assert both.mu().upper == max(part.mu().upper for part in apart)
    for alpha in (0.01, 0.3, 0.7):
        found = both.beta(alpha)
        assert found.upper <= min(part.beta(alpha).upper for part in apart)
        assert found.lower >= found.upper - 0.02


def test_of_equally_bad_alternatives_one_is_searched(monkeypatch) -> None:
    # Both answers lose equally much, on one lattice, up to far less than the bounds are wide.
    one, other = GaussianLoss(Fraction(4), 1, 1), GaussianLoss(Fraction(16), 2, 1)
    laws = tuple((replace(one, multiplicity=n), replace(other, multiplicity=6 - n)) for n in range(1, 6))
    worse = (replace(one, multiplicity=7),)
    apart = {
        law: Guarantee(GAUSSIAN, (Choice((law,)),), Neighbours.UNBOUNDED).epsilon("1e-9")
        for law in (*laws, worse)
    }
    searched = []

    def counted(engine, law, delta):
        searched.append(law)
        return apart[law]

    monkeypatch.setattr(module, "epsilon_at", counted)
    found = Guarantee(GAUSSIAN, (Choice(laws),), Neighbours.UNBOUNDED).epsilon("1e-9")
    assert len(searched) == 1
    assert max(apart[law].lower for law in laws) <= found.upper
    assert found.lower <= min(apart[law].upper for law in laws)
    assert (
        Guarantee(GAUSSIAN, (Choice((*laws, worse)),), Neighbours.UNBOUNDED).epsilon("1e-9") == apart[worse]
    )


def test_large_variances_without_a_common_lattice_are_taken() -> None:
    """The losses of two answers with variances near 1e12 are nearly that of one with half the variance."""
    found = guarantee(DiscreteGaussian(Fraction(10**12)), DiscreteGaussian(Fraction(10**12 + 39)))
    assert found.engines == ("dithered",)
    epsilon, one = found.epsilon("1e-10"), guarantee(DiscreteGaussian(Fraction(10**12, 2))).epsilon("1e-10")
    assert 0 < epsilon.lower < epsilon.upper < epsilon.lower * (1 + 1e-4)
    assert epsilon.lower < one.upper
    assert one.lower < epsilon.upper * (1 + 1e-9)
