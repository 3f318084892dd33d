"""The files that fit the tables of a block, against all files of a few records."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy import sparse
from tests.samples import ten

from tallyveil.compare.attacks.record_files import FittingFiles, KnownAnswers, likeliest_file
from tallyveil.compare.inputs import answer_matrix
from tallyveil.schema.schema import schema_from_mapping

SCHEMA = schema_from_mapping(
    {
        "name": "small",
        "attributes": [
            {"name": name, "levels": list("abc"[:n])} for name, n in (("x", 2), ("y", 3), ("z", 2))
        ],
    }
)
GROUPS = [SCHEMA.query(query) for query in ("total", "x*y", "y*z", "x*z")]


def fitting(counts, cost, groups=GROUPS):
    """The program for the tables of one block, all of them shown."""
    matrix = sparse.csr_matrix(sparse.vstack([answer_matrix(group).T for group in groups]))
    wanted = np.concatenate(counts)
    shown = np.zeros(wanted.size, dtype=np.bool_)
    return FittingFiles(matrix, KnownAnswers.without_limits(wanted, shown), cost)


def all_files(people: int) -> np.ndarray:
    kinds = list(combinations_with_replacement(range(SCHEMA.size), people))
    return np.array([np.bincount(kind, minlength=SCHEMA.size) for kind in kinds])


FILES = all_files(4)


@pytest.mark.parametrize("seed", ten(range(12)))
def test_the_likeliest_fitting_file_and_what_all_of_them_share(seed):
    rng = np.random.default_rng(seed)
    truth = FILES[rng.integers(len(FILES))]
    cost = -np.log(rng.dirichlet(np.ones(SCHEMA.size)))
    answers = [group.apply_dense(FILES) for group in GROUPS]
    counts = tuple(group.apply_dense(truth[None])[0] for group in GROUPS)
    fit = np.all([(own == mine).all(axis=1) for own, mine in zip(answers, counts, strict=True)], axis=0)
    program = fitting(counts, cost)
    found, fits = program.likeliest()
    assert fits
    assert any((found == one).all() for one in FILES[fit])
    assert found @ cost == pytest.approx((FILES[fit] @ cost).min())
    assert program.certain(found).tolist() == FILES[fit].min(axis=0).tolist()


def test_some_tables_fit_several_files_and_some_fit_one():
    """The parity table: three two-way tables of ones leave two files, which share nothing."""
    schema = schema_from_mapping(
        {"name": "cube", "attributes": [{"name": name, "levels": ["a", "b"]} for name in "xyz"]}
    )
    groups = [schema.query(query) for query in ("total", "x*y", "y*z", "x*z")]
    even = np.array([1, 0, 0, 1, 0, 1, 1, 0])
    counts = tuple(group.apply_dense(even[None])[0] for group in groups)
    program = fitting(counts, np.linspace(1, 2, 8), groups)
    assert program.certain(program.likeliest()[0]).sum() == 0
    lone = np.array([0, 0, 0, 3, 0, 0, 0, 0])
    counts = tuple(group.apply_dense(lone[None])[0] for group in groups)
    program = fitting(counts, np.ones(8), groups)
    assert program.certain(program.likeliest()[0]).tolist() == lone.tolist()


def test_tables_that_contradict_each_other_fit_nothing_and_the_nearest_file_misses_least():
    counts = [group.apply_dense(FILES[:1])[0] for group in GROUPS]
    counts[2] = np.roll(counts[2], 2)
    cost = np.ones(SCHEMA.size)
    found, fits = fitting(tuple(counts), cost).likeliest()
    assert not fits
    missed = sum(
        np.abs(group.apply_dense(FILES) - own).sum(axis=1) for group, own in zip(GROUPS, counts, strict=True)
    )
    mine = sum(
        np.abs(group.apply_dense(found[None]) - own).sum() for group, own in zip(GROUPS, counts, strict=True)
    )
    assert mine <= missed.min()


def test_a_hidden_count_leaves_room_and_keeps_its_least():
    """One person, whose z is hidden from every table but the total: the cheapest kind of the shown x and y."""
    file = np.zeros(SCHEMA.size, np.int64)
    file[3] = 1
    counts = [group.apply_dense(file[None])[0] for group in GROUPS]
    hidden = [np.full(values.size, number > 1) for number, values in enumerate(counts)]
    matrix = sparse.csr_matrix(sparse.vstack([answer_matrix(group).T for group in GROUPS]))
    cost = np.where(np.arange(SCHEMA.size) == 2, 1.0, 2.0)
    known = KnownAnswers.without_limits(np.concatenate(counts), np.concatenate(hidden))
    program = FittingFiles(matrix, known, cost)
    found, fits = program.likeliest()
    assert fits
    assert np.flatnonzero(found).tolist() == [2]
    assert not program.certain(found).any()


@pytest.mark.parametrize("seed", ten(range(12)))
def test_the_likeliest_file_for_noisy_counts_is_that_of_all_files(seed):
    rng = np.random.default_rng(seed)
    noisy, variance = rng.normal(0.3, 1.0, SCHEMA.size), float(rng.uniform(0.2, 3))
    expected = rng.dirichlet(np.ones(SCHEMA.size)) * 4
    factorials = np.array([1, 1, 2, 6, 24])
    costs = (
        (FILES - noisy) ** 2 / (2 * variance) + np.log(factorials[FILES]) - FILES * np.log(expected)
    ).sum(axis=1)
    found = likeliest_file(noisy, variance, expected, people=4)
    assert found.tolist() == FILES[costs.argmin()].tolist()
