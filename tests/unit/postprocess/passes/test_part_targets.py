"""Targets of a lift pass: the worked case, measured totals, and when noisy answers are left out."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tallyveil.postprocess.passes.lifts import PartAnswers, PartTargets

NEAR = np.array([[12.0], [18.0]])
"""A tract has 30 householders; its two block groups have 40 and 60 of 100 adults."""
FIXED = np.array([[40], [60]])
BOTH, FIRST = slice(0, 2), np.array([0])


class Source:
    """Every answer is a multiple of three; asked for numbers in ascending order."""

    asked = 0

    def measure(self, geolevel, query, start, stop, answers):
        assert (np.diff(answers) > 0).all()
        self.asked += 1
        return SimpleNamespace(values=np.tile(3 * (answers + 1), (stop - start, 1)))


def targets(
    variance: float,
    source: Source,
    prior: Any = "shares",
    total: float | None = None,
    rest: PartAnswers | None = None,
) -> PartTargets:
    """Answers 0 and 3, which are 3 and 12, so that the noisy sum is 15; and a measured total of 21."""
    answers = PartAnswers("Group", "detailed", np.array([0, 2]), np.array([3, 0]), np.full(2, variance / 2))
    whole = None
    if total is not None:
        whole = PartAnswers("Group", "coarse", np.array([0, 1]), np.array([6]), np.full(2, total))
    return PartTargets(cast(Any, source), answers, rest, whole, prior)


def test_the_worked_case():
    source = Source()
    near, variance = targets(7.62, source).near(NEAR, FIXED, BOTH, FIRST)
    assert near[0, 0] == pytest.approx(12.75)
    assert variance[0, 0] == pytest.approx(2.54 * 0.75)
    assert source.asked == 1


def test_the_rest_of_a_group_says_something_of_its_part():
    """The rest is answer 4, which is 15: it leaves 25 of 40. It has one term and the part two, so 25 has weight 2/3."""
    rest = PartAnswers("Group", "detailed", np.array([0, 1]), np.array([4]), np.full(2, 3.81))
    near, variance = targets(7.62, Source(), "none", rest=rest).near(NEAR, FIXED, BOTH, FIRST)
    assert near[0, 0] == pytest.approx((15 + 2 * 25) / 3)
    assert variance[0, 0] == pytest.approx(1 / (1 / 7.62 + 1 / 3.81))
    assert rest.as_few_as(rest)


def test_answers_of_little_weight_are_not_asked_for():
    source = Source()
    near, variance = targets(1e4, source, total=1e4).near(NEAR, FIXED, BOTH, FIRST)
    assert source.asked == 0
    assert near[:, 0].tolist() == [12, 18]
    assert variance[0, 0] == pytest.approx(2.54)


def test_without_a_prior_noisy_answers_stand_alone():
    near, variance = targets(1e4, Source(), "none").near(NEAR, FIXED, BOTH, FIRST)
    assert near[:, 0].tolist() == [15, 15]
    assert variance[:, 0].tolist() == [1e4, 1e4]
    near, _ = targets(np.inf, Source(), "none").near(NEAR, FIXED, BOTH, FIRST)
    assert near[:, 0].tolist() == [12, 18]


def test_a_measured_total_is_a_target_where_it_says_enough():
    found = targets(1, Source(), total=2.5).totals(BOTH, np.full((2, 3), 4.0))
    assert found is not None
    assert found.target.tolist() == [21.0, 21.0]
    assert found.variance.tolist() == [2.5, 2.5]
    assert targets(1, Source()).totals(BOTH, np.ones((2, 1))) is None
    assert targets(1, Source(), total=25.0).totals(BOTH, np.ones((2, 1))) is None
    assert targets(1, Source(), total=np.inf).totals(BOTH, np.ones((2, 1))) is None


def test_a_root_has_the_measured_total():
    assert targets(1, Source()).measured_total(slice(0, 1), FIRST) == 15
    assert targets(1, Source(), total=3).measured_total(slice(0, 1), FIRST) == 21
    assert targets(np.inf, Source()).measured_total(slice(0, 1), FIRST) is None
