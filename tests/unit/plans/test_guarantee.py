"""The guarantee in one sentence: what it prints is never below what was computed, nor far above it."""

import re
from fractions import Fraction

import pytest

from tallyveil.accounting import zcdp_to_epsilon_textbook
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.guarantee import guarantee_of


@pytest.mark.parametrize("budget", ["1/500000", "1/700", "1/9", "2", "40"])
def test_the_statement_is_close_to_what_was_computed_and_shows_the_gap(edit, budget):
    release = edit('[strategy]\nrho = "2"', f'[strategy]\nrho = "{budget}"')
    release.write_text(release.read_text().replace('rho = "2"', 'rho = "50"', 1))
    found = guarantee_of(load_plan(release), None)
    least, other = re.findall(r"<= ([0-9.e-]+)", found["statement"])
    exact, rho = re.findall(r"rho = (\S+)(?: \((\S+)\))? alone", found["statement"])[0]
    assert exact == budget
    assert bool(rho) == ("/" in budget)  # a whole number is said once
    for text, value in (
        (least, found["epsilon"]),
        (rho or exact, Fraction(budget)),
        (other, found["classical_epsilon"]),
    ):
        assert Fraction(value) <= Fraction(text) <= Fraction(value) * Fraction(1003, 1000)
    assert least != other


def test_the_textbook_epsilon_stands_beside_the_exact_one(small_release):
    plan = load_plan(small_release)
    found = guarantee_of(plan, None)
    assert found["textbook_epsilon"] == zcdp_to_epsilon_textbook(plan.spent, plan.delta)
    for one in (found, *found["exact"]["geolevels"]):
        assert one["textbook_epsilon"] > one["classical_epsilon"]
