"""The one place where text becomes an exact number: bounded before anything is computed."""

import time
from fractions import Fraction

import pytest

from tallyveil.exact import MOST_DIGITS, fraction_of, whole_number_of


@pytest.mark.parametrize(
    "text",
    ["1e99999999", "1e1000", "9" * (MOST_DIGITS + 1), "1/" + "9" * 5000, "0." + "9" * 5000, "1/0", "²", "٣"],
    ids=lambda text: text[:12],
)
def test_what_would_fill_the_memory_or_is_no_number_is_none_at_once(text):
    started = time.perf_counter()
    assert fraction_of(text) is None
    assert time.perf_counter() - started < 1


def test_the_longest_numbers_are_read():
    digits = "9" * MOST_DIGITS
    assert fraction_of(f"{digits}/{digits}") == 1
    assert fraction_of(f"{digits}.{digits}e-999") == Fraction(f"{digits}.{digits}e-999")
    assert whole_number_of(digits) == int(digits)


@pytest.mark.parametrize("text", ["", "²", "٣", "-1", "1.0", "9" * 5000], ids=lambda text: text[:12])
def test_a_count_is_ascii_digits(text):
    assert whole_number_of(text) is None
