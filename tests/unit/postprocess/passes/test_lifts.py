"""Lift passes: what is kept in every geounit, the worked case of the targets, and when noisy answers are left out."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tallyveil.estimation.leaf_lift import Leaves
from tallyveil.plans.lifts import PartCells
from tallyveil.postprocess.passes.groups import FixedGroups, GroupCounts
from tallyveil.postprocess.passes.lifts import Lift, _targets, lift_pass
from tallyveil.postprocess.passes.part_answers import PartAnswers
from tallyveil.runs.executor import Threads
from tallyveil.runs.observer import SilentObserver
from tallyveil.universe.counts import PublicCounts, TripletSum

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


def _counts(dense: np.ndarray) -> GroupCounts:
    rows, groups = np.nonzero(dense)
    total = TripletSum(*dense.shape)
    total.add(rows, groups, dense[rows, groups])
    return GroupCounts(*total.finish())


def _dense(counts: PublicCounts, n_cells: int) -> np.ndarray:
    rows, cells, persons = counts.rows(0, counts.n_geounits)
    dense = np.zeros((counts.n_geounits, n_cells), dtype=np.int64)
    dense[rows, cells] = persons
    return dense


@pytest.mark.parametrize("seed", range(12))
def test_every_geounit_keeps_its_groups_sums_and_totals(seed):
    rng = np.random.default_rng(seed)
    sizes, n_groups = (2, 5, 17), 6
    offsets = [
        np.concatenate([[0], np.sort(rng.choice(np.arange(1, b), a - 1, replace=False)), [b]])
        for a, b in pairwise(sizes)
    ]
    # Few and small counts, so that capacities bind; the last group has no part.
    dense = [rng.poisson(0.8, (sizes[-1], n_groups))]
    for begin in reversed(offsets):
        dense.insert(0, np.add.reduceat(dense[0], begin[:-1], axis=0))
    room = dense[-1][:, :-1].sum(axis=1)
    lower, upper = np.sort(rng.integers(0, room + 1, (2, sizes[-1])), axis=0)
    if seed % 2:
        lower = upper
    spine = SimpleNamespace(
        geolevels=["a", "b", "c"],
        child_offsets=offsets,
        n_geounits=lambda level: sizes[level],
        finest=2,
        geocodes=[[str(number) for number in range(size)] for size in sizes],
    )
    cells = PartCells(
        np.where(np.arange(n_groups) < n_groups - 1, 2 * np.arange(n_groups) + 1, -1), 2 * np.arange(n_groups)
    )
    groups = SimpleNamespace(levels=[_counts(one) for one in dense], groups_of=lambda found: found // 2)
    made: list[np.ndarray] = []
    above = None
    for level in range(3):
        allocation = cast(Any, SimpleNamespace(spine=spine))
        lift = Lift(
            allocation, cast(Any, None), level, cast(Any, groups), cells, lower, upper, None, 2 * n_groups
        )
        outcome = lift_pass(lift, above, SilentObserver(), Threads(1 + seed % 3))
        above = outcome.counts
        made.append(_dense(above, 2 * n_groups))
        assert outcome.solver["families"] == sizes[max(level - 1, 0)]
        assert (made[-1] >= 0).all()
        assert np.array_equal(made[-1].reshape(-1, n_groups, 2).sum(axis=2), dense[level])
    for level, begin in enumerate(offsets):
        assert np.array_equal(np.add.reduceat(made[level + 1], begin[:-1], axis=0), made[level])
    parts = made[-1][:, 1::2].sum(axis=1)
    assert ((lower <= parts) & (parts <= upper)).all()
    assert not made[-1][:, -1].any()
