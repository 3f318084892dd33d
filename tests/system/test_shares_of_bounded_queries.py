"""Better shares where public bounds limit counts: what is kept, what is promised, and what made-up records show."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.api.beginning import write_country
from tallyveil.budget.optimal.aims import FLOOR, Aim, Aims, VarianceModel
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.optimal_shares import optimal_shares
from tallyveil.products.topdown.run.shares_trial import try_shares

LEVELS = ("Tract", "Block_Group", "Block")
QUERIES = ("total", "votingage", "hispanic*cenrace", "votingage*hispanic*cenrace")
AIMS = Aims(VarianceModel.TOP_DOWN, aims=tuple(Aim(level, query) for level in LEVELS for query in QUERIES))
"""None of them is about quarters, which the bounds are on."""


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """A made-up State with facilities, and the State-rooted shares of the redistricting data."""
    folder = tmp_path_factory.mktemp("state")
    write_country(folder / "state", blocks=900, schema="pl94-persons", states=1, seed=1)
    (folder / "state" / "records.parquet").unlink()  # nothing here opens it
    return folder / "state" / "release.toml"


@pytest.fixture(scope="module")
def plan(state):
    return load_plan(state)


def shares(strategy):
    return {
        (level, query): strategy.share(level, query) / strategy.total
        for level in strategy.geolevels
        for query in strategy.queries(level)
    }


def test_queries_that_determine_bounded_answers_keep_their_floor(plan):
    found = optimal_shares(plan, AIMS)
    assert found.held == ("hhgq", "detailed")
    before, after = shares(found.before), shares(found.strategy)
    ratios = {place: after[place] / before[place] for place in before}
    assert all(ratio >= FLOOR for place, ratio in ratios.items() if place[1] in found.held)
    # The aims themselves need none of these queries, and no other query keeps a floor.
    assert min(ratio for place, ratio in ratios.items() if place[1] == "hhinstlevels") < Fraction(1, 5)
    assert found.gap < 1e-3


@pytest.mark.nightly
def test_without_bounds_nothing_is_held(plan):
    assert optimal_shares(replace(plan, bounds=()), AIMS).held == ()


@pytest.mark.nightly
@pytest.mark.parametrize("part", [Fraction(1, 10), Fraction(1, 2)])
def test_what_is_kept_of_many_queries_stays(plan, part):
    """The search ends at many least shares at once, and has to stay above all of them."""
    before = shares(plan.strategy)
    keep = tuple(
        (*place, share * part) for place, share in before.items() if place[1] in ("hhgq", "detailed")
    )
    found = optimal_shares(plan, replace(AIMS, keep=keep, floor=Fraction(0)))
    after = shares(found.strategy)
    assert all(after[level, query] >= share for level, query, share in keep)
    assert 0 < found.gap < 1e-3


@pytest.mark.nightly
def test_released_counts_of_no_aim_become_worse(plan):
    """Without a floor, the errors of a tract's quarters all go to the few block groups that have a facility."""
    without = optimal_shares(plan, replace(AIMS, floor=Fraction(0)))
    starved = try_shares(plan, without, keys=2, records=25_000)
    found = optimal_shares(plan, AIMS)
    spared = try_shares(plan, found, keys=2, records=25_000)
    assert starved.ratios.max() > 1.5
    assert spared.ratios.max() < 1.1
    assert spared.mean_ratio < 0.85


@pytest.mark.nightly
def test_the_command_shows_promised_beside_measured(command, state, tmp_path):
    aims = tmp_path / "aims.toml"
    aims.write_text('model = "topdown"\n[[aim]]\nareas = ["Tract", "Block"]\nqueries = ["total"]\n')
    plain = " ".join(command("plan", state, "--optimise", aims).split())
    assert "hhgq, detailed keep at least 1/2 of their present shares" in plain
    assert "These numbers are the model's" in plain
    assert "an aim can become worse" in plain
    trial = ("--try", "2", "--people", "2000")
    record = json.loads(command("plan", state, "--optimise", aims, *trial, "--json"))
    assert record["floor"] == {"part": "1/2", "queries": ["hhgq", "detailed"]}
    assert record["trial"]["keys"] == 2
    for item in record["aims"]:
        error, ratio = item["measured"]["error"], item["measured"]["ratio"]
        assert error["after"] / error["before"] == pytest.approx(ratio)
        assert item["measured"]["margin"] > 0
    # The same made-up records and keys: anyone obtains the same numbers.
    shown = " ".join(command("plan", state, "--optimise", aims, *trial).split())
    assert "people, made up, under 2 test keys (no record was opened)" in shown
    assert "promised ratio" in shown
    assert f"measured ratios: {record['trial']['root_mean_square_ratio']:.3f}; the model promises" in shown
    measured = np.array([item["measured"]["ratio"] for item in record["aims"]])
    assert record["trial"]["root_mean_square_ratio"] == pytest.approx(np.sqrt(np.mean(measured**2)))


def test_flags_of_a_trial(command, state, tmp_path):
    aims = tmp_path / "aims.toml"
    aims.write_text('model = "topdown"\n[[aim]]\nareas = ["Block"]\nqueries = ["total"]\n')
    assert "--try needs --optimise" in command("plan", state, "--try", "2", code=2)
    assert "or --try as well" in command("plan", state, "--optimise", aims, "--people", "9", code=2)
    assert "no other flags" in " ".join(
        command("plan", state, "--optimise", aims, "--blocks", "9", code=2).split()
    )
    assert "--try" in command("plan", state, "--optimise", aims, "--try", "1", code=2)
