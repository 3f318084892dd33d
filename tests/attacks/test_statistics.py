"""Rates and their intervals."""

import numpy as np
import pytest
from scipy.stats import t
from tests.attacks.statistics import area_of_trials, area_under_curve, of_trials, over_releases, power_at


def test_the_area_counts_pairs_and_ties_half():
    without, having = np.array([0, 1, 1, 3]), np.array([1, 2, 3])
    wins = np.mean([(h > w) + 0.5 * (h == w) for h in having for w in without])
    assert area_under_curve(without, having) == pytest.approx(wins)
    assert area_of_trials(without, having).value == pytest.approx(wins)


def test_the_interval_of_the_area_covers_as_often_as_it_says():
    rng = np.random.default_rng(5)
    truth = 0.760250  # of two normal laws one standard deviation apart: Phi(1 / sqrt 2)
    found = [area_of_trials(rng.normal(size=80), rng.normal(1, 1, 60)) for _ in range(400)]
    assert 0.91 < np.mean([one.lower <= truth <= one.upper for one in found]) < 0.98


def test_power_is_that_of_a_rule_with_exactly_so_many_false_alarms():
    without, having = np.arange(100), np.arange(100) + 10
    assert power_at(without, having, 0.05) == pytest.approx(0.15)
    same = np.zeros(100)
    assert power_at(same, same, 0.05) == pytest.approx(0.05)  # all ties are decided by lot
    assert power_at(without, without, 0.01) == pytest.approx(0.01)


def test_intervals_of_means_and_of_rates():
    values = [0.1, 0.2, 0.4]
    rate = over_releases(values)
    width = t.ppf(0.975, 2) * np.std(values, ddof=1) / 3**0.5
    assert (rate.value, rate.upper - rate.lower) == pytest.approx((np.mean(values), 2 * width))
    assert over_releases([0.3]).lower == 0.3
    nothing = of_trials(0, 50)
    assert nothing.lower == 0
    assert nothing.upper == pytest.approx(1 - 0.025 ** (1 / 50))
