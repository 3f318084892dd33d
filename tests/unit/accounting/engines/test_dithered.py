"""The dithered contour: trusted values of compositions without a lattice, its conditions, hostile numbers."""

import math
import random
from fractions import Fraction

import pytest

from tallyveil.accounting import DiscreteGaussian, Neighbours, compose
from tallyveil.accounting.conversion import epsilon_at
from tallyveil.accounting.engines import choose, dithered, revivals
from tallyveil.accounting.engines.choose import FallbackEngine, choose_engine
from tallyveil.accounting.engines.closed_form import ClosedForm
from tallyveil.accounting.engines.dithered import NARROWEST, WIDTH, Dithered
from tallyveil.accounting.engines.quadrature import Quadrature
from tallyveil.accounting.engines.rounded_fft import RoundedFFT
from tallyveil.accounting.engines.tilted_fft import TiltedFFT
from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss, merged
from tallyveil.budget import load_strategy_preset
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
    assert "1/4 or more" in str(Dithered.why_not((LaplaceLoss(Fraction(2), 1, 1),)))
    assert "too small" in str(Dithered.why_not((GaussianLoss(Fraction(1, 3), 1, 10**6),)))
    assert "values" in str(
        Dithered.why_not((GaussianLoss(Fraction(9), 1, 1), LaplaceLoss(Fraction(2), 5000, 1)))
    )
    assert Dithered.why_not((GaussianLoss(Fraction(900), 1, 1),)) is None
    with pytest.raises(BudgetError, match="cannot take"):
        choose_engine((LaplaceLoss(Fraction(2), 1, 1),), "dithered")
    for width in (0.0, NARROWEST / 2, 2.0, math.nan):
        with pytest.raises(BudgetError, match="width"):
            choose_engine((GaussianLoss(Fraction(9), 1, 1),), "auto", width)


def test_periods_that_floats_cannot_resolve_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(dithered, "UNIT", 1e-3)
    assert "within its period" in str(Dithered.why_not(incommensurable(1, 100, 1)))


def test_close_variances_near_one_and_other_noise_are_left_to_the_rounded_fft(monkeypatch) -> None:
    """The scan has a limit of states; above it, and without Gaussian noise, the general engine is chosen."""
    factors = incommensurable(1, 100, 1)
    monkeypatch.setattr(revivals, "MOST_STATES", 50)
    assert "too often" in str(Dithered.why_not(factors))
    assert isinstance(choose_engine(factors), RoundedFFT)
    monkeypatch.undo()
    monkeypatch.setattr(revivals, "MOST_WINDOWS", 1)
    assert "too often" in str(Dithered.why_not(factors))
    monkeypatch.undo()
    laplaces = tuple(LaplaceLoss(Fraction(10**6 + n, 10**6 - n), 1, 1) for n in (1, 5, 7))
    assert isinstance(choose_engine(laplaces), RoundedFFT)


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
    assert isinstance(engine.general, RoundedFFT)
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
