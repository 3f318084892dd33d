"""Compare a number printed in a paper with ours."""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction


class PrintedClaim(StrEnum):
    """What a printed number claims.

    VALUE: the number is the quantity, rounded.
    UPPER_BOUND: the quantity is at most this number.
    OTHER_DATA: the number was measured on data that we do not have, or with draws that cannot be repeated. It is shown
        to the reader, but not judged.
    """

    VALUE = "value"
    UPPER_BOUND = "upper_bound"
    OTHER_DATA = "other_data"


class Verdict(StrEnum):
    """The result of comparing a printed number with ours."""

    AGREES = "agrees"
    LAST_DIGIT = "within one unit of the last digit"
    DIFFERS = "differs"
    HOLDS = "bound holds"
    VIOLATED = "bound violated"
    NOT_JUDGED = "other data"


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A number as a paper prints it.

    Attributes:
        text: Its digits, such as "54.19" or "3e-37". They also show how it was rounded.
        source: Its place in the paper.
        kind: What it claims.
        remark: A remark for the reader; may be empty.
    """

    text: str
    source: str
    kind: PrintedClaim = PrintedClaim.VALUE
    remark: str = ""

    @property
    def value(self) -> Fraction:
        """The number as an exact fraction."""
        return Fraction(self.text)

    @property
    def unit(self) -> Fraction:
        """One unit of its last digit."""
        mantissa, _, exponent = self.text.lower().partition("e")
        # Trailing zeros count: "5.00" is known to a hundredth.
        decimals = len(mantissa.partition(".")[2])
        return Fraction(10) ** (int(exponent or 0) - decimals)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A printed number and what we compute for the same quantity.

    Attributes:
        quantity: Name of the quantity, in words.
        printed: The paper's number.
        ours: Our number. If we have a lower and an upper bound, it is the upper bound. A fraction is exact.
    """

    quantity: str
    printed: PrintedNumber
    ours: float | Fraction

    @property
    def verdict(self) -> Verdict:
        """Whether the numbers agree, given how the paper rounded its number."""
        if self.printed.kind is PrintedClaim.OTHER_DATA:
            return Verdict.NOT_JUDGED
        is_bound = self.printed.kind is PrintedClaim.UPPER_BOUND
        # Infinity has no exact fraction.
        if isinstance(self.ours, float) and not math.isfinite(self.ours):
            return Verdict.VIOLATED if is_bound else Verdict.DIFFERS
        difference = Fraction(self.ours) - self.printed.value
        if is_bound:
            return Verdict.HOLDS if difference <= 0 else Verdict.VIOLATED
        # Half a unit of the last digit: the number rounds to the printed one. Exactly, in fractions.
        if 2 * abs(difference) <= self.printed.unit:
            return Verdict.AGREES
        return Verdict.LAST_DIGIT if abs(difference) <= self.printed.unit else Verdict.DIFFERS
