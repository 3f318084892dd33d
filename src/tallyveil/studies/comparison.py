"""A printed number beside ours."""

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction


class Kind(StrEnum):
    """What a printed number claims.

    VALUE: it is the quantity, rounded.
    UPPER_BOUND: the quantity is at most this.
    OTHER_DATA: it was measured on data we do not have, or by draws that cannot be repeated; shown for the
        reader, never judged.
    """

    VALUE = "value"
    UPPER_BOUND = "upper_bound"
    OTHER_DATA = "other_data"


class Verdict(StrEnum):
    """How a printed number stands to ours."""

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
        text: Its digits, such as "54.19" or "3e-37"; the rounding follows from them.
        source: Where it stands in the paper.
        kind: What it claims.
        remark: What is known about it, for the reader; may be empty.
    """

    text: str
    source: str
    kind: Kind = Kind.VALUE
    remark: str = ""

    @property
    def value(self) -> Fraction:
        """The number itself."""
        return Fraction(self.text)

    @property
    def unit(self) -> Fraction:
        """One unit of its last digit."""
        mantissa, _, exponent = self.text.lower().partition("e")
        decimals = len(mantissa.partition(".")[2])
        return Fraction(10) ** (int(exponent or 0) - decimals)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A printed number and what we compute for the same quantity.

    Attributes:
        quantity: What it is, in words.
        printed: The paper's number.
        ours: Our number: an upper bound where the quantity is known from both sides.
    """

    quantity: str
    printed: PrintedNumber
    ours: float

    @property
    def verdict(self) -> Verdict:
        """Agreement up to the paper's own rounding."""
        if self.printed.kind is Kind.OTHER_DATA:
            return Verdict.NOT_JUDGED
        is_bound = self.printed.kind is Kind.UPPER_BOUND
        if not math.isfinite(self.ours):
            return Verdict.VIOLATED if is_bound else Verdict.DIFFERS
        difference = Fraction(self.ours) - self.printed.value
        if is_bound:
            return Verdict.HOLDS if difference <= 0 else Verdict.VIOLATED
        if 2 * abs(difference) <= self.printed.unit:
            return Verdict.AGREES
        return Verdict.LAST_DIGIT if abs(difference) <= self.printed.unit else Verdict.DIFFERS
