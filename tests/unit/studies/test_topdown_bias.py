"""TopDown's errors by size beside lattice noise: the same cost, and the errors of the releases."""

import gzip
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from tallyveil.accounting import Neighbours
from tallyveil.accounting.guarantee import BETA, DELTAS, MU, epsilon_name
from tallyveil.api.making import run
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.report.drawing import write_plot
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.guarantee import laplace_guarantee
from tallyveil.subspace.lattice import lattice_of
from tallyveil_studies.exhibit import StudyInputs
from tallyveil_studies.integer_subspace.topdown_bias import (
    DISTRICT_FILE,
    LATTICE,
    LATTICE_LAW,
    MOVED,
    ONE_PASS,
    TOTALS_FIRST,
    populations,
    release_file,
    topdown_bias,
)
from tallyveil_studies.integer_subspace.topdown_bias import strategy as stated

PARAMETERS = ("pure_epsilon", *(epsilon_name(delta) for delta in DELTAS), BETA, MU)
RACES = ("hisp", "white", "black", "aian", "asian", "nhpi", "other", "two")
SMALL_COUNTIES, LARGE_COUNTIES = 100, 100
KEYS = 2


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """Illinois and Kansas made up: counties of 300 and of 64,000 persons; districts of 0, 40 and 1,500."""
    rows = []
    for county in range(SMALL_COUNTIES + LARGE_COUNTIES):
        rows.append(_row("17", county, 300 if county < SMALL_COUNTIES else 64_000))
    for county in range(3):
        rows += [_row("20", county, persons) for persons in (0, 40, 40, 1_500)]
    rows.append(_row("11", 1, 5_000))  # one county is the State, whose total is exact
    folder = tmp_path_factory.mktemp("districts")
    (folder / "vtd").mkdir()
    names = [f"{kind}_{race}" for kind in ("pop", "vap") for race in RACES]
    header = ",".join(["state", "county", "vtd", "pop", *names])
    (folder / DISTRICT_FILE).write_bytes(gzip.compress("\n".join([header, *rows]).encode()))
    return folder


