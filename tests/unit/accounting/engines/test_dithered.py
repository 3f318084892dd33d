"""The dithered contour: trusted values of compositions without a lattice, its conditions, hostile numbers."""

import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting import DiscreteGaussian, Neighbours, compose
from tallyveil.accounting.conversion import epsilon_at
from tallyveil.accounting.engines import choose, dithered, loss_transform
from tallyveil.accounting.engines.choose import FallbackEngine, choose_engine
from tallyveil.accounting.engines.closed_form import ClosedForm
from tallyveil.accounting.engines.dithered import NARROWEST, WIDTH, Dithered, contour_at, log_moment_bounds
from tallyveil.accounting.engines.enclosing import Between, Conditioned
from tallyveil.accounting.engines.halves import Halves
from tallyveil.accounting.engines.moments import log_moment, moments
from tallyveil.accounting.engines.quadrature import Quadrature
from tallyveil.accounting.engines.tails import ManyBounds, log_reflected, log_rest
from tallyveil.accounting.engines.tilted_fft import TiltedFFT
from tallyveil.accounting.losses import (
    ExponentialLoss,
    FailureLoss,
    GaussianLoss,
    LaplaceLoss,
    merged,
)
from tallyveil.budget.presets import load_strategy_preset
from tallyveil.errors import BudgetError

DELTA = Fraction(1, 10**10)
REDISTRICTING = 16.46515537605276
"""Epsilon at DELTA of the noise of the 2020 redistricting data, by an integral in 40-digit arithmetic."""


def redistricting():
    return load_strategy_preset("redistricting-us").strategy


def incommensurable(low: float, high: float, seed: int, count: int = 20):
    draw = random.Random(seed)
    return merged(tuple(GaussianLoss(Fraction(draw.uniform(low, high)), 1, 1) for _ in range(count)))


def built(factors, width: float = WIDTH) -> Dithered:
    engine = Dithered.build(factors, width)
    assert engine is not None
    return engine


def meet(one, other) -> bool:
    return one.lower <= other.upper and other.lower <= one.upper


@pytest.mark.parametrize("width", [1e-5, 1e-7, WIDTH, 1e-11])
def test_epsilon_of_the_redistricting_data(width) -> None:
    strategy = redistricting()
    guarantee = compose(strategy.event(), neighbours=strategy.neighbours, width=width)
    assert guarantee.engines == ("dithered",)
    found = guarantee.epsilon(DELTA)
    assert found.lower <= REDISTRICTING <= found.upper
    assert found.width <= 1.1 * width


@pytest.mark.parametrize(
    "delta", [Fraction(1, 2), Fraction(1, 100), Fraction(1, 10**30), Fraction(1, 10**300)]
)
def test_the_width_hardly_depends_on_delta(delta) -> None:
    strategy = redistricting()
    guarantee = compose(strategy.event(), neighbours=strategy.neighbours)
    assert guarantee.epsilon(delta).width <= 2 * WIDTH


@pytest.mark.parametrize(("low", "high"), [(1, 100), (1, 3), (500, 1000)])
def test_random_variances_are_accounted_for_to_the_width(low, high) -> None:
    factors = incommensurable(low, high, 4)
    engine = choose_engine(factors)
    assert isinstance(engine, Dithered)
    found = epsilon_at(engine, factors, DELTA)
    assert found.width <= 1.1 * WIDTH
    assert meet(found, epsilon_at(built(factors, 1e-6), factors, DELTA))


def test_large_deltas_are_known_as_well_as_small_ones() -> None:
    factors = (GaussianLoss(Fraction(70), 1, 1500), GaussianLoss(Fraction(110), 1, 90))
    lattice, engine = Quadrature.build(factors), built(factors, 1e-6)
    assert lattice is not None
    for delta in (Fraction(999, 1000), 1 - Fraction(1, 10**9), Fraction(1, 3)):
        found = epsilon_at(engine, factors, delta)
        assert found.width < 2e-6
        assert meet(found, epsilon_at(lattice, factors, delta))


def test_losses_of_any_kind_agree_with_the_engines_on_a_lattice() -> None:
    """Sensitivities, Laplace losses, and Gaussian ones of small variance: the same numbers."""
    for factors in (
        (GaussianLoss(Fraction(14), 1, 2), GaussianLoss(Fraction(21), 3, 1)),
        (GaussianLoss(Fraction(60), 2, 3), LaplaceLoss(Fraction(6), 2, 2), LaplaceLoss(Fraction(10), 1, 3)),
        (GaussianLoss(Fraction(15), 3, 2), GaussianLoss(Fraction(1, 5), 1, 2)),
    ):
        other, engine = TiltedFFT(merged(factors)), built(merged(factors), 1e-4)
        for epsilon in (-2.0, 0.0, 0.7, Fraction(3), 8.0):
            one, two = engine.log_tails(epsilon), other.log_tails(epsilon)
            assert meet(one.log_first, two.log_first)
            assert meet(one.log_second, two.log_second)
            assert meet(one.log_delta, two.log_delta)
            assert one.log_delta.width < 0.03


