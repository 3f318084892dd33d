"""The general engine, term by term and at its limits."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy import fft

from tallyveil.accounting.engines import tilted_fft
from tallyveil.accounting.engines.ball_tails import Proved
from tallyveil.accounting.engines.loss_transform import atoms, centred, fft_error, listed_power, wide_power
from tallyveil.accounting.engines.moments import certified_log_moment, log_moment, moments, tilt_grid, window
from tallyveil.accounting.engines.tilted_fft import TiltedFFT, TiltedLaw, smooth_length
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss
from tallyveil.accounting.numbers import Bounds
from tallyveil.noise.balls import precision, rational

CENSUS = tuple(
    GaussianLoss(Fraction(10) / (2 * Fraction(share, 1000) * Fraction(365, 100)), 1, count)
    for share, count in zip((20, 274, 85, 131, 238, 118, 3), (10, 10, 10, 20, 10, 10, 10), strict=True)
)
FACTORS = (
    GaussianLoss(Fraction(1, 4), 1, 1),
    GaussianLoss(Fraction(5, 2), 2, 1),
    LaplaceLoss(Fraction(7, 2), 3, 1),
    LaplaceLoss(Fraction(3), 1, 1),
)
TILTS = (Fraction(0), Fraction(-1), Fraction(-1, 2), Fraction(1, 3), Fraction(9, 4))


def listed(factor):
    """Losses and probabilities, in plain floats."""
    if isinstance(factor, GaussianLoss):
        x = np.arange(-40, 41)
        weights = np.exp(-(x**2) / (2 * float(factor.variance)))
        return float(factor.offset) + float(factor.step) * x, weights / weights.sum()
    k, a = factor.sensitivity, math.exp(-1 / float(factor.scale))
    j = np.arange(k + 1)
    weights = np.where(j == 0, 1.0, np.where(j == k, a**k, (1 - a) * a**j)) / (1 + a)
    return (k - 2 * j) / float(factor.scale), weights


@pytest.mark.parametrize(("factor", "tilt"), list(itertools.product(FACTORS, TILTS)))
def test_log_moment_is_the_sum(factor, tilt) -> None:
    losses, weights = listed(factor)
    truth = math.log(float((weights * np.exp(float(tilt) * losses)).sum()))
    bounds = certified_log_moment((factor,), tilt, Fraction(1, 2))
    assert bounds.width < 1e-12
    assert bounds.upper + 0.5 == pytest.approx(truth, rel=1e-12, abs=1e-12)
    assert log_moment(factor, float(tilt)) == pytest.approx(truth, rel=1e-12, abs=1e-12)
    tilted = weights * np.exp(float(tilt) * losses - truth)
    mean, variance = moments(factor, float(tilt))
    assert mean == pytest.approx(float(tilted @ losses), abs=1e-9)
    assert variance == pytest.approx(float(tilted @ (losses - mean) ** 2), rel=1e-7)


@pytest.mark.parametrize(("factor", "tilt"), list(itertools.product(FACTORS, TILTS)))
def test_atoms_are_the_tilted_law(factor, tilt) -> None:
    law = atoms(factor, tilt)
    losses, weights = listed(factor)
    truth = dict(zip(np.round(losses, 9), weights * np.exp(float(tilt) * losses), strict=True))
    total = sum(truth.values())
    found = float(factor.offset) + float(factor.step) * (law.start + np.arange(law.weights.size))
    off = sum(
        abs(w - truth.get(x, 0.0) / total) for x, w in zip(np.round(found, 9), law.weights, strict=True)
    )
    assert off < 1e-13
    assert law.error < 1e-13


@pytest.mark.parametrize(
    "variance", [Fraction(1, 2), Fraction(1, 10**3), Fraction(1, 10**7), Fraction(1, 2 * 10**9)]
)
@pytest.mark.parametrize("side", [-1, 1])
def test_the_error_of_atoms_is_bounded_halfway_between_two_integers(variance, side) -> None:
    """There both atoms have large exponents, which nearly cancel."""
    tilt = side * (Fraction(1, 2) + variance * Fraction(13, 2))
    tilt = Fraction(round(tilt * 2**52), 2**52)
    law = atoms(GaussianLoss(variance, 1, 1), tilt)
    squares = [(law.start + place - tilt) ** 2 for place in range(law.weights.size)]
    with precision(256):
        exact = [rational(-(one - min(squares)) / (2 * variance)).exp() for one in squares]
        total = sum(exact, arb(0))
        off = sum(
            abs(float(one / total - rational(Fraction(w)))) for one, w in zip(exact, law.weights, strict=True)
        )
    assert off <= law.error < 1e-13


@pytest.mark.parametrize("variance", [2, 3, 40])
@pytest.mark.parametrize("multiplicity", [1, 7, 1000])
def test_transforms_agree(variance, multiplicity) -> None:
    """The closed form and the sum over atoms, at every frequency."""
    factor = GaussianLoss(Fraction(variance), 1, multiplicity)
    length, tilt = 64, Fraction(3, 7)
    frequencies = np.arange(length // 2 + 1)
    phases = 2 * math.pi * frequencies / length
    closed, closed_error = wide_power(factor, tilt, phases)
    law = atoms(factor, tilt)
    summed, summed_error = listed_power(law, multiplicity, 1, length, frequencies)
    turned = summed * np.exp(1j * phases * multiplicity * law.start)
    assert (np.abs(closed - turned) <= closed_error + summed_error + 1e-12).all()
    assert closed_error.max() < 1e-11


def test_multiplicity_of_a_million() -> None:
    for factor in (GaussianLoss(Fraction(10**4), 1, 10**6), LaplaceLoss(Fraction(1000), 1, 10**6)):
        tails = TiltedFFT((factor,)).log_tails(100)
        assert tails.log_delta.width < 1e-7


def test_a_lattice_point_is_decided_exactly() -> None:
    engine = TiltedFFT((LaplaceLoss(Fraction(3), 1, 1),))
    assert engine.log_tails(Fraction(1, 3)).log_first.upper == -math.inf
    below = Fraction(1, 3) - Fraction(1, 10**40)
    p = 1 / (1 + math.exp(-1 / 3))
    assert engine.log_tails(below).log_first.upper == pytest.approx(math.log(p), abs=1e-12)


@pytest.mark.parametrize("variance", [Fraction(1, 10**6), Fraction(1, 100), Fraction(1, 20)])
def test_few_atoms(variance) -> None:
    """Nearly no noise: only the first atom above epsilon counts."""
    engine = TiltedFFT((GaussianLoss(variance, 1, 1),))
    atom = 3 / (2 * variance)  # X = 1
    tails = engine.log_tails(atom - 1)
    log_p = -1 / (2 * float(variance)) - math.log1p(2 * math.exp(-1 / (2 * float(variance))))
    assert tails.log_first.upper == pytest.approx(log_p, rel=1e-12, abs=1e-12)
    assert tails.log_delta.upper == pytest.approx(log_p + math.log(1 - math.exp(-1)), rel=1e-12)


def test_a_delta_close_to_one_is_known_as_closely_as_one_minus_it() -> None:
    factors = (GaussianLoss(Fraction(1, 10), 1, 10),)
    engine, proved = TiltedFFT(factors), Proved.build(factors, least_delta=Fraction(1, 10**60))
    with ctx.workprec(400):
        for epsilon in (0.0, 3.0, 11.0):
            found, minus = engine.log_tails(epsilon).log_delta, -proved.balls(Fraction(epsilon))[2].log()
            assert minus < 0.01
            assert -found.upper <= minus.upper()
            assert -found.lower >= minus.lower()
            assert found.width < -1e-9 * found.upper


def test_widths_of_the_census_profile() -> None:
    engine = TiltedFFT(CENSUS)
    assert all(engine.log_tails(epsilon).log_delta.width < 1e-10 for epsilon in (0.0, 1.0, 10.0, 60.0, 140.0))


@pytest.mark.parametrize(
    "factors",
    [
        (GaussianLoss(Fraction(5, 2), 1, 3),),
        (GaussianLoss(Fraction(4), 1, 2), LaplaceLoss(Fraction(4), 1, 3)),
    ],
)
def test_what_lies_outside_of_the_window_is_within_the_bounds(factors, monkeypatch) -> None:
    """With a narrow window, what is left out and what wraps around are by far the largest errors."""
    monkeypatch.setattr(tilted_fft, "OUTSIDE", 6.0)
    monkeypatch.setattr(tilted_fft, "window", lambda factors, tilt: window(factors, tilt, 6.0))
    engine, proved = TiltedFFT(factors), Proved.build(factors)
    for epsilon in (-1.0, 0.0, 0.4, 1.3, 2.9, 5.0):
        tilt = tilt_grid(factors, epsilon)
        found = engine._tails_at(Fraction(epsilon), tilt)
        for bounds, exact in zip(
            (found.log_first, found.log_second, found.log_delta), proved.balls(Fraction(epsilon)), strict=True
        ):
            assert arb(bounds.lower).exp() <= exact.upper()
            assert arb(bounds.upper).exp() >= exact.lower()
        law = engine.law(max(tilt, Fraction(0)))
        assert law.outside == pytest.approx(2 * math.exp(-6.0))
        assert 1 - law.weights.sum() <= 2 * law.outside
        assert law.entry_error < 1e-12


def test_lengths_have_no_other_factors_than_the_bound_covers():
    for count in [*range(1, 3000), 100_003, 1_000_001, (1 << 21) - 1, 1 << 22]:
        length = smooth_length(count)
        assert count <= length < max(4, 1.2 * count + 2)
        assert length % 2 == 0
        rest = length
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        assert rest == 1


@pytest.mark.parametrize("count", [2, 77, 121, 343, 1001])
def test_transforms_err_by_less_than_is_counted(count):
    """Against plain sums in extended precision; lengths of which scipy's own choice would have a factor 7 or 11."""
    length = smooth_length(count)
    weights = np.random.default_rng(count).random(length)
    angles = np.longdouble(2) * np.longdouble("3.14159265358979323846264338327950288") / length
    turns = np.outer(np.arange(length // 2 + 1), np.arange(length)) % length * angles
    wanted = (np.cos(turns) - 1j * np.sin(turns)) @ weights.astype(np.longdouble)
    found = fft.rfft(weights, workers=1)
    assert np.abs(found - wanted).max() <= fft_error(length) * weights.sum()
    back = fft.irfft(found, length, workers=1)
    assert np.abs(back - weights).max() <= 2 * fft_error(length) * (
        np.abs(found).sum() * 2 / length + weights.sum()
    )


def test_the_error_of_a_sum_counts_every_weight_the_rest_and_the_roundings(monkeypatch) -> None:
    """With a unit of rounding beside which floats are exact."""
    large = 2.0**-20
    monkeypatch.setattr(tilted_fft, "UNIT", large)
    law = TiltedLaw(Fraction(1, 2), 3, np.array([0.2, 0.5, 0.3]), 1e-3, 1e-4)
    weights, values, exponents = law.weights[1:], np.array([1.0, 0.25]), np.array([0.0, 1.4])
    found = tilted_fft._summed(Bounds(-2.5, -2.0), weights, values, exponents, law)
    total = 0.5 + 0.3 * 0.25
    rounding = large * (0.5 * 80 + 0.3 * 0.25 * (4 * 1.4 + 80))
    error = 1.01 * (1e-3 * 1.25 + 4 * 1e-4 + rounding)
    assert found.lower == pytest.approx(-2.5 + math.log(total - error), rel=1e-12)
    assert found.upper == pytest.approx(-2.0 + math.log(total + error), rel=1e-12)


@pytest.mark.parametrize("tilt", [Fraction(0), Fraction(3, 8)])
def test_the_error_of_a_weight_is_that_of_all_transforms(tilt: Fraction, monkeypatch) -> None:
    """docs/proofs/accounting-rounding.md: errors go through products, and the inverse transform adds its own."""
    large = 2.0**-30
    monkeypatch.setattr(tilted_fft, "UNIT", large)
    factors = (
        GaussianLoss(Fraction(9), 1, 2),
        GaussianLoss(Fraction(5, 2), 2, 1),
        LaplaceLoss(Fraction(9), 1, 3),
    )
    engine = TiltedFFT(factors)
    first, count = engine._points(tilt)
    length = smooth_length(count)
    frequencies = engine._frequencies(length)
    size, off = np.ones(frequencies.size), np.zeros(frequencies.size)
    for factor, weight in zip(engine.factors, engine.lattice.weights, strict=True):
        phases = 2 * math.pi / length * centred(weight * frequencies, length)
        if isinstance(factor, GaussianLoss) and factor.variance >= 2:
            values, error = wide_power(factor, tilt, phases)
        else:
            listed_law = atoms(factor, tilt)
            values, error = listed_power(listed_law, factor.multiplicity, weight, length, frequencies)
        off = size * error + off * (abs(values) + error) + 8 * large * size * abs(values)
        size = size * abs(values)
    law = engine.law(tilt)
    wanted = 2 * off.sum() / length + 2 * math.exp(-60) + fft_error(length) * 2 * size.sum() / length
    assert law.entry_error == pytest.approx(1.001 * wanted, rel=1e-9, abs=0)
    assert (law.first, law.weights.size) == (first, count)
    assert law.outside == 2 * math.exp(-50)
    # Frequencies left out are negligible, and most are.
    every = np.arange(length // 2 + 1)
    logs = np.zeros(every.size)
    for factor, weight in zip(engine.factors, engine.lattice.weights, strict=True):
        if isinstance(factor, GaussianLoss):
            phases = 2 * math.pi / length * centred(weight * every, length)
            images = [(phases + 2 * math.pi * turn) ** 2 for turn in (-2, -1, 0, 1, 2)]
            sums = np.logaddexp.reduce([-float(factor.variance) / 2 * one for one in images], axis=0)
            logs += factor.multiplicity * (sums - sums[0])
    missed = np.setdiff1d(every, frequencies)
    assert missed.size > 100
    assert logs[missed].max() <= -60
    assert logs[frequencies[1:]].max() > -5
    assert logs[frequencies].min() > -75


def test_few_laws_and_few_sets_of_frequencies_are_kept() -> None:
    engine = TiltedFFT((GaussianLoss(Fraction(3), 1, 2),))
    for place in range(12):
        engine.law(Fraction(place, 8))
        engine._frequencies(64 + 2 * place)
    assert list(engine._laws) == [Fraction(place, 8) for place in range(6, 12)]
    assert next(iter(engine._significant)) == 64 + 22
    assert len(engine._significant) == 7
    kept = engine.law(Fraction(7, 8))
    assert engine.law(Fraction(7, 8)) is kept
    assert engine._frequencies(64 + 22) is engine._frequencies(64 + 22)


@pytest.mark.parametrize("epsilon", [Fraction(-3), Fraction(0), Fraction(1, 3), Fraction(7, 2)])
def test_the_next_point_is_the_first_one_above(epsilon: Fraction) -> None:
    engine = TiltedFFT((GaussianLoss(Fraction(3), 1, 2), LaplaceLoss(Fraction(6), 1, 1)))
    step, offset = engine.lattice.step, engine.lattice.offset
    found = engine._next_point(epsilon)
    assert ((found - offset) / step).denominator == 1
    assert found - step <= epsilon < found
    assert engine._next_point(found) == found + step


def test_the_losses_that_carry_delta_are_found() -> None:
    """Their mean, weighted by shares of delta without the factor 1 - exp(epsilon - loss)."""
    factors = (GaussianLoss(Fraction(1, 4), 1, 1), LaplaceLoss(Fraction(4), 1, 2))
    engine = TiltedFFT(factors)
    for epsilon in (Fraction(1), Fraction(5, 2)):
        for tilt in (Fraction(0), Fraction(1, 2)):
            law = engine.law(tilt)
            losses = np.array(
                [
                    float(engine.lattice.offset + engine.lattice.step * (law.first + i))
                    for i in range(law.weights.size)
                ]
            )
            above = losses > float(epsilon)
            shares = np.maximum(law.weights[above] - law.entry_error, 0) * np.exp(
                -float(tilt) * losses[above]
            )
            wanted = float(shares @ losses[above] / shares.sum())
            assert engine._carried(epsilon, tilt) == pytest.approx(wanted, rel=1e-9)
            assert engine._carried(epsilon, Fraction(-1)) == engine._carried(epsilon, Fraction(0))


def test_far_out_chernoffs_bound_stands_for_each_probability() -> None:
    factors = (GaussianLoss(Fraction(3), 1, 2),)
    engine, rho = TiltedFFT(factors), 1 / 3
    for epsilon, tilt in ((Fraction(4), Fraction(2)), (Fraction(9), Fraction(11))):
        found = engine._far_out(epsilon, tilt)
        log_moment = float(tilt * (tilt + 1)) * rho
        assert found.log_first.upper == pytest.approx(min(0.0, log_moment - float(tilt * epsilon)))
        assert found.log_second.upper == pytest.approx(min(0.0, log_moment - float((tilt + 1) * epsilon)))
        assert found.log_delta == found.log_first
        assert found.log_first.lower == found.log_second.lower == -math.inf
