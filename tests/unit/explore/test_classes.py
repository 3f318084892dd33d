"""Classes of a map: every measure of a table, whatever the blocks that its values come in."""

import numpy as np

from tallyveil.explore.opened import Block
from tallyveil.explore.tables import ClassLimits


def block(start, counts, errors=None):
    columns = {"count": np.array(counts, dtype=np.int64)}
    if errors is not None:
        columns["standard_error"] = np.array(errors, dtype=np.float64)
    return Block(start, columns)


def test_counts_are_collected_with_their_frequencies():
    limits = ClassLimits(1, None)
    limits.add(block(0, [[value] for value in range(70) for _ in range(1 + 100 * (value == 0))]))
    limits.add(block(170, [[0]]))
    (entry,) = limits.to_mapping()["measures"]["published"]
    assert entry == {"least": 0, "most": 69, "limits": [1, 10, 25, 35, 45, 60], "zero": True}


def test_blocks_do_not_matter():
    counts = np.random.default_rng(1).integers(0, 500, (600, 3))
    errors = np.where(counts % 5 == 0, np.nan, counts / 7)
    whole, parts = ClassLimits(3, counts.sum(axis=1)), ClassLimits(3, counts.sum(axis=1))
    whole.add(block(0, counts, errors))
    for start, stop in ((0, 100), (100, 101), (101, 600)):
        parts.add(block(start, counts[start:stop], errors[start:stop]))
    assert whole.to_mapping() == parts.to_mapping()


def test_shares_and_relative_errors_need_a_count_above_zero():
    limits = ClassLimits(1, np.array([10, 0, 4]))
    limits.add(block(0, [[5], [0], [1]], [[2.0], [3.0], [np.nan]]))
    found = limits.to_mapping()["measures"]
    assert found["share"] == [{"least": 0.25, "most": 0.5, "limits": [0.5], "zero": False}]
    assert found["relative_standard_error"] == [{"least": 0.4, "most": 0.4, "limits": [], "zero": False}]
    assert found["standard_error"] == [{"least": 2.0, "most": 3.0, "limits": [3.0], "zero": False}]


def test_an_answer_without_values_has_no_classes():
    limits = ClassLimits(2, None)
    limits.add(block(0, [[1, 2]], [[np.nan, 1.0]]))
    assert limits.to_mapping()["measures"]["standard_error"][0] is None
