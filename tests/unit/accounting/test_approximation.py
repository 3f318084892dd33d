"""The uncertified delta that a search begins from: near the certified one, and finite work at the extremes."""

import math
from fractions import Fraction

import pytest

from tallyveil.accounting import (
    DiscreteGaussian,
    DiscreteLaplace,
    Neighbours,
    SequentialEvent,
    compose,
    loss_law_of,
)
from tallyveil.accounting.calibration import approximate_log_delta


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.5, 2.0, 6.0])
def test_it_is_exact_for_one_wide_gaussian(epsilon: float) -> None:
    event = DiscreteGaussian(900, sensitivity=30)
    certified = compose(event, neighbours=Neighbours.UNBOUNDED, engine="tilted_fft").log_delta(epsilon)
    assert approximate_log_delta(loss_law_of(event), epsilon) == pytest.approx(certified.upper, abs=0.02)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
def test_it_is_near_for_a_mixture(epsilon: float) -> None:
    event = SequentialEvent((DiscreteGaussian(40, multiplicity=20), DiscreteLaplace(20, multiplicity=50)))
    certified = compose(event, neighbours=Neighbours.UNBOUNDED).log_delta(epsilon)
    assert approximate_log_delta(loss_law_of(event), epsilon) == pytest.approx(certified.upper, abs=0.1)


@pytest.mark.parametrize(
    ("event", "epsilon", "expected"),
    [
        (DiscreteLaplace(5), 0.2, -math.inf),
        (DiscreteLaplace(Fraction(1, 10**90)), 1.0, 0.0),
        (DiscreteGaussian(Fraction(1, 10**90)), 1.0, 0.0),
        (DiscreteGaussian(10**90), 1.0, -math.inf),
    ],
)
def test_extremes(event, epsilon: float, expected: float) -> None:
    found = approximate_log_delta(loss_law_of(event), epsilon)
    assert found == expected or (expected < 0 and found < -1e6)
