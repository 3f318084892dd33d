"""Intervals for ratios: against a search over all ratios, and how often they hold the true ratio."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples import few

from tallyveil.estimation.intervals.interval import fieller_ends

Z = 1.959963984540054


def searched(values, covariance, quantile, ratios):
    """The least and the greatest of many ratios that are not contradicted; None if all are."""
    a, b = values
    variances = covariance[0, 0] - 2 * ratios * covariance[0, 1] + ratios**2 * covariance[1, 1]
    kept = ratios[(a - ratios * b) ** 2 <= quantile**2 * variances]
    return (kept.min(), kept.max()) if len(kept) else None


def covariance_of(first, second, correlation):
    both = correlation * first * second
    return np.array([[first**2, both], [both, second**2]])


def test_the_worked_case():
    found = fieller_ends(np.array([10.0, 100.0]), covariance_of(2.0, 5.0, 0.0), 2.0, 1.0)
    assert found == pytest.approx((0.0596, 0.1425), abs=1e-4)


@given(
    st.floats(-50, 200),
    st.floats(-20, 200),
    st.floats(0.1, 20),
    st.floats(0.1, 20),
    st.floats(-0.99, 0.99),
    st.sampled_from([1.0, math.inf]),
)
def test_the_ends_are_those_of_a_search(a, b, first, second, correlation, most):
    values, covariance = np.array([a, b]), covariance_of(first, second, correlation)
    low, high = fieller_ends(values, covariance, Z, most)
    assert 0 <= low <= high <= most
    ratios = np.linspace(0, 1, 4001) if most == 1 else np.concatenate([[0.0], np.geomspace(1e-4, 1e5, 8001)])
    found = searched(values, covariance, Z, ratios)
    if found is None:  # nothing, or only what lies between two of the ratios
        step = max(1e-3, 0.01 * low)
        assert high - low <= step or (b <= 0 and (low, high) == (0, most))
    else:
        assert low <= found[0] <= low * 1.01 + 1e-3
        assert min(high, 1e5) * 0.99 - 1e-3 <= found[1] <= high


@given(st.integers(0, 1000), st.integers(1, 1000))
def test_counts_that_are_known_exactly_have_one_ratio(a, b):
    found = fieller_ends(np.array([a, b], float), np.zeros((2, 2)), Z, math.inf)
    assert found == pytest.approx((a / b, a / b))


def test_a_denominator_that_may_be_zero_has_no_greatest_ratio():
    low, high = fieller_ends(np.array([20.0, 3.0]), covariance_of(2.0, 2.0, 0.0), Z, math.inf)
    assert low > 2
    assert high == math.inf
    assert fieller_ends(np.array([1.0, 1.0]), covariance_of(2.0, 2.0, 0.0), Z, 1.0) == (0, 1)


def test_an_impossible_share_has_the_nearest_possible_one():
    assert fieller_ends(np.array([-10.0, 100.0]), covariance_of(1.0, 1.0, 0.0), Z, 1.0) == (0, 0)
    assert fieller_ends(np.array([120.0, 100.0]), covariance_of(1.0, 1.0, 0.0), Z, 1.0) == (1, 1)
    assert fieller_ends(np.array([10.0, -100.0]), covariance_of(1.0, 1.0, 0.0), Z, 1.0) == (0, 1)


DRAWS = 4000
SPREAD = math.sqrt(0.95 * 0.05 / DRAWS)


@pytest.mark.parametrize("correlation", few(1, [-0.5, 0.0, 0.8]))
@pytest.mark.parametrize(
    ("share", "errors"),
    [(0.3, 10.0), (0.3, 2.0), (0.3, 0.7), (0.01, 10.0), (0.99, 3.0), (0.0, 5.0), (1.0, 5.0)],
)
def test_how_often_the_interval_holds_the_true_ratio(share, errors, correlation):
    """The denominator is `errors` standard errors. Limit: five standard deviations below the level.

    Below the level by chance once in 3 million. Coverage of 93.2 % would be found in half of the runs.
    """
    rng = np.random.default_rng([17, round(100 * share), round(10 * errors)])
    covariance = covariance_of(0.6, 1.0, correlation)
    draws = rng.multivariate_normal([share * errors, errors], covariance, DRAWS)
    for most in (1.0, math.inf):
        ends = [fieller_ends(draw, covariance, Z, most) for draw in draws]
        hits = np.mean([low <= share <= high for low, high in ends])
        assert hits > 0.95 - 5 * SPREAD
        if share == 0.3 and errors == 10 and most == math.inf:
            assert hits < 0.95 + 5 * SPREAD  # the interval is no wider than it must be


def delta_variance(values: np.ndarray, covariance: np.ndarray) -> float:
    """Variance of the ratio of two estimates by the delta method: V(r) / b^2 at r = a / b.

    Source: Casella and Berger 2002, section 5.5.4.
    """
    ratio = values[0] / values[1]
    slope = np.array([1.0, -ratio]) / values[1]
    return float(slope @ covariance @ slope)


def covered_by_delta(ratio, errors, correlation):
    """How often the ratio of two estimates plus and minus z standard errors by the delta method holds the true one."""
    rng = np.random.default_rng(18)
    covariance = covariance_of(0.6, 1.0, correlation)
    a, b = rng.multivariate_normal([ratio * errors, errors], covariance, 20_000).T
    found = a / b
    variances = (covariance[0, 0] - 2 * found * covariance[0, 1] + found**2 * covariance[1, 1]) / b**2
    assert variances[0] == pytest.approx(delta_variance(np.array([a[0], b[0]]), covariance))
    return np.mean(np.abs(found - ratio) <= Z * np.sqrt(variances))


def test_the_delta_method_covers_too_seldom_where_the_denominator_is_small():
    """docs/derived-counts.md has these figures; the spread of a share of 20,000 draws is 0.0016."""
    cases = [(ratio, correlation) for ratio in (0.3, 1.0, 2.0) for correlation in (-0.8, -0.4, 0.0, 0.4, 0.8)]
    least = {n: min(covered_by_delta(ratio, n, own) for ratio, own in cases) for n in (1.0, 2.0, 5.0, 10.0)}
    assert least == pytest.approx({1.0: 0.819, 2.0: 0.891, 5.0: 0.936, 10.0: 0.951}, abs=0.008)
