"""Printed bounds stay on the safe side of the number they stand for."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.accounting.numbers import Bounds, at_least, at_most, both_ends, delta_text, short_decimal

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
FRACTIONS = st.fractions() | st.builds(
    lambda n, d, e: Fraction(n, d) * Fraction(10) ** e,
    st.integers(-(10**20), 10**20),
    st.integers(1, 10**20),
    st.integers(-340, 300),
)


@pytest.mark.parametrize(
    ("value", "upper", "lower"),
    [
        (0.0, "0", "0"),
        (3, "3", "3"),
        (Fraction(1, 3), "0.333334", "0.333333"),
        (Fraction(-1, 3), "-0.333333", "-0.333334"),
        (16.46468, "16.4647", "16.4646"),
        (99.99999999, "100", "99.9999"),
        (Fraction(1, 10**10), "1e-10", "1e-10"),
        (1e-10, "1.00001e-10", "1e-10"),  # the float is a little above the decimal
        (12345678, "12345700", "12345600"),
        (Fraction(10) ** 20, "1e+20", "1e+20"),
        (math.inf, "infinity", "infinity"),
        (-math.inf, "minus infinity", "minus infinity"),
    ],
)
def test_a_number_is_rounded_in_the_direction_of_its_claim(
    value: Fraction | float, upper: str, lower: str
) -> None:
    assert (at_most(value), at_least(value)) == (upper, lower)


def test_places_keep_their_zeros() -> None:
    assert at_most(2.5, places=3) == "2.500"
    assert at_most(17.1431, places=3) == "17.144"
    assert at_least(-0.0001, places=3) == "-0.001"
    assert at_most(-0.0001, places=3) == "0.000"
    assert at_most(7, places=0) == "7"


@given(FLOATS | FRACTIONS, st.integers(1, 17))
def test_what_is_printed_is_on_the_safe_side(value: Fraction | float, digits: int) -> None:
    exact = Fraction(value)
    above, below = Fraction(at_most(value, digits)), Fraction(at_least(value, digits))
    assert below <= exact <= above
    assert above - below <= abs(exact) * Fraction(10) ** (1 - digits)


@given(FLOATS | FRACTIONS, st.integers(0, 12))
def test_places_are_on_the_safe_side(value: Fraction | float, places: int) -> None:
    exact = Fraction(value)
    above, below = Fraction(at_most(value, places=places)), Fraction(at_least(value, places=places))
    assert below <= exact <= above
    # A number of more than 16 digits before the point has six digits, and no places.
    assert above - below <= (Fraction(1, 10**places) if abs(exact) < 10**16 else abs(exact) / 10**5)


@given(FLOATS, st.floats(0, 1e300), st.integers(0, 3))
def test_the_gap_between_two_ends_stays_visible(lower: float, gap: float, ulps: int) -> None:
    upper = lower + gap if math.isfinite(lower + gap) else lower
    for _ in range(ulps):
        upper = math.nextafter(upper, math.inf)
    if not math.isfinite(upper):
        return
    low, high = (Fraction(text) for text in both_ends(Bounds(lower, upper)))
    assert low <= Fraction(lower) <= Fraction(upper) <= high
    if lower != upper:
        assert low < high
        # Six digits, or a gap that is shown as at most four times what it is.
        coarse = Fraction(10) ** -5 * max(abs(Fraction(lower)), abs(Fraction(upper)))
        fine = Fraction(10) ** -16 * max(abs(Fraction(lower)), abs(Fraction(upper)))
        shown, true = high - low, Fraction(upper) - Fraction(lower)
        assert shown <= max(3 * true, true + 2 * fine)
        assert shown <= true + 2 * coarse


def test_close_bounds_are_told_apart() -> None:
    assert both_ends(Bounds(16.464679123456, 16.464679123499)) == ("16.46467912345", "16.4646791235")
    assert both_ends(Bounds(0.0, 17.125)) == ("0", "17.125")
    assert both_ends(Bounds(2.0, 2.0)) == ("2", "2")


def test_an_exact_number_is_a_decimal_where_it_has_one() -> None:
    assert short_decimal(Fraction(1, 4)) == "0.25"
    assert short_decimal(Fraction(1, 3)) == "1/3"
    assert short_decimal(Fraction(4603, 1000)) == "4.603"


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        ("1e-10", "1e-10"),
        ("1e-9", "1e-09"),
        ("0.999999999", "0.999999999"),
        ("0.99999999999999999999", "1 - 1e-20"),
        ("1/3", "0.333334"),
        ("1e-400", "1e-400"),
    ],
)
def test_a_delta_is_shown_as_it_was_given_and_never_as_1(delta, text):
    assert delta_text(Fraction(delta)) == text


def test_places_do_not_fill_a_line_with_zeros():
    assert at_most(Fraction(10) ** 400, places=3) == "1e+400"
    assert at_most(Fraction(10) ** 15, places=3) == "1000000000000000.000"
