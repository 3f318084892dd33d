"""The targets of a lift pass: the worked case, the share of the parent, and when noisy answers are left out."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tallyveil.estimation.leaf_lift import Leaves
from tallyveil.plans.lifts import PartCells
from tallyveil.postprocess.passes.groups import FixedGroups, GroupCounts
from tallyveil.postprocess.passes.lifts import Lift, _targets
from tallyveil.postprocess.passes.part_answers import PartAnswers

NO_LEAVES = Leaves(*(np.zeros(0, dtype=np.int64) for _ in range(6)))


class Source:
    """Every answer is three; asked for numbers in ascending order."""

    asked = 0

    def measure(self, geolevel, query, start, stop, answers):
        assert (np.diff(answers) > 0).all()
        self.asked += 1
        values = np.tile(3 * (answers + 1), (stop - start, 1))
        return SimpleNamespace(values=values)


def lift_of(variance: float, source: Any) -> Lift:
    """Two groups, of which the second has a part; two block groups with 40 and 60 records in it."""
    counts = GroupCounts(np.array([0, 1, 2]), np.array([1, 1]), np.array([40, 60]))
    answers = PartAnswers("Group", "detailed", np.array([0, 2]), np.array([3, 0]), np.full(2, variance / 2))
    return Lift(
        cast(Any, None),
        source,
        0,
        FixedGroups((), (counts,)),
        PartCells(np.array([-1, 5]), np.array([0, 4])),
        np.zeros(2, np.int64),
        np.zeros(2, np.int64),
        answers,
        8,
    )


def test_the_worked_case():
    source = Source()
    near, variance = _targets(lift_of(7.62, source), slice(0, 2), np.array([1]), np.array([30]), NO_LEAVES)
    # Answers 0 and 3 are 3 and 12, so that the noisy sum is 15.
    assert near[0, 0] == pytest.approx(12.75)
    assert variance[0, 0] == pytest.approx(2.54 * 0.75)
    assert source.asked == 1


def test_answers_of_little_weight_are_not_asked_for():
    source = Source()
    near, variance = _targets(lift_of(1e4, source), slice(0, 2), np.array([1]), np.array([30]), NO_LEAVES)
    assert source.asked == 0
    assert near[:, 0].tolist() == [12, 18]
    assert variance[0, 0] == pytest.approx(2.54)


def test_a_root_takes_the_share_of_the_part_in_everything():
    leaves = Leaves(
        np.array([0]), np.array([20]), np.array([30]), np.array([0]), np.array([0]), np.array([40])
    )
    near, _ = _targets(lift_of(np.inf, Source()), slice(0, 1), np.array([1]), None, leaves)
    assert near[0, 0] == 25
