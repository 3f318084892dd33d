"""Quantiles and indices against plain formulas, numerical derivatives, and means over draws of noise."""

import numpy as np
import pytest
from tests.samples import few

from tallyveil.estimation.intervals.indices import (
    BIASED,
    MAY_BE_ZERO,
    index_of,
    plain_index,
    quantile_sums,
    quantiles_of,
)

KINDS = ["entropy", "theil", "dissimilarity", "gini"]
COUNTS = np.array([[400, 100, 60], [150, 300, 90], [220, 80, 260], [90, 210, 140]])


def covariance_of(n, size, seed):
    """A covariance matrix that is no diagonal."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(n, n)) / np.sqrt(n) + np.eye(n)
    return size**2 * factor @ factor.T


def counts_of(kind):
    return COUNTS[:1] if kind == "entropy" else COUNTS


def formula(kind, x):
    """The definitions, with loops."""
    t, groups, n = x.sum(axis=1), x.sum(axis=0), x.sum()
    p = groups / n

    def entropy(part):
        shares = part[part > 0] / part.sum()
        return -(shares * np.log(shares)).sum()

    spread = (p * (1 - p)).sum()
    if kind == "entropy":
        return entropy(groups)
    if kind == "theil":
        return sum(t[i] * (entropy(groups) - entropy(x[i])) for i in range(len(x))) / (n * entropy(groups))
    if kind == "dissimilarity":
        return sum(t[i] * abs(x[i, m] / t[i] - p[m]) for i in range(len(x)) for m in range(len(p))) / (
            2 * n * spread
        )
    return sum(
        t[i] * t[j] * abs(x[i, m] / t[i] - x[j, m] / t[j])
        for i in range(len(x))
        for j in range(len(x))
        for m in range(len(p))
    ) / (2 * n**2 * spread)


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_the_definitions(kind):
    x = counts_of(kind)
    assert plain_index(kind, x) == pytest.approx(formula(kind, x.astype(float)), rel=1e-12)
    assert np.isnan(plain_index(kind, np.zeros_like(x)))


def test_two_groups_have_the_classical_indices():
    x = np.array([[60, 40], [40, 60]])
    assert plain_index("dissimilarity", x) == pytest.approx(0.2)
    assert plain_index("gini", x) == pytest.approx(0.2)
    apart = np.array([[50, 0], [0, 70]])
    assert [plain_index(kind, apart) for kind in KINDS[1:]] == pytest.approx([1, 1, 1])


@pytest.mark.parametrize("kind", KINDS)
def test_standard_errors_are_those_of_numerical_derivatives(kind):
    x = counts_of(kind).astype(float)
    covariance = covariance_of(x.size, 2.0, 1)
    steps = np.eye(x.size).reshape(x.size, *x.shape) * 1e-3
    slope = np.array([formula(kind, x + step) - formula(kind, x - step) for step in steps]) / 2e-3
    made = index_of(kind, x, covariance, 1.96)
    assert made.lacking is None
    assert made.standard_error == pytest.approx(np.sqrt(slope @ covariance @ slope), rel=1e-5)


@pytest.mark.parametrize("kind", few(1, KINDS))
def test_bias_is_that_of_draws(kind):
    """Around fixed counts, with noise so large that the bias shows; the estimate is the value less the bias."""
    x = counts_of(kind).astype(float)
    if kind in ("dissimilarity", "gini"):
        # Near the kinks, where the absolute value has most of its bias.
        x = np.outer(x.sum(axis=1), x.sum(axis=0)) / x.sum() + 0.05 * x
    covariance = covariance_of(x.size, 12.0, 2)
    made = index_of(kind, x, covariance, 1.96)
    draws = np.random.default_rng(3).multivariate_normal(np.zeros(x.size), covariance, 20_000)
    values = np.array([formula(kind, x + draw.reshape(x.shape)) for draw in draws])
    bias = formula(kind, x) - made.value if made.lacking is None else None
    wanted = values.mean() - formula(kind, x)
    error = values.std() / np.sqrt(len(draws))
    if bias is None:
        # It is refused because the bias is large.
        assert made.lacking == BIASED
        assert abs(wanted) > 0.3 * values.std()
    else:
        assert abs(bias - wanted) < 4 * error + 0.25 * abs(wanted)


def test_what_may_be_zero_is_refused():
    x = COUNTS.astype(float)
    small = covariance_of(x.size, 2.0, 1)
    x[0, 0] = 3.0
    assert index_of("theil", x, small, 1.96).lacking == MAY_BE_ZERO
    assert index_of("dissimilarity", x, small, 1.96).lacking is None
    x[0, 0], small[0], small[:, 0] = 0.0, 0.0, 0.0  # exactly zero, which has no logarithm and needs none
    assert index_of("theil", x, small, 1.96).lacking is None
    assert index_of("gini", x - x, small, 1.96).lacking == MAY_BE_ZERO
    alike = np.outer(x.sum(axis=1), x.sum(axis=0)) / x.sum()
    assert index_of("dissimilarity", alike, covariance_of(x.size, 2.0, 1), 1.96).lacking == BIASED


def test_quantiles_of_exact_counts():
    counts = np.array([[3, 4, 3], [5, 0, 5], [0, 0, 7], [10, 0, 0]])
    for q, wanted in ((0.5, [1, 0, 2, 0]), (0.3, [0, 0, 2, 0]), (0.9, [2, 2, 2, 0])):
        made = quantiles_of(counts @ quantile_sums(3, q).T, np.zeros(counts.shape), 1.96)
        assert made.estimate.tolist() == made.low.tolist() == made.high.tolist() == wanted


def test_quantiles_hold_as_often_as_they_say():
    """Of counts by 12 levels, with correlated noise."""
    rng = np.random.default_rng(5)
    truth = rng.poisson(40, 12).astype(float)
    covariance = covariance_of(12, 15.0, 6)
    sums = quantile_sums(12, 0.5)
    median = int((sums @ truth < 0).sum())
    variances = np.diag(sums @ covariance @ sums.T)
    draws = truth + rng.multivariate_normal(np.zeros(12), covariance, 4000)
    made = quantiles_of(draws @ sums.T, np.tile(variances, (4000, 1)), 1.959964)
    held = (made.low <= median) & (median <= made.high)
    assert held.mean() > 0.945
    assert (made.high - made.low).mean() < 8
    assert ((made.low <= made.estimate) & (made.estimate <= made.high)).all()
