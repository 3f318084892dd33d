"""Budgets of released products: exact sums, and the exact epsilon of those whose losses share a lattice."""

from fractions import Fraction

import pytest

from tallyveil.accounting import (
    Neighbours,
    compose,
    zcdp_to_epsilon,
    zcdp_to_epsilon_textbook,
)
from tallyveil.budget.presets import DELTA, NEIGHBOURS, load_product, product_names
from tallyveil_studies.fdp_census.products import product_row

UNITS = "the number of housing units and of group quarters of each type in every block"
STATES = "the number of persons in every state"
RHO = {
    "redistricting-persons": Fraction(293764, 114921),
    "redistricting-units": Fraction(11417641, 152349649),
    "dhc-persons": Fraction(24811, 5000),
    "dhc-units": Fraction(15401, 2000),
}


@pytest.mark.parametrize("area", ["us", "pr"])
@pytest.mark.parametrize("product", RHO)
def test_sums_are_exact(product, area):
    found = load_product(f"{product}-{area}")
    assert found.rho == RHO[product]
    assert NEIGHBOURS is Neighbours.BOUNDED
    levels = {"redistricting": 6, "dhc": 8}[product.split("-")[0]] - (area == "pr")
    assert len(found.strategies[0].geolevels) == levels
    assert found.name == f"{product}-{area}"
    assert found.record == ("person" if "persons" in product else "housing unit")
    assert UNITS in found.invariants
    assert (STATES in found.invariants) == ("persons" in product)
    assert len(found.event.events) == len(found.strategies[0].events()) + len(found.invariants)


def test_what_is_together_adds_up():
    for area in ("us", "pr"):
        assert load_product(f"all-persons-{area}").rho == RHO["redistricting-persons"] + RHO["dhc-persons"]
        everything = load_product(f"all-{area}")
        assert everything.rho == sum(RHO.values())
        assert everything.record == "person and one housing unit"
        assert everything.published_epsilon is None
        assert everything.name == f"all-{area}"
        assert everything.invariants == (STATES, UNITS)
        parts = [load_product(f"{product}-{area}") for product in RHO]
        for part in parts:
            assert part.summary in everything.summary
            assert part.source in everything.source
            assert set(part.strategies) <= set(everything.strategies)
        assert everything.n_budgets == sum(part.n_budgets for part in parts)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("dhc-units-us", 32.071984965157),
        ("dhc-units-pr", 32.071984965157),
        ("dhc-persons-us", 24.456493954394),
        ("dhc-persons-pr", 24.456493954394),
        ("redistricting-units-us", 2.363203102233),
    ],
)
def test_exact_epsilons(name, wanted):
    row = product_row(load_product(name))
    assert row["exact_lower"] <= row["exact_upper"] == pytest.approx(wanted, abs=1e-11)


def test_a_second_engine_agrees_on_the_units():
    event = load_product("dhc-units-us").event
    closed, tilted = (
        compose(event, neighbours=NEIGHBOURS, engine=engine).epsilon(DELTA)
        for engine in ("auto", "tilted_fft")
    )
    assert closed.lower <= tilted.upper
    assert tilted.lower <= closed.upper


def test_published_epsilons_follow_from_rho():
    for name in product_names()[:8]:
        product = load_product(name)
        convert = zcdp_to_epsilon if name.startswith("redistricting") else zcdp_to_epsilon_textbook
        assert convert(product.rho, DELTA) == pytest.approx(float(product.published_epsilon), abs=6e-3)


def test_variances_of_the_units():
    strategy = load_product("dhc-units-us").strategies[0]
    assert strategy.law("State", "tenvacgq").variance == Fraction(10000, 3216)
    assert strategy.law("Block", "hisp*ten2").variance == Fraction(10000, 3)
    persons = load_product("dhc-persons-us").strategies[0]
    assert persons.law("State", "gq_constr_groups*age_10_groups").variance == Fraction(10000, 3996)
