"""SafeTab's tables in a comparison: what it publishes at a budget with next to no noise, and what it hides."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from tests.comparisons import SCHEMA, public_of, small_input

from tallyveil.compare.draws import Draws
from tallyveil.compare.methods.method import Office
from tallyveil.compare.methods.safetab import SafeTab
from tallyveil.errors import ConfigError
from tallyveil.schema.schema import Schema


@dataclass
class Plan:
    """As much of a release file as the method asks for."""

    budget_unit: str = "rho"
    delta: Fraction = Fraction(1, 10**10)
    schema: Schema = SCHEMA


def published(tmp_path, **settings):
    shared = small_input(60, queries=("total", "age", "group", "age*group"))
    office = Office(shared, Plan(), "group", Draws("safetab"), Draws("safetab"), tmp_path)
    return shared, SafeTab(name="SafeTab", **settings).publish(office)


def test_without_noise_everything_is_right_that_is_shown(tmp_path):
    shared, made = published(tmp_path, budget=Fraction(500), stage_1_fraction=Fraction(1, 2), threshold=5)
    for name, true in shared.truth.items():
        table = made.tables[name]
        assert np.array_equal(table.counts[table.shown], true[table.shown]), name
    assert made.tables["Block", "group"].shown.all()
    # Detail is shown for the groups of five people or more, and for no others.
    groups = shared.truth["Block", "group"]
    detailed = made.tables["Block", "age*group"].shown.reshape(-1, 2, 4)
    assert np.array_equal(detailed.all(axis=1), groups >= 5)
    # A table of ages alone needs the detail of every group.
    assert np.array_equal(made.tables["Block", "age"].shown.all(axis=1), (groups >= 5).all(axis=1))
    assert made.certificate.advantage == 1


def test_noise_has_the_law_of_the_budget_and_its_bound(tmp_path):
    shared, made = published(tmp_path, budget=Fraction(1, 2))
    error = made.tables["Block", "group"].counts - shared.truth["Block", "group"]
    # Four kinds of areas have a quarter each; a group without detail is measured by nine tenths of it in stage 2.
    assert np.var(error) == pytest.approx(1 / (2 * 0.125 * 0.9), rel=0.5)
    assert 0 < made.certificate.advantage < 1
    assert made.certificate.epsilon.startswith("rho = 0.5")


def test_shares_of_other_areas_are_refused():
    public = public_of(small_input(60), Plan())
    SafeTab(name="SafeTab", budget=Fraction(1)).require_fit(public)
    with pytest.raises(ConfigError, match="wanted a share for each of Region, Town, Block, School"):
        SafeTab(name="SafeTab", budget=Fraction(1), shares={"Region": Fraction(1)}).require_fit(public)
