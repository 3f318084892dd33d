"""A spine that makes totals less exact says so; one that is as good as exact, or as good as before, does not."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.budget.caps import EXACT_DEVIATION, MOST_LOSS
from tallyveil.geography.areas import AreaChange, Deviation
from tallyveil.products.topdown.run.spine_making import is_worse, warnings_of


def change(given_, steps, made, *, unmet=False):
    given, steps, made = (Deviation(v, 2 * v) for v in (given_, steps, made))
    return AreaChange("place", "entities", 3, True, given, steps, made, unmet)


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        (10.0, 10.0, False),
        (10.0, 10.5, False),
        (10.0, 10.6, True),
        (0.0, EXACT_DEVIATION / 2, False),
        (0.0, 1.0, True),
        (math.inf, math.inf, False),
        (math.inf, 1.0, False),
        (1.0, math.inf, True),
        (math.nan, 1.0, True),
    ],
)
def test_what_is_worse(before, after, worse):
    assert is_worse(before, after) == worse


@given(st.floats(0.01, 1e6), st.floats(0, 1))
def test_a_loss_up_to_the_limit_is_none(before, share):
    assert not is_worse(before, before * (1 + share * float(MOST_LOSS)))
    assert is_worse(before, before * (1.01 + float(MOST_LOSS)))
    assert not is_worse(before, before * 1.9, Fraction(1))


def test_every_loss_is_told_with_what_it_is_against():
    assert warnings_of([change(10, 10, 10)]) == ()
    (told,) = warnings_of([change(10, 20, 20)])
    assert "mean standard deviation of 20.00 against 10.00 on the geography as given" in told
    assert "chosen by variance" not in told
    (told,) = warnings_of([change(20, 10, 20)])
    assert "against 10.00 on the spine before its groups were chosen by variance" in told
    (told,) = warnings_of([change(10, 11, 1234567)])
    assert "1,234,567.00 against 10.00 on the geography as given and 11.00" in told
    (told,) = warnings_of([change(10, 10, math.inf)])
    assert "of infinity against" in told


def test_a_limit_that_could_not_be_kept_is_told_also_without_a_loss():
    (told,) = warnings_of([change(10, 10, 10, unmet=True)])
    assert "most_loss" in told
    assert len(warnings_of([change(10, 10, 30, unmet=True), change(1, 1, 1)])) == 2
