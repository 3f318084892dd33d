"""Estimates: exact variances and margins, unbiased given the chosen detail, and much better totals."""

from fractions import Fraction

import numpy as np
import pytest
from tests.oracles.safetab_margins import combined_coverage, coverage_of_sum, stage_1_bias

from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace
from tallyveil.products.safetab.public.estimates import (
    CONFIDENCE,
    UNIT,
    NoisePair,
    chosen_law,
    estimator_of,
    first_enough,
    margin_of_sum,
    noise_sum,
    quality_of,
)
from tallyveil.products.safetab.public.group_numbers import quality_arrays

GAMMA = Fraction(1, 10)
DETAILED = Fraction("2.134") / 9
SUB_STATE = Fraction("0.159") / 9
LAWS = {
    "nation": (
        DiscreteGaussian(1 / (2 * GAMMA * DETAILED)),
        DiscreteGaussian(1 / (2 * (1 - GAMMA) * DETAILED)),
    ),
    "county": (
        DiscreteGaussian(1 / (2 * GAMMA * SUB_STATE)),
        DiscreteGaussian(1 / (2 * (1 - GAMMA) * SUB_STATE)),
    ),
    "pure": (DiscreteLaplace(9 / (GAMMA * 4)), DiscreteLaplace(9 / ((1 - GAMMA) * 4))),
}


def totals_given_choice(estimator, count, keep=1e-9):
    """Every total the estimator can give, with its exact probability, and whether a threshold is near."""
    y1, p1 = chosen_law(noise_sum(estimator.stage_1, 1), count, estimator.lowest, estimator.highest)
    p1 = p1 / p1.sum()
    law = noise_sum(estimator.stage_2, estimator.n)
    s, ps = count + np.arange(-law.reach, law.reach + 1), law.probabilities
    y1, p1, s, ps = y1[p1 > keep], p1[p1 > keep], s[ps > keep], ps[ps > keep]
    left, right = np.meshgrid(y1, s, indexing="ij")
    shifts = estimator.shifts(left.reshape(-1), right.reshape(-1))
    totals = right.reshape(-1) + estimator.n * shifts / UNIT
    weights = np.outer(p1, ps).reshape(-1)
    return totals, weights / weights.sum(), quality_arrays(estimator, estimator.n, totals)


def test_the_first_number_that_is_enough_is_found_from_every_start():
    for first in (0, 1, 2, 7, 64, 1_000):
        for start in (*range(70), 999, 1_000, 1_001, 5_000):
            assert first_enough(first.__le__, start) == first


@pytest.mark.parametrize("name", list(LAWS))
def test_margins_of_single_counts_are_the_certified_ones(name):
    for law in LAWS[name]:
        assert quality_of(law).margin == law.margin(CONFIDENCE)
        assert quality_of(law).variance == law.variance_float()


