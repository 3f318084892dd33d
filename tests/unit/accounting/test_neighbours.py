"""The two neighbouring relations."""

from tallyveil.accounting import Neighbours


def test_a_changed_record_moves_two_answers_an_added_one_moves_one() -> None:
    assert (Neighbours.BOUNDED.squared_sensitivity, Neighbours.BOUNDED.sensitivity) == (2, 2)
    assert (Neighbours.UNBOUNDED.squared_sensitivity, Neighbours.UNBOUNDED.sensitivity) == (1, 1)
    assert [relation.value for relation in Neighbours] == ["bounded", "unbounded"]
