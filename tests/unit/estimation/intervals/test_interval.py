"""The unified interval against the published table and its own definition; rounding; refusals."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from tallyveil.errors import ConfigError
from tallyveil.estimation.intervals.answers import Answers
from tallyveil.estimation.intervals.interval import (
    contains,
    intervals_if_any,
    intervals_of,
    rounded_inward,
    unified_belt,
)
from tallyveil.schema.counts import LARGEST_LEVEL

BELT = unified_belt(0.95)

# Feldman and Cousins 1998, table X, 95 %: estimate, lower and upper end
TABLE_X = [
    (-3.0, 0.00, 0.42),
    (-2.0, 0.00, 0.62),
    (-1.0, 0.00, 1.10),
    (0.0, 0.00, 1.96),
    (1.0, 0.00, 2.96),
    (2.0, 0.35, 3.96),
    (3.0, 1.14, 4.96),
]


@dataclass
class Noise:
    """All that intervals ask of a model."""

    gaussian: bool


@pytest.mark.parametrize(("x", "low", "high"), TABLE_X)
def test_published_table(x, low, high):
    found = BELT.ends(np.array([x]))
    assert found[0][0] == pytest.approx(low, abs=0.0051)
    assert found[1][0] == pytest.approx(high, abs=0.0051)


@pytest.mark.parametrize("level", [0.68, 0.95, 0.999])
@pytest.mark.parametrize("mean", [0.0, 0.01, 0.3, 1.0, 1.9, 2.5, 4.0])
def test_coverage_is_the_level(level, mean):
    """Probability of the estimates whose interval holds the mean, by integrating over a fine grid."""
    x = np.linspace(-12, 14, 260_001)
    low, high = unified_belt(level).ends(x)
    held = (low <= mean) & (mean <= high)
    step = x[1] - x[0]
    mass = ndtr(x + step / 2 - mean) - ndtr(x - step / 2 - mean)
    assert mass[held].sum() == pytest.approx(level, abs=1e-4)


@pytest.mark.parametrize("miss", [1e-5, 1e-8, 1e-10])
@pytest.mark.parametrize("mean", [0.0, 0.01, 0.5, 2.0, 5.0, 9.0])
def test_coverage_of_many_intervals_at_once(miss, mean):
    """One of fifty million intervals has a level so near to 1; what it misses is integrated at its two ends."""
    x = np.linspace(-26, 26, 1_040_001)
    low, high = unified_belt(1 - miss).ends(x)
    held = x[(low <= mean) & (mean <= high)]
    below = 0.0 if held[0] == x[0] else ndtr(held[0] - mean)
    assert below + ndtr(mean - held[-1]) == pytest.approx(miss, rel=2e-3)


@given(st.floats(-40, 40))
def test_never_empty_and_rising(x):
    low, high = BELT.ends(np.array([x, x + 1e-3]))
    assert 0 <= low[0] < high[0]
    assert low[1] >= low[0]
    assert high[1] > high[0]


def test_ends_are_continuous_where_formulas_meet():
    for at in (-9.0, 0.0, BELT.one_sided, 2 * BELT.two_sided):
        around = at + np.array([-1e-7, 0.0, 1e-7])
        for end in BELT.ends(around):
            assert np.abs(np.diff(end)).max() < 1e-6


def test_whole_numbers_inside():
    first, last = rounded_inward(
        np.array([5.4, 5.4, -3.0]), np.array([3.2, 5.2, 0.0]), np.array([7.9, 5.6, 0.4])
    )
    assert first.tolist() == [4, 5, 0]
    assert last.tolist() == [7, 5, 0]  # the second held no whole number


@given(st.floats(-1e6, 1e6), st.floats(0, 1e4))
def test_intervals_of_counts_are_whole_and_not_empty(estimate, variance):
    made = intervals_of(Noise(True), Answers(np.array([estimate]), np.array([variance])))
    assert 0 <= made.low[0] <= made.high[0] < np.inf
    assert made.low[0] == np.rint(made.low[0])
    assert made.high[0] == np.rint(made.high[0])


def test_an_exact_answer_is_its_own_interval():
    made = intervals_of(Noise(True), Answers(np.array([1052567.0000001]), np.array([0.0])))
    assert (made.low[0], made.high[0]) == (1052567, 1052567)
    assert contains(made, np.array([1052567])).all()


def test_nothing_known_of_an_answer():
    found = Answers(np.array([np.nan]), np.array([np.inf]))
    counts, others = intervals_of(Noise(True), found), intervals_of(Noise(True), found, kind="normal")
    assert (counts.low[0], counts.high[0]) == (0, np.inf)
    assert (others.low[0], others.high[0]) == (-np.inf, np.inf)


def test_bonferroni():
    found = Answers(np.array([100.0]), np.array([25.0]))
    one = intervals_of(Noise(True), found, kind="normal")
    ten = intervals_of(Noise(True), found, kind="normal", simultaneous=10)
    strict = intervals_of(Noise(True), found, kind="normal", level=0.995)
    assert one.high[0] == pytest.approx(100 + 5 * 1.959963984540054)
    assert ten.high[0] == pytest.approx(strict.high[0], rel=1e-12)
    assert "Bonferroni" in ten.sentence
    assert "95 of 100" in one.sentence


def test_other_noise_has_an_interval_for_exact_answers_alone():
    found = Answers(np.array([7.0, 3.2]), np.array([0.0, 4.0]))
    given = intervals_if_any(Noise(False), found, level=0.95)
    assert given.kind == "none"
    assert (given.low[0], given.high[0]) == (7, 7)
    assert np.isnan([given.low[1], given.high[1]]).all()
    same = intervals_if_any(Noise(True), found, level=0.95)
    assert np.array_equal(same.low, intervals_of(Noise(True), found).low)
    with pytest.raises(ConfigError):
        intervals_if_any(Noise(False), found, level=1.0)


def test_the_largest_level_has_finite_intervals():
    found = intervals_of(Noise(True), Answers(np.array([1.0]), np.array([1.0])), level=LARGEST_LEVEL)
    assert 9 <= found.high[0] < 10
    assert found.low[0] == 0


def test_refusals():
    found = Answers(np.array([1.0]), np.array([1.0]))
    with pytest.raises(ConfigError, match="Laplace") as refused:
        intervals_of(Noise(False), found)
    assert refused.value.code == "interval-noise"
    refused_arguments = (
        {"level": 1.0}, {"level": 0.2}, {"level": 1 - 2.0**-53}, {"level": 10**400}, {"level": float("nan")},
        {"level": 1 - 2.0**-52, "simultaneous": 2}, {"simultaneous": 0}, {"kind": "bootstrap"},
    )  # fmt: skip
    for wrong in refused_arguments:
        with pytest.raises(ConfigError) as refused:
            intervals_of(Noise(True), found, **wrong)
        assert refused.value.code == "interval-level"
