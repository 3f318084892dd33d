"""Printed numbers: their rounding, and what they say of ours."""

from fractions import Fraction

import pytest

from tallyveil_studies.exhibit import Comparison, PrintedClaim, PrintedNumber, Verdict


@pytest.mark.parametrize(
    ("text", "unit"), [("54.19", "0.01"), ("5.00", "0.01"), ("7", "1"), ("3e-37", "1e-37"), ("2.5e3", "100")]
)
def test_unit_of_the_last_digit(text, unit):
    assert PrintedNumber(text, "Table 1").unit == Fraction(unit)


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (54.1949, Verdict.AGREES),
        (54.1851, Verdict.AGREES),
        (54.1961, Verdict.LAST_DIGIT),
        (54.1811, Verdict.LAST_DIGIT),
        (54.2011, Verdict.DIFFERS),
        (float("inf"), Verdict.DIFFERS),
    ],
)
def test_values_agree_up_to_their_rounding(ours, verdict):
    assert Comparison("variance", PrintedNumber("54.19", "Table 1"), ours).verdict is verdict


def test_bounds_hold_or_not():
    printed = PrintedNumber("3e-37", "Table 2", PrintedClaim.UPPER_BOUND)
    assert Comparison("residual", printed, 2.9e-37).verdict is Verdict.HOLDS
    assert Comparison("residual", printed, 3.1e-37).verdict is Verdict.VIOLATED


def test_other_data_is_never_judged():
    printed = PrintedNumber("14.14", "Section 3.2", PrintedClaim.OTHER_DATA)
    assert Comparison("reduction", printed, 14.14).verdict is Verdict.NOT_JUDGED
