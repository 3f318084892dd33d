"""The files that fit the tables of a block, against all files of a few records."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from tests.attacks.likeliest import likeliest_file
from tests.attacks.reconstruction import BlockProgram, Tables, codes_of
from tests.samples import ten

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
CODES = codes_of(GROUPS)


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
    program = BlockProgram(Tables(CODES, counts), cost)
    found = program.likeliest()
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
    program = BlockProgram(Tables(codes_of(groups), counts), np.linspace(1, 2, 8))
    assert program.certain(program.likeliest()).sum() == 0
    lone = np.array([0, 0, 0, 3, 0, 0, 0, 0])
    counts = tuple(group.apply_dense(lone[None])[0] for group in groups)
    program = BlockProgram(Tables(codes_of(groups), counts), np.ones(8))
    assert program.certain(program.likeliest()).tolist() == lone.tolist()


def test_tables_that_contradict_each_other_fit_nothing():
    counts = [group.apply_dense(FILES[:1])[0] for group in GROUPS]
    counts[2] = np.roll(counts[2], 2)
    with pytest.raises(ValueError, match="no file of records fits"):
        BlockProgram(Tables(CODES, tuple(counts)), np.ones(SCHEMA.size)).likeliest()


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