def test_losses_of_any_size_are_taken() -> None:
    """A billion answers of variance 1e30: the losses are that of one answer of variance 1e21, up to its lattice."""
    many, one = GaussianLoss(Fraction(10**30), 1, 10**9), GaussianLoss(Fraction(10**24), 1, 1000)
    both = merged((many, GaussianLoss(Fraction(10**30 + 1), 3, 10**8)))
    for delta in (Fraction(1, 10**12), Fraction(1, 10**16)):
        found = epsilon_at(choose_engine((many,)), (many,), delta)
        assert meet(found, epsilon_at(choose_engine((one,)), (one,), delta))
        assert 0 < found.lower < found.upper < found.lower * 1.001
        more = epsilon_at(choose_engine(both), both, delta)
        assert found.upper < more.lower < more.upper < more.lower * 1.001


def test_what_it_cannot_take_is_said() -> None:
    coarse = (LaplaceLoss(Fraction(2), 1, 1),)
    assert "too often" in str(Dithered.why_not(coarse, NARROWEST))
    assert "known" in str(Dithered.why_not((FailureLoss(Fraction(1, 2)),)))
    assert "for floats" in str(Dithered.why_not((ExponentialLoss(Fraction(10**66)),)))
    assert "too small" in str(Dithered.why_not((GaussianLoss(Fraction(1, 3), 1, 10**6),)))
    assert "values" in str(
        Dithered.why_not((GaussianLoss(Fraction(9), 1, 1), LaplaceLoss(Fraction(2), 5000, 1)))
    )
    assert Dithered.why_not((GaussianLoss(Fraction(900), 1, 1),)) is None
    with pytest.raises(BudgetError, match="cannot take"):
        choose_engine(coarse, "dithered", NARROWEST)
    for width in (0.0, NARROWEST / 2, 2.0, math.nan):
        with pytest.raises(BudgetError, match="width"):
            choose_engine((GaussianLoss(Fraction(9), 1, 1),), "auto", width)


def test_periods_that_floats_cannot_resolve_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(dithered, "UNIT", 1e-3)
    assert "within its period" in str(Dithered.why_not(incommensurable(1, 100, 1)))


def test_close_variances_near_one_and_other_noise_are_left_to_others(monkeypatch) -> None:
    """The scan has limits of states and of nodes; above them losses are listed, or bounded from above alone."""
    factors = incommensurable(1, 100, 1)
    monkeypatch.setattr(loss_transform, "MOST_STATES", 50)
    assert "too often" in str(Dithered.why_not(factors))
    monkeypatch.setattr(dithered, "MOST_AT_BUILD", 100)
    assert isinstance(choose_engine(factors), Halves | Between)
    monkeypatch.undo()
    monkeypatch.setattr(loss_transform, "MOST_WINDOWS", 1)
    assert "too often" in str(Dithered.why_not(factors))
    monkeypatch.undo()
    laplaces = tuple(LaplaceLoss(Fraction(10**6 + n, 10**6 - n), 1, 1) for n in (1, 5, 7))
    assert isinstance(choose_engine(laplaces), Halves)


@pytest.mark.nightly
def test_a_width_out_of_reach_is_widened_and_said() -> None:
    events = [DiscreteGaussian(factor.variance) for factor in incommensurable(1, 1.2, 5, 12)]
    guarantee = compose(*events, neighbours=Neighbours.UNBOUNDED)
    assert "too often" in str(Dithered.why_not(guarantee.alternatives[0]))
    assert guarantee.engines == ("dithered",)
    assert guarantee.width_reached in {1e-8, 1e-7, 1e-6}
    assert guarantee.epsilon(DELTA).width <= 1.1 * guarantee.width_reached
    assert compose(DiscreteGaussian(5), neighbours=Neighbours.UNBOUNDED).width_reached is None


