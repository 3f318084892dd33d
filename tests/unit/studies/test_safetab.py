"""`tallyveil study safetab`: Tables 1, 2 and 4 with printed, corrected and exact columns."""

import math
import sys
from fractions import Fraction

import polars as pl
import pytest

from tallyveil.accounting import Neighbours, compose, zcdp_to_epsilon
from tallyveil.cli.main import main
from tallyveil_studies.exhibit import StudyInputs, Verdict
from tallyveil_studies.safetab import margins as module_of_table_2
from tallyveil_studies.safetab.margins import (
    budgets_for_margins,
    exact_budgets,
    formula_budgets,
    losses,
    margins_by_formula,
    stability_accounting,
)
from tallyveil_studies.safetab.parameters import DELTA, LEVELS, paper_event, printed_totals

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module", autouse=True)
def rows_of_printed_budgets():
    """Each row of Table 2 takes seconds. `tallyveil study safetab` makes those of the other budgets too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module_of_table_2, "BUDGETS", {"printed": printed_totals})
        yield


@pytest.fixture(scope="module")
def table_2(rows_of_printed_budgets):
    return losses(StudyInputs())


@pytest.fixture(scope="module")
def margins():
    return budgets_for_margins(StudyInputs())


def test_tables_1_and_4(margins):
    """Trusted values of the errata: unrounded formulas, least budgets, and the coverage of both."""
    frame = margins.tables["tables-1-and-4"]
    assert frame["level"].to_list() == list(LEVELS)
    row = frame.row(0, named=True)
    assert row["Geometric: total, corrected"] == pytest.approx(4.2796, abs=5e-5)
    assert row["Gaussian: total, corrected"] == pytest.approx(0.53333, abs=5e-6)
    assert row["Geometric: coverage, corrected"] == pytest.approx(0.9395, abs=5e-5)
    assert row["Gaussian: coverage, corrected"] == pytest.approx(0.9670, abs=5e-5)
    for noise in ("Geometric", "Gaussian"):
        assert (frame[f"{noise}: coverage, exact"] >= 0.95).all()
        assert (frame[f"{noise}: coverage, exact"] < 0.950001).all()
    for noise, total, bases in (
        ("Geometric", 16.11276, (".456902", ".259767", ".059313")),
        ("Gaussian", 1.214748, (".045119", ".014488", ".000753")),
    ):
        budgets = exact_budgets(noise)
        assert float(sum(budgets)) == pytest.approx(total, abs=6e-6)
        for budget, base in zip((budgets[0], budgets[2], budgets[4]), bases, strict=True):
            assert float(budget / 10) == pytest.approx(float(base), abs=6e-7)


def test_margins_stand_beside_what_they_cost(margins):
    table = margins.tables["tables-1-and-4-parameters"]
    assert table.height == 2 * 2 * len(LEVELS)
    geometric = table.filter(noise="Geometric", budgets="exact", level="Nation, Detailed")
    assert 0 < geometric["epsilon_at_1e-5"].item() < geometric["epsilon_at_1e-11"].item()
    assert geometric["epsilon_at_1e-11"].item() <= geometric["total"].item()  # pure differential privacy
    gaussian = table.filter(noise="Gaussian", budgets="exact", level="Nation, Detailed")
    rho = Fraction(gaussian["total"].item())
    assert gaussian["epsilon_at_1e-10"].item() < zcdp_to_epsilon(rho, Fraction("1e-10"))


def test_margins_by_formula_cover_less_than_least_ones():
    """Equation 36 by hand: b = 9 / (0.9 * 4.27), and b ln(40 / (1 + e^(1 / b))) = 6.46, so that the formula says 6."""
    frame = margins_by_formula(StudyInputs()).tables["margins"]
    row = frame.row(
        by_predicate=(pl.col("noise") == "Geometric")
        & (pl.col("level") == "Nation, Detailed")
        & (pl.col("number") == "cell of stage 2")
        & (pl.col("confidence") == 0.95),
        named=True,
    )
    assert row["formula"] == pytest.approx(6.462792, abs=1e-6)
    assert (row["margin by formula"], row["least margin"]) == (6, 7)
    ratio = math.exp(-0.9 * 4.27 / 9)  # P(|Y| > m) = 2 q^(m + 1) / (1 + q) with q = e^(-1 / b)
    assert row["coverage"] == pytest.approx(1 - 2 * ratio**7 / (1 + ratio), abs=1e-12)
    assert row["coverage of the least"] == pytest.approx(1 - 2 * ratio**8 / (1 + ratio), abs=1e-12)
    assert (frame["coverage of the least"] >= frame["confidence"]).all()
    short = frame["coverage"] < frame["confidence"]
    assert ((frame["remark"] != "") == short).all()
    assert short.sum() == 48


def test_stability_accounting_costs_nine_times_the_rho():
    frame = stability_accounting(StudyInputs()).tables["stability"]
    # The claim of stability accounting is no stronger than the exact one of composition with the same budget.
    assert (frame["stability: epsilon_at_1e-10"] >= frame["composition: epsilon_at_1e-10"]).all()
    ratio = frame["budget by stability, same noise"] / frame["budget"]
    assert ratio.to_list() == pytest.approx([1.0] * 7 + [9.0] * 7)
    same = frame["margin of a cell, stability, same budget"] / frame["margin of a cell, composition"]
    assert same.to_list() == pytest.approx([1.0] * 7 + [3.0] * 7)


def test_what_does_not_agree_has_a_remark(table_2, margins):
    agrees = (Verdict.AGREES, Verdict.HOLDS)
    for comparison in (*table_2.comparisons, *margins.comparisons):
        assert comparison.verdict in agrees or comparison.printed.remark, comparison.quantity


def test_table_2(table_2):
    rows = {
        (row["budgets"], row["noise"], row["TotalOnly"]): row
        for row in table_2.tables["table-2"].iter_rows(named=True)
    }
    for key, column, wanted, error in (
        (("printed", "Geometric", "none"), "exact", 12.7132574796, 1e-8),
        (("printed", "Geometric", "nation and state"), "exact", 13.4743612261, 1e-8),
        (("printed", "Geometric", "all"), "exact", 14.0149540336, 1e-8),
        (("printed", "Gaussian", "none"), "exact", 11.6800611785, 1e-8),
        (("printed", "Geometric", "none"), "RDP, corrected", 12.900069, 2e-5),
        (("printed", "Geometric", "all"), "RDP, corrected", 14.164981, 2e-5),
        (("printed", "Geometric", "all"), "RDP as stated", 13.546347, 1e-6),
        (("printed", "Gaussian", "all"), "zCDP, analytical", 12.805868, 1e-6),
        (("printed", "Gaussian", "all"), "zCDP, experimental", 12.177309, 1e-6),
    ):
        assert rows[key][column] == pytest.approx(wanted, abs=error)


@pytest.mark.parametrize(
    ("budgets", "noise", "wanted", "error"),
    [
        (formula_budgets, "Geometric", 12.7414435001, 1e-8),
        (exact_budgets, "Gaussian", 10.733, 5e-4),
        pytest.param(exact_budgets, "Geometric", 13.508, 5e-4, marks=pytest.mark.soak),
    ],
)
def test_epsilon_of_other_budgets(budgets, noise, wanted, error):
    found = compose(paper_event(noise, budgets(noise)), neighbours=Neighbours.UNBOUNDED).epsilon(DELTA)
    assert found.upper == pytest.approx(wanted, abs=error)


def test_the_printed_13_2_is_no_bound_with_total_only_groups(table_2):
    verdicts = {c.quantity: c.verdict.value for c in table_2.comparisons}
    assert verdicts["Geometric, exactly, TotalOnly: none"] == "bound holds"
    assert verdicts["Geometric, exactly, TotalOnly: all"] == "bound violated"
    assert verdicts["zCDP (experimental), Gaussian"] == "agrees"
    assert verdicts["pure epsilon, Geometric"] == "agrees"


def test_the_event_costs_the_sum_of_its_levels():
    from tallyveil.accounting import epsilon_of, rho_of

    assert rho_of(paper_event("Gaussian", printed_totals("Gaussian"))) == Fraction("1.41")
    assert epsilon_of(paper_event("Geometric", printed_totals("Geometric"), "all")) == Fraction("15.29")


def test_the_command_needs_no_flags(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["tallyveil", "study", "safetab", "--out", str(tmp_path), "-q"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert {p.name for p in tmp_path.iterdir()} == {
        ".tallyveil-output",
        "table-1.csv",
        "table-1-parameters.csv",
        "table-2.csv",
        "table-4.csv",
        "table-4-parameters.csv",
        "margins.csv",
        "stability.csv",
        "paper-and-ours.csv",
    }
    assert pl.read_csv(tmp_path / "paper-and-ours.csv").height == 65
