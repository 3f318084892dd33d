"""The compiled search against its plain twin, which works every objective out from the definitions."""

import numpy as np
import pytest
from tests.oracles.regrouping import regroup_reference
from tests.samples import ten

from tallyveil.kernels.tree.variance import Container, regroup


def random_container(rng):
    n, k = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    touch = rng.random((n, k)) < 0.6
    touch[rng.integers(n, size=k), np.arange(k)] = True  # every entity touches something
    begin = np.concatenate([[0], np.cumsum(touch.sum(axis=1))]).astype(np.int64)
    entity = np.nonzero(touch)[1].astype(np.int64)
    return Container(
        np.exp(rng.normal(2, 1, n)),
        np.exp(rng.normal(-2, 1, n)),
        np.arange(n),
        begin,
        entity,
        rng.choice([1.0, 0.7, 0.3], size=len(entity)),
        np.exp(rng.normal(0, 1, k)),
        rng.normal(0, 0.5, k),
        float(rng.exponential()),
        float(rng.exponential()),
        float(rng.exponential()),
        float(rng.exponential()),
        float(rng.exponential()),
        int(rng.integers(2, n + 1)),
    )


@pytest.mark.parametrize("seed", ten(range(60)))
def test_same_groups_and_gain(seed):
    rng = np.random.default_rng([21, seed])
    container = random_container(rng)
    n = len(container.below)
    start = np.arange(n) if seed % 2 else np.arange(n) // 2
    fast, slow = start.copy(), start.copy()
    first, last = regroup(container, fast, 3)
    assert (first, last) == pytest.approx(regroup_reference(container, slow, 3), rel=1e-9, abs=1e-9)
    # Numbers of groups that were emptied and opened again may differ; the groups may not.
    assert {tuple(np.flatnonzero(fast == g)) for g in fast} == {
        tuple(np.flatnonzero(slow == g)) for g in slow
    }
    assert last <= first
    assert np.bincount(fast).max() <= max(container.limit, np.bincount(start).max())


def test_interchangeable_children_are_not_tried_again():
    rng = np.random.default_rng(22)
    one = random_container(rng)._replace(below=np.full(6, 2.0), carried=np.full(6, 0.1), limit=6)
    begin, entity, slope = np.arange(7), np.zeros(6, dtype=np.int64), np.ones(6)
    one = one._replace(begin=begin, entity=entity, slope=slope, weight=np.ones(1), outside_slope=np.zeros(1))
    told = one._replace(alike=np.zeros(6, dtype=np.int64))
    plain = one._replace(alike=np.arange(6))
    first, second = np.arange(6), np.arange(6)
    assert regroup(told, first, 4) == pytest.approx(regroup(plain, second, 4))
    assert first.tolist() == second.tolist()
