"""Slider positions: the downloaded file plans to exactly the numbers that the page shows."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import tomlkit
from tests.unit.explore.nodes import node_needed
from tests.unit.explore.workbench.in_node import LAPLACE, SMALL, STEPS, ask_node, random_moves

from tallyveil.accounting import compose
from tallyveil.accounting.events import Neighbours
from tallyveil.budget.strategy import expected_errors
from tallyveil.explore.workbench import plan_content
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.guarantee import guarantee_of

pytestmark = node_needed

EXAMPLES = Path(__file__).parents[4] / "examples"
MARGIN = 1e-8
"""Most by which the page's epsilon may be above that of `tallyveil plan`, if all widths are the finest."""


def planned(folder, text):
    file = folder / "given.toml"
    file.write_text(text, encoding="utf-8")
    return file, plan_content(file, load_plan(file))


def planned_again(folder, text):
    file = folder / "downloaded.toml"
    file.write_text(text, encoding="utf-8")
    return load_plan(file)


@pytest.mark.parametrize(
    ("name", "n"),
    [
        pytest.param("redistricting/national.toml", 12, marks=pytest.mark.nightly),
        pytest.param("redistricting/one_state.toml", 6, marks=pytest.mark.nightly),
        ("small", 2),
        ("laplace", 1),
    ],
)
def test_the_downloaded_file_plans_to_the_shown_numbers(tmp_path, name, n):
    own = {"small": SMALL, "laplace": LAPLACE}.get(name)
    text = (EXAMPLES / name).read_text(encoding="utf-8") if own is None else own
    _, content = planned(tmp_path, text)
    rng = np.random.default_rng(3)
    positions = [random_moves(content, rng) for _ in range(n)]
    for found in ask_node("positions", plan=content, positions=positions):
        plan = planned_again(tmp_path, found["file"])
        stated = guarantee_of(plan)
        # The words of the statement are "epsilon <= NUMBER at delta" or "epsilon = EXACT, ...".
        if name == "laplace":
            assert Fraction(found["costs"]["bounded"]["epsilon"]) == Fraction(float(plan.spent))
        else:
            assert f"epsilon <= {found['shown']} " in stated["statement"]
            shown = found["costs"]["bounded"]["epsilon"]
            assert stated["epsilon"] <= shown <= stated["epsilon"] + (2e-4 if name == "small" else MARGIN)
        wanted = [f"{one.standard_deviation:,.2f}" for one in expected_errors(plan.strategy)]
        assert found["deviations"] == wanted


