"""What several releases guarantee together, by unit of record and for all units at once."""

from fractions import Fraction

import pytest

from tallyveil.accounting import DiscreteGaussian, Neighbours, compose
from tallyveil.accounting.events import SequentialEvent
from tallyveil.accounting.ledger.joint import JointLedgers
from tallyveil.files.total import Costed, at_once, total_guarantee
from tallyveil.schema.schema import PERSON, Unit

UNIT = Unit("housing unit", "housing units")
DELTA = Fraction(1, 10**10)
EVENTS = {
    "a": DiscreteGaussian(3, 1, 2),
    "b": DiscreteGaussian(5, 1, 2),
    "c": DiscreteGaussian(50, 1, 2),
}


def joint_of(names):
    return JointLedgers(
        (), Neighbours.BOUNDED, SequentialEvent(tuple(EVENTS[name] for name in names)), (), ()
    )


def test_each_unit_by_itself_and_all_at_once():
    releases = [Costed("a", PERSON, DELTA), Costed("b", UNIT, DELTA), Costed("c", PERSON, 2 * DELTA)]
    total = total_guarantee(releases, joint_of)
    persons, units = total["by_unit"]
    assert (persons["units"], persons["releases"]) == (["people"], ["a", "c"])
    assert (units["units"], units["releases"]) == (["housing units"], ["b"])
    assert total["together"]["releases"] == ["a", "b", "c"]
    for part in (persons, units, total["together"]):
        own = [EVENTS[name] for name in part["releases"]]
        delta = 2 * DELTA if "c" in part["releases"] else DELTA
        assert part["exact_epsilon"] == compose(*own, neighbours="bounded").epsilon(delta).to_mapping()
        assert Fraction(part["rho"]) == sum(1 / event.variance for event in own)
    assert persons["statement"].startswith(
        "releases a and c together, when one person's record changes its value: epsilon <= "
    )
    assert units["statement"].startswith("release b, when one housing unit's record changes its value")
    assert (
        "releases a, b and c together, when one person's record and one housing unit's record change their values at "
        "once" in total["together"]["statement"]
    )


def test_releases_of_one_unit_have_one_total():
    total = total_guarantee([Costed("a", PERSON, DELTA), Costed("b", PERSON, DELTA)], joint_of)
    assert total["by_unit"] == [total["together"]]


def test_losses_that_are_not_known_yet_are_bounded_by_rho():
    total = total_guarantee([Costed("a", PERSON, DELTA, "because"), Costed("b", UNIT, DELTA)], joint_of)
    assert total["together"]["not_exact"] == total["by_unit"][0]["not_exact"] == "because"
    assert "exact_epsilon" in total["by_unit"][1]


@pytest.mark.parametrize(
    ("neighbours", "one", "two"),
    [
        (Neighbours.BOUNDED, "changes its value", "change their values at once"),
        (Neighbours.UNBOUNDED, "is added or removed", "are added or removed at once"),
    ],
)
def test_what_changes_in_words(neighbours, one, two):
    assert at_once([PERSON], neighbours) == f"one person's record {one}"
    assert at_once([PERSON, UNIT], neighbours).endswith(f"one housing unit's record {two}")
