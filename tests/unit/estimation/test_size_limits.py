"""Limits of household sizes: they leave room, they are not too narrow, and whatever is chosen, sizes add up."""

from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.estimation.leaf_lift import MOST_BEYOND, SizedHouseholds, alone_limits, size_limits

OPEN = 7


def homes(people: int, known: dict[int, int], unknown: int, smallest: int, n: int = OPEN) -> SizedHouseholds:
    row = [known.get(size, 0) for size in range(1, n + 1)]
    return SizedHouseholds(np.array([people]), np.array([row]), np.array([unknown]), smallest)


def limits(place: SizedHouseholds, size: int) -> tuple[int, int]:
    lower, upper = size_limits(place, size)
    return int(lower[0]), int(upper[0])


@cache
def fillings(people: int, unknown: int, smallest: int, n: int) -> set[tuple[int, ...]]:
    """Every way in which households can hold all people: their numbers by size, from the open size down."""
    largest = max(n + MOST_BEYOND, -(-people // unknown)) if unknown else 0
    found = set()
    for sizes in combinations_with_replacement(range(smallest, n + 1), unknown):
        spare = people - sum(sizes)
        if 0 <= spare <= sizes.count(n) * (largest - n):
            found.add(tuple(sizes.count(size) for size in range(n, smallest, -1)))
    return found


@pytest.mark.parametrize(("smallest", "n"), [(2, 7), (1, 4), (2, 3)])
def test_the_limits_are_exactly_the_numbers_with_which_sizes_can_add_up(smallest, n):
    for unknown in range(1, 5):
        for people in range(smallest * unknown, 16 * unknown + 4):
            every = fillings(people, unknown, smallest, n)
            assert every
            for step, size in enumerate(range(n, smallest, -1)):
                for before in {one[:step] for one in every}:
                    known = {n - k: number for k, number in enumerate(before)}
                    lower, upper = limits(homes(people, known, unknown - sum(before), smallest, n), size)
                    possible = {one[step] for one in every if one[:step] == before}
                    assert possible == set(range(lower, upper + 1))


@given(st.integers(1, 60), st.integers(0, 900), st.integers(0, 30), st.data())
def test_whatever_is_chosen_sizes_add_up(together, beyond, alone, data):
    people, known, left = alone + 2 * together + beyond, {1: alone}, together
    for size in range(OPEN, 2, -1):
        place = homes(people, known, left, 2)
        lower, upper = limits(place, size)
        assert 0 <= lower <= upper <= left
        known[size] = data.draw(st.integers(lower, upper))
        left -= known[size]
    known[2] = left
    held = sum(size * number for size, number in known.items())
    largest = max(OPEN + MOST_BEYOND, -(-(people - alone) // together))
    assert held <= people <= held + known[OPEN] * (largest - OPEN)


@given(st.integers(1, 200), st.data())
def test_people_made_to_agree_always_have_possible_sizes(occupied, data):
    people = data.draw(st.integers(occupied, 40 * occupied))
    lower, upper = alone_limits(np.array([people]), np.array([occupied]))
    alone = data.draw(st.integers(int(lower[0]), int(upper[0])))
    assert homes(people, {1: alone}, occupied - alone, 2).possible().all()


def test_what_is_impossible():
    assert not homes(3, {1: 1}, 0, 2).possible().any()
    assert not homes(4, {1: 1}, 2, 2).possible().any()
    assert homes(1, {1: 1}, 0, 2).possible().all()


def test_the_worked_case():
    assert limits(homes(12, {}, 4, 2), 7) == (0, 0)
    assert limits(homes(12, {}, 4, 2), 6) == (0, 1)
    assert limits(homes(12, {6: 1}, 3, 2), 5) == (0, 0)
