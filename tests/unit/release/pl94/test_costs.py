"""What two releases cost together: the exact epsilon where it is composed, and the reason where it is not."""

from fractions import Fraction

import pytest

from tallyveil.accounting import DiscreteGaussian, Neighbours, compose
from tallyveil.accounting.events import ParallelEvent, PrivacyEvent, SequentialEvent
from tallyveil.accounting.ledger.joint import JointLedgers
from tallyveil.release.pl94.costs import MOST_LAWS, exact_epsilon
from tallyveil.release.pl94.readme import cost_lines

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
    found = exact_epsilon(joint(DiscreteGaussian(3, 1, 2), DiscreteGaussian(50, 1, 2)), DELTA)
    both = compose(DiscreteGaussian(3, 1, 2), DiscreteGaussian(50, 1, 2), neighbours=Neighbours.BOUNDED)
    assert found["exact_epsilon"] == both.epsilon(DELTA).to_mapping()


@pytest.mark.parametrize(("n", "words"), [(5, "largest of"), (40, "worst cases to compare")])
def test_more_laws_than_are_composed_are_named(n, words):
    found = exact_epsilon(joint(kinds(n), DiscreteGaussian(50, 1, 2)), DELTA)
    assert list(found) == ["not_exact"]
    assert words in found["not_exact"]
    assert n * (n + 1) // 2 > MOST_LAWS


def test_what_is_not_exact_is_said_to_people():
    content = {
        "releases": [{"counts": "people", "privacy": {"statement": "epsilon <= 2"}}],
        "together": {
            "neighbours": "bounded",
            "rho": "1/3",
            "delta": "1/100",
            "epsilon": 2.5,
            "not_exact": "because",
            "statement": "Both.",
        },
    }
    alone, together = cost_lines(content)
    assert alone == "Release of people: epsilon <= 2."
    assert "Both. epsilon <= 2.5 at delta = 0.01, bounded neighbours" in together
    assert together.endswith("The exact one is not stated: because.")
