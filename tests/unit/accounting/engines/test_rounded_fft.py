"""Losses without a common lattice: the rounded engine beside the exact one, and what it refuses."""

import math
from fractions import Fraction

import pytest

from tallyveil.accounting.curves import beta_at
from tallyveil.accounting.engines import rounded_fft
from tallyveil.accounting.engines.rounded_fft import RoundedFFT
from tallyveil.accounting.engines.tails import NOTHING
from tallyveil.accounting.engines.tilted_fft import TiltedFFT
from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss
from tallyveil.errors import BudgetError, SolverError

GAUSSIANS = (GaussianLoss(Fraction(5, 2), 1, 2), GaussianLoss(Fraction(4), 1, 3))
LAPLACES = (LaplaceLoss(Fraction(2), 1, 2), LaplaceLoss(Fraction(3), 1, 1))


@pytest.fixture(autouse=True)
def coarse_grid(monkeypatch) -> None:
    """Fewer points: bounds are wider, and every step is the same."""
    monkeypatch.setattr(rounded_fft, "GRID_LENGTH", 1 << 15)


@pytest.mark.parametrize("factors", [GAUSSIANS, LAPLACES])
@pytest.mark.parametrize("apart", [False, True])
def test_rounded_bounds_enclose_the_exact_ones(factors, apart) -> None:
    exact, rounded = TiltedFFT(factors), RoundedFFT(factors)
    if apart:  # as many groups as factors, so that one of them is rounded
        rounded.groups = tuple(TiltedFFT((factor,)) for factor in factors)
    for epsilon in (-0.5, Fraction(0), Fraction(1, 3), 0.9):
        one, other = exact.log_tails(epsilon), rounded.log_tails(epsilon)
        for name in ("log_first", "log_second", "log_delta"):
            true, found = getattr(one, name), getattr(other, name)
            assert found.lower <= true.upper + 1e-12, (name, epsilon)
            assert true.lower <= found.upper + 1e-12, (name, epsilon)
        assert other.log_delta.width < 1e-2
        if factors is not LAPLACES or epsilon != Fraction(1, 3):  # there is an atom
            assert max(other.log_first.width, other.log_second.width) < 1e-7


@pytest.mark.parametrize("factors", [GAUSSIANS, LAPLACES])
def test_what_lies_outside_of_a_narrow_window_is_within_the_bounds(factors, monkeypatch) -> None:
    monkeypatch.setattr(rounded_fft, "_WINDOW", 5.0)
    monkeypatch.setattr(rounded_fft, "_OUTSIDE", 4 * math.exp(-5.0))
    exact, rounded = TiltedFFT(factors), RoundedFFT(factors)
    rounded.groups = tuple(TiltedFFT((factor,)) for factor in factors)
    for epsilon in (-0.5, Fraction(1, 30), 0.9, 1.1):
        one, other = exact.log_tails(epsilon), rounded.log_tails(epsilon)
        for name in ("log_first", "log_second", "log_delta"):
            assert getattr(other, name).lower <= getattr(one, name).upper
            assert getattr(one, name).lower <= getattr(other, name).upper


@pytest.mark.parametrize("epsilon", [-1e4, -1e6, -1e9, -1e16])
@pytest.mark.parametrize(
    "factors",
    [
        GAUSSIANS,
        (GaussianLoss(Fraction(1, 50), 1, 40), GaussianLoss(Fraction(7, 3), 1, 1)),
    ],
)
def test_bounds_far_below_all_losses_that_matter_hold(factors, epsilon) -> None:
    """P(L > epsilon) and delta, which is at least 1 - exp(epsilon), are 1, however far above epsilon the grid lies."""
    found = RoundedFFT(factors).log_tails(epsilon)
    for name in ("log_first", "log_second", "log_delta"):
        assert getattr(found, name).upper >= -1e-12, name
        assert getattr(found, name).lower <= 0, name


def test_nothing_lies_above_the_largest_loss() -> None:
    engine = RoundedFFT(LAPLACES)
    assert engine.log_tails(Fraction(4, 3)).log_delta == NOTHING
    assert engine.log_tails(5.0).log_first == NOTHING
    for bad in (math.nan, math.inf):
        with pytest.raises(BudgetError):
            engine.log_tails(bad)


def test_laws_are_kept_for_the_next_epsilon_and_only_a_few() -> None:
    engine = RoundedFFT(GAUSSIANS)
    for epsilon in (0.0, 0.0, 2.0, 5.0, 9.0):
        engine.log_tails(epsilon)
        assert 1 <= len(engine._laws) <= rounded_fft._CACHED


def test_losses_that_one_transform_cannot_hold_are_refused() -> None:
    with pytest.raises(SolverError, match="simple fractions"):
        RoundedFFT((GaussianLoss(Fraction(10**15), 10**9, 1),))


def test_losses_spread_too_far_for_one_grid_are_refused() -> None:
    # Beside noise that protects nobody the grid is so coarse that a tilt leaves the range of floats.
    engine = RoundedFFT((GaussianLoss(Fraction(3, 10**9), 1, 1), GaussianLoss(Fraction(10**4), 1, 1)))
    with pytest.raises(SolverError, match=r"apart from the rest|spreads over"):
        engine.log_tails(1.0)


def test_a_grid_too_coarse_for_a_lower_bound_gives_none() -> None:
    """The step of the grid times the tilt is beyond the range of exp: delta is then bounded from above alone."""
    factors = (
        GaussianLoss(Fraction(1, 3745), 1, 1),
        LaplaceLoss(Fraction(40), 1, 1),
        LaplaceLoss(Fraction(1, 18530), 1, 1),
    )
    engine = RoundedFFT(factors)
    for epsilon in (1.0, 2e3, 1e4, 3e4):
        delta = engine.log_tails(epsilon).log_delta
        assert delta.lower <= delta.upper <= 0


def test_an_excess_beyond_the_range_of_exp_gives_no_lower_bound(monkeypatch) -> None:
    engine = RoundedFFT(GAUSSIANS)
    before = engine.log_tails(5.0).log_delta
    monkeypatch.setattr(rounded_fft, "_MOST_GROWTH", 0.0)
    after = engine.log_tails(5.0).log_delta
    assert after.lower == -math.inf < before.lower
    assert after.upper == before.upper


def test_noise_that_protects_nobody_has_no_type_ii_error() -> None:
    factors = (GaussianLoss(Fraction(3, 10**7), 1, 2), GaussianLoss(Fraction(273), 1, 2))
    _, beta = beta_at(RoundedFFT(factors), factors, Fraction(1, 20))
    assert beta.lower == 0
    assert beta.upper <= 1e-300
