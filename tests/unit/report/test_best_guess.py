from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting.events import Neighbours, NonPrivateEvent
from tallyveil.accounting.ledger.lines import Declaration, LedgerEntry
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.plans.guess import guess_of_cost, guess_of_pair, guess_text, guess_words, ledger_guess
from tallyveil.report.privacy import guess_tile
from tallyveil.schema.schema import PERSON, unit_of


def ledger(mechanism: Mechanism, total: str) -> tuple[list[LedgerEntry], Declaration]:
    """One count, measured twice."""
    half = (("total", Fraction(1)),)
    strategy = Strategy(
        mechanism,
        Neighbours.UNBOUNDED,
        Fraction(total),
        (("State", Fraction(1, 2)), ("Block", Fraction(1, 2))),
        (("State", half), ("Block", half)),
    )
    declaration = Declaration(strategy.budget_unit, strategy.total, strategy.neighbours)
    spent = LedgerEntry(1, "spend", strategy.event(), strategy.total, "release", "t", "r")
    looked = LedgerEntry(2, "declassify", NonPrivateEvent("to see"), None, "true counts", "u", "r")
    return [spent, looked], declaration


def laplace(scale: float, shift: int) -> np.ndarray:
    """The law of a true answer of `shift` with discrete Laplace noise, on a wide range."""
    return np.exp(-np.abs(np.arange(-400, 401) - shift) / scale) * np.tanh(1 / (2 * scale))


@pytest.mark.parametrize("total", ["1/5", "2", "6"])
def test_it_is_the_best_guess_between_the_two_laws(total: str) -> None:
    entries, declaration = ledger(Mechanism.DISCRETE_LAPLACE, total)
    scale = 1 / (float(Fraction(total)) / 2)
    first, second = (np.outer(laplace(scale, shift), laplace(scale, shift)) for shift in (0, 1))
    best = np.maximum(first, second).sum() / 2
    found = ledger_guess(entries, declaration)
    assert best - 1e-9 <= found <= best + 1e-6
    assert found <= guess_of_cost(declaration.total, declaration.budget_unit)


def test_the_cost_bounds_it_where_the_laws_do_not() -> None:
    for mechanism in Mechanism:
        for total in ("1/100", "1", "20"):
            entries, declaration = ledger(mechanism, total)
            assert Fraction(1, 2) < ledger_guess(entries, declaration)
            assert (
                ledger_guess(entries, declaration)
                <= guess_of_cost(declaration.total, declaration.budget_unit)
                <= 1
            )


def test_a_pair_of_epsilon_and_delta_bounds_it() -> None:
    assert guess_of_pair(0.0, 0.0) == pytest.approx(0.5)
    assert guess_of_pair(0.0, 1.0) == 1
    assert guess_of_pair(1.0, 0.0) == pytest.approx(np.e / (1 + np.e))
    assert guess_of_pair(10_000.0, 0.0) <= 1
    assert guess_of_pair(1.0, 0.0) >= Fraction(np.e / (1 + np.e))


def test_it_is_rounded_up_and_says_what_it_is_about() -> None:
    assert guess_text(Fraction(8701, 10000)) == "87.1 %"
    changed = guess_words(Fraction(3, 4), Neighbours.BOUNDED, PERSON)
    added = guess_words(Fraction(3, 4), Neighbours.UNBOUNDED, unit_of("household"))
    assert "one person’s record, which says one of two things" in changed
    assert "whether one household’s record is among the data" in added
    assert "at most 75.0 % of their guesses are right" in changed
    assert "promises next to nothing" in guess_words(Fraction(99_999, 100_000), Neighbours.BOUNDED, PERSON)


def test_a_key_that_is_not_secret_leaves_nothing_to_guess() -> None:
    assert guess_tile(Fraction(3, 4), PERSON, is_protected=True).value == "75.0 %"
    assert guess_tile(Fraction(3, 4), PERSON, is_protected=False).value == "100 %"
