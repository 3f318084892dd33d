"""Exact numbers out of text."""

from fractions import Fraction

import pytest

from tallyveil.budget.strategy import parse_fraction


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("104/4099", Fraction(104, 4099)),
        ("-1/2", Fraction(-1, 2)),
        (" 3/9 ", Fraction(1, 3)),
        ("3", Fraction(3)),
        (7, Fraction(7)),
        ("0.25", Fraction(1, 4)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("1e-10", Fraction(1, 10**10)),
        ("2.5E+2", Fraction(250)),
    ],
)
def test_text_stands_for_exactly_one_number(text, value: Fraction) -> None:
    assert parse_fraction(text, "delta") == value
