"""Standard deviations of estimates in the page against those of `tallyveil plan --families`."""

import json
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from tests.unit.explore.nodes import node_needed
from tests.unit.explore.workbench.in_node import SMALL, ask_node, random_moves

from tallyveil.explore.workbench import WorkbenchAreas, filled, make_workbench
from tallyveil.geography.tables import entities_from_columns
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.intervals.expected_deviations import expected_deviations
from tallyveil.products.topdown.run.inputs import read_hierarchies

pytestmark = node_needed

UNKNOWN = SMALL.replace('tables = ["total", "sex"]', 'tables = ["total", "sex", "sex*age"]').replace(
    "[strategy.queries.State]", '[strategy.queries.Block]\ntotal = "1"\n[strategy.queries.State]'
)
"""Blocks are asked for their totals alone, so nothing determines their cells."""


def geography(folder, counties):
    """A geography with some blocks in each county; returns the number of blocks."""
    codes = [f"01{county:03d}{block:010d}" for county, n in enumerate(counties) for block in range(n)]
    pl.DataFrame({"block": codes}).write_parquet(folder / "blocks.parquet")
    return len(codes)


def workbench(folder, text, **options):
    file = folder / "release.toml"
    file.write_text(text, encoding="utf-8")
    plan = load_plan(file)
    areas = options.pop("areas", None)
    make_workbench(file, folder / "site", areas=areas, **options)
    return plan, json.loads((folder / "site" / "data" / "site.json").read_text(encoding="utf-8"))["plan"]


def planned(folder, content, moves):
    """The plan of the file that the page hands over after some moves."""
    (found,) = ask_node("positions", plan=content, positions=[moves])
    (folder / "moved.toml").write_text(found["file"], encoding="utf-8")
    return load_plan(folder / "moved.toml")


def compare(folder, content, found, wanted):
    names = [one["name"] for one in json.loads((folder / "site/data/district.json").read_text())["tables"]]
    of = {(one.area, one.query): one for one in wanted}
    assert len(found["summaries"]) == len([one for one in wanted if not one.is_entity])
    for one in found["summaries"]:
        summary = of[content["spine"]["levels"][one["level"]], names[one["table"]]].summary()
        for key in ("smallest", "median", "largest"):
            value = float(one[key])
            assert value == pytest.approx(
                np.inf if summary[key] is None else summary[key], rel=1e-9, abs=2e-6
            )
        assert one["n"] == summary["n"]
    return names, of


@pytest.mark.parametrize("text", [SMALL, UNKNOWN], ids=["every cell", "totals of blocks"])
def test_on_the_geography_and_for_an_entity(tmp_path, text):
    n = geography(tmp_path, [3, 5, 5, 1])
    (tmp_path / "release.toml").write_text(text, encoding="utf-8")
    made = read_hierarchies(load_plan(tmp_path / "release.toml"))
    places = {"geocode": made.spine.geocodes[2].tolist(), "place": ["A" if k % 3 else None for k in range(n)]}
    (family,) = entities_from_columns(made.spine, places, ["place"])
    _, content = workbench(tmp_path, text, areas=WorkbenchAreas(made, (family,)))
    members = content["spine"]["families"][0]["members"][0]
    moves = random_moves(content, np.random.default_rng(5))
    plan = planned(tmp_path, content, moves)
    names_of = [*plan.tables, *(query for level in plan.geolevels for query in plan.strategy.queries(level))]
    wanted = expected_deviations(plan, made, [family], queries=names_of, workers=1)
    found = ask_node(
        "estimates",
        site=str(tmp_path / "site"),
        plan=content,
        moves=moves,
        children=[],
        area={"level": 0, "members": members},
    )
    names, of = compare(tmp_path, content, found, wanted)
    for table, values in found["chosen"].items():
        exact = of["place", names[int(table)]].deviations[0]
        assert np.array(values, dtype=float) == pytest.approx(exact, rel=1e-9)


