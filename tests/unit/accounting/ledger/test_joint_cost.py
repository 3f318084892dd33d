"""What several runs cost together: the exact epsilon where it is composed, and the reason where it is not."""

from fractions import Fraction

import pytest

from tallyveil.accounting import DiscreteGaussian, Neighbours, compose
from tallyveil.accounting.events import ParallelEvent, PrivacyEvent, SequentialEvent
from tallyveil.accounting.ledger.joint import JointLedgers
from tallyveil.accounting.ledger.joint_cost import MOST_LAWS, joint_cost, least_epsilon

DELTA = Fraction(1, 10**10)


def joint(*events: PrivacyEvent) -> JointLedgers:
    return JointLedgers((), Neighbours.BOUNDED, SequentialEvent(events), (), ())


def kinds(n: int) -> ParallelEvent:
    """As after bypassing: records on one of n kinds of paths, each of the same cost, by different noise."""
    return ParallelEvent(
        tuple(
            SequentialEvent(
                (DiscreteGaussian(Fraction(12, k), 1, 2), DiscreteGaussian(Fraction(12, 60 - k), 1, 2))
            )
            for k in range(1, n + 1)
        )
    )


def test_it_is_the_epsilon_of_the_composition():
    found = joint_cost(joint(DiscreteGaussian(3, 1, 2), DiscreteGaussian(50, 1, 2)), DELTA)
    both = compose(DiscreteGaussian(3, 1, 2), DiscreteGaussian(50, 1, 2), neighbours=Neighbours.BOUNDED)
    assert found["exact_epsilon"] == both.epsilon(DELTA).to_mapping()
    assert found["rho"] == str(Fraction(1, 3) + Fraction(1, 50))
    assert least_epsilon(found) == both.epsilon(DELTA).upper < found["epsilon"]


@pytest.mark.parametrize(("n", "words"), [(5, "largest of"), (40, "worst cases to compare")])
def test_more_laws_than_are_composed_are_named(n, words):
    found = joint_cost(joint(kinds(n), DiscreteGaussian(50, 1, 2)), DELTA)
    assert "exact_epsilon" not in found
    assert least_epsilon(found) == found["epsilon"]
    assert words in found["not_exact"]
    assert n * (n + 1) // 2 > MOST_LAWS