def _row(state, county, persons):
    """Everybody is in one group in a small place. The groups of a large one are equally large."""
    alone = dict.fromkeys(RACES, 0) | {"white": persons}
    people = alone if persons < 10_000 else dict.fromkeys(RACES, persons // len(RACES))
    adults = [count * 3 // 4 for count in people.values()]
    return ",".join(map(str, [state, f"{county:03d}", "x", persons, *people.values(), *adults]))


@pytest.fixture(scope="module")
def found(public):
    """The findings, and the finest published counts of every release in the order they were made."""
    releases = []

    def make(release_file, out, *, insecure_test_key):
        run(release_file, out, insecure_test_key=insecure_test_key)
        plan = load_plan(release_file)
        finest = plan.strategy.geolevels[-1]
        counts = pl.read_parquet(out / "histogram" / f"{finest}.parquet")
        releases.append((finest, dict(plan.estimation)[finest].passes[0] == ("total",), counts))

    return topdown_bias(StudyInputs(public, make_release=make), keys=KEYS), releases


def test_the_population_query_costs_what_the_lattice_noise_costs(public, tmp_path):
    for population in populations(StudyInputs(public)):
        (tmp_path / "release.toml").write_text(release_file(population.digits, '[["*"]]'))
        strategy = load_plan(tmp_path / "release.toml").strategy
        assert strategy.event() == stated(population.digits).event()
        assert strategy.neighbours is Neighbours.BOUNDED
        assert strategy.share(population.geolevel, "total") == Fraction("0.192")
        assert strategy.total == 4 * Fraction("0.16") * len(population.digits)
    lattice = lattice_of(ConstraintSystem.from_sets([range(9)], 9, ["State"]))
    assert laplace_guarantee(LATTICE_LAW, lattice).at(MOVED) == (Fraction("0.192"), 0)


def test_populations_are_the_files(public):
    counties, districts = populations(StudyInputs(public))
    assert counties.totals.height == SMALL_COUNTIES + LARGE_COUNTIES + 3  # without the State of one county
    assert districts.sizes.tolist() == [0, 40, 40, 1_500] * 3
    for population in (counties, districts):
        summed = population.records.group_by("geocode").agg(pl.col("count").sum())
        assert dict(summed.iter_rows()) == {g: n for g, n in population.totals.iter_rows() if n}
    adults = counties.records.filter(voting_age="18_plus", race_ethnicity="white", geocode="17000")
    assert adults["count"].to_list() == [300 * 3 // 4]


def _errors_of(releases, population, totals_first):
    """Errors of every release, counted one row at a time: [releases, geounits]."""
    found = []
    for finest, first, counts in releases:
        if finest == population.geolevel and first is totals_first:
            published: dict[str, int] = {}
            for row in counts.iter_rows(named=True):
                published[row["geocode"]] = published.get(row["geocode"], 0) + row["count"]
            found.append([published.get(g, 0) - true for g, true in population.totals.iter_rows()])
    return np.array(found)


@pytest.mark.nightly
def test_errors_by_size_are_those_of_the_releases(found, public):
    findings, releases = found
    table = findings.tables["topdown-bias"]
    assert len(releases) == 2 * 2 * KEYS
    for population in populations(StudyInputs(public)):
        states = population.totals["geocode"].str.slice(0, 2).to_numpy()
        for method, totals_first in ((ONE_PASS, False), (TOTALS_FIRST, True)):
            errors = _errors_of(releases, population, totals_first)
            assert len(errors) == KEYS
            for state in set(states):
                assert not errors[:, states == state].sum(axis=1).any()  # the State's total is exact
            rows = table.filter(geolevel=population.geolevel, method=method)
            for row in rows.iter_rows(named=True):
                own = errors[:, (population.sizes >= row["smallest"]) & (population.sizes <= row["largest"])]
                assert row["geounits"] == own.shape[1]
                assert row["mean_error"] == pytest.approx(own.mean())
                assert row["root_mean_square"] == pytest.approx(np.sqrt((own**2.0).mean()))
                assert row["mean_error_standard_error"] == pytest.approx(
                    abs(np.diff(own.mean(axis=1)))[0] / 2
                )
            assert rows["geounits"].sum() == population.totals.height


@pytest.mark.nightly
def test_one_pass_moves_people_from_large_counties_to_small_ones(found):
    """Only small counties have empty groups, where noise below zero is avoided."""
    findings, _ = found
    table = findings.tables["topdown-bias"].filter(geolevel="County", smallest=300)
    by_method = {row["method"]: row for row in table.iter_rows(named=True)}
    one, first, lattice = (by_method[method] for method in (ONE_PASS, TOTALS_FIRST, LATTICE))
    assert one["mean_error"] > 5 * one["mean_error_standard_error"]
    assert one["mean_error"] > 2
    assert abs(first["mean_error"]) < 2
    assert abs(lattice["mean_error"]) < 4 * lattice["mean_error_standard_error"]
    slopes = findings.tables["topdown-bias-slopes"].filter(state="17")
    steep = dict(slopes.select("method", "slope_on_rank").iter_rows())
    assert steep[ONE_PASS] < -2 < steep[LATTICE] + 2


@pytest.mark.nightly
def test_slopes_are_least_squares(found, public):
    findings, releases = found
    counties, _ = populations(StudyInputs(public))
    errors = _errors_of(releases, counties, totals_first=False)
    kansas = np.flatnonzero(counties.totals["geocode"].str.starts_with("20").to_numpy())
    fitted = np.mean(
        [np.polyfit([0, 0.5, 1], one[kansas], 1)[0] for one in errors]
    )  # equal sizes keep their order
    slopes = findings.tables["topdown-bias-slopes"].filter(method=ONE_PASS)
    by_state = dict(slopes.select("state", "slope_on_rank").iter_rows())
    assert by_state["20"] == pytest.approx(fitted)
    assert by_state["all"] == pytest.approx((by_state["17"] + by_state["20"]) / 2)


@pytest.mark.nightly
def test_lattice_noise_pays_for_being_unbiased_with_negative_counts(found):
    table = found[0].tables["topdown-bias"].filter(method=LATTICE)
    added = dict(
        table.filter(geolevel="District").select("smallest", "added_by_setting_negatives_to_zero").iter_rows()
    )
    # Half the mean absolute noise of l1 noise on a few cells; at 1,500 persons no noise reaches zero.
    assert added[0] == pytest.approx(5, abs=1)
    assert added[1_500] == 0
    assert any(LATTICE in note and "voting districts are negative" in note for note in found[0].notes)


@pytest.mark.nightly
def test_every_file_says_what_its_noise_costs(found):
    for name, table in found[0].tables.items():
        assert table.select(*PARAMETERS).null_count().sum_horizontal().item() == 0, name
        costs = dict(table.select("method", "pure_epsilon").iter_rows())
        assert costs[LATTICE] == 0.192
        assert costs[ONE_PASS] == costs[TOTALS_FIRST] > 3 * costs[LATTICE]
    by_geolevel = dict(
        found[0].tables["topdown-bias"].filter(method=ONE_PASS).select("geolevel", "pure_epsilon").iter_rows()
    )
    assert by_geolevel == {"County": 1.28, "District": 1.92}  # two geolevels and three, of 0.64 each
    epsilons = found[0].tables["topdown-bias"].filter(geolevel="County", method=ONE_PASS)["epsilon_at_1e-10"]
    assert 0.5 < epsilons[0] <= 1.28


@pytest.mark.nightly
def test_the_drawing_shows_errors_of_both_signs(found, tmp_path):
    drawings = found[0].drawings
    assert set(drawings) == {"topdown-bias", "topdown-bias-districts", "topdown-bias-illinois"}
    write_plot(tmp_path / "sizes.svg", drawings["topdown-bias"], "errors")
    assert "\u2212" in (tmp_path / "sizes.svg").read_text(encoding="utf-8")  # a minus sign on the axis
