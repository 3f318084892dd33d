"""`tallyveil study geographic-spines`: printed numbers, the theorem's converse, and the rule that the paper rejects."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from tests.samples import ten

from tallyveil.accounting import zcdp_to_epsilon
from tallyveil.budget.strategy import Mechanism
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.spine import uniform_shares
from tallyveil_studies.exhibit import MissingDataError, StudyInputs, Verdict
from tallyveil_studies.geographic_spines import bounds, rhode_island, small_spines, tract_groups
from tallyveil_studies.geographic_spines.catalogue import EXHIBITS
from tallyveil_studies.geographic_spines.small_spines import (
    balanced,
    given_to_children,
    growth_of_queries,
    incidence,
    precisions,
    shares_by_level,
    spine_of_paths,
)
from tallyveil_studies.geographic_spines.small_spines import variances as variances_on

NOTHING = StudyInputs()
LAPLACE, GAUSSIAN = Mechanism.DISCRETE_LAPLACE, Mechanism.DISCRETE_GAUSSIAN
QUICK = ("figure-1", "figure-2", "variances", "fan-out", "theorem-2", "remark-1", "remark-2", "alternative")
WITHOUT_DATA = (*QUICK, "groups", "tract-groups")


@pytest.fixture(scope="module")
def found():
    return {exhibit.name: exhibit.recompute(NOTHING) for exhibit in EXHIBITS if exhibit.name in QUICK}


@pytest.mark.nightly
def test_all_printed_numbers_agree(found):
    (groups,) = (exhibit.recompute(NOTHING) for exhibit in EXHIBITS if exhibit.name == "groups")
    comparisons = [
        comparison for findings in (*found.values(), groups) for comparison in findings.comparisons
    ]
    assert len(comparisons) == 20
    assert {comparison.verdict for comparison in comparisons} == {Verdict.AGREES, Verdict.HOLDS}


def test_the_other_exhibits_need_data():
    for exhibit in EXHIBITS:
        if exhibit.name not in WITHOUT_DATA:
            with pytest.raises(MissingDataError, match="--data DIR"):
                exhibit.recompute(NOTHING)


def test_the_decrease_of_the_variance():
    """By direct summation where floating-point numbers allow it: at sigma squared = 1/4."""
    x = np.arange(-30, 31)
    weights = np.exp(-2.0 * x**2)
    assert small_spines.decrease(Fraction(1, 4)) == pytest.approx(
        0.25 - (weights @ x**2) / weights.sum(), rel=1e-12
    )


@pytest.mark.nightly
def test_figure_2_is_the_matrix_of_every_query(found):
    """Each row against its definition: the sum of the cells of the histogram that its query counts."""
    table = found["figure-2"].tables["figure-2"]
    matrix = table.drop("geounit", "query").to_numpy()
    assert matrix.shape == (27, 8)
    # With nine queries of a geounit, each cell is in one answer of each of four query groups, in two geounits.
    assert matrix.sum(axis=0).tolist() == [8] * 8
    assert np.array_equal(matrix[:9, :4], matrix[9:18, :4])
    assert np.array_equal(matrix[:9, 4:], matrix[18:, 4:])
    assert not matrix[9:18, 4:].any()
    assert matrix[:9, :4].tolist()[:3] == [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]]


def test_figure_1_has_the_branch_at_the_state_and_below(found):
    table = found["figure-1"].tables["figure-1"]
    assert table["AIAN branch"].to_list()[:2] == [0, 1]
    blocks = table.row(5, named=True)
    assert blocks["AIAN branch"] + blocks["outside"] == blocks["census spine"] == 32
    before, after = found["figure-1"].tables["figure-1-distances"]["tribal areas together"]
    assert before > after == 1


def test_theorem_2_at_its_boundary(found):
    table = found["theorem-2"].tables["theorem-2"]
    assert np.allclose(table["least ratio"], table["(c - 1) / 2"], atol=1e-8)
    assert (table["growth at the boundary"] <= 1e-12).all()
    several = table.filter(pl.col("children") > 1)
    assert (several["growth 1 % below"] > 1e-4).all()
    assert (several["growth at equal shares, Gaussian"] > 0.1).all()


def test_the_condition_is_not_necessary_for_geounits_if_subtrees_differ(found):
    table = found["theorem-2"].tables["theorem-2-unequal-subtrees"]
    alike, differ = table[:2], table[2:]
    assert np.allclose(alike["least ratio, totals of geounits"], 1, atol=1e-8)
    assert (differ["least ratio, totals of geounits"] < 0.98).all()
    assert np.allclose(table["least ratio, all linear queries"], 1, atol=1e-6)


def test_a_linear_query_grows_where_no_geounit_does():
    """The case of the table, with the query: two small subtrees against a large one."""
    spine = spine_of_paths(
        [(0, 0, 0), *((0, child, block) for child in (1, 2) for block in range(4)), (1, 0, 0)]
    )
    before = shares_by_level(spine, (1, 1, 0.985, 1))
    after = given_to_children(spine, before, 1, [0])
    pairs = zip(variances_on(spine, before, LAPLACE), variances_on(spine, after, LAPLACE), strict=True)
    assert all((new <= old * (1 + 1e-12)).all() for old, new in pairs)
    assert growth_of_queries(spine, before, after, LAPLACE) > 1e-4


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
def test_growth_of_queries_against_the_inverse(mechanism):
    spine = balanced(2, 3, 2)
    before = shares_by_level(spine, (1, 2, 1, 1))
    after = given_to_children(spine, before, 1, [1])
    matrix = incidence(spine)
    old, new = (
        np.linalg.inv(matrix.T @ np.diag(np.concatenate(precisions(shares, mechanism))) @ matrix)
        for shares in (before, after)
    )
    greatest = np.linalg.eigvals(np.linalg.solve(old, new)).real.max()
    assert growth_of_queries(spine, before, after, mechanism) == pytest.approx(greatest - 1, rel=1e-9)


def test_unequal_query_strategies_void_the_theorem(found):
    table = found["theorem-2"].tables["theorem-2-query-strategies"]
    for law in ("Laplace", "Gaussian"):
        kept, child, parent = table.filter(pl.col("law") == law).iter_rows(named=True)
        assert child["total"] > kept["total"]
        assert parent["cell"] == np.inf
        assert kept["epsilon_at_1e-10"] == child["epsilon_at_1e-10"] == parent["epsilon_at_1e-10"]
    assert set(table.filter(law="Laplace")["epsilon_at_1e-10"]) == {2.0}
    assert set(found["remark-1"].tables["remark-1"]["epsilon_at_1e-10"]) == {2.0}


def test_remark_2(found):
    table = found["remark-2"].tables["remark-2"]
    merged = table.filter(pl.col("tree") == "every second level bypassed")
    assert (merged["greatest ratio of a query"] <= 1 + 1e-9).all()
    assert (merged["least ratio of a query"] < 0.3).all()
    assert set(table["epsilon_at_1e-10"]) == {1.0}
    nine = table.filter(pl.col("tree") == "9 sub-intervals, equal shares")
    assert nine["greatest ratio of a query"].item() > 1.4


def test_the_mean_variance_of_ranges_by_listing():
    rng = np.random.default_rng(8)
    root = rng.normal(size=(5, 5))
    covariance = root @ root.T
    ranges = [covariance[a:b, a:b].sum() for a in range(5) for b in range(a + 1, 6)]
    assert small_spines._mean_of_ranges(covariance) == pytest.approx(np.mean(ranges), rel=1e-12)


def test_the_rejected_rule_is_low_in_sum_and_high_in_some_answer(found):
    table = found["alternative"].tables["alternative"]
    epsilons = dict(table.select("law", "epsilon_at_1e-10").unique().iter_rows())
    assert epsilons["discrete_laplace"] == 1.0
    assert epsilons["discrete_gaussian"] == pytest.approx(zcdp_to_epsilon(Fraction(1, 2), Fraction("1e-10")))
    for _, rules in table.group_by("law", "shares"):
        by_rule = {row["rule"]: row for row in rules.iter_rows(named=True)}
        paper, rejected = by_rule["the paper's rule"], by_rule["sum of squares"]
        assert rejected["bypassed"] > 4 * paper["bypassed"]
        assert (
            rejected["sum of squares"]
            < paper["sum of squares"]
            <= by_rule["nothing bypassed"]["sum of squares"] * (1 + 1e-12)
        )
        assert paper["greatest growth"] <= 1e-12
        assert rejected["greatest growth"] > 10


@pytest.mark.parametrize("seed", ten(range(20)))
@pytest.mark.parametrize(
    ("mechanism", "rule"), [(LAPLACE, BypassRule.PURE_DP), (GAUSSIAN, BypassRule.SINGLE_CHILD)]
)
def test_the_papers_rules_are_those_of_the_spine(seed, mechanism, rule, random_spine):
    """The study's bypassing and the product's give the same measurements: every share on every path."""
    rng = np.random.default_rng([91, seed])
    spine = random_spine(rng, 20, 4)
    parts = [
        Fraction(int(k), 64)
        for k in rng.multinomial(64 - spine.n_levels, [1 / spine.n_levels] * spine.n_levels) + 1
    ]
    made, shares = bypass(spine, uniform_shares(spine, dict(zip(spine.geolevels, parts, strict=True))), rule)
    start = shares_by_level(spine, [float(part) for part in parts])
    ours, _ = rhode_island.bypassed(
        spine, start, rhode_island.rule_of(rhode_island.RuleName.PAPER, spine, mechanism)
    )
    assert _paths(spine, ours) == _paths(
        made.spine,
        [np.array([float(shares.values[k]) for k in positions]) for positions in shares.positions],
    )


def _paths(spine, shares):
    """For every block, the shares above 0 on its path, root first."""
    codes = spine.geocodes[-1].tolist()
    columns = [np.asarray(shares[level])[spine.ancestors(level)] for level in range(spine.n_levels)]
    return {code: [share for share in path if share > 0] for code, *path in zip(codes, *columns, strict=True)}


def test_rhode_island_distances_fall(shared_data, monkeypatch):
    few = dict(list(rhode_island._SPINES.items())[:3])
    monkeypatch.setattr(rhode_island, "_SPINES", few)
    table = rhode_island.distances(StudyInputs(shared_data)).tables["rhode-island-distances"]
    places = table.filter(pl.col("areas") == "place")["mean"].to_list()
    assert places == pytest.approx([29.3056, 29.3056, 8.0833], abs=1e-4)
    assert table.filter(pl.col("areas") == "tribal_area")["mean"].to_list() == [34, 1, 1]


@pytest.mark.nightly
def test_rhode_island_errors(shared_data):
    """With equal queries at every geolevel bypassing makes no area worse; with production's, it does the State."""
    table = rhode_island.errors(StudyInputs(shared_data)).tables["rhode-island-errors"]
    by_case = {key[0]: frame for key, frame in table.group_by("noise and queries")}
    equal = by_case["Laplace, equal queries"]
    kept, bypassed = (equal.filter(pl.col("bypassing") == flag) for flag in (False, True))
    assert kept["areas"].equals(bypassed["areas"])
    assert (bypassed["mean"] <= kept["mean"] * (1 + 1e-9)).all()
    state = by_case["Laplace, production's queries"].filter(pl.col("areas") == "State")
    assert all(after > 8 * before for before, after in pairwise(state["mean"][:2]))
    spared = by_case["Laplace, production's queries, each spared"]
    kept, bypassed = (spared.filter(pl.col("bypassing") == flag) for flag in (False, True))
    assert (bypassed["mean"] <= kept["mean"] * (1 + 1e-9)).all()
    assert (bypassed["mean"] < kept["mean"] * (1 - 1e-6)).any()


