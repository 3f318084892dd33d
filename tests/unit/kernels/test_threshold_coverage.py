"""The compiled coverage of a margin near a threshold, beside its twin of whole arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.threshold_coverage import interval_chance_reference, mean_squared_error_reference

from tallyveil.kernels.threshold_coverage import interval_chance, mean_squared_error


def law(rng, first, n):
    """So many neighbouring whole numbers and their chances."""
    chances = rng.random(n) + 1e-3
    return first + np.arange(float(n)), chances / chances.sum()


def rising(rng, gaussian, n):
    """A rising function by its knots, with level pieces; none with Laplace noise."""
    if not gaussian:
        return np.empty(0), np.empty(0)
    steps = np.where(rng.random(n) < 0.2, 0.0, rng.random(n))
    return np.cumsum(rng.random(n)) - n / 4, np.cumsum(steps) - n / 4


@given(
    seed=st.integers(0, 2**32 - 1),
    gaussian=st.booleans(),
    stage_1=st.integers(1, 30),
    others=st.integers(1, 30),
    own=st.integers(0, 20),
    share=st.sampled_from([0.125, 0.5, 1.0]),
    margin=st.floats(0, 30),
)
def test_the_chance_of_an_interval_is_that_of_its_twin(seed, gaussian, stage_1, others, own, share, margin):
    rng = np.random.default_rng(seed)
    y1, chances = law(rng, rng.integers(-5, 20), stage_1)
    rest, rest_chances = law(rng, -(others // 2), others)
    weights = np.full(stage_1, rng.random() * 0.9) if gaussian else rng.random(stage_1) * 0.9
    below = np.concatenate([[0.0], np.cumsum(law(rng, -own, 2 * own + 1)[1])])
    choice, others, ends = (y1, chances, weights), (rest, rest_chances), (-margin, margin)
    arguments = (7.0, ends, share, choice, others, below, rising(rng, gaussian, 40))
    assert interval_chance(*arguments) == pytest.approx(interval_chance_reference(*arguments), abs=1e-9)


@given(seed=st.integers(0, 2**32 - 1), stage_1=st.integers(1, 30), n=st.integers(1, 40))
def test_the_mean_squared_error_is_that_of_its_twin(seed, stage_1, n):
    rng = np.random.default_rng(seed)
    arguments = (
        7.0,
        rng.random() * 0.9,
        law(rng, -3, stage_1),
        law(rng, -(n // 2), n),
        rising(rng, True, 40),
    )
    assert mean_squared_error(*arguments) == pytest.approx(
        mean_squared_error_reference(*arguments), rel=1e-12
    )


def test_the_chance_of_everything_is_one_and_of_nothing_is_zero():
    rng = np.random.default_rng(3)
    y1, chances = law(rng, 60, 8)
    rest, rest_chances = law(rng, -4, 9)
    below = np.concatenate([[0.0], np.cumsum(law(rng, -6, 13)[1])])
    choice, nothing = (y1, chances, np.full(8, 0.1)), (np.empty(0), np.empty(0))
    laplace = (0.5, choice, (rest, rest_chances), below, nothing)
    assert interval_chance(60.0, (-1e6, 1e6), *laplace) == pytest.approx(1, abs=1e-12)
    assert interval_chance(60.0, (0.5, 0.4), *laplace) == 0
