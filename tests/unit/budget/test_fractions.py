"""Exact numbers out of text."""

from fractions import Fraction

import pytest

from tallyveil.budget.strategy import parse_fraction
from tallyveil.errors import ConfigError


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


def test_a_float_is_refused_with_the_string_to_write() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_fraction(0.1, "geolevel_shares.US")
    assert "geolevel_shares.US is the float 0.1" in str(caught.value)
    assert 'Write it as a string: "0.1"' in str(caught.value)


@pytest.mark.parametrize(
    "value",
    ["", "1/", "/2", "1/2/3", "a", "1 / 2", "0x10", "1_000", "nan", "inf", "1e9999", "٣", True, None, []],
)
def test_anything_else_is_refused(value) -> None:
    with pytest.raises(ConfigError, match=r"shares.x is .* no exact number"):
        parse_fraction(value, "shares.x")


def test_a_fraction_over_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match="no exact number"):
        parse_fraction("1/0", "delta")
