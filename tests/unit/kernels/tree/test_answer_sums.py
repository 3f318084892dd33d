"""Sums of listed answers against the definitions in numpy."""

import numpy as np
import pytest

from tallyveil.kernels.tree.upward import add_answers, family_answers


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def test_answers_are_added_to_their_groups(rng):
    sizes, child_begin = np.array([3, 5]), np.array([0, 2, 3, 7])
    group = np.array([0, 1, 1, 0, 2, 2, 0])
    listed = [[np.flatnonzero(rng.random(size) < 0.6) for _ in range(3)] for size in sizes]
    begin, answers, n = np.zeros((2, 4), np.int64), [], 0
    query_begin = np.array([0, 3])
    wanted, values = np.ones((3, 8), np.int64), []
    for q, runs in enumerate(listed):
        begin[q, 0] = n
        for f, run in enumerate(runs):
            answers.append(run)
            n += len(run)
            begin[q, f + 1] = n
            for child in range(child_begin[f], child_begin[f + 1]):
                own = rng.integers(-(2**40), 2**40, len(run))
                values.append(own)
                np.add.at(wanted[group[child]], query_begin[q] + run, own)
    out = np.ones((3, 8), np.int64)
    add_answers(
        np.concatenate(answers).astype(np.int64),
        begin,
        child_begin,
        group,
        np.concatenate(values),
        query_begin,
        out,
    )
    assert np.array_equal(out, wanted)


def test_listed_answers_are_sums_of_cells(rng):
    units = rng.integers(-(2**40), 2**40, (5, 9))
    table = rng.integers(-1, 4, 9).astype(np.int32)
    full = np.stack([units[:, table == answer].sum(axis=1) for answer in range(4)], axis=1)
    child_begin, begin = np.array([0, 2, 3, 5]), np.array([0, 3, 3, 5])
    answers = np.array([0, 2, 3, 1, 2])
    out = np.empty(2 * 3 + 2 * 2, np.int64)
    family_answers(answers, begin, child_begin, table, 4, units, out)
    wanted = [full[:2][:, [0, 2, 3]].ravel(), full[3:][:, [1, 2]].ravel()]
    assert np.array_equal(out, np.concatenate(wanted))