def test_many_epsilons_at_once_are_those_of_each_alone() -> None:
    laplace = (GaussianLoss(Fraction(60), 2, 3), LaplaceLoss(Fraction(6), 2, 2))
    for engine in (
        built(incommensurable(1, 100, 4), 1e-7),
        Quadrature.build(merged(laplace)),
        ClosedForm.build((GaussianLoss(Fraction(5), 1, 10),)),
    ):
        assert engine is not None
        epsilons = [
            Fraction(-3, 2),
            -0.1,
            0.0,
            0.3,
            Fraction(1, 3),
            0.3,
            2.5,
            7.0,
            60.0,
            1e9,
            Fraction(10**400),
        ]
        for epsilon, found in zip(epsilons, engine.log_deltas(epsilons), strict=True):
            alone = engine.log_tails(epsilon).log_delta
            assert meet(found, alone)
            assert found.upper == pytest.approx(alone.upper, rel=1e-9, abs=1e-12)


def test_a_small_variance_off_the_lattice_has_both_engines(monkeypatch) -> None:
    factors = merged((GaussianLoss(Fraction(1, 5), 1, 1), GaussianLoss(Fraction(977, 31), 1, 2)))
    monkeypatch.setattr(choose, "MAX_LENGTH", 10)
    monkeypatch.setattr(Quadrature, "build", lambda factors: None)
    engine = choose_engine(factors, "auto", 1e-5)
    assert isinstance(engine, FallbackEngine)
    assert engine.name == "dithered"
    assert isinstance(engine.general, Conditioned)
    assert engine.log_tails(1.0) == engine.fast.log_tails(1.0)


def test_contours_are_kept_as_long_as_they_have_few_nodes_together(monkeypatch) -> None:
    engine = built(incommensurable(1, 100, 4), 1e-5)
    engine.log_deltas([1.0])
    (first,) = engine._contours.values()
    monkeypatch.setattr(dithered, "_CACHED", 4 * first.frequencies.size)
    for epsilon in range(2, 40, 2):
        engine.log_deltas([float(epsilon)])
        assert sum(one.frequencies.size for one in engine._contours.values()) <= 8 * first.frequencies.size


def test_far_out_the_bounds_stay_in_order() -> None:
    factors = incommensurable(1, 100, 1, 5)
    engine, wide = built(factors, 1e-6), built(factors, 1.0)
    for epsilon in (0.0, 200.0, 1e4, -1e4, 1e9, 1e300, Fraction(10**400), Fraction(-(10**400))):
        for one in (engine, wide):
            tails = one.log_tails(epsilon)
            for bounds in (tails.log_first, tails.log_second, tails.log_delta):
                assert bounds.lower <= bounds.upper <= 0
            assert list(one.log_deltas([epsilon])) == [tails.log_delta]


def test_one_variance_has_the_closed_form_of_its_lattice() -> None:
    """One factor alone returns to its full size at every multiple of its period."""
    factors = (GaussianLoss(Fraction(50), 1, 4),)
    closed, engine = ClosedForm.build(factors), built(factors, 1e-6)
    assert closed is not None
    assert engine.scan.windows.lows.size > 3
    for epsilon in (0.1, 0.731, 2.5):
        assert meet(closed.log_tails(epsilon).log_delta, engine.log_tails(epsilon).log_delta)


MIXED = (
    GaussianLoss(Fraction(7, 2), 1, 3),
    GaussianLoss(Fraction(1, 5), 1, 2),
    LaplaceLoss(Fraction(3), 2, 2),
)


@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.5, 1.0, 4.0, 15.0])
def test_a_period_makes_the_wrap_around_negligible_where_chernoffs_bound_holds(epsilon: float) -> None:
    """Left of the pole at 0 the bound holds for tilts from -1 on, and on no others."""
    engine = built(MIXED, 1e-4)
    tilt = engine._tilt(epsilon)
    assert (tilt < 0) == (epsilon < engine.mean - engine.scan.spread)
    for one in (tilt, -0.9, -0.3):
        period, further = engine._period(one, epsilon)
        assert (-1 <= further < one) if one < 0 else further > one
    period, further = engine._period(tilt, epsilon)
    contour = contour_at(engine.scan, tilt, period, further)
    (((value,), _),) = contour.sums_at([Fraction(epsilon)], [(0, Fraction(0))])
    for wide in (1, 2):
        assert contour.wrap_around(np.array([epsilon]), wide)[0] < 1e-15 * value
    assert period < 60 * (engine.scan.spread + 1 / min(abs(tilt), abs(1 + tilt)))


def test_the_spread_is_that_of_the_losses_at_the_tilt_that_spreads_them_most() -> None:
    engine = built(MIXED, 1e-4)
    most = 3 / 3.5
    for factor in MIXED[1:]:
        most += factor.multiplicity * max(moments(factor, tilt / 20)[1] for tilt in range(-60, 61))
    assert most <= engine.scan.spread**2 <= 1.7 * most
    mean = sum(f.multiplicity * moments(f, 0.0)[0] for f in MIXED)
    assert engine.mean == pytest.approx(mean)


