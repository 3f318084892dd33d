"""What a release lets somebody find out about one record: the share of right guesses between two possibilities.

The two possibilities are neighbours, and equally likely before the release. The best guess between laws P and Q is
right with probability (1 + TV) / 2, where TV is their total variation distance. Plans, reports, the workbench and the
desk say it in the same sentences.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from tallyveil.accounting.events import Neighbours, PrivacyEvent, SequentialEvent
from tallyveil.accounting.ledger.lines import Declaration, LedgerEntry
from tallyveil.accounting.numbers import at_most
from tallyveil.accounting.proved import composition_of
from tallyveil.accounting.renyi import zcdp_to_delta
from tallyveil.budget.allocation import Allocation
from tallyveil.plans.release import StatedPlan
from tallyveil.schema.schema import Unit
from tallyveil.words.language import ENGLISH, Figure, Language, phrase

_SLOW: Final = {"gridded", "shared"}
"""Engines with which the guess would take seconds or longer. The cost bounds it in their place."""

_FROM_COST: Final = {"zcdp", "renyi", "pure", "rounded_fft", *_SLOW}
"""Engines of a stated guarantee whose epsilon does not come from composed laws, or takes long to compute. Releases of
earlier versions name `rounded_fft` and `gridded`."""

_ROUNDING: Final = 1e-12
"""More than the rounding errors of a few operations on floats between 0 and 1."""

NOTHING: Final = Fraction(9995, 10000)
"""From this share on, the text says that the bound promises next to nothing."""

NO_SECRET: Final = phrase("This would hold if the key of the noise were secret, which it is not.")

PERCENTAGE: Final = "{percentage}"
"""Where a page writes the bound into the sentence, as `guess_text` does."""


def planned_guess(
    plan: StatedPlan, guarantee: Mapping[str, Any], allocation: Allocation | None = None
) -> Fraction:
    """Upper bound of the share of right guesses about one record.

    Args:
        plan: The plan of a release.
        guarantee: Its guarantee (`guarantee_of`).
        allocation: The share of the budget that each geounit of the spine gets; None before the geography is opened.
    """
    # Composing laws again takes long where the guarantee names these; the bound from the cost is valid for all.
    if _FROM_COST & set(guarantee["exact"]["engines"]):
        return guess_of_cost(plan.spent, plan.budget_unit)
    event = plan.event(None if allocation is None else allocation.event())
    return guess_of_event(event, plan.neighbours, plan.spent, plan.budget_unit)


def ledger_guess(
    entries: Sequence[LedgerEntry], declaration: Declaration, engines: Sequence[str] = ()
) -> Fraction:
    """The same of everything that a ledger spends.

    Args:
        entries: Its entries. What no budget pays for is left out.
        declaration: What it declares.
        engines: Engines of the stated guarantee, as in `planned_guess`.
    """
    paid = [entry for entry in entries if entry.cost is not None]
    cost = sum((entry.cost for entry in paid if entry.cost is not None), Fraction(0))
    if _FROM_COST & set(engines):
        return guess_of_cost(cost, declaration.budget_unit)
    event = SequentialEvent(tuple(entry.event for entry in paid))
    return guess_of_event(event, declaration.neighbours, cost, declaration.budget_unit)


def guess_of_event(event: PrivacyEvent, neighbours: Neighbours, cost: Fraction, unit: str) -> Fraction:
    """The bound from the exact composition of an event; from its cost if that would take long."""
    guarantee = composition_of(event, neighbours)
    # A page does not wait for it; the bound by cost is weaker and still true.
    if _SLOW & set(guarantee.engines):
        return guess_of_cost(cost, unit)
    # The advantage is the total variation distance, which is 1 at most; its upper bound may be a little
    # above.
    return (1 + Fraction(min(guarantee.advantage().upper, 1.0))) / 2


def guess_of_cost(cost: Fraction, unit: str) -> Fraction:
    """Upper bound of the share of right guesses that follows from a cost alone, in rho or epsilon."""
    if unit == "epsilon":
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


def guess_words(right: Fraction, neighbours: Neighbours, unit: Unit, language: Language = ENGLISH) -> str:
    """What the bound means, in sentences."""
    setting, outcome, vain = guess_sentences(neighbours, unit, language)
    percentage = language.figure(guess_text(right))
    return f"{setting} {vain if right >= NOTHING else outcome.replace(PERCENTAGE, percentage)}"


def guess_sentences(neighbours: Neighbours, unit: Unit, language: Language = ENGLISH) -> tuple[str, str, str]:
    """What is supposed; what follows, with PERCENTAGE in the place of the bound; and what follows from `NOTHING` on."""
    say = language.say
    setting = (
        say(
            "Suppose that somebody knows everything but one {unit}’s record, which says one of two things, both "
            "equally likely.",
            unit=unit.one,
        )
        if neighbours is Neighbours.BOUNDED
        else say(
            "Suppose that somebody knows everything but whether one {unit}’s record is among the data, and holds both "
            "equally likely.",
            unit=unit.one,
        )
    )
    return (
        setting,
        say(
            "With the whole release at hand, at most {percentage} of their guesses are right. Without the release, "
            "half of them are."
        ),
        say(
            "Against somebody who knows that much, the proven bound promises next to nothing: it allows nearly every "
            "guess to be right. Without the release, half of the guesses are right."
        ),
    )


def guess_text(right: Fraction) -> Figure:
    """The bound as a percentage, rounded up."""
    # Rounded up: a bound may not be understated.
    return Figure(f"{at_most(100 * right, places=1)} %")
