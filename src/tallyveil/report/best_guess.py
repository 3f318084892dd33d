"""What a release lets somebody find out about one record, as a share of right guesses between two possibilities.

The two possibilities are neighbours, and equally likely before the release. The best guess between laws P and Q is
right with probability (1 + TV) / 2, where TV is their total variation distance.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from tallyveil.accounting.events import Neighbours, PrivacyEvent, SequentialEvent
from tallyveil.accounting.ledger.lines import Declaration, LedgerEntry
from tallyveil.accounting.numbers import at_most
from tallyveil.accounting.proved import composition_of
from tallyveil.accounting.renyi import zcdp_to_delta
from tallyveil.report.points import NumberTile
from tallyveil.schema.schema import Unit

_SLOWEST: Final = "gridded"
"""The engine that takes seconds for each number. The cost bounds the guess in its place."""

_ROUNDING: Final = 1e-12
"""More than the rounding errors of a few operations on floats between 0 and 1."""

_NOTHING: Final = Fraction(9995, 10000)
"""From this share on, the text says that the bound promises next to nothing."""

NO_SECRET: Final = "This would hold if the key of the noise were secret, which it is not. "


def composed_guess(entries: Sequence[LedgerEntry], declaration: Declaration) -> Fraction:
    """Upper bound of the share of right guesses, from the exact composition of everything that a ledger spends."""
    event: PrivacyEvent = SequentialEvent(tuple(entry.event for entry in entries if entry.cost is not None))
    guarantee = composition_of(event, declaration.neighbours)
    # A page does not wait for it; the bound by cost is weaker and still true.
    if _SLOWEST in guarantee.engines:
        return guess_of_cost(entries, declaration)
    # The advantage is the total variation distance, which is 1 at most; its upper bound may be a little
    # above.
    return (1 + Fraction(min(guarantee.advantage().upper, 1.0))) / 2


def guess_of_cost(entries: Sequence[LedgerEntry], declaration: Declaration) -> Fraction:
    """Upper bound of the share of right guesses that follows from the cost alone."""
    cost = sum((entry.cost for entry in entries if entry.cost is not None), Fraction(0))
    if declaration.budget_unit == "epsilon":
        return guess_of_pair(float(cost), 0.0)
    # delta at epsilon 0 is the total variation distance.
    return (1 + Fraction(zcdp_to_delta(cost, Fraction(0)))) / 2


def guess_of_pair(epsilon: float, delta: float) -> Fraction:
    """Upper bound of the share of right guesses under (epsilon, delta)-differential privacy.

    Source: Kairouz, Oh, Viswanath 2015, Theorem 2.1: TV <= (e^epsilon - 1 + 2 delta) / (e^epsilon + 1).
    """
    # exp overflows above 709; from 700 on the guess is right with certainty to every digit.
    wrong = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    return min(Fraction(1), 1 - Fraction(wrong) + Fraction(_ROUNDING))


def guess_words(right: Fraction, neighbours: Neighbours, unit: Unit) -> str:
    """What the bound means, in sentences."""
    return f"{_setting(neighbours, unit)} {_outcome(right)}"


def guess_text(right: Fraction) -> str:
    """The bound as a percentage, rounded up."""
    # Rounded up: a bound may not be understated.
    return f"{at_most(100 * right, places=1)} %"


def guess_tile(right: Fraction, unit: Unit, *, is_protected: bool) -> NumberTile:
    """The bound as a number that stands out; everything can be known if the key of the noise is not secret."""
    name = f"Best guess about one {unit.one}"
    # With a known key the noise can be subtracted.
    if not is_protected:
        return NumberTile(name, "100 %", "right, since the key of the noise is not secret")
    return NumberTile(name, guess_text(right), "right at most; 50 % without the release")


def _setting(neighbours: Neighbours, unit: Unit) -> str:
    if neighbours is Neighbours.BOUNDED:
        return (
            f"Suppose that somebody knows everything but one {unit.one}’s record, which says one of two things, both "
            "equally likely."
        )
    return (
        f"Suppose that somebody knows everything but whether one {unit.one}’s record is among the data, and holds both "
        "equally likely."
    )


def _outcome(right: Fraction) -> str:
    if right >= _NOTHING:
        return (
            "Against somebody who knows that much, the proven bound promises next to nothing: it allows nearly every "
            "guess to be right. Without the release, half of the guesses are right."
        )
    return (
        f"With the whole release at hand, at most {guess_text(right)} of their guesses are right. Without the release, "
        "half of them are."
    )