@pytest.mark.parametrize("tilt", [-0.7, 0.3, 2.0])
def test_moments_of_the_tilted_loss_are_those_of_all_factors(tilt: float) -> None:
    engine = built(MIXED, 1e-4)
    mean, variance = engine._moments(tilt)
    pairs = [(f.multiplicity, moments(f, tilt)) for f in MIXED]
    assert mean == pytest.approx(sum(n * one for n, (one, _) in pairs))
    assert variance == pytest.approx(sum(n * one for n, (_, one) in pairs))
    assert engine._log_moment(tilt) == pytest.approx(sum(f.multiplicity * log_moment(f, tilt) for f in MIXED))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5, 9.0])
def test_the_saddle_is_where_the_integrand_is_smallest(epsilon: float) -> None:
    engine = built(MIXED, 1e-4)

    def log_size(tilt: float) -> float:
        return engine._log_moment(tilt) - tilt * epsilon - math.log(abs(tilt * (tilt + 1)))

    for of_rest in (False, True):
        tilt = engine._saddle(epsilon, of_rest)
        assert -1 < tilt < 0 if of_rest else tilt > 0
        nudge = 0.05 / engine.scan.spread * (min(-tilt, 1 + tilt) if of_rest else min(tilt, 1.0))
        assert log_size(tilt) <= min(log_size(tilt - nudge), log_size(tilt + nudge))


def test_chernoffs_bound_is_rounded_outwards_by_its_terms(monkeypatch) -> None:
    large = 2.0**-30
    monkeypatch.setattr(dithered, "UNIT", large)
    engine = built(MIXED, 1e-4)
    for tilt, epsilon in ((2.0, 9.0), (-0.4, 0.1)):
        log_moment_there = log_moment_bounds(engine.scan, tilt, 0.0).upper
        wanted = log_moment_there - tilt * epsilon
        wanted += 8 * large * (abs(log_moment_there) + abs(tilt * epsilon))
        found = engine._chernoff(tilt, epsilon)
        assert found.upper == pytest.approx(min(wanted, 0.0), rel=1e-12)
        tails = engine._far_out(tilt, Fraction(epsilon))
        second = found.upper - epsilon + 8 * large * (abs(found.upper) + epsilon)
        assert tails.log_second.upper == pytest.approx(min(second, 0.0), rel=1e-12)
        assert tails.log_first.upper == (found.upper if tilt > 0 else 0.0)


def test_negative_epsilons_follow_from_what_is_known_better(monkeypatch) -> None:
    """From delta where it is small, and from 1 - delta where that is."""
    large = 2.0**-30
    monkeypatch.setattr(dithered, "UNIT", large)
    epsilons = np.array([0.5, 0.5, 30.0])
    deltas = ManyBounds(np.array([-7.0, -1e-9, -40.0]), np.array([-6.5, -0.9e-9, -39.0]))
    rests = ManyBounds(np.array([-1e-3, -21.0, -1e-17]), np.array([-9e-4, -20.5, 0.0]))
    found = dithered._reflected(epsilons, deltas, rests)
    one = log_reflected(-epsilons, deltas)
    slack = 8 * large * (epsilons - rests.lower)
    other = log_rest(
        ManyBounds(rests.lower - epsilons - slack, np.minimum(rests.upper - epsilons + slack, 0.0))
    )
    np.testing.assert_allclose(found.lower, np.maximum(one.lower, other.lower), rtol=1e-12)
    np.testing.assert_allclose(found.upper, np.minimum(one.upper, other.upper), rtol=1e-12)
    assert one.upper[0] > other.upper[0]
    assert np.all(found.lower <= found.upper)


def test_what_the_engine_refuses(monkeypatch) -> None:
    assert Dithered.why_not((LaplaceLoss(Fraction(1), 1, 1),), NARROWEST) is not None
    laplace = LaplaceLoss(Fraction(4000), dithered.MOST_ATOMS - 2, 1)
    wide, narrow = GaussianLoss(Fraction(60), 1, 1), GaussianLoss(Fraction(1, 5), 1, 1)
    assert dithered._out_of_range((laplace, narrow)) is None
    assert (
        dithered._out_of_range((laplace, narrow, narrow)) == "the discrete losses take more than 4096 values"
    )
    assert Dithered.why_not((wide, replace(laplace, sensitivity=4096)), 1e-2) is not None
    assert "so many answers" in (Dithered.why_not((GaussianLoss(Fraction(1, 4), 1, 400),)) or "")
    assert Dithered.build((replace(wide, variance=Fraction(1, 4)),), 1e-3) is not None
    small = replace(wide, variance=Fraction(249, 1000))
    assert built((small,), 1e-3).scan.others == (small,)
