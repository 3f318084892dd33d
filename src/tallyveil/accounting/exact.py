"""Exact numbers as text."""

from fractions import Fraction


def exact_text(value: Fraction) -> str:
    """The fraction and, unless it is an integer, its decimal: `293764/114921 (2.556225)`."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{value} ({float(value):.7g})"
