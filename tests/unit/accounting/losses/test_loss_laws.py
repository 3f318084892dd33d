"""From events to loss factors: sums, worst cases, and what is refused."""

from dataclasses import replace
from fractions import Fraction

import pytest

from tallyveil.accounting import (
    AdaptiveEvent,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    InvariantEvent,
    Laplace,
    Neighbours,
    ParallelEvent,
    PoissonSampled,
    RandomizedResponse,
    SequentialEvent,
    WorstEvent,
    alternatives_of,
    invariants_of,
    loss_law_of,
)
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, dominates
from tallyveil.errors import BudgetError

A, B = DiscreteGaussian(3, multiplicity=2), DiscreteGaussian("5/2", 1, 4)
BOUNDED, UNBOUNDED = Neighbours.BOUNDED, Neighbours.UNBOUNDED


def a(n: int) -> GaussianLoss:
    return GaussianLoss(Fraction(3), 1, n)


def b(n: int) -> GaussianLoss:
    return GaussianLoss(Fraction(5, 2), 1, n)


def laplace(scale: str | int, sensitivity: int = 1, multiplicity: int = 1) -> LaplaceLoss:
    return LaplaceLoss(Fraction(scale), sensitivity, multiplicity)


def test_a_sequence_is_one_composition_with_equal_factors_counted_together() -> None:
    event = SequentialEvent((A, SequentialEvent((B, DiscreteLaplace(7, 2))), InvariantEvent("total"), A))
    assert loss_law_of(event) == (b(4), a(4), laplace(7, 2))
    assert alternatives_of(event, BOUNDED) == (loss_law_of(event),)
    assert loss_law_of(SequentialEvent(())) == loss_law_of(InvariantEvent("x")) == ()
    assert alternatives_of(ParallelEvent((), 5), BOUNDED) == ((),)


@pytest.mark.parametrize(
    "event",
    [
        DiscreteGaussian("5/2", 2),
        DiscreteLaplace(7, 2),
        Gaussian("5/2", "1/2"),
        Laplace(7, "1/2"),
        RandomizedResponse("1/3"),
        RandomizedResponse("1/3", 5),
        ApproximateDP("1/3", "1/100"),
        PoissonSampled(Laplace(7), "1/10"),
    ],
    ids=str,
)
def test_three_answers_at_once_lose_what_three_answers_lose(event) -> None:
    law = loss_law_of(SequentialEvent((event, event, event)))
    assert loss_law_of(replace(event, multiplicity=3)) == law != loss_law_of(event)


def test_an_adaptive_choice_is_one_branch() -> None:
    assert loss_law_of(SequentialEvent((B, AdaptiveEvent((A, A, A))))) == (b(4), a(2))
    assert loss_law_of(AdaptiveEvent((A,))) == (a(2),)


@pytest.mark.parametrize("neighbours", Neighbours)
def test_parallel_parts_treated_alike_count_as_often_as_a_record_is_in_them(neighbours) -> None:
    for event in (
        ParallelEvent((A,), 9),
        ParallelEvent((A, A, A), 9),
        ParallelEvent((A, InvariantEvent("x")), 9),
    ):
        assert loss_law_of(event) == (a(18),)
        assert alternatives_of(event, neighbours) == ((a(18),),)


def test_a_part_that_does_more_covers_one_that_does_less() -> None:
    event = ParallelEvent((A, SequentialEvent((A, B)), B), 3)
    assert loss_law_of(event) == (b(12), a(6))
    assert alternatives_of(event, BOUNDED) == (loss_law_of(event),)
    assert loss_law_of(WorstEvent((A, DiscreteGaussian(3, multiplicity=5), A))) == (a(5),)


def test_unequal_parts_mix_by_record() -> None:
    event = ParallelEvent((A, B), 2)
    assert set(alternatives_of(event, UNBOUNDED)) == {(a(4),), (b(4), a(2)), (b(8),)}
    # A changed record leaves two parts and enters two: four halves.
    assert set(alternatives_of(event, BOUNDED)) == {
        (a(4),),
        (b(2), a(3)),
        (b(4), a(2)),
        (b(6), a(1)),
        (b(8),),
    }
    with pytest.raises(BudgetError, match="2 ways"):
        loss_law_of(event)


def test_a_changed_record_between_disjoint_unequal_parts_mixes_their_halves() -> None:
    parts = ParallelEvent((DiscreteGaussian(3, multiplicity=2), DiscreteLaplace(2, multiplicity=2)))
    mixes = alternatives_of(parts, BOUNDED)
    assert (a(1), laplace(2)) in mixes
    assert len(mixes) == 3


def test_parts_that_have_no_half_cannot_mix_under_bounded_neighbours() -> None:
    odd = ParallelEvent((DiscreteGaussian(3), DiscreteLaplace(2)))
    assert len(alternatives_of(odd, UNBOUNDED)) == 2
    with pytest.raises(BudgetError, match="odd multiplicity"):
        alternatives_of(odd, BOUNDED)


