"""The release files spend what they say, as production did."""

import numpy as np
import pytest
from tests.attacks.budgets import (
    DHC_PERSONS,
    LARGE,
    REDISTRICTING,
    budgets_from,
    people_release,
    redistricting_release,
)
from tests.attacks.differencing import make_districts
from tests.attacks.worlds import make_people_world

import tallyveil
from tallyveil.accounting.renyi import zcdp_to_epsilon


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return make_people_world(tmp_path_factory.mktemp("people"), 20)


@pytest.fixture(scope="module")
def districts(tmp_path_factory):
    return make_districts(tmp_path_factory.mktemp("districts"), 20)


def test_the_redistricting_data_are_measured_as_in_2020(districts):
    ours = redistricting_release(REDISTRICTING)
    preset = {**ours, "strategy": {"preset": "redistricting-us-from-state"}}
    del preset["estimation"]
    mine, theirs = (tallyveil.plan(one, folder=districts.folder).content for one in (ours, preset))
    assert mine.event() == theirs.event()
    assert mine.estimation == theirs.estimation


def test_every_budget_is_spent_whole(people, districts):
    for file, world, production in (
        (people_release, people, DHC_PERSONS),
        (redistricting_release, districts, REDISTRICTING),
    ):
        for budget in budgets_from(production):
            plan = tallyveil.plan(file(budget.rho), folder=world.folder)
            assert plan.content.strategy.total == budget.rho


def test_the_largest_budget_is_epsilon_1000_by_the_published_conversion():
    assert 999.9 < zcdp_to_epsilon(LARGE, "1e-10") <= 1000


def test_the_held_out_are_in_no_record(people):
    import polars as pl

    records = pl.read_parquet(people.folder / "people.parquet")
    inside = people.counts(~people.held_out)
    assert records.height == inside.sum() == (~people.held_out).sum()
    by_block = dict(zip(people.geocodes, inside.sum(axis=1).tolist(), strict=True))
    counted = dict(records.group_by("geocode").len().iter_rows())
    assert counted == {code: count for code, count in by_block.items() if count}
    assert 0.15 < people.held_out.mean() < 0.35
    assert np.array_equal(
        people.counts(people.held_out) + inside, people.counts(np.ones_like(people.held_out))
    )
