"""Limits on what is not aimed at: the weights that keep them, by cases worked out by hand."""

import pytest

from tallyveil.budget.caps import (
    FIRST_WEIGHT,
    MOST_RAISES,
    CapTrial,
    excess,
    limiting_weights,
    over,
)


def test_over_and_excess():
    limits = {"a": 10.0, "b": 2.0, "c": 1.0}
    values = {"a": 10.0 + 1e-10, "b": 3.0, "c": 2.0}
    assert over(values, limits) == ("b", "c")
    assert excess(values, limits) == pytest.approx(0.5 + 1.0)
    assert excess({**values, "b": 2.0, "c": 0.0}, limits) == 0


def one_limit(needed):
    """A problem that keeps its limit at a weight of `needed` or more, and whose score grows with the weight."""
    tried = []

    def attempt(weights):
        tried.append(weights["f"])
        return CapTrial({"f": 1.0 if weights["f"] >= needed else 2.0}, weights["f"])

    return attempt, tried


def test_the_worked_case_of_the_docstring():
    attempt, tried = one_limit(0.2)
    found = limiting_weights({"f": FIRST_WEIGHT}, {"f": 1.5}, attempt)
    middle = 3**1.5 / 32  # between 3/32, too small, and 9/32
    again = (middle * 9 / 32) ** 0.5
    assert tried[:5] == pytest.approx([1 / 32, 3 / 32, 9 / 32, middle, again])
    assert found["f"] >= 0.2
    assert found["f"] == min(weight for weight in tried if weight >= 0.2)


def test_a_limit_that_holds_at_once_costs_one_trial():
    attempt, tried = one_limit(0.0)
    assert limiting_weights({"f": FIRST_WEIGHT}, {"f": 1.5}, attempt) == {"f": FIRST_WEIGHT}
    assert tried == [FIRST_WEIGHT]


def test_a_limit_that_cannot_be_kept_ends_the_search_with_what_came_nearest():
    seen = []

    def attempt(weights):
        seen.append(weights["f"])
        return CapTrial({"f": 5.0 + abs(weights["f"] - 9 / 32), "g": 1.0}, 0.0)

    found = limiting_weights({"f": FIRST_WEIGHT, "g": FIRST_WEIGHT}, {"f": 1.5, "g": 1.5}, attempt)
    assert len(seen) == MOST_RAISES
    assert found == {"f": pytest.approx(9 / 32), "g": FIRST_WEIGHT}


def test_a_better_trial_beyond_the_limits_is_not_taken():
    """The first weights have the lowest score, and break the limit."""

    def attempt(weights):
        return CapTrial({"f": 1 / weights["f"]}, weights["f"])

    found = limiting_weights({"f": 1.0}, {"f": 0.15}, attempt)
    assert 1 / 0.15 <= found["f"] < 9
