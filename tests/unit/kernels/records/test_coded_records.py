"""Each kernel that codes records against its twin."""

import numpy as np
import pytest
from tests.oracles import coded_records as oracles

from tallyveil.kernels import records as kernels

STATES = (1, 11)


def county_bounds(blocks):
    return np.searchsorted(blocks, np.arange(100 * kernels.COUNTIES + 1, dtype=np.int64) * 10**10)


@pytest.fixture
def blocks():
    rng = np.random.default_rng(4)
    numbers = {
        ((state * 1000 + county) * 10**6 + tract) * 10**4 + block
        for state in STATES
        for county in (1, 3, 999)
        for tract, block in rng.integers(0, 9999, (20, 2)).tolist()
    }
    listed = np.array(sorted(numbers), np.int64)
    # As the reader's: a writeable array is of another type, for which the kernel would be compiled anew.
    listed.setflags(write=False)
    return listed


@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize("outside", [False, True])
def test_rows_are_coded(blocks, k, outside):
    rng = np.random.default_rng(k)
    n = 300
    position = np.full(10_000, -1, np.int16)
    known = rng.choice(np.arange(1000, 10_000), 40, replace=False)
    position[known] = np.arange(40)
    own = blocks[rng.integers(0, len(blocks), n)]
    parsed = np.zeros((n, 5 + k), np.int32)
    parsed[:, 0], parsed[:, 1] = own // 10**13, own // 10**10 % 1000
    parsed[:, 2], parsed[:, 3] = own // 10**4 % 10**6, own % 10**4
    for row, count in enumerate(rng.integers(1, k + 1, n)):
        parsed[row, 4 : 4 + count] = rng.choice(known, count)
    parsed[:, -1] = rng.choice(known, n)
    parsed[::7, 0] = 72
    if outside:
        parsed[3, 3] = 10_000 - 1
        parsed[5, 1] = 500
        parsed[8, 4] = np.setdiff1d(np.arange(1000, 1100), known)[0]
    wanted = np.zeros(100, bool)
    wanted[list(STATES)] = True
    results = []
    for function in (kernels.code_rows, oracles.code_rows_reference):
        rows, places, races = (np.zeros(n, np.int32) for _ in range(3))
        ethnicity, lists = np.zeros(n, np.int16), np.zeros(n * (k + 1), np.int16)
        unknown = np.zeros(k + 1, bool)
        known_blocks = kernels.KnownBlocks(wanted, county_bounds(blocks), blocks)
        out = kernels.CodedRows(rows, places, races, ethnicity, lists)
        kept, added = function(parsed, known_blocks, position, 1000, out, unknown)
        columns = (rows, places, races, ethnicity)
        results.append(
            (*(column[:kept].tolist() for column in columns), lists[:added].tolist(), unknown.tolist())
        )
    assert results[0] == results[1]
    assert len(results[0][0]) == n - len(range(0, n, 7))
    assert (-1 in results[0][1]) == outside
    assert any(results[0][-1]) == outside
    assert outside or any(race < 0 for race in results[0][2]) == (k > 1)


def test_lists_are_checked():
    rng = np.random.default_rng(1)
    for _ in range(300):
        races = np.where(rng.random((4, 8)) < np.linspace(0.02, 0.4, 8), 0, 1000).astype(np.int32)
        races = races if rng.random() < 0.5 else -np.sort(-races, axis=1)
        for n_read in (1, 3, 8):
            assert kernels.check_lists(races, n_read) == oracles.check_lists_reference(races, n_read)
    clean = np.array([[1000, 2000, 0, 0], [1000, 0, 0, 0]], np.int32)
    assert kernels.check_lists(clean, 2) == (False, False)
    assert kernels.check_lists(clean, 1) == (False, True)
    assert kernels.check_lists(clean[:, ::-1].copy(), 4)[0]


def test_records_take_their_lists_along():
    rng = np.random.default_rng(2)
    people = [rng.integers(0, 30, rng.integers(1, 5)).tolist() for _ in range(200)]
    races, lists = [], []
    for own in people:
        races.append(own[0] if len(own) == 1 else ~len(lists))
        lists += [*own, -1] if len(own) > 1 else []
    order = rng.permutation(200)[:150].astype(np.int32)
    results = []
    for function in (kernels.order_lists, oracles.order_lists_reference):
        ordered, further = np.zeros(150, np.int32), np.zeros(len(lists), np.int16)
        n = function(order, np.array(races, np.int32), np.array(lists, np.int16), ordered, further)
        results.append((ordered.tolist(), further[:n].tolist()))
    assert results[0] == results[1]
    ordered, further = results[0]
    for place, record in enumerate(order):
        own = people[record]
        begin = ~ordered[place]
        found = [ordered[place]] if ordered[place] >= 0 else further[begin : further.index(-1, begin)]
        assert found == own
