"""Lift passes: what is kept in every geounit."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tallyveil.plans.lifts import PartCells
from tallyveil.postprocess.passes.groups import PassGroupCounts
from tallyveil.postprocess.passes.lifts import Lift, PartTargets, lift_pass
from tallyveil.postprocess.passes.part_limits import PartLimits
from tallyveil.runs.executor import Threads
from tallyveil.runs.observer import SilentObserver
from tallyveil.schema.counts import PublicCounts, TripletSum

NO_ANSWERS = PartTargets(cast(Any, None), None, None, None, "shares")


def _counts(dense: np.ndarray) -> PassGroupCounts:
    rows, groups = np.nonzero(dense)
    total = TripletSum(*dense.shape)
    total.add(rows, groups, dense[rows, groups])
    return PassGroupCounts(*total.finish())


def _dense(counts: PublicCounts, n_cells: int) -> np.ndarray:
    rows, cells, persons = counts.rows(0, counts.n_geounits)
    dense = np.zeros((counts.n_geounits, n_cells), dtype=np.int64)
    dense[rows, cells] = persons
    return dense


@pytest.mark.parametrize("limited", [2, 1, 0])
@pytest.mark.parametrize("seed", range(8))
def test_every_geounit_keeps_its_groups_sums_and_totals(seed, limited):
    """The geounits of one geolevel have limits, which need not be the finest one."""
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
    room = dense[limited][:, :-1].sum(axis=1)
    lower, upper = np.sort(rng.integers(0, room + 1, (2, sizes[limited])), axis=0)
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
        limits = PartLimits(limited, lower, upper)
        lift = Lift(0, cast(Any, spine), level, cast(Any, groups), cells, limits, NO_ANSWERS, 2 * n_groups)
        outcome = lift_pass(lift, above, SilentObserver(), Threads(1 + seed % 3))
        above = outcome.counts
        made.append(_dense(above, 2 * n_groups))
        assert outcome.solver["families"] == sizes[max(level - 1, 0)]
        assert (made[-1] >= 0).all()
        assert np.array_equal(made[-1].reshape(-1, n_groups, 2).sum(axis=2), dense[level])
    for level, begin in enumerate(offsets):
        assert np.array_equal(np.add.reduceat(made[level + 1], begin[:-1], axis=0), made[level])
    parts = made[limited][:, 1::2].sum(axis=1)
    assert ((lower <= parts) & (parts <= upper)).all()
    assert not made[-1][:, -1].any()
