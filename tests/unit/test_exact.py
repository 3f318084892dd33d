"""The one place where text becomes an exact number: bounded before anything is computed."""

import time
from fractions import Fraction

import pytest

from tallyveil.accounting import DiscreteGaussian
from tallyveil.exact import (
    MOST_DIGITS,
    MOST_SHOWN,
    as_given,
    exactly,
    fraction_of,
    in_short,
    whole_number_of,
)


@pytest.mark.parametrize(
    "text",
    ["1e99999999", "1e1000", "9" * (MOST_DIGITS + 1), "1/" + "9" * 5000, "0." + "9" * 5000, "1/0", "²", "٣"],
    ids=lambda text: text[:12],
)
def test_what_would_fill_the_memory_or_is_no_number_is_none_at_once(text):
    started = time.process_time()
    assert fraction_of(text) is None
    assert time.process_time() - started < 1


def test_the_longest_numbers_are_read():
    digits = "9" * MOST_DIGITS
    assert fraction_of(f"{digits}/{digits}") == 1
    assert fraction_of(f"{digits}.{digits}e-999") == Fraction(f"{digits}.{digits}e-999")
    assert whole_number_of(digits) == int(digits)


@pytest.mark.parametrize("text", ["", "²", "٣", "-1", "1.0", "9" * 5000], ids=lambda text: text[:12])
def test_a_count_is_ascii_digits(text):
    assert whole_number_of(text) is None


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (Fraction(-5), "-5"),
        (Fraction(7, 3), "7/3"),
        (0.5, "0.5"),
        ("5", "'5'"),
        (None, "None"),
        (DiscreteGaussian("5/2"), "DiscreteGaussian(variance=5/2, sensitivity=1, multiplicity=1)"),
    ],
)
def test_messages_show_a_value_as_it_is_written(value, wanted):
    assert as_given(value) == wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (Fraction(0), "0"),
        (Fraction(1, 3), "0.333333"),
        (Fraction(-5), "-5"),
        (Fraction("1e400"), "10**400"),
        (Fraction("-1e400"), "-10**400"),
        (Fraction("1e-400"), "10**-400"),
        (Fraction("1e9000"), "10**9000"),
    ],
)
def test_numbers_that_no_float_holds_are_shown_in_short(value, wanted):
    assert in_short(value) == wanted


def test_messages_cut_off_a_long_value():
    assert as_given("9" * 5000) == "'" + "9" * (MOST_SHOWN - 1) + "..."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("7/3", "7/3"),
        ("1e400", "1e400"),
        ("-2.5e400", "-2.5e400"),
        ("1e-400", "1e-400"),
        ("12345678901234567e60", "1.2345678901234567e76"),
    ],
)
def test_a_message_is_not_filled_with_zeros(value, text):
    assert exactly(Fraction(value)) == as_given(Fraction(value)) == text


def test_a_long_number_of_many_digits_is_written_in_full():
    assert exactly(Fraction(10) ** 40 + 1) == "1" + "0" * 39 + "1"
