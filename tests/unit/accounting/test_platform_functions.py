"""The platform's functions are as accurate as the accountant's bounds assume: 16 units in the last place.

docs/proofs/quadrature.md lists them and says where each is used.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from flint import arb, ctx
from numba import njit, vectorize

ASSUMED_UNITS = 16
RANDOM = np.random.default_rng(20260101)


def spread(low: float, high: float, n: int = 1500) -> np.ndarray:
    """Points over a range, dense near zero, of both signs where the range has both."""
    sizes = np.exp(RANDOM.uniform(math.log(1e-12), math.log(max(abs(low), abs(high))), n))
    signs = RANDOM.choice([-1.0, 1.0], n) if low < 0 < high else np.full(n, -1.0 if low < 0 else 1.0)
    points = np.concatenate([sizes * signs, RANDOM.uniform(low, high, n)])
    return points[(points >= low) & (points <= high)]


RANGES = {
    "exp": (-700.0, 700.0),
    "expm1": (-700.0, 700.0),
    "log": (0.0, 1e6),
    "log1p": (-0.999, 1e6),
    "sin": (-math.pi, math.pi),
    "cos": (-math.pi, math.pi),
    "erfc": (-5.0, 8.0),
}


def compiled(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    """The function as numba calls it in a compiled loop."""

    @vectorize(["float64(float64)"])
    def call(x: float) -> float:
        return function(x)

    return call


WAYS: dict[str, Callable[[str, np.ndarray], np.ndarray | None]] = {
    "python": lambda name, x: np.array([getattr(math, name)(value) for value in x.tolist()]),
    "numpy": lambda name, x: getattr(np, name)(x) if hasattr(np, name) else None,
    "numba": lambda name, x: compiled(getattr(math, name))(x),
}


def exact(name: str, value: float) -> arb:
    """The function of a float, in a ball of 120 bits."""
    return getattr(arb(value), name)()


@pytest.mark.parametrize("name", RANGES)
def test_a_function_is_right_to_the_units_assumed(name: str) -> None:
    x = spread(*RANGES[name])
    bits, ctx.prec = ctx.prec, 120
    try:
        wanted = [exact(name, value) for value in x.tolist()]
        for way, call in WAYS.items():
            found = call(name, x)
            if found is None:
                continue
            for value, got, ball in zip(x.tolist(), found.tolist(), wanted, strict=True):
                unit = math.ulp(got)
                assert abs(arb(got) - ball) <= ASSUMED_UNITS * arb(unit), (way, value)
    finally:
        ctx.prec = bits


def test_the_complex_exponential_is_right_to_the_units_assumed() -> None:
    angles, sizes = spread(-math.pi, math.pi), spread(-300.0, 1.0)
    points = sizes[: len(angles)] + 1j * angles[: len(sizes)]

    @njit
    def in_a_loop(z: np.ndarray) -> np.ndarray:
        return np.exp(z)

    bits, ctx.prec = ctx.prec, 120
    try:
        for found in (np.exp(points), in_a_loop(points)):
            for z, got in zip(points.tolist(), found.tolist(), strict=True):
                size = arb(z.real).exp()
                wanted = size * arb(z.imag).cos(), size * arb(z.imag).sin()
                slack = ASSUMED_UNITS * arb(math.ulp(abs(got)))
                assert abs(arb(got.real) - wanted[0]) <= slack
                assert abs(arb(got.imag) - wanted[1]) <= slack
    finally:
        ctx.prec = bits
