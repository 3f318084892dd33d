"""Numbers at the ends of their ranges: very many answers, tiny probabilities, texts of several lines."""

import warnings

import pytest

from tallyveil.accounting import (
    DiscreteLaplace,
    Gaussian,
    InvariantEvent,
    Laplace,
    MixtureOfGaussians,
    NonPrivateEvent,
    ParallelEvent,
    PoissonSampled,
    RandomizedResponse,
    SampledWithoutReplacement,
    compose,
)
from tallyveil.accounting.engines.loss_transform import power_with_error
from tallyveil.errors import BudgetError


@pytest.mark.parametrize(
    "event",
    [
        Laplace(1, 1, 10**12),
        Laplace("1/1000", 1, 10**9),
        DiscreteLaplace(1, 1, 10**12),
        MixtureOfGaussians(1, [0, 1, 2], ["1/2", "1/4", "1/4"], 10**9),
    ],
)
def test_very_many_answers_overflow_nowhere(event) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bounds = compose(event, neighbours="unbounded").epsilon("1e-6")
    assert 0 <= bounds.lower <= bounds.upper
    assert bounds.upper > 1e7


def test_a_power_beyond_every_float_has_an_infinite_error() -> None:
    import numpy as np

    values = np.array([1.001, 0.5], dtype=np.complex128)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        powered, error = power_with_error(values, np.abs(values), np.full(2, 1e-3), 10**9)
    assert powered.tolist() == [0, 0]
    assert error[0] == np.inf
    assert error[1] < 1e-200


@pytest.mark.parametrize(
    "made",
    [
        lambda n: Gaussian(1, 1, n),
        lambda n: RandomizedResponse(1, 3, n),
        lambda n: PoissonSampled(Gaussian(1), "1/2", n),
        lambda n: ParallelEvent((Gaussian(1),), n),
    ],
)
def test_the_largest_multiplicity_is_named(made) -> None:
    made(10**12)
    with pytest.raises(BudgetError, match=r"must be at most 1000000000000"):
        made(10**300)


def test_a_sample_of_a_sample_has_a_least_probability_too() -> None:
    once = PoissonSampled(Gaussian(1), "1e-60")
    with pytest.raises(BudgetError, match="times that of a sample within it, must be 0, 1, or 1e-100"):
        PoissonSampled(once, "1e-60")
    with pytest.raises(BudgetError, match="sample_size / records"):
        SampledWithoutReplacement(Gaussian(1), 1, 10**101)


def test_texts_of_several_lines_are_shown_in_one() -> None:
    guarantee = compose(Gaussian(1), InvariantEvent("the total\nof all\tareas"), neighbours="unbounded")
    assert "published exactly: the total of all areas" in repr(guarantee)
    with pytest.raises(BudgetError, match="a reason of two lines"):
        compose(NonPrivateEvent("a reason\nof two lines"), neighbours="unbounded")
