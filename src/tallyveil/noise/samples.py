"""Arrays of exact integer noise, for use outside releases.

A release draws at addresses of its own (`tallyveil.noise.source`). These functions draw whole arrays at addresses that
nothing else uses: the array has a number, and an entry has its place in the array.
"""

import math
from fractions import Fraction
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import BudgetError, SchemaError
from tallyveil.exact import as_given, exact_value
from tallyveil.noise.key import new_run_key
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace, Law
from tallyveil.noise.source import NoiseSource

Exact = Fraction | int | str
Shape = int | tuple[int, ...]


def discrete_gaussian(
    variance: Exact, shape: Shape = (), *, key: bytes | None = None, number: int = 0
) -> NDArray[np.int64]:
    """Draws from the discrete Gaussian law, whose weights are proportional to exp(-x^2 / (2 variance)).

    Args:
        variance: The law's parameter: a fraction, an integer, or text such as "68.49". Floats are refused.
        shape: Shape of the array.
        key: 32 bytes from which the draws follow; None for new random bytes from the operating system.
        number: Number of the array, 0 to 65535. Arrays of one key need different numbers. If they have the same
            number, they get the same draws, and their difference shows what the noise should hide.
    Returns:
        Independent draws with exactly this law, int64.
    Raises:
        BudgetError: the variance is no exact number, or is out of range.
        ConfigError: the key is not 32 bytes.
        GeographyError, SchemaError: the number or the size is out of range.
    Privacy: whoever knows the key can subtract the noise. Do not publish it.
    Source: Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy".
    """
    return _draws(DiscreteGaussian(_exact(variance, "variance")), shape, key, number)


def discrete_laplace(
    scale: Exact, shape: Shape = (), *, key: bytes | None = None, number: int = 0
) -> NDArray[np.int64]:
    """Draws from the discrete Laplace law, whose weights are proportional to exp(-|x| / scale).

    Args:
        scale: The law's parameter, as for the variance of `discrete_gaussian`. With sensitivity 1, epsilon is
            1 / scale.
        shape, key, number: As for `discrete_gaussian`. The two laws must not share a key and a number.
    Returns:
        Independent draws with exactly this law, int64.
    Raises:
        BudgetError, ConfigError, GeographyError, SchemaError: as `discrete_gaussian`.
    Privacy: as `discrete_gaussian`.
    """
    return _draws(DiscreteLaplace(_exact(scale, "scale")), shape, key, number)


def _draws(law: Law, shape: Shape, key: bytes | None, number: int) -> NDArray[np.int64]:
    lengths = _lengths(shape)
    if not _is_whole(number):
        raise SchemaError(f"number is {as_given(number)}, wanted a whole number from 0 to 65535.")
    # Kind, geolevel 0 and geounit 0 are the same for all arrays; only the number, in the query's field, tells them
    # apart.
    source = NoiseSource(new_run_key() if key is None else key)
    # One row with all entries: an entry's draw depends on its place alone, so a longer array begins with the same
    # draws. `prod` is of Python's integers and cannot overflow.
    draws: NDArray[np.int64] = source.dense(law, 0, int(number), range(1), math.prod(lengths))
    return draws.reshape(lengths)


def _lengths(shape: object) -> tuple[int, ...]:
    """The length of each dimension; raises SchemaError."""
    # A list is taken as well, as numpy takes it. Nothing is cast: 2.0 is refused.
    dimensions = shape if isinstance(shape, tuple | list) else (shape,)
    lengths = [int(length) for length in dimensions if _is_whole(length)]
    if len(lengths) != len(dimensions) or min(lengths, default=0) < 0:
        raise SchemaError(
            f"shape is {as_given(shape)}, wanted a whole number, 0 or more, or a tuple of such numbers."
        )
    return tuple(lengths)


def _is_whole(number: object) -> TypeGuard[int]:
    # True is an integer of Python, and would pass for 1.
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _exact(value: Exact, name: str) -> Fraction:
    exact = exact_value(value)
    if exact is None:
        raise BudgetError(
            f"{name} must be an exact number, got {as_given(value)}. Give a Fraction, an integer, or text such as "
            "'68.49'; a float is not the decimal it was written as."
        )
    return exact