@pytest.mark.nightly
def test_the_figures_are_drawn(tmp_path, command):
    command(
        "study",
        "geographic-spines",
        "--figure",
        "1",
        "--figure",
        "2",
        "--out",
        tmp_path,
        "-q",
        "--plots",
        "png",
    )
    for name in ("figure-1", "figure-2"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert pl.read_csv(tmp_path / "paper-and-ours.csv")["verdict"].unique().to_list() == ["agrees"]


def test_groups_are_near_the_best_that_any_could_do(monkeypatch):
    """In states so small that many areas lie in most tracts of a county, the bound is looser than in larger ones."""
    monkeypatch.setattr(bounds, "_BLOCKS", 3_000)
    table = bounds.made_up_groups(StudyInputs(None)).tables["groups"]
    together = table.filter(pl.col("areas") == "all together")
    assert together["groups"].to_list() == ["the paper's", "by the sum of distances"] * 2
    assert (table["least distance"] <= table["distance"] + 1e-9).all()
    assert (table["least standard deviation"] <= table["standard deviation"] * (1 + 1e-9)).all()
    for _, state in together.group_by("state"):
        paper, by_sum = state.sort("groups", descending=True).to_dicts()
        assert by_sum["distance"] <= paper["distance"]
        assert by_sum["gap of the distance"] < 0.25
        assert paper["gap of the standard deviation"] < 0.15
        assert paper["shared gap of the distance"] == 0
    ours = table.filter(pl.col("groups") == "the paper's")
    assert (table["shared gap of the distance"].drop_nulls() >= 0).all()
    assert (ours["shared gap of the standard deviation"] < 0.02).all()
    assert (ours["shared standard deviation"] >= ours["least standard deviation"] * (1 - 1e-12)).all()


@pytest.mark.nightly
def test_rhode_islands_groups_are_within_a_fiftieth_of_the_best(shared_data):
    table = bounds.rhode_island_groups(StudyInputs(shared_data)).tables["rhode-island-groups"]
    paper = table.filter((pl.col("areas") == "all together") & (pl.col("groups") == "the paper's"))
    assert paper["gap of the distance"].item() < 0.02
    assert paper["gap of the standard deviation"].item() < 0.02


def test_tract_groups_are_near_the_best_that_any_could_do(monkeypatch):
    monkeypatch.setattr(tract_groups, "_BLOCKS", 3_000)
    table = tract_groups.made_up_tract_groups(StudyInputs(None)).tables["tract-groups"]
    assert (table["gap of the distance"] >= 0).all()
    for least in ("least standard deviation", "least with block groups"):
        assert (table[least] <= table["standard deviation"] * (1 + 1e-12)).all()
    by_sum = table.filter(
        (pl.col("areas") == "all together") & (pl.col("groups") == "by the sum of distances")
    )
    assert (by_sum["gap of the distance"] < 0.05).all()
    assert (by_sum["gap of the standard deviation"] < 0.1).all()


@pytest.mark.nightly
def test_rhode_islands_tract_groups_are_within_a_tenth_of_the_best(shared_data):
    table = tract_groups.rhode_island_tract_groups(StudyInputs(shared_data)).tables[
        "rhode-island-tract-groups"
    ]
    by_sum = table.filter(
        (pl.col("areas") == "all together") & (pl.col("groups") == "by the sum of distances")
    )
    assert by_sum["gap of the distance"].item() < 0.01
    assert by_sum["gap of the standard deviation"].item() < 0.1
    assert by_sum["gap with block groups"].item() < 0.1
