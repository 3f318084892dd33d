import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.products.dhc.made_up.households import rank_within, take

RUNS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=30)


@given(RUNS, st.lists(st.integers(0, 20), min_size=5, max_size=5))
def test_takes_in_order_until_nothing_is_left(rows, available):
    rows.sort(key=lambda row: row[0])
    runs, wanted = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    left, expected = list(available), []
    for run, wish in rows:
        expected.append(min(wish, left[run]))
        left[run] -= expected[-1]
    assert take(np.array(available), wanted, runs).tolist() == expected


def test_ranks_begin_anew_in_every_run():
    assert rank_within(np.array([2, 2, 2, 5, 7, 7])).tolist() == [0, 1, 2, 0, 0, 1]
    assert rank_within(np.array([], dtype=np.int64)).tolist() == []