@pytest.mark.parametrize("name", list(LAWS))
def test_margins_of_sums_and_pairs_cover_95_percent_and_no_less_would(name):
    stage_1, stage_2 = LAWS[name]
    rng = np.random.default_rng(0)
    for a, b, n in ((3, 1, 1), (3571, 525, 4), (1, 0, 2), (2, 1, 18)):
        x, w = noise_sum(stage_2, n), noise_sum(stage_1, 1)
        pair = NoisePair(a, x, b, w, a + b)
        margin = pair.margin(2.0)
        assert {pair.margin(guess) for guess in (0.0, margin, margin + 1 / 64, 3.3 * margin)} == {margin}
        values = np.add.outer(a * np.arange(-x.reach, x.reach + 1), b * np.arange(-w.reach, w.reach + 1)) / (
            a + b
        )
        weights = np.outer(x.probabilities, w.probabilities)
        assert weights[np.abs(values) <= margin].sum() >= 0.95
        assert weights[np.abs(values) <= margin - 1 / 64].sum() < 0.95
    summed = noise_sum(stage_2, 3)
    m = margin_of_sum(summed)
    assert coverage_of_sum(summed, m) >= 0.95 > coverage_of_sum(summed, m - 1)
    for n in (1, 8, 46):
        estimator = estimator_of(n, stage_1, stage_2, None, None)
        for parts in {1, n // 2 or 1, n}:
            assert 0.95 <= combined_coverage(estimator, parts) < 0.956
    one = noise_sum(stage_2, 1)
    probabilities = one.probabilities / one.probabilities.sum()
    draws = np.sum(
        [rng.choice(2 * one.reach + 1, 200_000, p=probabilities) - one.reach for _ in range(3)], axis=0
    )
    assert np.mean(np.abs(draws) <= m) >= 0.948
    assert np.mean(np.abs(draws) <= m - 1) < 0.952


@pytest.mark.parametrize("name", list(LAWS))
@pytest.mark.parametrize("n", [1, 8, 18, 46])
def test_variances_are_those_of_the_weights(name, n):
    stage_1, stage_2 = LAWS[name]
    estimator = estimator_of(n, stage_1, stage_2, None, None)
    u = estimator.unit / UNIT
    v = np.diag([stage_1.variance_float()] + [stage_2.variance_float()] * n)
    weights = np.array([u, *[-u] * n])
    for parts in {1, n // 2 or 1, n}:
        own = np.arange(n) < parts
        row = np.concatenate([[0.0], own]) + own.sum() * weights
        assert estimator.combined(parts).variance == pytest.approx(row @ v @ row, rel=1e-12)
        assert estimator.measured(parts).variance == pytest.approx(own.sum() * v[1, 1])
        if parts > 1:  # a single count gains less than a step of its lattice
            assert estimator.combined(parts).margin < estimator.measured(parts).margin


@pytest.mark.parametrize("name", ["nation", "county"])
def test_totals_of_23_ages_have_a_variance_five_times_smaller_than_the_sum_of_cells(name):
    estimator = estimator_of(46, *LAWS[name], None, None)
    combined, measured = estimator.combined(46), estimator.measured(46)
    assert measured.variance / combined.variance > 6
    assert measured.margin / combined.margin > 2.4


@pytest.mark.parametrize("name", ["nation", "county"])
@pytest.mark.parametrize(
    ("n", "lowest", "highest"), [(1, None, 60), (8, 60, 200), (46, 600, None), (8, 60, 75)]
)
def test_estimates_are_unbiased_given_the_choice_wherever_the_truth_lies(name, n, lowest, highest):
    estimator = estimator_of(n, *LAWS[name], lowest, highest)
    edge = lowest if lowest is not None else highest
    sd = LAWS[name][0].standard_deviation()
    for off in (-1.5, -0.5, 0, 0.5, 2):
        count = int(edge + off * sd)
        totals, weights, (variances, margins, near) = totals_given_choice(estimator, count)
        assert near.any()
        own = float(weights @ totals) - count
        naive = estimator.n * estimator.unit / UNIT * stage_1_bias(LAWS[name][0], count, lowest, highest)
        spread = estimator.measured(estimator.n).variance ** 0.5
        assert abs(own) < 0.003 * spread
        assert abs(own) < 0.03 * abs(naive) or abs(naive) < 0.05 * spread
        variance = float(weights @ (totals - count) ** 2)
        assert variance <= float(weights @ variances) * 1.001
        assert weights[np.abs(totals - count) <= margins].sum() > 0.95 - 1e-8


@pytest.mark.parametrize("name", list(LAWS))
def test_far_from_thresholds_coverage_is_exact_and_the_variance_the_combined_one(name):
    estimator = estimator_of(18, *LAWS[name], 1000, 90_000)
    totals, weights, (_, _, near) = totals_given_choice(estimator, 9000)
    assert not near.any()
    quality = estimator.combined(18)
    assert float(weights @ (totals - 9000) ** 2) == pytest.approx(quality.variance, rel=1e-4)
    assert 0.95 <= weights[np.abs(totals - 9000) <= quality.margin].sum() < 0.956


def test_laplace_leaves_stage_1_out_near_a_threshold_with_little_bias_anywhere():
    estimator = estimator_of(8, *LAWS["pure"], 1000, None)
    spread = estimator.measured(estimator.n).variance ** 0.5
    worst = 0.0
    for count in range(950, 3000, 60):
        totals, weights, _ = totals_given_choice(estimator, count)
        worst = max(worst, abs(float(weights @ totals) - count))
        assert float(weights @ (totals - count) ** 2) <= 1.02 * estimator.measured(8).variance
    assert worst < 0.06 * spread
    assert abs(stage_1_bias(LAWS["pure"][0], 1000, 1000, None)) > 0.5 * spread


def test_shifts_are_whole_numbers_of_their_unit_and_repeat():
    estimator = estimator_of(46, *LAWS["county"], 600, None)
    y1, sums = np.array([601, 615, 5000]), np.array([590, 612, 5100])
    first = estimator.shifts(y1, sums)
    again = estimator.shifts(y1[::-1].copy(), sums[::-1].copy())
    np.testing.assert_array_equal(first, again[::-1])
    assert first.dtype == np.int64
    assert first[2] == estimator.unit * -100
