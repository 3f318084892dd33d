"""One turn of Algorithm 1 against its plain twin."""

import numpy as np
import pytest
from tests.oracles.off_spine_distance import raise_level_reference
from tests.samples import ten

from tallyveil.kernels.tree.off_spine_distance import TouchedGeounits, raise_level


@pytest.mark.parametrize("seed", ten(range(100)))
def test_agrees_with_its_twin(seed):
    rng = np.random.default_rng([44, seed])
    n_children = rng.integers(1, 6, int(rng.integers(1, 8)))
    parent = np.repeat(np.arange(len(n_children)), n_children)
    picked = [np.flatnonzero(rng.random(len(parent)) < rng.random()) for _ in range(int(rng.integers(0, 5)))]
    begin = np.concatenate([[0], np.cumsum([len(one) for one in picked])]).astype(np.int64)
    geounit = np.concatenate([np.zeros(0, np.int64), *picked]).astype(np.int64)
    inner = rng.integers(1, 6, len(geounit))
    touched = TouchedGeounits(begin, geounit, inner, rng.integers(0, 6, len(geounit)))
    raised, above = raise_level(touched, parent, n_children)
    expected = raise_level_reference(touched, parent, n_children)
    found = [
        {
            int(raised.geounit[i]): (int(raised.inner[i]), int(raised.outer[i]))
            for i in range(raised.begin[e], raised.begin[e + 1])
        }
        for e in range(len(picked))
    ]
    assert found == expected
    assert np.array_equal(raised.geounit[above], parent[geounit])
    for e in range(len(picked)):
        assert np.all(np.diff(raised.geounit[raised.begin[e] : raised.begin[e + 1]]) > 0)
        mine = above[begin[e] : begin[e + 1]]
        assert np.all((mine >= raised.begin[e]) & (mine < raised.begin[e + 1]))
