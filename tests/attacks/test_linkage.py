"""Names for records, by hand; and the evidence that a person was in the data, against sums by hand."""

from math import exp, log
from pathlib import Path

import numpy as np
import pytest
from tests.attacks.budgets import people_schema
from tests.attacks.linkage import alone, link, uncommon
from tests.attacks.worlds import World

from tallyveil.compare.attacks.presence import presence_scores
from tallyveil.schema.schema import schema_from_mapping

SCHEMA = schema_from_mapping(people_schema())
WHITE, BLACK = (("not_hispanic", race) for race in ("white", "black"))


def cell(sex, age, kind):
    labels = {"sex": [sex], "age": [age], "hispanic": [kind[0]], "race": [kind[1]]}
    return int(SCHEMA.query("detailed").answers_from_labels(labels, 1)[0])


PEOPLE = [
    (0, cell("female", "20", BLACK), False),  # alone, rebuilt
    (0, cell("male", "21", WHITE), False),  # two of a kind, of whom one is rebuilt wrongly
    (0, cell("male", "21", BLACK), False),
    (1, cell("female", "20", WHITE), False),  # alone, no record
    (1, cell("male", "0_4", BLACK), True),  # held out, and alone; a record is there by chance
    (1, cell("female", "5_9", WHITE), False),
]
WORLD = World(
    Path(),
    ("990010000000001", "990010000000002"),
    SCHEMA,
    np.array([kind for _, kind, _ in PEOPLE]),
    np.array([block for block, _, _ in PEOPLE]),
    np.array([out for _, _, out in PEOPLE]),
)


def test_people_get_the_commonest_origin_and_race_of_their_records():
    files = np.zeros((2, SCHEMA.size), np.int64)
    files[0, cell("female", "20", BLACK)] = 1
    files[0, cell("male", "21", WHITE)] = 1
    files[0, cell("male", "21", BLACK)] = 1
    files[1, cell("male", "0_4", BLACK)] = 1
    files[1, cell("female", "5_9", BLACK)] = 1
    shares = np.zeros_like(files, dtype=float)
    shares[:, cell("male", "21", WHITE)] = 0.1  # decides between two equally frequent
    linked = link(WORLD, files, shares)
    assert linked.matched.tolist() == [True, True, True, False, True, True]
    assert linked.confirmed.tolist() == [True, True, False, False, True, False]


def test_who_is_alone_and_who_is_uncommon():
    assert alone(WORLD).tolist() == [True, False, False, True, True, True]
    assert uncommon(WORLD).tolist() == [True, False, True, False, True, False]


def test_the_evidence_for_a_person_is_the_ratio_of_two_sums():
    noisy, variance, mean = 1.0, 0.7, 0.4
    others = [exp(-mean), exp(-mean) * mean, exp(-mean) * mean**2 / 2, exp(-mean) * mean**3 / 6]

    def likelihood(more):
        return sum(p * exp(-((noisy - x - more) ** 2) / (2 * variance)) for x, p in enumerate(others))

    def law(noisy, variance):
        return lambda counts: -((noisy[:, None] - counts) ** 2) / (2 * variance)

    (found,) = presence_scores(law(np.array([noisy]), variance), np.array([mean]))
    assert found == pytest.approx(log(likelihood(1) / likelihood(0)), abs=1e-3)
    sure, absent = presence_scores(law(np.array([1.0, 0.0]), 1e-4), np.array([1e-6, 1e-6]))
    assert sure > 10
    assert absent < -100
