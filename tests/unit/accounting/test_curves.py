"""The trade-off function and the Gaussian one below it, beside sums over the losses of small compositions."""

import math
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from tallyveil.accounting import curves, envelope
from tallyveil.accounting.curves import betas_at, knot_at, search_cost, zcdp_cost
from tallyveil.accounting.engines.cells import Cells
from tallyveil.accounting.engines.choose import NoLoss, choose_engine
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.moments import certified_log_moment, log_moment
from tallyveil.accounting.engines.tails import DeltaByTails, Tails
from tallyveil.accounting.engines.tilted_fft import TiltedFFT
from tallyveil.accounting.envelope import gaussian_envelope
from tallyveil.accounting.losses import FailureLoss, GaussianLoss, LaplaceLoss, LossFactor, NormalLoss, merged
from tallyveil.accounting.numbers import Bounds

SMALL: tuple[tuple[LossFactor, ...], ...] = (
    (LaplaceLoss(Fraction(2), 1, 1),),
    (LaplaceLoss(Fraction(1, 2), 3, 2),),
    (GaussianLoss(Fraction(1), 1, 1),),
    (GaussianLoss(Fraction(3), 2, 2), LaplaceLoss(Fraction(3), 1, 1)),
)


def pairs(factor: LossFactor) -> Iterator[tuple[float, float]]:
    """Probabilities of one answer under the two neighbours, far into both tails."""
    reach = 80
    if isinstance(factor, GaussianLoss):
        weights = {x: math.exp(-(x**2) / (2 * float(factor.variance))) for x in range(-2 * reach, 2 * reach)}
    else:
        weights = {x: math.exp(-abs(x) / float(factor.scale)) for x in range(-2 * reach, 2 * reach)}
    total = sum(weights.values())
    for x in range(-reach, reach):
        yield weights[x - factor.sensitivity] / total, weights[x] / total


