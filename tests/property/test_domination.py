"""The lemmas of docs/proofs/domination.md, in sums of many digits and by the accountant."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.accounting import (
    DiscreteGaussian,
    DiscreteLaplace,
    Neighbours,
    ParallelEvent,
    SequentialEvent,
    alternatives_of,
    compose,
)
from tallyveil.accounting.losses import LaplaceLoss, dominates

PARAMETERS = st.fractions(Fraction(1, 3), 40, max_denominator=12)
EPSILONS = st.fractions(-3, 6, max_denominator=16)
ROUNDING = mpmath.mpf(10) ** -35
"""More than sums of 50 digits round, and far less than any delta that is asked for."""


def profile(kind: str, parameter: Fraction, shift: int, epsilon: Fraction) -> mpmath.mpf:
    """delta(epsilon) of an answer that moves by `shift`: a plain sum over outcomes, in the working precision."""
    size = mpmath.mpf(parameter.numerator) / parameter.denominator
    gamma = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
    reach = int(90 * size if kind == "laplace" else 14 * size**0.5) + 2 * shift + 9
    exponent = {"laplace": lambda x: -x / size, "gaussian": lambda x: -mpmath.mpf(x * x) / (2 * size)}[kind]
    half = [mpmath.exp(exponent(x)) for x in range(reach + shift + 1)]
    excess = (half[abs(x - shift)] - gamma * half[abs(x)] for x in range(-reach, reach + 1))
    return mpmath.fsum(max(one, 0) for one in excess) / (2 * mpmath.fsum(half) - 1)


@settings(max_examples=40)
@given(
    st.sampled_from(["gaussian", "laplace"]),
    st.fractions(Fraction(1, 3), 4, max_denominator=6),
    st.integers(0, 3),
    st.integers(0, 3),
    EPSILONS,
)
def test_an_answer_that_moves_less_costs_less(
    kind: str, parameter: Fraction, less: int, more: int, epsilon: Fraction
) -> None:
    with mpmath.workdps(50):
        smaller = profile(kind, parameter, less, epsilon)
        assert smaller <= profile(kind, parameter, less + more, epsilon) + ROUNDING
    event = {"gaussian": DiscreteGaussian, "laplace": DiscreteLaplace}[kind]
    bound = compose(event(parameter, max(less + more, 1)), neighbours=Neighbours.UNBOUNDED)
    # Where the true delta is 0, the sum is not: its terms cancel up to their own rounding.
    assert smaller <= bound.delta(epsilon).upper + ROUNDING


@settings(max_examples=25)
@given(
    st.lists(st.tuples(PARAMETERS, st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=2),
    st.integers(1, 3),
    st.fractions(0, 1, max_denominator=8),
    EPSILONS,
)
def test_one_laplace_answer_covers_pure_losses(
    pure: list[tuple[Fraction, int, int]], groups: int, spare: Fraction, epsilon: Fraction
) -> None:
    rest = tuple(LaplaceLoss(scale, k, n * groups) for scale, k, n in pure)
    each = sum((Fraction(k * n) / scale for scale, k, n in pure), Fraction(0))
    both = (LaplaceLoss(Fraction(5), 1, 2),)
    larger, smaller = (LaplaceLoss(1 / (each + spare), 1, groups), *both), (*rest, *both)
    assert dominates(larger, smaller)
    assert dominates(_doubled(larger), _doubled(smaller))
    events = [SequentialEvent(tuple(map(_event, law))) for law in (larger, smaller)]
    guarantees = [compose(event, neighbours=Neighbours.UNBOUNDED, engine="direct") for event in events]
    covering, covered = (guarantee.delta(epsilon) for guarantee in guarantees)
    assert covered.lower <= covering.upper


@settings(max_examples=25)
@given(PARAMETERS, PARAMETERS, EPSILONS)
def test_a_record_that_leaves_one_part_for_another_is_covered(
    scale: Fraction, other: Fraction, epsilon: Fraction
) -> None:
    parts = (DiscreteLaplace(scale, multiplicity=2), DiscreteLaplace(other, multiplicity=2))
    event = ParallelEvent(parts)
    assert (
        len(alternatives_of(event, Neighbours.BOUNDED)) == 1
    )  # the noisier part is covered, and so are mixes with it
    halves = SequentialEvent(tuple(DiscreteLaplace(part.scale) for part in parts))
    mixed = compose(halves, neighbours=Neighbours.UNBOUNDED).delta(epsilon)
    assert mixed.lower <= compose(event, neighbours=Neighbours.BOUNDED).delta(epsilon).upper


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_halves_of_parts_that_do_not_cover_each_other_are_all_compared(epsilon: Fraction) -> None:
    parts = (DiscreteLaplace(2, multiplicity=2), DiscreteGaussian(3, multiplicity=2))
    found = compose(ParallelEvent(parts), neighbours=Neighbours.BOUNDED).delta(epsilon)
    mixes = [parts[:1], parts[1:], (DiscreteLaplace(2), DiscreteGaussian(3))]
    each = [compose(*mix, neighbours=Neighbours.UNBOUNDED).delta(epsilon).upper for mix in mixes]
    assert found.upper == max(each)


def _doubled(law: tuple[LaplaceLoss, ...]) -> tuple[LaplaceLoss, ...]:
    return tuple(replace(factor, multiplicity=2 * factor.multiplicity) for factor in law)


def _event(factor: LaplaceLoss) -> DiscreteLaplace:
    return DiscreteLaplace(factor.scale, factor.sensitivity, factor.multiplicity)
