"""What several runs cost together: the exact epsilon where it is composed, and the reason where it is not."""

from fractions import Fraction

import pytest

from tallyveil.accounting import (
    ZCDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    IntegerSubspaceGaussian,
    Neighbours,
    compose,
    renyi_epsilon,
)
from tallyveil.accounting.events import ParallelEvent, PrivacyEvent, SequentialEvent
from tallyveil.accounting.ledger.joint import JointLedgers
from tallyveil.accounting.ledger.joint_cost import joint_cost, least_epsilon

DELTA = Fraction(1, 10**10)


def joint(*events: PrivacyEvent) -> JointLedgers:
    return JointLedgers((), Neighbours.BOUNDED, SequentialEvent(events), (), ())


def kinds(n: int) -> ParallelEvent:
    """As after bypassing: records on one of n kinds of paths, each of the same cost, by different noise."""
    return ParallelEvent(
        tuple(
            SequentialEvent(
                (DiscreteGaussian(Fraction(120, k), 1, 2), DiscreteGaussian(Fraction(120, 200 - k), 1, 2))
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


def test_many_kinds_of_paths_are_composed():
    """A record may leave a path of one of seven kinds and enter one of another: 28 laws, and the worst one counts."""
    found = joint_cost(joint(kinds(7), DiscreteGaussian(50, 1, 2)), DELTA)
    exact = compose(kinds(7), DiscreteGaussian(50, 1, 2), neighbours=Neighbours.BOUNDED).epsilon(DELTA)
    assert found["exact_epsilon"] == exact.to_mapping()
    assert least_epsilon(found) == exact.upper < found["epsilon"]


@pytest.mark.nightly
def test_thousands_of_laws_are_composed():
    found = joint_cost(joint(kinds(75), DiscreteGaussian(50, 1, 2)), DELTA)
    exact = found["exact_epsilon"]
    assert exact["upper"] - exact["lower"] < 3e-6
    some = ParallelEvent(kinds(75).events[::25])
    few = compose(some, DiscreteGaussian(50, 1, 2), neighbours=Neighbours.BOUNDED).epsilon(DELTA)
    assert few.lower <= exact["upper"] == least_epsilon(found) < found["epsilon"]


def test_more_laws_than_are_composed_are_named():
    found = joint_cost(joint(kinds(75), ZCDP("1/100")), DELTA)
    assert "exact_epsilon" not in found
    assert least_epsilon(found) == found["epsilon"]
    assert "worst cases to compare" in found["not_exact"]


def test_noise_on_a_lattice_beside_pure_noise_costs_no_less_than_normal_noise_in_its_place():
    pure, lattice = DiscreteLaplace(2, 1, 2), IntegerSubspaceGaussian(1 / Fraction("0.014973"), 2)
    found = joint_cost(joint(pure, lattice), DELTA)
    normal = compose(pure, Gaussian(lattice.variance / 2), neighbours=Neighbours.BOUNDED).epsilon(DELTA)
    assert normal.upper < least_epsilon(found) < normal.upper + 0.003
    assert least_epsilon(found) < renyi_epsilon(SequentialEvent((pure, lattice)), DELTA).value - 0.04
    assert "lattice" in found["not_exact"]
