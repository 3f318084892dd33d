"""Limits between classes: a class for zero, classes of about equally many areas, short numbers, no empty class."""

import numpy as np
import pytest
from tests.samples import ten

from tallyveil.explore.tables import CLASSES, Frequencies, class_limits, shortest


def frequencies(values):
    return Frequencies(*np.unique(np.asarray(values), return_counts=True))


def sizes(entry, values):
    """Areas of each class."""
    return np.bincount(
        np.searchsorted(entry["limits"], values, side="right"), minlength=len(entry["limits"]) + 1
    )


def test_common_zeros_have_a_class_of_their_own():
    values = np.concatenate([np.zeros(400, dtype=np.int64), np.arange(1, 601)])
    assert class_limits(frequencies(values)) == {
        "least": 0,
        "most": 600,
        "limits": [1, 100, 200, 300, 400, 500],
        "zero": True,
    }


def test_rare_zeros_share_the_first_class():
    entry = class_limits(frequencies(np.arange(700)))
    assert entry == {"least": 0, "most": 699, "limits": [100, 200, 300, 400, 500, 600], "zero": False}


def test_areas_are_divided_and_not_distinct_values():
    skewed = np.concatenate([np.repeat(np.arange(1, 8), 1000), np.arange(8, 2000)])
    assert class_limits(frequencies(skewed))["limits"] == [2, 4, 5, 6, 7, 1000]


def test_few_counts_have_a_class_each():
    entry = class_limits(frequencies([5, 0, 0, 12]))
    assert entry == {"least": 0, "most": 12, "limits": [5, 10], "zero": True}


def test_limits_of_shares_are_short_and_keep_their_classes():
    assert class_limits(frequencies([0.0, 1 / 3, 2 / 3]))["limits"] == [0.2, 0.5]


def test_values_that_the_page_cannot_tell_apart_share_a_class():
    assert class_limits(frequencies([2.5, 2.5 + 1e-9]))["limits"] == []


def test_one_value_is_one_class():
    assert class_limits(frequencies([0, 0])) == {"least": 0, "most": 0, "limits": [], "zero": True}


def test_no_value_has_no_classes():
    assert class_limits(frequencies(np.zeros(0))) is None


@pytest.mark.parametrize("seed", ten(range(40)))
def test_classes_are_never_empty_and_about_equal(seed):
    chance = np.random.default_rng(seed)
    values = chance.lognormal(chance.uniform(-8, 8), chance.uniform(0.01, 3), 2000)
    if seed % 2:
        values = np.floor(values).astype(np.int64)
    values[: 100 * (seed % 20)] = 0
    entry = class_limits(frequencies(values))
    found = sizes(entry, values)
    assert len(found) <= CLASSES
    assert found.min() > 0
    assert entry["limits"] == sorted(set(entry["limits"]))
    if entry["zero"]:
        assert found[0] == (values == 0).sum()
    if not seed % 2:  # without ties
        assert found[entry["zero"] :].max() <= 1.5 * (values > 0).sum() / (CLASSES - entry["zero"]) + 100


@pytest.mark.parametrize(
    ("low", "high", "wanted", "whole", "found"),
    [
        (3100, 4400, 3700, True, 4000),
        (3100, 3700, 3300, True, 3500),
        (12_345, 12_347, 12_346, True, 12_346),
        (0, 0.000234, 0.000234, False, 0.0002),
        (0.0121, 0.0129, 0.0126, False, 0.0125),
        (0.0120001, 0.0120002, 0.0120002, False, None),
        (0, 1, 1, True, 1),
    ],
)
def test_the_shortest_number_is_chosen(low, high, wanted, whole, found):
    assert shortest(low, high, wanted, whole=whole) == found


def test_estimates_below_zero_are_one_class():
    assert class_limits(frequencies([-3.0, -1.0])) == {
        "least": -3.0,
        "most": -1.0,
        "limits": [],
        "zero": False,
    }
