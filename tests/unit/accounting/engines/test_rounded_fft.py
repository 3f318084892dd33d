"""Losses without a common lattice: the rounded engine beside the exact one, and what it refuses."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tallyveil.accounting.curves import beta_at
from tallyveil.accounting.engines import rounded_fft
from tallyveil.accounting.engines.loss_transform import fft_error
from tallyveil.accounting.engines.rounded_fft import (
    RoundedFFT,
    RoundedLaw,
    _Placed,
    _placed,
    _Sums,
    rounded_law,
)
from tallyveil.accounting.engines.tails import NOTHING
from tallyveil.accounting.engines.tilted_fft import TiltedFFT, TiltedLaw
from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss
from tallyveil.accounting.losses.moments import log_moment
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


LARGE = 2.0**-30
"""A unit of rounding beside which floats are exact: error bounds then show each of their terms."""

LAW = TiltedLaw(Fraction(3, 10), -4, np.array([0.1, 0.2, 0.4, 0.2, 0.1]), 1e-6, 1e-5)


def at_points(transform: np.ndarray) -> np.ndarray:
    return np.fft.irfft(transform, 64)


@pytest.mark.parametrize("ratio", [0.4, 2.3])
def test_atoms_are_divided_moved_down_and_weighted_as_the_proof_says(ratio: float, monkeypatch) -> None:
    """docs/proofs/accounting-rounding.md, atom by atom."""
    monkeypatch.setattr(rounded_fft, "GRID_LENGTH", 64)
    monkeypatch.setattr(rounded_fft, "UNIT", LARGE)
    step, tilt, after = 0.3, 0.3, 2
    found = _placed(LAW, ratio, step, after)
    divided, below, weighted = np.zeros(64), np.zeros(64), np.zeros(64)
    for place, mass in enumerate(LAW.weights.tolist()):
        cell = math.floor(place * ratio)
        f = place * ratio - cell
        share = (1 - math.exp(-f * step)) / (1 - math.exp(-step))
        # A tilted mass that moves keeps the mass that it stands for.
        down, up = mass * math.exp(-tilt * f * step), mass * math.exp(tilt * (1 - f) * step)
        divided[cell] += down * (1 - share)
        divided[cell + 1] += up * share
        below[cell] += down
        for later in range(after + 1):
            weighted[cell + later] += down * share * (1 - math.exp(-(1 - f) * step))
    np.testing.assert_allclose(at_points(found.divided), divided, atol=1e-15)
    np.testing.assert_allclose(at_points(found.below), below, atol=1e-15)
    np.testing.assert_allclose(at_points(found.weighted), weighted, atol=1e-15)
    lost = 5 * 1e-6 + 4 * 1e-5 + LARGE * (200 + 2 / min(ratio, 1.0))
    assert found.error == pytest.approx(math.exp(tilt * step) * lost, rel=1e-9, abs=0)


def test_atoms_on_the_grid_are_not_moved(monkeypatch) -> None:
    monkeypatch.setattr(rounded_fft, "GRID_LENGTH", 64)
    found = _placed(LAW, 3.0, 0.3, 2)
    np.testing.assert_allclose(at_points(found.divided)[[0, 3, 6, 9, 12]], LAW.weights, atol=1e-15)
    assert found.below is found.divided
    assert not found.weighted.any()
    below_zero = TiltedLaw(Fraction(-1, 2), 0, LAW.weights, 1e-6, 1e-5)
    assert not _placed(below_zero, 0.4, 0.3, 2).weighted.any()
    assert _placed(below_zero, 0.4, 0.3, 2).error == pytest.approx(
        math.exp(0.15) * (5e-6 + 4e-5 + 2.0**-53 * 205), rel=1e-9, abs=0
    )


def test_groups_are_joined_with_their_errors(monkeypatch) -> None:
    monkeypatch.setattr(rounded_fft, "GRID_LENGTH", 64)
    monkeypatch.setattr(rounded_fft, "UNIT", LARGE)
    random = np.random.default_rng(4)

    def some() -> np.ndarray:
        return random.uniform(-1, 1, 33) + 1j * random.uniform(-1, 1, 33)

    one = _Sums(some(), some(), random.uniform(0, 1, 33), random.uniform(0, 1, 33), 0.25, 1.5)
    group = _Placed(some(), some(), some(), 0.125)
    found = one.joined(group)
    mass = abs(group.divided[0]) + 1e-12
    slip = fft_error(64) * mass
    np.testing.assert_allclose(found.divided, one.divided * group.divided)
    np.testing.assert_allclose(found.bounding, one.bounding * group.below + one.divided * group.weighted)
    np.testing.assert_allclose(found.size, one.size * abs(group.divided))
    moduli = abs(group.divided)
    np.testing.assert_allclose(
        found.off, one.size * (slip + 8 * LARGE * moduli) + one.off * (moduli + slip), rtol=1e-12
    )
    assert found.error == 0.375
    assert found.mass == pytest.approx(1.5 * (mass + 0.125), rel=1e-12)
    nothing = _Sums.nothing()
    assert (nothing.error, nothing.mass, nothing.divided.size) == (0.0, 1.0, 33)
    assert nothing.divided.tolist() == nothing.size.tolist() == [1.0] * 33
    assert not nothing.bounding.any()
    assert not nothing.off.any()


@pytest.mark.parametrize("tilt", [Fraction(-1, 2), Fraction(0), Fraction(3, 2)])
def test_a_law_on_the_grid_knows_its_errors(tilt: Fraction, monkeypatch) -> None:
    monkeypatch.setattr(rounded_fft, "GRID_LENGTH", 1 << 12)
    factors = (*GAUSSIANS, LaplaceLoss(Fraction(7), 1, 1))
    groups = tuple(
        sorted((TiltedFFT((factor,)) for factor in factors), key=lambda engine: -engine.lattice.step)
    )
    law = rounded_law(factors, groups, tilt)
    steps = [group.lattice.step for group in groups]
    assert law.step.denominator >= 1
    assert steps[0] / law.step == int(steps[0] / law.step)  # the coarsest group lies on the grid
    sums, shift, turned = _Sums.nothing(), 0.0, 2
    origin = Fraction(0)
    for group in reversed(groups):
        own, turned = group.law(tilt), max(turned - 1, 0)
        ratio = float(group.lattice.step / law.step)
        sums = sums.joined(_placed(own, ratio, float(law.step), turned))
        shift += 4 * 2.0**-53 * own.weights.size * ratio * float(law.step)
        origin += group.lattice.offset + own.first * group.lattice.step
    assert float(law.shift) == pytest.approx(shift, rel=1e-9, abs=0)
    assert law.error == pytest.approx(1.1 * sums.mass * sums.error + 8 * math.exp(-34), rel=1e-9, abs=0)
    entry = sums.off.mean() + fft_error(1 << 12) * sums.size.mean()
    assert law.entry_error == pytest.approx(1.01 * entry, rel=1e-9, abs=0)
    places = round(float((origin - law.origin) / law.step))
    assert origin == law.origin + places * law.step
    np.testing.assert_allclose(law.weights, np.roll(np.fft.irfft(sums.divided, 1 << 12), places), atol=1e-15)
    if tilt < 0:
        assert np.all(np.isinf(law.excess))
    else:
        plain = np.maximum(np.roll(np.fft.irfft(sums.bounding, 1 << 12), places), 0)
        more = fft_error(1 << 12) * 5**3 * sums.mass * float(law.step) + law.error * float(law.step) * 3
        assert np.abs(law.excess - plain - more).max() <= 1e-3 * more


def test_the_error_of_a_sum_counts_every_weight_the_rest_and_the_roundings(monkeypatch) -> None:
    monkeypatch.setattr(rounded_fft, "UNIT", LARGE)
    law = RoundedLaw(
        Fraction(1),
        Fraction(1),
        Fraction(0),
        np.array([0.9, 0.2, 0.5, 0.3]),
        1e-3,
        1e-4,
        np.zeros(4),
        Fraction(0),
    )
    values, exponents = np.array([0.8, 0.5]), np.array([0.0, 1.4])
    total, error = rounded_fft._summed(law, 1, values, exponents)
    assert total == pytest.approx(0.2 * 0.8 + 0.5 * 0.5, rel=1e-14)
    rounding = LARGE * (0.2 * 0.8 * 80 + 0.5 * 0.5 * (4 * 1.4 + 80))
    outside = 16 * math.exp(-34)
    assert error == pytest.approx(1.01 * (1e-4 * 1.3 + 1e-3 * 0.8 + outside + rounding), rel=1e-12, abs=0)
    assert rounded_fft._summed(law, 4, np.zeros(0), np.zeros(0))[0] == 0


@pytest.mark.parametrize(
    ("tilt", "epsilon"), list(product([Fraction(0), Fraction(3, 2)], ["-1", "0.3", "1.1"]))
)
def test_sums_above_an_epsilon_are_those_of_the_points_there(tilt: Fraction, epsilon: str) -> None:
    """Delta, and both probabilities, of the loss on the grid; the lower bound of delta less what dividing adds."""
    engine, exact = RoundedFFT(GAUSSIANS), Fraction(epsilon)
    engine.groups = tuple(TiltedFFT((factor,)) for factor in sorted(GAUSSIANS, key=lambda f: -f.step))
    law = rounded_law(engine.factors, engine.groups, tilt)
    scale = math.exp(sum(f.multiplicity * log_moment(f, float(tilt)) for f in engine.factors))
    losses = float(law.origin) + float(law.step) * np.arange(law.weights.size)
    masses = law.weights * scale * np.exp(-float(tilt) * losses)
    above = losses > float(exact)
    delta = float(masses[above] @ -np.expm1(float(exact) - losses[above]))
    for power in (0, 1):
        tail = float(masses[above] @ np.exp(-power * losses[above]))
        found = engine._tail(law, exact, power)
        assert found.lower <= math.log(tail) <= found.upper
        assert found.width < 1e-6
    found = engine._delta(law, exact)
    assert found.lower <= math.log(delta) <= found.upper
    less = engine._delta(law, exact, less_excess=True)
    last = int(np.flatnonzero(above)[0]) - 1
    s, g = float(tilt), float(law.step)
    unit = scale * math.exp(-s * losses[last + 1]) * math.exp(s * g * 3)
    assert math.exp(found.lower) - math.exp(less.lower) == pytest.approx(law.excess[last] * unit, rel=1e-3)
