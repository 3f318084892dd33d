"""Arrays of noise: the draws are those of the source at addresses of their own."""

from fractions import Fraction

import numpy as np
import pytest

from tallyveil import noise
from tallyveil.errors import BudgetError, ConfigError, SchemaError
from tallyveil.exact import as_given
from tallyveil.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseSource,
    discrete_gaussian,
    discrete_laplace,
    insecure_key,
)

KEY = insecure_key("samples")


def test_the_draws_are_those_of_the_source():
    drawn = discrete_gaussian("68.49", (3, 4), key=KEY, number=7)
    source = NoiseSource(KEY).dense(DiscreteGaussian(Fraction("68.49")), 0, 7, range(1), 12)
    assert drawn.dtype == np.int64
    assert np.array_equal(drawn, source.reshape(3, 4))
    assert not np.array_equal(drawn, discrete_gaussian("68.49", (3, 4), key=KEY, number=8))


def test_laplace_draws_are_those_of_the_source_and_the_first_number_is_0():
    drawn = discrete_laplace("5/2", 12, key=KEY)
    source = NoiseSource(KEY).dense(DiscreteLaplace(Fraction(5, 2)), 0, 0, range(1), 12)
    assert np.array_equal(drawn, source[0])
    assert np.array_equal(drawn, discrete_laplace("5/2", 12, key=KEY, number=0))
    assert np.array_equal(discrete_gaussian(4, 12, key=KEY), discrete_gaussian(4, 12, key=KEY, number=0))


def test_without_a_key_every_call_is_new():
    assert not np.array_equal(discrete_laplace(5, 64), discrete_laplace(5, 64))
    assert discrete_laplace(5).shape == ()


@pytest.mark.parametrize(
    ("draw", "variance"),
    [
        (lambda: discrete_gaussian("7/2", 100_000, key=KEY), 3.5),
        (lambda: discrete_laplace(2, 100_000, key=KEY), 2 * np.exp(0.5) / np.expm1(0.5) ** 2),
    ],
)
def test_mean_and_variance(draw, variance):
    """Six standard errors; a law with a variance 5 % larger fails."""
    drawn = draw()
    assert abs(drawn.mean()) < 6 * np.sqrt(variance / drawn.size)
    assert abs(drawn.var() / variance - 1) < 0.045


def test_what_is_refused():
    with pytest.raises(BudgetError, match="variance must be an exact number, got 2"):
        discrete_gaussian(2.5, 3)
    with pytest.raises(BudgetError, match="wanted a value from"):
        discrete_laplace(0, 3)
    with pytest.raises(BudgetError, match=r"^scale must be an exact number, got 2"):
        discrete_laplace(2.5, 3)
    with pytest.raises(ConfigError, match="32 bytes"):
        discrete_gaussian(2, 3, key=b"short")
    with pytest.raises(SchemaError, match="query is 65536"):
        discrete_gaussian(2, 3, number=1 << 16)
    with pytest.raises(AttributeError, match="no attribute"):
        _ = noise.gaussian  # type: ignore[attr-defined]


@pytest.mark.parametrize("shape", [2.5, "3", None, (2, "3"), True, -1, (-2, -3)])
def test_what_is_no_shape_is_refused(shape):
    with pytest.raises(SchemaError) as caught:
        discrete_gaussian(4, shape)
    assert str(caught.value).startswith(f"shape is {as_given(shape)}, wanted")


@pytest.mark.parametrize("number", [1.5, "1", None, True])
def test_what_is_no_number_of_an_array_is_refused(number):
    with pytest.raises(SchemaError) as caught:
        discrete_laplace(4, 2, key=bytes(32), number=number)
    assert str(caught.value).startswith(f"number is {as_given(number)}, wanted")


def test_shapes_may_come_from_numpy():
    assert discrete_gaussian(4, np.int64(3)).shape == discrete_gaussian(4, [3]).shape == (3,)


def test_arrays_may_be_empty():
    assert discrete_gaussian(4, 0).shape == (0,)
    assert discrete_gaussian(4, (2, 0, 3)).shape == (2, 0, 3)


@pytest.mark.parametrize("text", [None, 5, b"x", "secret\udcff"])
def test_a_test_key_is_made_of_text(text):
    with pytest.raises(ConfigError, match="wanted text") as caught:
        insecure_key(text)
    assert "secret" not in str(caught.value)
