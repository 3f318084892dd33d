"""The two neighbouring relations."""

from tallyveil.accounting import Neighbours


def test_a_changed_record_moves_two_answers_an_added_one_moves_one() -> None:
    assert (Neighbours.BOUNDED.answers_moved, Neighbours.UNBOUNDED.answers_moved) == (2, 1)
    assert [relation.value for relation in Neighbours] == ["bounded", "unbounded"]
