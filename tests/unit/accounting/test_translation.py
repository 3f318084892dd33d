"""From one neighbouring relation to the other."""

import math
from fractions import Fraction

import pytest

from tallyveil.accounting import (
    AdaptiveEvent,
    DiscreteGaussian,
    DiscreteLaplace,
    InvariantEvent,
    Neighbours,
    NonPrivateEvent,
    ParallelEvent,
    SequentialEvent,
    WorstEvent,
    group_privacy,
    translate,
)
from tallyveil.errors import BudgetError

BOUNDED, UNBOUNDED = Neighbours.BOUNDED, Neighbours.UNBOUNDED


def tree(factor: int) -> SequentialEvent:
    gaussian = DiscreteGaussian("7/3", 2, 3 * factor)
    laplace = DiscreteLaplace(4, 1, factor)
    return SequentialEvent(
        (
            gaussian,
            ParallelEvent((laplace, gaussian), 9),
            AdaptiveEvent((laplace, laplace)),
            WorstEvent((laplace, gaussian), "public"),
            InvariantEvent("total"),
            NonPrivateEvent("a look"),
        )
    )


def test_multiplicities_double_and_halve_and_nothing_else_changes() -> None:
    assert translate(tree(1), UNBOUNDED, BOUNDED) == tree(2)
    assert translate(tree(2), BOUNDED, UNBOUNDED) == tree(1)
    assert translate(tree(1), BOUNDED, BOUNDED) == tree(1)
    assert translate(tree(1), UNBOUNDED, UNBOUNDED) == tree(1)


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_group_privacy_adds_up_the_steps(size: int) -> None:
    epsilon, delta = group_privacy("1/2", "1e-9", size)
    wanted = 1e-9 * sum(math.exp(0.5 * i) for i in range(size))
    assert epsilon == Fraction(size, 2)
    assert wanted * (1 - 1e-15) <= delta <= wanted * (1 + 1e-14)


def test_group_privacy_at_the_ends() -> None:
    assert group_privacy(0, "1e-9", 3) == (0, pytest.approx(3e-9, rel=1e-15))
    assert group_privacy(3, 0, 5) == (15, 0.0)
    assert group_privacy(1000, "1e-9", 5) == (5000, 1.0)
    assert group_privacy(0, "1/3", 1)[1] >= Fraction(1, 3)


@pytest.mark.parametrize(
    ("epsilon", "delta", "size"),
    [(-1, 0, 2), (1, 2, 2), (1, -1, 2), (1, 0, 0), (1, 0, 1.5), (1, 0, 10**9), (1.0, 0, 2), (1, 1e-9, 2)],
)
def test_group_privacy_refuses_what_cannot_hold(epsilon, delta, size) -> None:
    with pytest.raises(BudgetError):
        group_privacy(epsilon, delta, size)


def test_group_privacy_holds_for_the_exact_profile_of_randomised_response() -> None:
    """delta of k answers moved at k epsilon is at most what one step's (epsilon, delta) promises."""
    rate = 0.3
    keep = 1 / (1 + math.exp(-rate))
    for epsilon in (0.0, 0.1, 0.2):
        one = keep * (1 - math.exp(epsilon - rate))
        losses = [(keep**2, 2 * rate), (2 * keep * (1 - keep), 0.0), ((1 - keep) ** 2, -2 * rate)]
        two = sum(p * max(0.0, 1 - math.exp(2 * epsilon - loss)) for p, loss in losses)
        assert two <= group_privacy(Fraction(epsilon), Fraction(one), 2)[1]