def test_a_public_choice_within_a_sequence_gives_whole_compositions() -> None:
    event = SequentialEvent((A, WorstEvent((A, B), chosen="public"), WorstEvent((A, B), chosen="public")))
    assert set(alternatives_of(event, UNBOUNDED)) == {(a(6),), (b(4), a(4)), (b(8), a(2))}


def test_an_adaptive_choice_of_unequal_branches_stands_alone_or_is_refused() -> None:
    worst = WorstEvent((A, B))
    assert alternatives_of(worst, UNBOUNDED) == ((a(2),), (b(4),))
    alone = SequentialEvent((InvariantEvent("total"), SequentialEvent((worst,)), SequentialEvent(())))
    assert alternatives_of(alone, UNBOUNDED) == ((a(2),), (b(4),))
    for within in (
        SequentialEvent((A, worst)),
        SequentialEvent((worst, SequentialEvent((B,)))),
        ParallelEvent((worst,)),
        ParallelEvent((worst,), 3),
        SequentialEvent((A, WorstEvent((worst,), chosen="public"))),
    ):
        with pytest.raises(BudgetError, match="chosen by what was released"):
            alternatives_of(within, UNBOUNDED)


def test_a_parallel_event_within_a_covering_choice_does_not_lose_its_degree() -> None:
    cover = DiscreteLaplace("1/100")
    inner = ParallelEvent((DiscreteLaplace(1, 2), DiscreteLaplace(2, 3)), degree=1000)
    with pytest.raises(BudgetError, match="2 ways"):
        loss_law_of(WorstEvent((inner, cover)))


def test_randomised_response_covers_every_pure_mechanism_of_its_epsilon() -> None:
    split = (laplace("5/2", 1, 1), laplace("5/3", 1, 1))  # 2/5 + 3/5
    assert dominates((laplace(1),), split)
    assert not dominates(split, (laplace(1),))
    assert not dominates((laplace("1.0001"),), split)
    assert not dominates((laplace(2, 2),), split)  # as much epsilon, but three atoms
    nine = (laplace("5/2", 1, 9), laplace("5/3", 1, 9))
    assert dominates((laplace(1, 1, 9),), nine)
    assert not dominates((laplace(1, 1, 8),), nine)
    assert not dominates((laplace("1/8", 1, 1),), nine)
    assert dominates((laplace("1/9", 1, 1),), nine)
    assert not dominates((laplace("1/9", 1, 1),), (a(1),))
    # What both hold stands against itself.
    assert dominates((a(2), laplace(1)), (a(2), *split))
    assert not dominates((a(1), laplace(1)), (a(2), *split))
    # What the smaller law holds too is not there a second time to cover the rest of it.
    twice = (laplace("5/2", 1, 2), laplace("5/3", 1, 2))
    assert dominates((laplace(1, 1, 3),), (laplace(1), *twice))
    assert not dominates((laplace(1, 1, 2),), (laplace(1), *twice))


def test_the_coarser_release_of_safetab_covers_the_split_one() -> None:
    split = SequentialEvent((DiscreteLaplace(10), AdaptiveEvent((DiscreteLaplace("10/9"),) * 4)))
    for event in (
        ParallelEvent((split, DiscreteLaplace(1)), 9),
        ParallelEvent((WorstEvent((split, DiscreteLaplace(1)), chosen="public"),), 9),
        ParallelEvent((WorstEvent((split, DiscreteLaplace(1)), chosen="adaptive"),), 9),
    ):
        assert loss_law_of(event) == (laplace(1, 1, 9),)


def test_too_many_worst_cases_are_refused_at_once() -> None:
    public = WorstEvent((A, B, DiscreteLaplace(2, multiplicity=2)), chosen="public")
    others = ParallelEvent((DiscreteGaussian(11, multiplicity=2), DiscreteLaplace(3, multiplicity=2)), 20)
    for event in (SequentialEvent((ParallelEvent((A, B), 40), others)), ParallelEvent((public,), 10**9)):
        with pytest.raises(BudgetError, match="more than 2,500 worst cases"):
            alternatives_of(event, BOUNDED)
    assert len(alternatives_of(SequentialEvent((ParallelEvent((A, B), 40),) * 2), BOUNDED)) == 161
    alternating = SequentialEvent(
        tuple(
            WorstEvent((DiscreteGaussian(n), DiscreteGaussian(n + 100)), chosen="public")
            for n in range(1, 60)
        )
    )
    with pytest.raises(BudgetError, match="more than 2,500 worst cases"):
        alternatives_of(alternating, BOUNDED)


def test_invariants_are_named_once_in_order() -> None:
    first, second = InvariantEvent("total at State"), InvariantEvent("housing at Block")
    event = SequentialEvent((A, second, WorstEvent((A, ParallelEvent((first, second))))))
    assert invariants_of(event) == ("housing at Block", "total at State")
    assert invariants_of(A) == ()
