"""What each engine refuses, and its values at the edges of its range."""

import math
from fractions import Fraction

import pytest

from tallyveil.accounting.engines import ball_tails, loss_transform, tilted_fft
from tallyveil.accounting.engines.ball_tails import Enumeration
from tallyveil.accounting.engines.choose import choose_engine
from tallyveil.accounting.engines.closed_form import ClosedForm
from tallyveil.accounting.engines.loss_transform import atoms
from tallyveil.accounting.engines.moments import saddle_point, tilt_grid
from tallyveil.accounting.engines.tilted_fft import TiltedFFT
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss
from tallyveil.errors import BudgetError, SolverError


def test_enumeration_leaves_large_compositions_to_others(monkeypatch) -> None:
    assert Enumeration.build((GaussianLoss(Fraction(5), 1, 650),)) is None
    assert Enumeration.build((GaussianLoss(Fraction(10**14), 1, 1),)) is None
    whole = Enumeration.build((GaussianLoss(Fraction(5), 1, 2), LaplaceLoss(Fraction(7, 3), 1, 2)))
    assert whole is not None
    monkeypatch.setattr(ball_tails, "MAX_STEPS", 500)  # enough for the tables, and not for their product
    assert Enumeration.build((GaussianLoss(Fraction(5), 1, 2), LaplaceLoss(Fraction(7, 3), 1, 2))) is None


def test_a_law_with_too_many_atoms_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(loss_transform, "MAX_ATOMS", 10)
    for factor in (LaplaceLoss(Fraction(2), 10, 1), GaussianLoss(Fraction(25), 1, 1)):
        with pytest.raises(SolverError, match="another engine"):
            atoms(factor, Fraction(0))
    assert atoms(LaplaceLoss(Fraction(2), 9, 1), Fraction(0)).weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("factor", [GaussianLoss(Fraction(30), 3, 2), LaplaceLoss(Fraction(40), 60, 2)])
def test_both_ways_to_transform_a_law_give_the_same_tails(factor, monkeypatch) -> None:
    """Few frequencies are summed one by one, many by a transform; bounds of both enclose the same number."""
    summed = TiltedFFT((factor,)).log_tails(Fraction(1, 2))
    monkeypatch.setattr(loss_transform, "_MAX_DIRECT", 0)
    transformed = TiltedFFT((factor,)).log_tails(Fraction(1, 2))
    for name in ("log_first", "log_second", "log_delta"):
        one, other = getattr(summed, name), getattr(transformed, name)
        assert one.lower <= other.upper
        assert other.lower <= one.upper
        assert other.width < 1e-8


def test_a_tilted_law_that_spreads_too_far_is_refused(monkeypatch) -> None:
    engine = TiltedFFT((GaussianLoss(Fraction(1000), 1, 40),))
    monkeypatch.setattr(tilted_fft, "MAX_LENGTH", 8)
    with pytest.raises(SolverError, match="more than can be worked on"):
        engine.law(Fraction(0))


@pytest.mark.parametrize("epsilon", [-50.0, -1.0, 0.0, 1.0, 1.9999, 2.5, 500.0])
def test_the_tilt_has_its_mean_near_epsilon_or_stops(epsilon) -> None:
    """Beyond the largest loss no tilt has the mean wanted; the search ends all the same."""
    factors = (LaplaceLoss(Fraction(1), 1, 2),)
    tilt, spread = saddle_point(factors, epsilon)
    assert math.isfinite(tilt)
    assert spread >= 0
    assert (tilt > -0.5) == (epsilon > 0) or epsilon == 0.0
    assert math.isfinite(tilt_grid(factors, epsilon))


def test_tails_between_far_apart_atoms_stay_enclosed() -> None:
    """Far out few atoms carry the tail, and none of them near epsilon."""
    factors = (LaplaceLoss(Fraction(1, 40), 1, 1), LaplaceLoss(Fraction(3), 1, 1))
    engine, truth = TiltedFFT(factors), Enumeration.build(factors)
    assert truth is not None
    for epsilon in (Fraction(-39), Fraction(-1), Fraction(1), Fraction(39), Fraction(40), Fraction(403, 10)):
        one, other = engine.log_tails(epsilon), truth.log_tails(epsilon)
        for name in ("log_first", "log_second", "log_delta"):
            assert getattr(one, name).lower <= getattr(other, name).upper + 1e-12
            assert getattr(other, name).lower <= getattr(one, name).upper + 1e-12


@pytest.mark.parametrize("name", ["tilted_fft", "cells", "direct", "closed_form", "quadrature"])
def test_every_engine_refuses_an_epsilon_that_is_no_number(name) -> None:
    engine = choose_engine((GaussianLoss(Fraction(5, 2), 1, 3),), name)
    for bad in (math.nan, math.inf):
        with pytest.raises((BudgetError, ValueError, OverflowError)):
            engine.log_tails(bad)


def test_many_kinds_of_noise_share_no_lattice_that_a_float_could_name() -> None:
    gaussians = tuple(GaussianLoss(Fraction(10_000 + 731 * i, 1000), 1, 1 + i % 7) for i in range(300))
    assert "too fine" in (ClosedForm.why_not(gaussians) or "")
    assert choose_engine(gaussians).name == "dithered"


def test_far_out_the_tilted_transform_gives_chernoffs_bound() -> None:
    engine = TiltedFFT((GaussianLoss(Fraction(1, 1000), 1, 1),))
    for epsilon in (1e30, 1e300):
        tails = engine.log_tails(epsilon)
        assert tails.log_delta.lower == -math.inf
        assert tails.log_delta.upper < -40
    with pytest.raises(BudgetError, match="between -1e301 and 1e301"):
        engine.log_tails(Fraction(10**400))
    near = TiltedFFT((GaussianLoss(Fraction(3), 1, 2),))
    for epsilon in (2.0, 5.0, 20.0):
        exact, bound = near.log_tails(epsilon), near._far_out(Fraction(epsilon), Fraction(1))
        assert bound.log_delta.upper >= exact.log_delta.lower
        assert bound.log_first.upper >= exact.log_first.lower
        assert bound.log_second.upper >= exact.log_second.lower
