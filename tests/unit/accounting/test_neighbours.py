"""The two neighbouring relations."""

from collections import Counter
from itertools import combinations_with_replacement, product

import pytest

from tallyveil.accounting import Neighbours

RECORDS = tuple(product(("A", "B"), ("house", "dormitory")))
"""A record is a State and a home."""


def databases(sizes: range) -> list[Counter[tuple[str, str]]]:
    return [Counter(rows) for size in sizes for rows in combinations_with_replacement(RECORDS, size)]


def changes(one: Counter, other: Counter) -> dict[tuple[str, str], int]:
    """How much each cell moves, where it moves."""
    return {record: one[record] - other[record] for record in RECORDS if one[record] != other[record]}


def distance(one: Counter, other: Counter) -> int:
    return sum(map(abs, changes(one, other).values()))


def test_a_changed_record_moves_two_answers_an_added_one_moves_one() -> None:
    assert (Neighbours.BOUNDED.answers_moved, Neighbours.UNBOUNDED.answers_moved) == (2, 1)
    assert [relation.value for relation in Neighbours] == ["bounded", "unbounded"]


def test_databases_whose_symmetric_difference_is_one_are_unbounded_neighbours() -> None:
    """Definition 1 of SafeTab: of every partition, one answer moves, by one."""
    pairs = [pair for pair in product(databases(range(4)), repeat=2) if distance(*pair) == 1]
    assert pairs
    for one, other in pairs:
        assert abs(one.total() - other.total()) == 1
        assert len(changes(one, other)) == Neighbours.UNBOUNDED.answers_moved


@pytest.mark.parametrize("demand", ["of the facilities", "none"])
def test_neighbours_within_the_invariants_are_bounded_neighbours(demand) -> None:
    """Pairs in X^d and G: d persons in each State, and somebody in the dormitory of State A."""
    universe = [
        rows
        for rows in databases(range(3, 4))
        if rows["A", "house"] + rows["A", "dormitory"] == 2
        and (demand == "none" or rows["A", "dormitory"] > 0)
    ]
    pairs = [pair for pair in product(universe, repeat=2) if distance(*pair) == 2]
    assert pairs
    for one, other in pairs:
        moved = changes(one, other)
        assert len(moved) == Neighbours.BOUNDED.answers_moved
        assert sorted(moved.values()) == [-1, 1]
        assert len({state for state, _ in moved}) == 1  # the record stays in its State
