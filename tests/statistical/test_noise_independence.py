"""Draws at neighbouring addresses are unrelated."""

from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import chi2

from tallyveil.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseSource,
    derive_key,
    insecure_key,
)

LAW = DiscreteGaussian(Fraction("68.49"))
KEY = insecure_key("independence")
N_ROWS, N_ANSWERS = 1000, 2016


def draws(
    *, key: bytes = KEY, geolevel: int = 2, query: int = 5, first: int = 0, law: DiscreteGaussian = LAW
) -> npt.NDArray[np.int64]:
    return NoiseSource(key).dense(law, geolevel, query, range(first, first + N_ROWS), N_ANSWERS)


@cache
def base() -> npt.NDArray[np.int64]:
    return draws()


NEIGHBOURS = {
    "next geolevel": lambda: draws(geolevel=3),
    "next query": lambda: draws(query=6),
    "next geounit": lambda: draws(first=1),
    "geounit with one high bit": lambda: draws(first=1 << 35),
    "next answer": lambda: np.roll(base(), 1, axis=1),
    "next block": lambda: np.roll(base(), 8, axis=1),
    "key bound to another input": lambda: draws(key=derive_key(KEY, "measure", b"other")),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours_are_uncorrelated(name: str) -> None:
    x, y = base().reshape(-1), NEIGHBOURS[name]().reshape(-1)
    correlation = float(np.corrcoef(x, y)[0, 1])
    squares = float(np.corrcoef(x**2, y**2)[0, 1])
    bound = 5 / np.sqrt(x.size)
    assert abs(correlation) < bound
    assert abs(squares) < bound


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours_are_independent(name: str) -> None:
    # Sixteen classes of equal-ish size, plus the parity, against each other.
    edges = [-12, -9, -6, -3, 0, 3, 7]
    x, y = (
        2 * np.digitize(values, edges) + values % 2 for values in (base().ravel(), NEIGHBOURS[name]().ravel())
    )
    table = np.bincount(16 * x + y, minlength=256).reshape(16, 16)
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    assert 1e-6 < chi2.sf(statistic, 15 * 15) < 1 - 1e-6


def test_rows_and_columns_have_the_right_spread() -> None:
    variance = LAW.variance_float()
    for axis, n in ((0, N_ROWS), (1, N_ANSWERS)):
        sums = base().sum(axis=axis)
        statistic = float((sums.astype(float) ** 2).sum() / (n * variance))
        assert 1e-6 < chi2.sf(statistic, sums.size) < 1 - 1e-6


def test_these_tests_can_fail() -> None:
    # The same address under two laws shares its digits: what binding the key to the plan rules out.
    same = NoiseSource(KEY).dense(DiscreteLaplace(Fraction(6)), 2, 5, range(N_ROWS), N_ANSWERS)
    assert np.corrcoef(base().ravel(), same.ravel())[0, 1] > 0.9
