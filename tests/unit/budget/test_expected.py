"""Expected error before any data is seen."""

import dataclasses
import math
from fractions import Fraction

import pytest

from tallyveil.accounting import Neighbours
from tallyveil.budget.strategy import Mechanism, Strategy, expected_errors

STRATEGY = Strategy(
    Mechanism.DISCRETE_LAPLACE,
    Neighbours.UNBOUNDED,
    Fraction(1),
    (("State", Fraction(1, 5)), ("Block", Fraction(4, 5))),
    (
        ("State", (("total", Fraction(1)),)),
        ("Block", (("total", Fraction(1, 4)), ("detailed", Fraction(3, 4)))),
    ),
)


def test_one_row_for_each_geolevel_and_query_in_order() -> None:
    rows = expected_errors(STRATEGY)
    assert [(row.geolevel, row.query, row.share) for row in rows] == [
        ("State", "total", Fraction(1, 5)),
        ("Block", "total", Fraction(1, 5)),
        ("Block", "detailed", Fraction(3, 5)),
    ]
    assert [row.parameter for row in rows] == [5, 5, Fraction(5, 3)]


def test_laplace_error_is_that_of_the_two_sided_geometric_law() -> None:
    row = expected_errors(STRATEGY)[0]
    ratio = math.exp(-1 / 5)
    assert row.variance == pytest.approx(2 * ratio / (1 - ratio) ** 2, rel=1e-12)
    assert row.standard_deviation == pytest.approx(math.sqrt(row.variance), rel=1e-12)
    # P(|X| <= m) = 1 - 2 ratio^(m + 1) / (1 + ratio)
    assert 2 * ratio ** (row.margin + 1) / (1 + ratio) <= 0.05 < 2 * ratio**row.margin / (1 + ratio)


def test_gaussian_error_is_that_of_the_discrete_law() -> None:
    gaussian = dataclasses.replace(STRATEGY, mechanism=Mechanism.DISCRETE_GAUSSIAN)
    row = expected_errors(gaussian)[2]
    assert row.parameter == Fraction(5, 6)
    weights = {x: math.exp(-(x**2) / (2 * 5 / 6)) for x in range(-40, 41)}
    total = math.fsum(weights.values())
    variance = math.fsum(x**2 * weight for x, weight in weights.items()) / total
    assert row.variance == pytest.approx(variance, rel=1e-12)
    inside = math.fsum(weight for x, weight in weights.items() if abs(x) <= row.margin) / total
    closer = math.fsum(weight for x, weight in weights.items() if abs(x) < row.margin) / total
    assert closer < 0.95 <= inside


def test_more_confidence_is_a_wider_margin() -> None:
    wide = expected_errors(STRATEGY, Fraction(99, 100))
    assert all(w.margin > n.margin for w, n in zip(wide, expected_errors(STRATEGY), strict=True))
