"""The census study: its numbers beside the paper's, and beside values from exact arithmetic."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
import pytest

from tallyveil.accounting import DiscreteGaussian as DiscreteGaussianEvent
from tallyveil.accounting import Neighbours, compose, zcdp_to_epsilon_textbook
from tallyveil.budget.presets import load_product
from tallyveil.errors import ConfigError
from tallyveil.noise import DiscreteGaussian
from tallyveil_studies.exhibit import MissingDataError, Places, StudyInputs, Verdict
from tallyveil_studies.fdp_census import allocation, appendix, catalogue, curves, products, table_1
from tallyveil_studies.fdp_census.allocation import printed
from tallyveil_studies.fdp_census.appendix import residual
from tallyveil_studies.fdp_census.catalogue import EXHIBITS
from tallyveil_studies.fdp_census.curves import first_term_reduction, zcdp_log_delta, zcdp_tradeoff
from tallyveil_studies.fdp_census.education import (
    EDUCATION_FILE,
    INCOME_FILE,
    TRACTS_FILE,
    alameda_tracts,
    counties_and_states,
    noise_aware_slope,
    slope,
    slope_errors,
)
from tallyveil_studies.fdp_census.noisy_counts import FILES, LEVELS, counts_by, expected_errors, study_noise

NOTHING = StudyInputs()

# Where the paper's own numbers disagree with what they stand for; its remarks in printed.toml say why.
KNOWN = {
    ("epsilon lower by percent, least", "8.49"),
    ("epsilon lower by percent, most", "13.21"),
    ("all geolevels, Bureau, delta 1e-10", "21.97"),
    ("all geolevels, reduction in percent", "8.59"),
}


def disagreements(findings):
    return {
        (c.quantity, c.printed.text)
        for c in findings.comparisons
        if c.verdict in (Verdict.LAST_DIGIT, Verdict.DIFFERS, Verdict.VIOLATED)
    }


def test_names_are_unique_and_follow_the_paper():
    names = [exhibit.name for exhibit in EXHIBITS]
    assert len(set(names)) == len(names)
    for n in (1, 2, 3):
        assert f"table-{n}" in names
    for n in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15):
        assert f"figure-{n}" in names


def test_printed_numbers_have_a_source():
    assert printed("table-1-ours")["State"].value == Fraction("4.25")
    assert "Table 1" in printed("table-1-ours")["State"].source
    assert len(printed("table-2")) == 32
    with pytest.raises(ConfigError, match="there are table-1-bureau"):
        printed("table-9")


def test_the_allocation_is_the_papers():
    assert sum(allocation.shares().values()) == 1
    assert sum(allocation.geolevel_rho(v) for v in allocation.variances().values()) == allocation.RHO
    for geolevel, number in printed("table-1-bureau").items():
        assert abs(allocation.variances()[geolevel] - number.value) <= number.unit / 2


@cache
def table_1_findings():
    return table_1.reduced_variances(NOTHING)


@pytest.mark.nightly
def test_table_1_agrees_to_the_last_digit():
    findings = table_1_findings()
    missed = {entry for entry in disagreements(findings) if "larger with the printed variance" in entry[0]}
    assert disagreements(findings) == missed
    assert len(findings.comparisons) == 32
    table = findings.tables["table-1"]
    assert (table["epsilon_at_our_variance"] <= table["epsilon"] * (1 + 1e-12)).all()


@pytest.mark.nightly
def test_the_command_writes_table_1(command, tmp_path, monkeypatch):
    (exhibit,) = [one for one in EXHIBITS if one.name == "table-1"]
    assert exhibit.recompute is table_1.reduced_variances
    shared = replace(exhibit, recompute=lambda _: table_1_findings())
    monkeypatch.setattr(catalogue, "EXHIBITS", (shared,))
    assert "54.19" in command("study", "fdp-census", "--table", "1", "--out", tmp_path)
    table = pl.read_csv(tmp_path / "table-1.csv")
    assert table["geolevel"].to_list()[0] == "US"
    assert table["our_variance"][0] == pytest.approx(54.19395, abs=1e-4)
    comparisons = pl.read_csv(tmp_path / "paper-and-ours.csv")
    requirement = comparisons["quantity"].str.contains("is larger with the printed variance")
    assert set(comparisons.filter(~requirement)["verdict"]) == {"agrees"}
    assert comparisons.filter(requirement)["verdict"].to_list().count("bound violated") == 6
    assert comparisons.height == 32


@pytest.mark.nightly
def test_table_1_from_rounded_variances_is_the_known_one():
    # Balls of radius 1e-14 from exact arithmetic.
    known = {"US": 54.191402355493, "State": 4.245685818070, "County": 13.286231556140}
    table = table_1_findings().tables["table-1-from-rounded-variances"]
    for geolevel, variance in known.items():
        ours = table.filter(geolevel=geolevel)["our_variance"].item()
        assert variance - 1e-11 <= ours <= variance * (1 + 1e-11)


@pytest.mark.nightly
def test_table_1_misses_the_bureaus_curve_at_six_geolevels_as_printed():
    table = table_1_findings().tables["table-1-whole-curve"]
    assert (table["log_delta_excess_bound"] <= 0).all()
    rows = {row["geolevel"]: row for row in table.iter_rows(named=True)}
    assert [name for name, row in rows.items() if row["paper_variance_suffices"]] == [
        "Optimized Block Group",
        "Block",
    ]
    missed = {  # delta up to which the noise matched at one delta misses, and the least noise for all deltas
        "State": (2.1608e-11, 4.25622),
        "PEPG": (1.2168e-11, 8.72023),
        "Tract Subset Group": (1.2168e-11, 8.72023),
        "Tract Subset": (1.8515e-11, 4.88111),
        "Optimized Block Group": (1.2539e-11, 9.64990),
    }
    for name, row in rows.items():
        delta, variance = missed.get(name, (0.0, row["variance_matched_at_one_delta"]))
        assert (row["epsilon_larger_up_to_delta"] or 0.0) == pytest.approx(delta, rel=1e-4)
        assert row["variance_for_all_deltas"] == pytest.approx(variance, rel=3e-6)


@pytest.mark.nightly
def test_table_1_names_the_parameters_before_and_after():
    table = table_1_findings().tables["table-1-parameters"]
    assert table.height == 24
    state = table.filter(geolevel="State")
    before, matched, least = state.iter_rows(named=True)
    assert (
        before["epsilon_at_1e-11"]
        == allocation.geolevel_guarantee(allocation.variances()["State"]).epsilon("1e-11").upper
    )
    assert matched["epsilon_at_1e-11"] <= before["textbook_epsilon_at_1e-11"]
    for delta in ("1e-5", "1e-10", "1e-11"):
        after = least[f"epsilon_at_{delta}"]
        assert before[f"epsilon_at_{delta}"] < after < before[f"textbook_epsilon_at_{delta}"]
    assert before["beta_at_alpha_0.05"] > least["beta_at_alpha_0.05"] > matched["beta_at_alpha_0.05"]
    assert [round(value, 4) for value in state["mu"]] == [1.4155, 1.5363, 1.5343]


def test_queries_before_composition():
    rows = products._query_rows("units", load_product("redistricting-units-us").strategies[0])
    assert [row["geolevel"] for row in rows] == ["US", "State", "County", "Tract", "Block_Group", "Block"]
    block = rows[-1]
    law = DiscreteGaussianEvent(Fraction(block["variance_proxy"]).limit_denominator(10**12), multiplicity=2)
    alone = compose(law, neighbours=Neighbours.BOUNDED)
    assert block["epsilon_at_1e-10"] == pytest.approx(alone.epsilon("1e-10").upper, rel=1e-9)
    assert block["mean_squared_error"] == pytest.approx(block["variance_proxy"], rel=1e-9)


@pytest.mark.nightly
def test_table_3():
    assert not disagreements(table_1.allocation(NOTHING))


@pytest.mark.parametrize("case", ["n=5, variance 1", "n=10, variance 5", "n=20, variance 10"])
def test_residuals_are_below_the_papers_bounds(case):
    n, variance = (int(part.split("=")[-1].split()[-1]) for part in case.split(","))
    bounds = residual(n, Fraction(variance))
    assert 0 < bounds.lower <= bounds.upper <= bounds.lower * (1 + 1e-12)
    assert bounds.upper < printed("table-2")[case].value


def test_residual_by_convolution():
    law = DiscreteGaussian(Fraction(1))
    single = np.array([law.probability(x) for x in range(-12, 13)])
    total = single
    for _ in range(4):
        total = np.convolve(total, single)
    k = np.arange(total.size) - total.size // 2
    density = np.exp(-(k**2) / 10) / math.sqrt(10 * math.pi)
    assert residual(5, Fraction(1)).upper == pytest.approx(np.abs(total - density).max(), rel=1e-7)


def test_figure_3_agrees_but_for_what_is_known():
    assert disagreements(curves.epsilons(NOTHING)) <= KNOWN


@pytest.mark.soak
def test_figure_7_values():
    findings = curves.overall_profile(NOTHING)
    assert disagreements(findings) <= KNOWN
    values = dict(findings.tables["figure-7-values"].iter_rows())
    assert values["epsilon at 1e-10, exact"] == pytest.approx(20.324689750790, abs=1e-9)
    assert values["variance reduction in percent, exact"] == pytest.approx(12.2798, abs=1e-4)
    whole = values["variance reduction in percent, exact, at every delta of 1e-10 or more"]
    assert 12.27979 < whole <= values["variance reduction in percent, exact"]
    table = findings.tables["figure-7"]
    assert (table["exact: upper"] <= table["bureau"] + 1e-15).all()
    assert (table["exact: upper"] <= table["first_term_only"] * (1 + 1e-9)).all()


def test_the_papers_reduction_follows_from_its_epsilon_and_first_term():
    assert first_term_reduction(21.97) == pytest.approx(8.59, abs=0.005)


def test_bureau_curve():
    rho = Fraction("3.65")
    epsilon = zcdp_to_epsilon_textbook(rho, Fraction("1e-10"))
    assert zcdp_log_delta(rho, np.array([0.0, 3.0, epsilon])) == pytest.approx(
        [0.0, 0.0, math.log(1e-10)], abs=1e-9
    )


def test_bureau_tradeoff_is_convex_and_below_the_exact_one():
    variance = allocation.variances()["US"]
    alphas = np.linspace(0.0, 1.0, 41)
    bureau = zcdp_tradeoff(allocation.geolevel_rho(variance), alphas)
    assert bureau[0] == pytest.approx(1.0)
    assert bureau[-1] == pytest.approx(0.0)
    assert (np.diff(bureau, 2) >= -1e-9).all()
    exact = [allocation.geolevel_guarantee(variance).beta(alpha).upper for alpha in alphas.tolist()]
    assert (bureau <= np.array(exact) + 1e-12).all()


def test_the_papers_closed_forms_lie_within_the_certified_bounds():
    findings = appendix.closed_forms(NOTHING)
    table = findings.tables["closed-forms"]
    assert table["theorem"].unique(maintain_order=True).to_list() == ["A.7", "A.8", "A.11"]
    assert (table["papers_form"] >= table["exact_lower"]).all()
    assert (table["papers_form"] <= table["exact_upper"]).all()
    assert (table["exact_upper"] <= table["exact_lower"] * (1 + 6e-12)).all()
    assert not disagreements(findings)
    budget = dict(findings.tables["closed-forms-error-budget"].select("error", "ours").iter_rows())
    assert budget["E(1)"] == pytest.approx(5.47e-29, rel=1e-3)
    assert budget["E(1), at 21.97"] > 5.6e-29  # the bound as printed holds at the formula's epsilon only
    assert budget["E(1), at the exact epsilon"] == pytest.approx(2.6e-24, rel=1e-2)


def test_figure_10_is_the_law_of_two_draws():
    table = appendix.two_folds(NOTHING).tables["figure-10"]
    five = table.filter(variance=5)
    assert five["probability"].sum() == pytest.approx(1, abs=1e-4)
    at = dict(zip(five["i"], five["probability"], strict=True))
    law = DiscreteGaussian(Fraction(5))
    assert at[3] == pytest.approx(
        sum(law.probability(x) * law.probability(3 - x) for x in range(-40, 44)), rel=1e-13
    )
    assert five["difference"].abs().max() < 1e-15


def test_the_noise_aware_slope_corrects_what_flattens():
    random = np.random.default_rng(5)
    true = np.stack([random.integers(60, 140, size=400)] * 2, axis=1)
    true[:, 1] = 200 - true[:, 0]
    income = 1000.0 * true[:, 1] / 200
    noisy = true + np.rint(random.normal(0, 8, size=(300, 400, 2))).astype(np.int64)
    plain = slope(income, noisy[..., -1] / noisy.sum(axis=-1)).mean()
    aware = noise_aware_slope(income, noisy, 64.0).mean()
    assert plain < 960
    assert aware == pytest.approx(1000, abs=5)


def test_replacement_counts_every_query_twice():
    table = products.replacement(NOTHING).tables["replacement"]
    row = table.row(by_predicate=(pl.col("geolevel") == "State") & (pl.col("delta") == "1e-11"), named=True)
    event = DiscreteGaussianEvent(allocation.variances()["State"], multiplicity=20)
    exact = compose(event, neighbours=Neighbours.BOUNDED).epsilon("1e-11")
    assert (row["exact_replaced_lower"], row["exact_replaced_upper"]) == (exact.lower, exact.upper)
    assert row["exact_replaced_upper"] < row["textbook_replaced"]
    everything = table.filter(geolevel="all eight geolevels", delta="1e-10")
    assert everything["rho_replaced"].item() == pytest.approx(7.3)
    assert everything["exact_replaced_upper"].item() == pytest.approx(31.019315326174, abs=1e-9)


def test_expected_errors_are_the_laws():
    variance = Fraction(5)
    squared, absolute = expected_errors(np.array([0, 3, 10**6]), variance, nonnegative=False)
    assert squared == pytest.approx(DiscreteGaussian(variance).variance_float(), rel=1e-12)
    assert absolute == pytest.approx(
        math.sqrt(10 / math.pi), rel=0.02
    )  # the discrete law is a little narrower
    halved, _ = expected_errors(np.zeros(4, dtype=np.int64), variance, nonnegative=True)
    assert halved == pytest.approx(squared / 2, rel=1e-12)


def test_expected_errors_are_what_draws_show():
    counts = np.full((40_000, 1), 2)
    drawn = study_noise().dense(DiscreteGaussian(Fraction(9)), 200, 0, range(40_000), 1)
    error = np.maximum(counts + drawn, 0) - counts
    squared, absolute = expected_errors(counts, Fraction(9), nonnegative=True)
    assert np.mean(error**2) == pytest.approx(squared, rel=0.05)
    assert np.mean(np.abs(error)) == pytest.approx(absolute, rel=0.03)


def test_slope_is_least_squares():
    x, y = np.array([0.1, 0.2, 0.4]), np.array([20.0, 35.0, 50.0])
    assert slope(y, x) == pytest.approx(np.polyfit(x, y, 1)[0])


def test_slope_errors_shrink_with_the_noise():
    counts = np.array([[500, 300], [400, 350], [700, 100], [600, 390]])
    places = Places(counts, np.array([50_000.0, 55_000.0, 31_000.0, 48_000.0]))
    small, large = (
        slope_errors(study_noise(), places, Fraction(v), (201, n), 666)[0] for n, v in enumerate((1, 25))
    )
    assert small.size == 666
    assert large.mean() / small.mean() == pytest.approx(5.0, rel=0.2)


def test_data_that_are_not_there(tmp_path):
    figure = next(exhibit for exhibit in EXHIBITS if exhibit.name == "figure-6")
    with pytest.raises(MissingDataError, match="--data"):
        figure.recompute(NOTHING)
    with pytest.raises(MissingDataError, match="ri_2010_counts"):
        figure.recompute(StudyInputs(tmp_path))


def test_rhode_island_counts(shared_data):
    paths = tuple(shared_data / name for name in FILES)
    sizes = {level: len(counts_by(paths, column)) for level, (column, _) in LEVELS.items()}
    assert sizes["State"] == 1
    assert sizes["County"] == 5
    assert sizes["Block"] == 25_181
    for column, _ in LEVELS.values():
        counts = counts_by(paths, column)
        assert counts[:, 0].sum() == 1_052_567
        assert (counts[:, 1:].sum(axis=1) == counts[:, 0]).all()


def test_education_tables(shared_data):
    counties, states = counties_and_states(shared_data / EDUCATION_FILE, shared_data / INCOME_FILE)
    assert len(states.outcome) == 51  # with the District of Columbia; Puerto Rico has no income here
    assert len(counties.outcome) > 3_000
    assert states.counts.shape == (51, 4)
    assert states.counts[0].tolist() == [470_043, 1_020_172, 987_148, 822_595]
    assert states.outcome[0] == 49_881
    tracts = alameda_tracts(shared_data / TRACTS_FILE)
    assert tracts.counts.shape[1] == 6
    assert tracts.outcome[0] == 105_637
