"""Arithmetic on logarithms with outward rounding, against 320 digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tallyveil.accounting.engines import dithered
from tallyveil.accounting.engines.dithered import (
    DitheredContour,
    Scan,
    _dithered,
    _less,
    _log_added,
    _log_gap,
    _logarithms,
    _slopes,
    contour_at,
    log_excess,
    tails_of_delta,
    tails_of_rest,
)
from tallyveil.accounting.engines.loss_transform import Depth, GaussianFactors, find_windows
from tallyveil.accounting.engines.tails import ManyBounds, exponential, log_reflected, log_rest, log_sum
from tallyveil.accounting.losses import GaussianLoss
from tallyveil.accounting.numbers import Bounds

RANDOM = np.random.default_rng(7)
SIZES = 10.0 ** RANDOM.uniform(-14, 2.8, 300)
GAPS = 10.0 ** RANDOM.uniform(-12, 2.5, 300)


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(320):
        yield


def close(low: float, exact: mpmath.mpf, high: float, size: float) -> None:
    assert low <= exact <= high
    assert high - low <= 1e-13 * size


def test_differences_and_sums_of_exponentials() -> None:
    for size, gap in zip(SIZES.tolist(), GAPS.tolist(), strict=True):
        high, low = -size, -size - gap
        larger, smaller = mpmath.exp(high), mpmath.exp(low)
        exact = mpmath.log(larger - smaller)
        lost = abs(float(mpmath.log(1 - smaller / larger)))
        close(_log_gap(high, low, -1), exact, _log_gap(high, low, 1), 1 + size + lost)
        exact = mpmath.log(larger + smaller)
        close(_log_added(low, high, -1), exact, _log_added(high, low, 1), 1 + size)
        assert _less(high, gap) >= mpmath.mpf(high) - gap
        assert _less(high, gap) <= high - gap + 1e-14 * (size + gap)
    assert _log_gap(-1.0, -1.0, 1) == _log_gap(-2.0, -1.0, 1) == -np.inf
    assert _log_gap(-1.0, -np.inf, -1) == pytest.approx(-1.0, abs=1e-13)
    assert _log_added(-np.inf, -np.inf, 1) == -np.inf
    assert _log_added(-np.inf, -3.0, 1) == pytest.approx(-3.0, abs=1e-13)


def test_logarithms_of_sums_in_their_unit() -> None:
    values, scales = np.concatenate([SIZES, 1 / SIZES]), np.concatenate([-GAPS, GAPS])
    lower, upper = (_logarithms(values, scales, side) for side in (-1, 1))
    for value, scale, low, high in zip(
        values.tolist(), scales.tolist(), lower.tolist(), upper.tolist(), strict=True
    ):
        exact = mpmath.log(value) + scale
        close(low, exact, high, 1 + abs(float(mpmath.log(value))) + abs(scale))
    nothing = np.array([0.0, -1.0])
    assert _logarithms(nothing, nothing, -1).tolist() == [-np.inf, -np.inf]
    assert _logarithms(nothing, nothing, 1).tolist() == [0.0, 0.0]


def test_slopes_of_chords_in_the_exponential_of_epsilon() -> None:
    for size, gap in zip(SIZES.tolist(), GAPS.tolist(), strict=True):
        e, chord = size / 10 - 3, min(gap, 3.0)
        here, after, before = -size, -size - gap, -size + gap
        lower, upper = _slopes(e, chord, (here, after), (before, here))
        k = mpmath.exp(e)
        least = mpmath.log((mpmath.exp(here) - mpmath.exp(after)) / (k * mpmath.expm1(chord)))
        most = mpmath.log((mpmath.exp(before) - mpmath.exp(here)) / (-k * mpmath.expm1(-chord)))
        assert lower <= least <= lower + 1e-11 * (1 + size + abs(e) + gap)
        assert upper - 1e-11 * (1 + size + abs(e) + gap) <= most <= upper


def test_probabilities_of_the_opposite_and_of_sums() -> None:
    known = ManyBounds(-SIZES, -SIZES)
    others = ManyBounds(-GAPS - 5, -GAPS - 5)
    factors = np.minimum(GAPS, 5.0)
    rests, sums = log_rest(known), log_sum(known, others, factors)
    reflected, plain = log_reflected(-GAPS, known), exponential(known)
    for i, (size, gap) in enumerate(zip(SIZES.tolist(), GAPS.tolist(), strict=True)):
        x, y = mpmath.exp(-size), mpmath.exp(-gap - 5)
        rest = mpmath.log(1 - x)
        assert rests.lower[i] <= rest <= rests.upper[i]
        assert x > 1 - 1e-10 or rests.width[i] <= 1e-12 * max(
            abs(float(rest)), float(x) / float(1 - x), 1e-280
        )
        added = min(mpmath.mpf(0), mpmath.log(x + mpmath.exp(factors[i]) * y))
        close(sums.lower[i], added, sums.upper[i], 2 + size)
        turned = mpmath.log(1 - mpmath.exp(-gap) * (1 - x))
        assert reflected.lower[i] <= turned <= reflected.upper[i]
        assert reflected.width[i] <= 1e-11 * (1 + gap) * max(1.0, 1e-2 * abs(float(turned)))
        assert plain.lower[i] <= x <= plain.upper[i]
        assert plain.width[i] <= 1e-14 * float(x) + 1e-321
    ends = ManyBounds(np.array([-np.inf, 0.0]), np.array([-np.inf, 0.0]))
    assert (log_rest(ends).upper[0], log_rest(ends).lower[1]) == (0, -np.inf)
    assert exponential(ends).upper.tolist() == [0.0, 1.0]
    assert log_sum(ends, ends, np.zeros(2)).upper.tolist() == [-np.inf, 0.0]


LARGE = 2.0**-20
"""A unit of rounding beside which floats are exact: widths then show what is added, and for what."""


@pytest.fixture
def large_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dithered, "UNIT", LARGE)


@pytest.mark.usefixtures("large_unit")
@pytest.mark.parametrize("side", [-1, 1])
def test_every_operation_on_logarithms_is_rounded_by_its_terms(side: int) -> None:
    for high, low in ((-3.0, -3.01), (2.0, -1.0), (-40.0, -700.0), (-0.1, -math.inf)):
        part = math.log(-math.expm1(low - high)) if low > -math.inf else 0.0
        slack = LARGE * (80 + 40 * abs(part) + 4 * abs(high))
        assert _log_gap(high, low, side) == pytest.approx(high + part + side * slack, rel=1e-13)
        slack = LARGE * (80 + 8 * abs(high))
        added = high + math.log1p(math.exp(low - high))
        assert _log_added(low, high, side) == pytest.approx(added + side * slack, rel=1e-13)
        assert _less(high, 5.0) == pytest.approx(high - 5 + 8 * LARGE * (abs(high) + 5), rel=1e-13)
        assert _less(high, -7.0) == pytest.approx(high + 7 + 8 * LARGE * (abs(high) + 7), rel=1e-13)
        scale = np.array([low if low > -math.inf else 3.0])
        for value in (0.02, 9.0):
            log = math.log(value)
            slack = LARGE * (40 + 40 * abs(log) + 4 * abs(scale[0]))
            found = _logarithms(np.array([value]), scale, side)[0]
            assert found == pytest.approx(log + scale[0] + side * slack, rel=1e-13)


@pytest.mark.usefixtures("large_unit")
def test_slopes_of_chords_are_rounded_by_their_terms() -> None:
    for e, chord in ((0.5, 0.01), (-9.0, 2.0), (60.0, 1e-6)):
        after, before = (-3.0, -5.0), (-2.0, -2.5)
        beyond, within = e + math.log(math.expm1(chord)), e + math.log(1 - math.exp(-chord))
        slack = LARGE * (200 + 8 * abs(e) + 40 * (abs(beyond) + abs(within)))
        lower, upper = _slopes(e, chord, after, before)
        assert lower == pytest.approx(_log_gap(*after, -1) - beyond - slack, rel=1e-9)
        assert upper == pytest.approx(_log_gap(*before, 1) - within + slack, rel=1e-9)


def some_contour(tilt: float) -> DitheredContour:
    gaussians, depth = GaussianFactors.of([GaussianLoss(Fraction(5, 2), 1, 3)]), Depth(30.0, 0.5, 10)
    windows = find_windows(gaussians.decay, depth)
    return contour_at(Scan(gaussians, (), depth, windows, 1.1), tilt, 60.0, tilt + 1 if tilt > 0 else -1.0)


@pytest.mark.usefixtures("large_unit")
@pytest.mark.parametrize("tilt", [-0.4, 0.8])
def test_delta_follows_from_three_dithered_deltas(tilt: float) -> None:
    """docs/proofs/off-lattice.md, section 1, with the difference rounded by the sizes of both terms."""
    h, parts, contour = Fraction(1, 2), 10, some_contour(tilt)
    for epsilon in (Fraction(1, 10), Fraction(13, 10)):
        variants = [(0, -h * h / (6 * parts)), (0, h * h / 2), (1, Fraction(0))]
        ((least, most), (low, high)), (ends, _), ((far_least, far_most), (far_low, far_high)) = _dithered(
            contour, [epsilon], variants
        )
        near = [float(end[0]) for end in ends]
        # The unit at epsilon + h^2 / 2 is exp(-tilt h^2 / 2) times that at epsilon.
        near = [one * math.exp(-tilt * float(h * h / 2)) for one in near]
        rounding = 64 * LARGE * (abs(near[1]) + abs(far_most[0]))
        found = log_excess(contour, [epsilon])[0]
        if tilt > 0:
            lower = _logarithms(2 * near[0] - far_most - rounding, far_low, -1)[0]
            upper = _logarithms(most, high, 1)[0]
        else:
            lower = _logarithms(least, low, -1)[0]
            upper = _logarithms(2 * near[1] - far_least + rounding, far_high, 1)[0]
        assert (found.lower, found.upper) == pytest.approx((lower, upper), rel=1e-12)
        assert found.lower < found.upper < 0


AROUND = {-1: Bounds(-1.9, -1.8), 0: Bounds(-2.4, -2.3), 1: Bounds(-3.3, -3.1)}
"""ln delta before, at and beyond an epsilon."""


def known(around: dict[int, Bounds], asked: list[list[Fraction]]):
    """In the place of `log_excess`: the bounds before and beyond, and what was asked for."""

    def log_excess(contour: DitheredContour, epsilons: list[Fraction]) -> ManyBounds:
        asked.append(list(epsilons))
        return ManyBounds.of([around[-1], around[1]])

    return log_excess


@pytest.mark.parametrize("epsilon", [Fraction(3, 10), Fraction(9, 4)])
def test_probabilities_follow_from_delta_at_three_places(
    epsilon: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[Fraction]] = []
    contour, e, here = some_contour(0.8), float(epsilon), AROUND[0]
    monkeypatch.setattr(dithered, "log_excess", known(AROUND, asked))
    found = tails_of_delta(contour, epsilon, here)
    d = math.sqrt(2 * here.width) / 0.8
    assert [float(one - epsilon) for one in asked[0]] == pytest.approx([-d, d])
    least = (math.exp(-2.4) - math.exp(-3.1)) / (math.exp(e + d) - math.exp(e))
    most = (math.exp(-1.8) - math.exp(-2.4)) / (math.exp(e) - math.exp(e - d))
    # Chernoff's bound, in which no constant is divided out.
    chernoff = 0.8 * 1.8 * float(contour.scan.gaussians.variance) / 2 - 0.8 * e
    assert contour.scan.gaussians.log_norm > 0
    chernoff = min(0.0, chernoff)
    upper = min(math.log(most), chernoff - e)
    assert found.log_second.lower == pytest.approx(math.log(least), rel=1e-9)
    assert found.log_second.upper == pytest.approx(upper, rel=1e-9)
    lower = math.log(math.exp(-2.4) + math.exp(e) * least)
    assert found.log_first.lower == pytest.approx(min(lower, found.log_first.upper), rel=1e-9)
    first = math.log(math.exp(-2.3) + math.exp(e + upper))
    assert found.log_first.upper == pytest.approx(min(first, chernoff), rel=1e-9)
    assert found.log_delta == here
    blind = tails_of_delta(contour, epsilon, Bounds(-math.inf, -2.3))
    assert blind.log_second.lower == blind.log_first.lower == -math.inf
    assert blind.log_second.upper == pytest.approx(chernoff - e, rel=1e-9)


def test_probabilities_follow_from_one_minus_delta_at_three_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where delta is nearly 1. One minus delta rises with epsilon."""
    asked: list[list[Fraction]] = []
    around = {-1: Bounds(-3.3, -3.1), 0: Bounds(-2.4, -2.3), 1: Bounds(-1.9, -1.8)}
    monkeypatch.setattr(dithered, "log_excess", known(around, asked))
    contour, epsilon, e, rest = some_contour(-0.4), Fraction(3, 10), 0.3, around[0]
    found = tails_of_rest(contour, epsilon, rest)
    d = math.sqrt(2 * rest.width) / 0.4
    assert [float(one - epsilon) for one in asked[0]] == pytest.approx([-d, d])
    least = (math.exp(-1.9) - math.exp(-2.3)) / (math.exp(e + d) - math.exp(e))
    most = (math.exp(-2.3) - math.exp(-3.3)) / (math.exp(e) - math.exp(e - d))
    upper = min(math.log(most), -2.3 - e)
    assert found.log_second.lower == pytest.approx(math.log(least), rel=1e-9)
    assert found.log_second.upper == pytest.approx(upper, rel=1e-9)
    # P(L <= epsilon) is what is left of 1 - delta.
    below = math.exp(-2.3) - math.exp(e) * least
    assert found.log_first.lower == pytest.approx(math.log(1 - below), rel=1e-9)
    left = math.exp(-2.4) - math.exp(e + upper)
    assert found.log_first.upper == pytest.approx(math.log(1 - max(left, 0.0)), rel=1e-9, abs=1e-12)
    assert found.log_delta == log_rest(rest)
    blind = tails_of_rest(contour, epsilon, Bounds(-math.inf, -2.3))
    assert blind.log_second.lower == -math.inf
    assert blind.log_second.upper == pytest.approx(-2.3 - e)


def test_many_epsilons_are_summed_in_parts_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    contour, epsilons = some_contour(0.8), [Fraction(i, 7) for i in range(9)]
    whole = log_excess(contour, epsilons)
    monkeypatch.setattr(dithered, "_AT_ONCE", 2 * len(epsilons))
    parts = log_excess(contour, epsilons)
    np.testing.assert_allclose(parts.lower, whole.lower, rtol=1e-12)
    np.testing.assert_allclose(parts.upper, whole.upper, rtol=1e-12)