def law_of_losses(factors) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of every loss under P and under Q, by increasing loss."""
    laws: dict[float, tuple[float, float]] = {0.0: (1.0, 1.0)}
    for factor in factors:
        for _ in range(factor.multiplicity):
            one: dict[float, list[float]] = {}
            for p, q in pairs(factor):
                if q > 1e-40 and p > 1e-40:
                    loss = round(math.log(p / q), 9)
                    held = one.setdefault(loss, [0.0, 0.0])
                    held[0], held[1] = held[0] + p, held[1] + q
            following: dict[float, tuple[float, float]] = {}
            for a, (p, q) in laws.items():
                for b, (pp, qq) in one.items():
                    here = following.get(round(a + b, 9), (0.0, 0.0))
                    following[round(a + b, 9)] = (here[0] + p * pp, here[1] + q * qq)
            laws = following
    ordered = sorted(laws)
    return np.array([laws[loss][0] for loss in ordered]), np.array([laws[loss][1] for loss in ordered])


def tradeoff(factors, alpha: float) -> float:
    """The type II error of the best test at a level: Neyman and Pearson, randomised at the last loss."""
    p, q = law_of_losses(factors)
    p, q = p[::-1], q[::-1]
    spent, power = 0.0, 0.0
    for mass, level in zip(p, q, strict=True):
        if spent + level >= alpha:
            return 1 - power - mass * (alpha - spent) / level
        spent, power = spent + level, power + mass
    return 0.0


@pytest.mark.parametrize("factors", SMALL)
@pytest.mark.parametrize(
    "alpha", [Fraction(1, 100), Fraction(1, 5), Fraction(1, 2), Fraction(9, 10), Fraction(999, 1000)]
)
def test_beta_is_that_of_the_best_test(factors, alpha) -> None:
    _, found = betas_at(choose_engine(factors), factors, [alpha])[0]
    truth = tradeoff(factors, float(alpha))
    assert found.lower - 1e-9 <= truth <= found.upper + 1e-9
    assert found.width < 1e-9


@pytest.mark.parametrize("alpha", [Fraction(0), Fraction(1)])
def test_certain_tests_err_in_one_way_only(alpha) -> None:
    factors = SMALL[0]
    assert betas_at(choose_engine(factors), factors, [alpha])[0][1].upper == 1 - alpha
    assert betas_at(NoLoss(), (), [Fraction(1, 4)])[0][1].lower == 0.75


def test_levels_worth_drawing_fall_with_the_loss() -> None:
    assert knot_at(NoLoss(), (), 3).tolist() == [0.25, 0.5, 0.75]
    levels = knot_at(choose_engine(SMALL[2]), SMALL[2], 9)
    assert (np.diff(levels) < 0).all()
    assert levels[0] > 0.9
    assert zcdp_cost(SMALL[2]) == 0.5


def test_the_cost_of_a_composition_bounds_all_its_log_moments() -> None:
    """K(s) <= s (s + 1) rho at every s. The bound on mu beyond all knots rests on this."""
    for factors in (*SMALL, (LaplaceLoss(Fraction(3), 2, 4), GaussianLoss(Fraction(1, 5), 3, 2))):
        rho = zcdp_cost(factors)
        for s in (0.01, 0.3, 1.0, 4.0, 60.0):
            total = sum(factor.multiplicity * log_moment(factor, s) for factor in factors)
            assert total <= s * (s + 1) * rho * (1 + 1e-12)
    assert zcdp_cost((LaplaceLoss(Fraction(3), 2, 4),)) == pytest.approx(8 / 9, rel=1e-15)
    assert zcdp_cost((GaussianLoss(Fraction(1, 5), 3, 2),)) == pytest.approx(45, rel=1e-15)
    law = (LaplaceLoss(Fraction(3), 2, 4), NormalLoss(Fraction(1, 2), 3), FailureLoss(Fraction(1, 9)))
    assert search_cost(law) == pytest.approx(8 / 9 + 3 / 4)


@pytest.mark.parametrize("guess", [-1000, -7, -1, 0, 1, 8, 1000])
def test_the_first_index_is_found_from_any_guess(guess) -> None:
    assert curves._first(lambda index: index >= 3, guess) == 3


@pytest.mark.parametrize("factors", SMALL)
def test_the_gaussian_below_touches_the_trade_off_function(factors) -> None:
    """At every level the Gaussian curve of mu is below, and that of a mu two percent smaller is above somewhere."""
    found = gaussian_envelope(factors)
    assert found.lower <= found.upper < math.inf
    p, q = law_of_losses(factors)
    levels, errors = np.cumsum(q[::-1])[::-1], 1 - np.cumsum(p[::-1])[::-1]
    inside = (levels > 1e-12) & (errors > 1e-12) & (levels < 1 - 1e-12)
    below = norm.cdf(norm.isf(levels[inside]) - found.upper * (1 + 1e-9))
    assert (below <= errors[inside] + 1e-9).all()
    above = norm.cdf(norm.isf(levels[inside]) - found.lower * 0.98)
    assert (above > errors[inside]).any()


def test_without_losses_nothing_is_told_apart() -> None:
    assert gaussian_envelope(()).upper == 0.0


def test_a_lattice_too_fine_for_one_transform_has_no_gaussian() -> None:
    found = gaussian_envelope(
        (GaussianLoss(Fraction(10**15), 10**9, 1), GaussianLoss(Fraction(10**15 + 7), 10**9, 1))
    )
    assert found.lower == 0.0
    assert found.upper == math.inf


def test_work_is_bounded_and_the_bound_stays_an_upper_one(monkeypatch) -> None:
    factors = (GaussianLoss(Fraction(50), 1, 4),)
    whole = gaussian_envelope(factors)
    monkeypatch.setattr(envelope, "_MOST_POINTS", 0)
    cut = gaussian_envelope(factors)
    assert cut.upper >= whole.upper
    assert cut.lower <= whole.upper


def test_knots_with_wide_bounds_are_looked_at_again(monkeypatch) -> None:
    factors = (GaussianLoss(Fraction(8), 1, 4),)
    monkeypatch.setattr(envelope, "_STRETCHES", 2)
    whole = gaussian_envelope(factors)
    monkeypatch.setattr(envelope, "_WIDE", 0.0)
    many = (GaussianLoss(Fraction(5000), 1, 1),)
    assert gaussian_envelope(many).upper == math.inf
    again = gaussian_envelope(factors)
    assert again.lower <= whole.upper
    assert whole.lower <= again.upper
    assert again.upper == pytest.approx(whole.upper, rel=1e-6)


def test_stretches_without_knots_bound_nothing() -> None:
    engine = TiltedFFT(SMALL[0])
    assert envelope._over(engine, Fraction(5), Fraction(6), Fraction(1, 2)).upper == 0.0


@pytest.mark.parametrize(
    "factors",
    [
        (GaussianLoss(Fraction(50), 1, 4),),
        (GaussianLoss(Fraction(3), 2, 2), LaplaceLoss(Fraction(12), 1, 3)),
        (LaplaceLoss(Fraction(7, 2), 9, 4),),
    ],
)
def test_many_knots_at_once_are_those_looked_at_one_by_one(factors: tuple[LossFactor, ...]) -> None:
    engine = TiltedFFT(merged(factors))
    step, offset, most = engine.lattice.step, engine.lattice.offset, engine.greatest
    deviation = math.sqrt(2 * zcdp_cost(factors))
    for low, high in ((-1.9, -0.4), (-0.5, 0.8), (0.4, 1.9)):
        begin, end = Fraction(low * deviation), Fraction(high * deviation)
        together = envelope._over(engine, begin, end, most)
        first, last = (math.ceil((one - offset) / step) for one in (begin, end))
        if most is not None:
            last = min(last, math.ceil((most - offset) / step))
        assert last - first > envelope._FEW or last - first <= 1
        alone = envelope._one_by_one(engine, first, last)
        assert together.lower <= alone.upper
        assert alone.lower <= together.upper
        assert together.width < 1e-6
        assert together.upper == pytest.approx(alone.upper, abs=1e-6)


@pytest.mark.parametrize("side", [-1, 1])
def test_quantiles_lie_on_their_side_and_close(side: int) -> None:
    logs = -np.array([1e-15, 1e-6, 0.1, math.log(2), 3.0, 40.0, 1e3, 1e6])
    found = envelope._quantile(logs, side)
    with mpmath.workdps(60):
        for log, quantile in zip(logs.tolist(), found.tolist(), strict=True):
            # The quantile less a relative 1e-12 has more mass above it, and with 3e-12 more it has less.
            size = 1 + abs(quantile)
            for moved, above in ((0.0, side < 0), (-side * 3e-12 * size, side > 0)):
                at = mpmath.mpf(quantile) + moved
                tail = mpmath.log(mpmath.erfc(at / mpmath.sqrt(2)) / 2)
                assert (tail > mpmath.mpf(log)) == above
    assert envelope._quantile(np.array([0.0, -np.inf]), side).tolist() == [-math.inf, math.inf]


def test_logarithms_of_sums_cover_their_errors() -> None:
    engine, tilt, less = TiltedFFT((GaussianLoss(Fraction(3), 1, 2),)), Fraction(1, 2), Fraction(5)
    scale = certified_log_moment(engine.factors, tilt, less).upper
    totals, errors = np.array([0.5, 1e-3, 1e-9, 0.0]), np.array([1e-3, 1e-12, 1e-6, 1e-4])
    lower, upper = envelope._logs(engine, tilt, less, (totals, errors), slice(0, 4))
    assert np.all(upper >= np.log(totals + errors) + scale)
    np.testing.assert_allclose(upper, np.log(totals + errors) + scale, rtol=1e-13)
    assert np.all(lower[:2] <= np.log(totals[:2] - errors[:2]) + scale)
    np.testing.assert_allclose(lower[:2], np.log(totals[:2] - errors[:2]) + scale, rtol=1e-13)
    assert lower[2:].tolist() == [-math.inf, -math.inf]


def test_sums_beyond_a_place_are_within_their_errors() -> None:
    law = TiltedFFT((GaussianLoss(Fraction(3), 1, 2),)).law(Fraction(0))
    values = np.exp(-0.3 * np.arange(law.weights.size))
    total, error = envelope._sums(law.weights, values, law)
    for place in range(law.weights.size):
        beyond = values[place + 1 :]
        plain = math.fsum(law.weights[place + 1 :] * beyond)
        assert total[place] == pytest.approx(plain, rel=1e-13, abs=1e-300)
        left_out = law.entry_error * beyond.sum() + 4 * law.outside * values[place]
        assert left_out <= error[place] <= 1.02 * left_out + 1e-11 * plain


@pytest.mark.parametrize("rho", [0.01, 0.5, 8.0])
def test_a_mu_for_all_that_lies_beyond_has_a_delta_above_that_of_rho(rho: float) -> None:
    """The bound of rho, exp(-(epsilon - rho)^2 / (4 rho)), against the exact delta of two normal laws."""
    end = rho + 40 * math.sqrt(2 * rho)
    mu = envelope.beyond(rho, end)
    assert envelope._covers(rho, end, mu)
    assert not envelope._covers(rho, end, mu * (1 - 1e-9))
    with mpmath.workdps(80):

        def log_gap(mu: float, epsilon: float) -> float:
            a, b = mu / 2 - mpmath.mpf(epsilon) / mu, -mu / 2 - mpmath.mpf(epsilon) / mu
            delta = mpmath.ncdf(a) - mpmath.exp(epsilon) * mpmath.ncdf(b)
            return float(mpmath.log(delta) + mpmath.mpf(epsilon - rho) ** 2 / (4 * rho))

        gaps = [log_gap(mu, end * factor) for factor in (1.0, 1.01, 1.3, 3.0)]
        assert gaps == sorted(gaps)
        # The bound on Mills' ratio costs little so far out.
        assert 0 < gaps[0] < 0.05 * (1 + abs(math.log(mu)))


@pytest.mark.parametrize("rho", [0.01, 0.5, 8.0])
def test_what_lies_beyond_is_covered(rho) -> None:
    assert envelope.beyond(rho, 1e-3) == math.inf
    mu = envelope.beyond(rho, 200 * (rho + 1))
    assert math.sqrt(2 * rho) <= mu < math.inf


def test_off_the_lattice_the_trade_off_function_follows_from_delta_alone() -> None:
    """The bounds are of second order: the width of delta, not that of the probabilities."""
    factors = merged((GaussianLoss(Fraction(600), 2, 30), GaussianLoss(Fraction(700), 1, 30)))
    exact, dithered = choose_engine(factors), Dithered.build(factors, 1e-7)
    assert dithered is not None
    for alpha in (Fraction(1, 10**6), Fraction(1, 20), Fraction(1, 2), Fraction(999, 1000)):
        _, wanted = betas_at(exact, factors, [alpha])[0]
        _, found = betas_at(dithered, factors, [alpha])[0]
        assert found.lower <= wanted.upper
        assert wanted.lower <= found.upper
        assert found.width < 1e-6


def test_without_close_bounds_of_delta_beta_stays_between_0_and_1_less_alpha() -> None:
    class Blank(DeltaByTails):
        name = "cells"

        def log_tails(self, epsilon) -> Tails:
            unknown = Bounds(-math.inf, 0.0)
            level = Bounds(-math.inf, -1e3) if epsilon > 0 else Bounds(-0.1, 0.0)
            return Tails(unknown, level, unknown)

    _, found = betas_at(Blank(), (GaussianLoss(Fraction(2), 1, 1),), [Fraction(1, 20)])[0]
    assert found.lower == 0.0
    assert 0.95 <= found.upper < 0.95 + 1e-12


RIGHT = (Fraction(3, 2), Bounds(0.10, 0.11), Bounds(0.40, 0.42))
LEFT = (Fraction(1), Bounds(0.20, 0.22), Bounds(0.06, 0.07))
"""Two neighbouring losses, with the errors of both kinds of their tests."""


@pytest.mark.parametrize("alpha", [Fraction(3, 25), Fraction(3, 20), Fraction(19, 100)])
def test_between_two_tests_each_end_takes_the_errors_that_hurt(alpha: Fraction) -> None:
    """Above: the chord of both points. Below: the lines through them, whose slopes are minus exp(loss)."""
    found, at = curves._between(alpha, RIGHT, LEFT), float(alpha)
    chord = 0.42 + (0.07 - 0.42) * (at - 0.11) / (0.22 - 0.11)
    assert found.upper == pytest.approx(chord, rel=1e-12)
    assert found.upper > chord
    falls = 0.40 - (at - 0.10) * math.exp(1.5)
    rises = 0.06 + (0.20 - at) * math.exp(1.0)
    assert found.lower == pytest.approx(max(falls, rises), rel=1e-12)
    assert found.lower < max(falls, rises)


def test_between_two_tests_that_are_hardly_known() -> None:
    """The chord needs a level that is certainly above alpha; without one the nearer point alone is left."""
    alpha = Fraction(21, 100)
    found = curves._between(alpha, RIGHT, LEFT)
    assert found.upper == pytest.approx(0.42 - 0.35 * (0.21 - 0.11) / 0.11, rel=1e-12)
    assert found.lower == pytest.approx(max(0.40 - 0.11 * math.exp(1.5), 0.0), abs=1e-12)
    beyond = curves._between(Fraction(1, 4), RIGHT, LEFT)
    assert beyond.upper == pytest.approx(0.42, rel=1e-12)
    before = curves._between(Fraction(1, 20), RIGHT, LEFT)
    assert before.upper == pytest.approx(0.42, rel=1e-12)
    assert before.lower == before.upper  # the line through the farther point is above
    certain = curves._between(Fraction(9, 10), RIGHT, LEFT)
    assert certain.upper == pytest.approx(0.1, rel=1e-12)
    assert certain.lower == 0


def test_noise_that_protects_nobody_needs_no_search(monkeypatch) -> None:
    """The test at loss 0 then makes next to no errors; a smaller type I error than that is searched for."""
    factors = (GaussianLoss(Fraction(1, 4000), 1, 2),)
    engine = choose_engine(factors)
    assert zcdp_cost(factors) > curves._PROTECTS_NOBODY
    _, beta = betas_at(engine, factors, [Fraction(1, 100)])[0]
    assert 0 == beta.lower < beta.upper <= 1e-300
    assert curves._of_nobody(engine, factors, Fraction(0)) is None
    less = (GaussianLoss(Fraction(1, 400), 1, 2),)
    assert curves._of_nobody(choose_engine(less), less, Fraction(1, 100)) is None
    monkeypatch.setattr(curves, "_PROTECTS_NOBODY", 300.0)
    assert curves._of_nobody(choose_engine(less), less, Fraction(1, 100)) is None  # its error is 1e-150 or so


def test_the_test_at_loss_0_counts_losses_half_a_step_beside_it(monkeypatch) -> None:
    """Losses of an odd number of steps lie there, and none at 0."""
    factors = (LaplaceLoss(Fraction(1), 1, 1),)
    monkeypatch.setattr(curves, "_PROTECTS_NOBODY", 0.0)
    monkeypatch.setattr(curves, "_LEAST_CAP", 1.0)
    alpha = Fraction(1, 20)
    beta = curves._of_nobody(choose_engine(factors), factors, alpha)
    assert beta is None or beta.upper >= 1 - float(alpha) * math.e


def test_both_ends_hold_in_exact_arithmetic() -> None:
    """Also where the chord ends far below where it begins, and for losses whose exponential floats round most."""
    random = np.random.default_rng(8)
    for _ in range(2000):
        below, above = sorted(Fraction(loss) / 3 for loss in random.uniform(0, 120, 2).tolist())
        a2, a1 = sorted((random.uniform(0.1, 0.9, 2) * 10 ** -random.uniform(0, 20)).tolist())
        b2 = random.uniform(0.0, 1.0 - a1)
        b1 = b2 * 10 ** random.uniform(-6, 0)
        alpha = Fraction(min(a2 + float(1 - 10 ** -random.uniform(0, 8)) * (a1 - a2), a1))
        right, left = (
            (loss, Bounds(a, a), Bounds(b, b)) for loss, a, b in ((above, a2, b2), (below, a1, b1))
        )
        found = curves._between(alpha, right, left)
        share = (alpha - Fraction(a2)) / (Fraction(a1) - Fraction(a2))
        chord = Fraction(b2) + (Fraction(b1) - Fraction(b2)) * share
        assert Fraction(found.upper) >= chord
        with mpmath.workdps(60):

            def exact(number: Fraction) -> mpmath.mpf:
                return mpmath.mpf(number.numerator) / number.denominator

            lines = [
                b2 - (exact(alpha) - a2) * mpmath.exp(exact(above)),
                b1 + (a1 - exact(alpha)) * mpmath.exp(exact(below)),
            ]
            assert found.lower <= max(0, *lines) or found.lower == found.upper


def test_slopes_are_enclosed_however_large_the_loss() -> None:
    for loss in (Fraction(-900), Fraction(-1, 3), Fraction(101, 3), Fraction(700)):
        with mpmath.workdps(400):
            exact = mpmath.exp(mpmath.mpf(loss.numerator) / loss.denominator)
            assert curves._slope(loss).lower <= exact <= curves._slope(loss).upper
            assert curves._slope(loss).width <= 1e-15 * exact + 1e-322
    assert curves._slope(Fraction(701)).upper == curves._slope(Fraction(10**9)).upper == math.inf
    assert curves._slope(Fraction(10**9)).lower == curves._slope(Fraction(700)).lower


def test_levels_where_losses_are_not_known_lie_closer_at_both_ends() -> None:
    levels = knot_at(Cells((LaplaceLoss(Fraction(2), 1, 1),)), (), 7)
    wanted = [(1 - math.cos(math.pi * i / 8)) / 2 for i in range(1, 8)]
    assert levels.tolist() == pytest.approx(wanted)
