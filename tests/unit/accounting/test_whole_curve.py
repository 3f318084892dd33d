"""Noise held against a whole curve: the bound between points, the least factor, what a match at one delta misses."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.accounting import (
    DiscreteGaussian,
    DiscreteLaplace,
    Neighbours,
    SequentialEvent,
    ZcdpConversion,
    ZcdpCurve,
    calibrate,
    calibrate_to_curve,
    calibration,
    compose,
    curve_excess,
    rho_of,
)
from tallyveil.accounting.calibration import _difference, _largest_between, _Point, scaled

ADD_REMOVE = Neighbours.UNBOUNDED
DELTA = "1e-11"
STATE = DiscreteGaussian(Fraction(10) / (2 * Fraction("0.274") * Fraction("3.65")), multiplicity=10)


def held(event, curve):
    return calibrate_to_curve(event, reference=curve, smallest_delta=DELTA, neighbours=ADD_REMOVE)


@pytest.fixture(scope="module")
def state():
    curve = ZcdpCurve(rho_of(STATE))
    return curve, held(STATE, curve)


def test_a_match_at_one_delta_misses_the_curve_at_a_larger_one():
    curve = ZcdpCurve(rho_of(STATE))
    matched = calibrate(STATE, epsilon=curve.epsilon(Fraction(DELTA)), delta=DELTA, neighbours=ADD_REMOVE)
    proved = compose(matched.event, neighbours=ADD_REMOVE, engine="proved")
    assert proved.epsilon("2.16e-11").lower > curve.epsilon(Fraction("2.16e-11"))
    assert proved.epsilon("2.17e-11").upper < curve.epsilon(Fraction("2.17e-11"))


def test_the_least_noise_of_the_state(state):
    curve, found = state
    assert float(found.factor * STATE.variance) == pytest.approx(4.2562112, abs=1e-7)
    assert curve_excess(found.guarantee, curve, curve.epsilon(Fraction(DELTA))).bound <= 0


def test_no_point_of_a_dense_grid_misses_the_curve(state):
    curve, found = state
    for epsilon in np.linspace(0, curve.epsilon(Fraction(DELTA)), 3001).tolist():
        assert found.guarantee.log_delta(epsilon).upper <= curve.log_delta_below(epsilon)


def test_a_hair_less_noise_misses_the_curve(state):
    curve, found = state
    less = compose(scaled(STATE, found.factor * (1 - Fraction(1, 10**8))), neighbours=ADD_REMOVE)
    excess = curve_excess(less, curve, curve.epsilon(Fraction(DELTA)))
    assert excess.largest > 0
    assert less.log_delta(excess.epsilon).lower > curve.log_delta_below(excess.epsilon)


@settings(max_examples=12)
@given(
    variances=st.lists(st.sampled_from([Fraction(1, 2), 1, 3, 5, 12]), min_size=1, max_size=3),
    multiplicity=st.integers(1, 4),
    laplace=st.booleans(),
    conversion=st.sampled_from(ZcdpConversion),
    scale=st.floats(0.3, 3),
)
def test_the_bound_holds_between_all_points(variances, multiplicity, laplace, conversion, scale):
    parts = [DiscreteGaussian(variance, multiplicity=multiplicity) for variance in variances]
    event = SequentialEvent((*parts, DiscreteLaplace(2)) if laplace else tuple(parts))
    guarantee = compose(event, neighbours=ADD_REMOVE)
    curve = ZcdpCurve(rho_of(event, laplace_as_zcdp=True) * Fraction(scale), conversion)
    end = curve.epsilon(Fraction(1, 10**6))
    excess = curve_excess(guarantee, curve, end)
    assert excess.largest <= excess.bound <= excess.largest + 1e-9
    for epsilon in np.linspace(0, end, 61).tolist():
        assert guarantee.log_delta(epsilon).upper - curve.log_delta_below(epsilon) <= excess.bound + 1e-12


@pytest.mark.parametrize("width", [1e-12, 1e-9, 1e-3, 0.4])
@pytest.mark.parametrize("fall", [1e-13, 1e-3, 0.3, 6.0, 300.0])
@pytest.mark.parametrize("start", [-1e-40, -1e-12, -0.4, -250.0])
def test_between_two_points_the_excess_is_bounded_also_by_floats(
    start: float, fall: float, width: float
) -> None:
    """Against the largest excess of the chord of delta, in 250 digits."""
    for steep in (0.0, 0.5, 0.999, 1.001, 2.0):
        left = _Point(1.0, start, start * 0.999)
        right = _Point(1.0 + width, start - fall, start * 0.999 - steep * fall)
        with mpmath.workdps(250):
            h = mpmath.mpf(right.epsilon) - left.epsilon
            high, low = mpmath.exp(left.upper), mpmath.exp(right.upper)
            slope = (mpmath.mpf(right.reference) - left.reference) / h

            def excess(t: mpmath.mpf) -> mpmath.mpf:
                chord = high - (high - low) * mpmath.expm1(t) / mpmath.expm1(h)  # noqa: B023
                return mpmath.log(chord) - left.reference - slope * t  # noqa: B023

            # Where the derivative of the logarithm of A - B exp(t) is the slope: exp(t) = -slope A / (B (1 - slope)).
            b = (high - low) / mpmath.expm1(h)
            best = -slope * (high + b) / (b * (1 - slope))
            places = [mpmath.mpf(0), h, *([mpmath.log(best)] if 1 < best < mpmath.exp(h) else [])]
            largest = max(map(excess, places))
            bound = _largest_between(left, right)
            assert bound >= largest
            sizes = abs(left.upper) + fall + abs(left.reference) + abs(right.reference)
            assert bound <= largest + (fall + width) ** 2 + 1e-11 * sizes
            assert bound <= left.upper - right.reference + 1e-15 * sizes


def test_pure_noise_ends_below_every_curve():
    event = DiscreteLaplace(4, multiplicity=2)
    curve = ZcdpCurve(Fraction(1, 4))
    found = held(event, curve)
    assert found.guarantee.epsilon(DELTA).upper <= curve.epsilon(Fraction(DELTA))
    assert curve_excess(found.guarantee, curve, curve.epsilon(Fraction(DELTA))).bound <= 0


@pytest.mark.soak
def test_a_curve_of_a_very_large_rho_is_met_by_less_noise_than_rho_asks_for():
    # For all epsilon below rho the textbook allows delta = 1, and the noise has a delta that no float tells from 1.
    event, curve = DiscreteGaussian(Fraction(1, 60_000)), ZcdpCurve(Fraction(30_000))
    found = held(event, curve)
    assert 0.99 < found.factor < 1
    assert curve_excess(found.guarantee, curve, curve.epsilon(Fraction(DELTA))).bound <= 0


@pytest.mark.nightly
def test_deltas_close_to_one_are_told_apart():
    """At rho = 200 both deltas are nearly 1 for small epsilons: they differ by less than any float from 1."""
    event, curve = DiscreteGaussian("2.5", multiplicity=1000), ZcdpCurve(Fraction(200), ZcdpConversion.BEST)
    found = held(event, curve)
    assert 0.974 < found.factor < 0.976


def test_the_textbook_curve_by_hand():
    curve = ZcdpCurve(Fraction(1))
    assert curve.log_delta_below(0.5) == 0
    assert curve.log_delta_below(5.0) == pytest.approx(-4, abs=1e-12)
    assert curve.log_delta_below(5.0) <= -4
    assert curve.epsilon(Fraction(DELTA)) == pytest.approx(1 + 2 * math.sqrt(math.log(1e11)))


def test_the_bound_between_two_points_is_that_of_the_tangents_and_their_roundings(monkeypatch) -> None:
    """ln of the chord of delta is concave: below both of its tangents at the ends, which meet inside."""
    large = 2.0**-20
    monkeypatch.setattr(calibration, "_ROUNDING", large)
    for fall, steep in ((0.3, 0.2), (2.0, 1.9), (2.0, 0.1), (0.0, 0.3)):
        left, right = _Point(1.0, -0.5, -0.7), _Point(1.6, -0.5 - fall, -0.7 - steep)
        growth = math.exp(0.6) - 1
        slopes = (math.exp(-fall) - 1) / growth, (1 - math.exp(fall)) * math.exp(0.6) / growth
        reach = 0.6
        if fall:
            reach = (-fall - slopes[1] * 0.6) / (slopes[0] - slopes[1])
        chord = -0.7 - steep / 0.6 * reach
        at_left = -0.5 + slopes[0] * reach
        at_right = -0.5 - fall + slopes[1] * (reach - 0.6)
        sizes = 0.5 + fall + 0.7 + abs(right.reference) + (abs(slopes[0]) + abs(slopes[1])) * 0.6
        slack = large * (1 + fall + 0.6) * sizes
        wanted = max(0.2, right.upper - right.reference, at_left - chord, at_right - chord) + slack
        assert _largest_between(left, right) == pytest.approx(min(wanted, -0.5 - right.reference), rel=1e-9)


def test_a_difference_is_rounded_up_unless_it_is_nothing() -> None:
    assert _difference(-1.0, -1.0) == 0
    assert _difference(0.3, 0.1) == math.nextafter(0.3 - 0.1, 1)
    far = _Point(1.0, -1.0, -2.0), _Point(900.0, -5.0, -9.0)
    assert _largest_between(*far) == math.nextafter(8.0, 9)  # floats do not hold exp(899)
    nothing = _Point(1.0, -1.0, -2.0), _Point(2.0, -5.0, -math.inf)
    assert _largest_between(*nothing) == math.inf