def test_one_geounit(tmp_path):
    geography(tmp_path, [3, 5, 2])
    (tmp_path / "release.toml").write_text(SMALL, encoding="utf-8")
    made = read_hierarchies(load_plan(tmp_path / "release.toml"))
    plan, content = workbench(tmp_path, SMALL, areas=WorkbenchAreas(made))
    row = content["spine"]["codes"][1].index("01001")
    found = ask_node(
        "estimates",
        site=str(tmp_path / "site"),
        plan=content,
        moves=[],
        children=[],
        area={"level": 1, "row": row},
    )
    (wanted,) = (
        one
        for one in expected_deviations(plan, made, [], queries=["total"], workers=1)
        if one.area == "County"
    )
    assert found["chosen"]["0"] == pytest.approx(wanted.deviations[row], rel=1e-9)


@pytest.mark.parametrize("text", [SMALL, UNKNOWN], ids=["every cell", "totals of blocks"])
def test_what_is_kept_between_moves_changes_no_number(tmp_path, text):
    n = geography(tmp_path, [3, 5, 5, 1])
    (tmp_path / "release.toml").write_text(text, encoding="utf-8")
    made = read_hierarchies(load_plan(tmp_path / "release.toml"))
    _, content = workbench(tmp_path, text, areas=WorkbenchAreas(made))
    moves = [
        {"total": "1/2"},
        {"level": None, "place": 0, "steps": 60_000},
        {"level": 1, "place": 0, "steps": 9_000},  # blocks keep their noise
        {"total": "1/7"},
        {"level": None, "place": 2, "steps": 70_000},
        {"total": "20"},  # the variance of a discrete Gaussian is not quite its parameter
    ]
    members = list(range(1, n, 2))
    found = ask_node(
        "sequence",
        site=str(tmp_path / "site"),
        plan=content,
        moves=moves,
        area={"level": 0, "members": members},
    )
    previous = None
    for kept, fresh in found:
        wanted = np.array(fresh, dtype=float)
        assert np.array(kept, dtype=float) == pytest.approx(wanted, rel=1e-9, abs=1e-9)
        assert previous is None or (previous != wanted).any()
        previous = wanted


def test_a_weighted_rank_is_that_of_the_list_written_out():
    rng = np.random.default_rng(7)
    for size in (1, 2, 3, 10, 50):
        values, numbers = rng.integers(0, 12, size).astype(float), rng.integers(1, 5, size)
        long = np.sort(np.repeat(values, numbers))
        found = ask_node(
            "ranks", values=values.tolist(), numbers=numbers.tolist(), ranks=list(range(len(long)))
        )
        assert found == long.tolist()


@pytest.mark.parametrize("children", [[4, 7], [1, 3], [3, 1]])
@pytest.mark.parametrize("text", [SMALL, UNKNOWN], ids=["every cell", "totals of blocks"])
def test_a_regular_spine_is_that_of_a_regular_geography(tmp_path, text, children):
    _, content = workbench(tmp_path, text)
    moves = random_moves(content, np.random.default_rng(6))
    plan = planned(tmp_path, content, moves)
    geography(tmp_path, [children[1]] * children[0])
    names_of = [*plan.tables, *(query for level in plan.geolevels for query in plan.strategy.queries(level))]
    wanted = expected_deviations(plan, read_hierarchies(plan), [], queries=names_of, workers=1)
    found = ask_node(
        "estimates", site=str(tmp_path / "site"), plan=content, moves=moves, children=children, area=None
    )
    compare(tmp_path, content, found, wanted)


@pytest.mark.parametrize(
    ("levels", "own", "wanted"),
    [
        (["State", "County", "Block"], [3, 30], [7, 30]),  # County is followed by Tract and Block: 5 x 6
        (["County", "Block"], [9], [30]),
        (["State", "District", "Block"], [4, 8], [4, 8]),  # nothing is known of districts
        (["County", "State"], [4], [4]),  # the other way round
    ],
)
def test_numbers_of_children_follow_from_another_spine(levels, own, wanted):
    spine = {"levels": levels, "children": own}
    above = {"levels": ["US", "State", "County", "Tract", "Block"], "children": [50, 7, 5, 6]}
    assert ask_node("children", spine=spine, **above) == wanted


def test_a_template_is_filled_without_rounding(tmp_path):
    _, content = workbench(tmp_path, SMALL)
    slots = {piece["slot"] for piece in content["template"] if not isinstance(piece, str)}
    assert slots == {"total", "declared", "g0", "g1", "g2", "q0.0", "q1.0", "q1.1", "q2.0", "q2.1"}
    assert filled(["a", {"slot": "g0"}], {"g0": Fraction(3, 7)}) == "a3/7"
