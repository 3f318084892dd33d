"""Arithmetic on logarithms with outward rounding, against 320 digits."""

import mpmath
import numpy as np
import pytest

from tallyveil.accounting.engines.dithered_bounds import _less, _log_added, _log_gap, _logarithms, _slopes
from tallyveil.accounting.losses.log_bounds import exponential, log_reflected, log_rest, log_sum
from tallyveil.accounting.many_bounds import ManyBounds

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
