"""Limits of occupied units and of people who live alone: possible for every block, and what they promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import ConstraintError
from tallyveil.estimation.leaf_lift import USUAL_LARGEST, alone_limits, occupied_limits

BLOCKS = st.integers(0, 400).flatmap(
    lambda people: st.tuples(
        st.just(people), st.integers(0, people), st.integers(1, 500) if people else st.integers(0, 500)
    )
)


def limits(people, adults, units):
    lower, upper = occupied_limits(*(np.array([x]) for x in (people, adults, units)))
    return int(lower[0]), int(upper[0])


@given(BLOCKS)
def test_every_block_has_a_possible_number_of_occupied_units(block):
    people, adults, units = block
    lower, upper = limits(people, adults, units)
    assert 0 <= lower <= upper <= units
    assert upper <= people
    assert (upper == 0) == (people == 0) == (lower == 0)
    assert upper <= max(adults, 1)


@given(BLOCKS, st.data())
def test_every_number_of_occupied_units_leaves_a_possible_number_alone(block, data):
    people, adults, units = block
    occupied = data.draw(st.integers(*limits(people, adults, units)))
    lower, upper = (int(x[0]) for x in alone_limits(np.array([people]), np.array([occupied])))
    assert 0 <= lower <= upper <= occupied
    others, largest = people - occupied, max(USUAL_LARGEST, -(-people // max(occupied, 1)))
    for alone in {lower, upper, (lower + upper) // 2}:
        together = occupied - alone
        assert together <= others <= together * (largest - 1)
    if others:
        assert upper < occupied


@given(BLOCKS, st.data())
def test_the_limits_of_people_alone_are_not_too_narrow(block, data):
    """A number beyond them leaves a household without a second person, or people without a place."""
    people, adults, units = block
    occupied = data.draw(st.integers(*limits(people, adults, units)))
    lower, upper = (int(x[0]) for x in alone_limits(np.array([people]), np.array([occupied])))
    others, largest = people - occupied, max(USUAL_LARGEST, -(-people // max(occupied, 1)))
    for alone in range(occupied + 1):
        together = occupied - alone
        possible = together <= others <= together * (largest - 1)
        assert possible == (lower <= alone <= upper)


def test_minors_by_themselves_are_one_household():
    assert limits(people=3, adults=0, units=2) == (1, 1)


def test_few_units_hold_large_households():
    assert limits(people=100, adults=60, units=3) == (3, 3)
    assert limits(people=100, adults=60, units=50) == (7, 50)


def test_people_without_a_unit_are_refused_without_a_count():
    with pytest.raises(ConstraintError) as raised:
        occupied_limits(np.array([5, 987]), np.array([5, 3]), np.array([1, 0]))
    assert raised.value.code == "people-without-units"
    assert "987" not in str(raised.value)