def test_the_other_relation_is_certified_too(tmp_path):
    _, content = planned(tmp_path, (EXAMPLES / "redistricting/national.toml").read_text(encoding="utf-8"))
    (found,) = ask_node("positions", plan=content, positions=[[]])
    plan = load_plan(EXAMPLES / "redistricting/national.toml")
    event = replace(plan.strategy, neighbours=Neighbours.BOUNDED).event()
    halved = type(event)(tuple(replace(one, multiplicity=one.multiplicity // 2) for one in event.events))
    upper = compose(halved, neighbours="unbounded").epsilon(plan.delta).upper
    assert upper <= found["costs"]["unbounded"]["epsilon"] <= upper + MARGIN


def test_shares_sum_to_one_and_stay_above_zero(tmp_path):
    _, content = planned(tmp_path, (EXAMPLES / "redistricting/national.toml").read_text(encoding="utf-8"))
    rng = np.random.default_rng(4)
    moves = random_moves(content, rng, n=60)
    for steps in (0, 10**9, 1):
        moves.append({"level": 0, "place": 3, "steps": steps})
        (found,) = ask_node("positions", plan=content, positions=[moves])
        for group in found["shares"]:
            shares = [Fraction(int(n), int(d)) for n, d in group]
            assert sum(shares) == 1
            assert min(shares) >= Fraction(1, STEPS)


def test_locked_shares_stay_as_they_are(tmp_path):
    _, content = planned(tmp_path, (EXAMPLES / "redistricting/national.toml").read_text(encoding="utf-8"))
    rng = np.random.default_rng(9)
    given = [Fraction(one["share"]) for one in content["geolevels"]]
    for _ in range(8):
        places = rng.permutation(len(given)).tolist()
        locked, place = places[:3], places[3]
        steps = int(rng.integers(1, 10**5))
        moves = [{"level": None, "lock": one} for one in locked]
        moves += [{"level": None, "place": one, "steps": steps} for one in (place, locked[0])]
        (found,) = ask_node("positions", plan=content, positions=[moves])
        shares = [Fraction(int(n), int(d)) for n, d in found["shares"][0]]
        assert [shares[one] for one in locked] == [given[one] for one in locked]
        assert sum(shares) == 1
        assert min(shares) >= min(*given, Fraction(1, STEPS))
        most = 1 - sum(shares[one] for one in locked)
        assert abs(shares[place] - min(Fraction(steps, STEPS), most)) < Fraction(4, STEPS)


def test_a_share_whose_others_are_all_locked_stays(tmp_path):
    _, content = planned(tmp_path, SMALL)
    moves = [{"level": None, "lock": 0}, {"level": None, "lock": 1}, {"level": None, "place": 2, "steps": 9}]
    (found,) = ask_node("positions", plan=content, positions=[moves])
    assert found["shares"][0] == [["1", "4"], ["1", "4"], ["1", "2"]]


def test_an_address_carries_the_exact_position(tmp_path):
    _, content = planned(tmp_path, SMALL)
    rng = np.random.default_rng(10)
    bad = [
        {"total": "x"},
        {"total": "0"},
        {"total": "1" * 300},
        {"geolevels": "1/2,1/2"},
        {"geolevels": "1/3,1/3,1/2"},
        {"geolevels": "0,1/2,1/2"},
        {"geolevels": "1/10000000,4999999/10000000,1/2"},
        {"queries.7": "1"},
        {"children": "3"},
        {"children": "3,-4"},
        {"children": "3,1e9"},
        {"count": "Moon/total"},
        {"count": "%E0%A4%A/total"},
        {"level": "Moon"},
        {"error": "none"},
        {"over": "mean"},
        {"__proto__": "1"},
        {"constructor": "1"},
        {"cost-title": ""},
    ]
    moves = [{"level": None, "lock": 1}, *random_moves(content, rng, n=6)]
    found = ask_node("links", plan=content, moves=moves, links=bad)
    assert found["problems"] == []
    assert found["again"] == found["own"]
    assert {"total", "geolevels", "children", "error", "count", "level"} <= set(found["sent"])
    for link, other in zip(bad, found["others"], strict=True):
        assert other == {"problems": list(link), "untouched": True}


def test_a_larger_budget_is_declared(tmp_path):
    _, content = planned(tmp_path, SMALL)
    (found,) = ask_node("positions", plan=content, positions=[[{"total": "3/2"}]])
    again = planned_again(tmp_path, found["file"])
    assert (again.declared, again.spent) == (Fraction(3, 2), Fraction(3, 2))
    assert (
        tomlkit.parse(found["file"])["privacy"]["neighbours"].trivia.comment
        == "# one record changes its value"
    )


def test_what_it_means_for_one_person(tmp_path):
    file, content = planned(tmp_path, (EXAMPLES / "redistricting/national.toml").read_text(encoding="utf-8"))
    found = ask_node("person", plan=content)
    guarantee = compose(load_plan(file).strategy.event(), neighbours="bounded")
    exact = guarantee.advantage().upper
    assert exact <= found["advantage"] <= exact + 1e-5
    for point in found["table"]:
        power = 1 - guarantee.beta(Fraction(str(point["alarms"]))).lower
        assert power - 1e-9 <= point["power"] <= power + 1e-4
    levels = [point["alarms"] for point in found["curve"]]
    betas = [guarantee.beta(Fraction(alpha)).upper for alpha in levels[1:-1:10]]
    assert all(
        point["power"] >= 1 - beta - 1e-9 for point, beta in zip(found["curve"][1:-1:10], betas, strict=True)
    )


def test_the_budget_for_an_epsilon(tmp_path):
    _, content = planned(tmp_path, (EXAMPLES / "redistricting/national.toml").read_text(encoding="utf-8"))
    thousandths = ask_node("budget", plan=content, epsilon=10)
    more, less = ask_node(
        "positions",
        plan=content,
        positions=[[{"total": f"{thousandths + 1}/1000"}], [{"total": f"{thousandths}/1000"}]],
    )
    assert less["costs"]["bounded"]["epsilon"] <= 10 < more["costs"]["bounded"]["epsilon"]
