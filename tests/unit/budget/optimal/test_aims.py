"""Aims: how large their numbers may be, to the last one that is accepted."""

from fractions import Fraction

import pytest

from tallyveil.budget.optimal.aims import MOST_AIMS, Aim, Aims, Goal, Target, VarianceModel
from tallyveil.errors import BudgetError

AIM, TARGET = Aim("Town", "total"), Target("Town", "total", Fraction(1))


def aims_of(*aims, **further):
    return Aims(VarianceModel.LEAST_SQUARES, **{"aims": aims, **further})


def refused(call):
    with pytest.raises(BudgetError) as error:
        call()
    return error.value.code == "bad-aim"


def test_there_may_be_a_thousand_aims_and_targets_and_no_more():
    many = [Aim("Town", f"q{number}") for number in range(MOST_AIMS)]
    assert len(aims_of(*many).named) == MOST_AIMS
    targets = tuple(Target(one.area, one.query, Fraction(1)) for one in many)
    assert len(aims_of(*many, targets=targets).named) == MOST_AIMS  # about the same answers
    assert refused(lambda: aims_of(*many, Aim("Town", "one more")))
    assert refused(lambda: aims_of(*many, targets=(Target("Block", "q0", Fraction(1)),)))


def test_weights_and_deviations_reach_from_a_billionth_to_a_billion():
    for size in (Fraction(1, 10**9), Fraction(10**9)):
        made = aims_of(Aim("Town", "total", size), targets=(Target("Town", "total", size),))
        assert made.named == (("Town", "total"),)
    for size in (Fraction(1, 10**9 + 1), Fraction(10**9 + 1), Fraction(0), Fraction(-1)):
        assert refused(lambda size=size: aims_of(Aim("Town", "total", size)))
        assert refused(lambda size=size: aims_of(AIM, targets=(Target("Town", "total", size),)))


def test_nine_tenths_may_be_kept_together():
    def keep(*shares):
        return aims_of(AIM, keep=tuple(("Town", f"q{n}", Fraction(share)) for n, share in enumerate(shares)))

    assert keep("1/2", "4/10").keep[1] == ("Town", "q1", Fraction(4, 10))
    for wrong in (("1/2", "401/1000"), ("0",), ("-1/10",), ("1",), ("91/100",)):
        assert refused(lambda wrong=wrong: keep(*wrong))


def test_the_goal_needs_what_it_is_about():
    assert aims_of(goal=Goal.RHO, targets=(TARGET,)).targets == (TARGET,)
    assert refused(lambda: aims_of(AIM, goal=Goal.RHO))
    for goal in (Goal.SUM, Goal.MAXIMUM):
        assert aims_of(AIM, goal=goal).spare
        assert refused(lambda goal=goal: aims_of(goal=goal, targets=(TARGET,)))


def test_aims_come_before_targets_and_each_place_once():
    other = Target("Block", "age", Fraction(2))
    assert aims_of(AIM, Aim("Town", "age"), targets=(other, TARGET)).named == (
        ("Town", "total"),
        ("Town", "age"),
        ("Block", "age"),
    )
    assert refused(lambda: aims_of(AIM, Aim("Town", "total", Fraction(2))))
    assert refused(lambda: aims_of(AIM, targets=(TARGET, TARGET)))
