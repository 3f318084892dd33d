"""`tallyveil subspace`: one table from a file, and every mistake in that file."""

import itertools
import json
import re
import sys
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from tests.samples import nightly

from tallyveil.api.verifying import verify
from tallyveil.cli.main import main
from tallyveil.errors import (
    BudgetError,
    ConfigError,
    ConstraintError,
    SchemaError,
    SolverError,
    StoreError,
)
from tallyveil_studies.integer_subspace.examples import DELINQUENT_CHILDREN

FILE = """
[release]
name = "delinquent children"

[table]
path = "children.csv"
count = "children"

[[attributes]]
name = "county"
levels = ["Alpha", "Beta", "Gamma", "Delta"]
[[attributes]]
name = "education"
levels = ["low", "medium", "high", "very high"]

[[constraints]]
name = "county totals"
margin = ["county"]
[[constraints]]
name = "education totals"
margin = ["education"]

[privacy]
epsilon = "1"

[mechanism]
law = "laplace"
norm = "l1"
epsilon = "0.25"
distance = "4"
"""
CHAIN = ('distance = "4"', 'distance = "4"\nsampler = "chain"\n\n[chain]\npairs = 200')
CANARY = 987_654


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.toml"
    path.write_text(FILE)
    frame = pl.DataFrame(
        [
            (county, education, count)
            for county, row in zip(("Alpha", "Beta", "Gamma", "Delta"), DELINQUENT_CHILDREN, strict=True)
            for education, count in zip(("low", "medium", "high", "very high"), row, strict=True)
        ],
        schema=["county", "education", "children"],
        orient="row",
    )
    frame.write_csv(tmp_path / "children.csv")
    return path


@pytest.fixture
def tallyveil(monkeypatch, capsys, plots_are_empty):
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tallyveil", "subspace", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


def edit(path, *changes):
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def test_a_release_keeps_margins_and_pays_once(tallyveil, table, tmp_path):
    out = tmp_path / "out"
    code, said, _ = tallyveil("release", table, "--out", out, "-q")
    assert (code, said) == (0, "")
    noisy = pl.read_csv(out / "table.csv")["count"].to_numpy().reshape(4, 4)
    truth = np.array(DELINQUENT_CHILDREN)
    assert np.array_equal(noisy.sum(axis=0), truth.sum(axis=0))
    assert np.array_equal(noisy.sum(axis=1), truth.sum(axis=1))
    assert not np.array_equal(noisy, truth)
    lines = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]
    assert [(line["kind"], line.get("cost")) for line in lines] == [("declaration", None), ("spend", "1")]
    assert lines[1]["event"]["kind"] == "integer_subspace_laplace"
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["protected"]
    assert len(manifest["checks"]) >= 2
    assert (out / "diagnostics" / "noise.svg").exists()
    assert not (out / "private").exists()
    again = json.loads(tallyveil("release", table, "--out", out, "--json")[1])
    assert again["already_finished"]
    code, _, err = tallyveil("release", edit(table, ('"0.25"', '"0.125"')), "--out", out)
    assert code == StoreError.exit_code
    assert "another plan" in err


@pytest.mark.nightly
def test_draws_for_simulation_are_marked_and_repeatable(tallyveil, table, tmp_path):
    for name in ("a", "b"):
        code, said, _ = tallyveil(
            "release", table, "--out", tmp_path / name, "--draws", 7, "--insecure-test-key", "x"
        )
        assert code == 0
        assert "NOT PRIVATE" in said
    draws = pl.read_parquet(tmp_path / "a" / "draws.parquet")
    assert draws.equals(pl.read_parquet(tmp_path / "b" / "draws.parquet"))
    noise = draws["noise"].to_numpy().reshape(7, 4, 4)
    assert not noise.sum(axis=1).any()
    assert not noise.sum(axis=2).any()
    assert len({row.tobytes() for row in noise}) == 7
    assert "declassify" in (tmp_path / "a" / "ledger.jsonl").read_text()
    assert b"protects nobody" in (tmp_path / "a" / "draws.parquet").read_bytes()
    code, _, err = tallyveil("release", table, "--out", tmp_path / "c", "--draws", 7)
    assert code == ConfigError.exit_code
    assert "[subspace-draws]" in err


def test_an_unconverged_chain_is_refused_unless_its_delta_is_allowed(tallyveil, table, tmp_path):
    edit(table, CHAIN)
    code, _, err = tallyveil("release", table, "--out", tmp_path / "out")
    assert code == SolverError.exit_code
    assert "[subspace-not-converged]" in err
    assert not (tmp_path / "out").exists()
    edit(table, ("pairs = 200", 'pairs = 200\nallowed_delta = "1/10"'))
    code, said, _ = tallyveil("release", table, "--out", tmp_path / "out", "--json")
    assert code == 0
    manifest = json.loads(said)
    chain = manifest["noise"]["chain"]
    assert 0 < manifest["privacy"]["delta_at_distance_1"] < 0.1
    assert "99.900% confidence" in manifest["privacy"]["statement"]
    spend = json.loads((tmp_path / "out" / "ledger.jsonl").read_text().splitlines()[1])
    assert chain["measured"] <= Fraction(spend["event"]["total_variation"]) < chain["measured"] * 1.0001
    edit(table, ("pairs = 200", "pairs = 200\nsweeps = 1"))
    code, _, err = tallyveil("diagnose", table, "--out", tmp_path / "plots")
    assert code == SolverError.exit_code
    assert "[subspace-not-converged]" in err


def test_manifest_ledger_and_text_say_whom_the_guarantee_is_about(tallyveil, table, tmp_path):
    code, text, _ = tallyveil("release", table, "--out", tmp_path / "both")
    assert code == 0
    said = "The guarantee is not about one record"
    assert said in text
    manifest = json.loads((tmp_path / "both" / "manifest.json").read_text())
    assert said in manifest["privacy"]["statement"]
    assert manifest["privacy"]["about_one_record"] is False
    assert manifest["privacy"]["nearest_tables"] == {"size_at_least": 4, "size_found": 4}
    assert said in json.loads((tmp_path / "both" / "ledger.jsonl").read_text().splitlines()[1])["description"]
    assert said in tallyveil("diagnose", table)[1]
    edit(table, ('[[constraints]]\nname = "education totals"\nmargin = ["education"]', ""))
    edit(table, ('distance = "4"', 'distance = "2"'))
    code, record, _ = tallyveil("release", table, "--out", tmp_path / "one", "--json")
    assert code == 0
    assert json.loads(record)["privacy"]["about_one_record"] is True
    assert "covers the change of one record" in (tmp_path / "one" / "ledger.jsonl").read_text()


@pytest.mark.parametrize("epsilon", ["0.12345675", "1/3", "0.1", "3/7", "0.24999999"])
def test_the_sentence_never_claims_less_than_the_bound(tallyveil, table, epsilon):
    edit(table, ('epsilon = "0.25"', f'epsilon = "{epsilon}"'), ('epsilon = "1"', 'epsilon = "2"'))
    code, said, _ = tallyveil("diagnose", table, "--json")
    assert code == 0
    statement = json.loads(said)["privacy"]["statement"]
    at_four, unit = re.findall(r"epsilon <= (\S+) between .* epsilon (\S+) for each unit", statement)[0]
    assert 4 * Fraction(epsilon) <= Fraction(at_four) <= 4 * Fraction(epsilon) * Fraction("1.00001")
    assert Fraction(epsilon) <= Fraction(unit) <= Fraction(epsilon) * Fraction("1.00001")
    assert Fraction(json.loads(said)["privacy"]["epsilon"]) >= 4 * Fraction(epsilon)


ONE_MARGIN = ('[[constraints]]\nname = "education totals"\nmargin = ["education"]\n', "")


@pytest.mark.parametrize(
    ("outputs", "changes", "columns"),
    [
        ("nonnegative", [], ["county", "education", "count", "noisy", "margin"]),
        ("restricted", [ONE_MARGIN, ('distance = "4"', 'distance = "2"')], ["county", "education", "count"]),
    ],
)
def test_tables_without_negative_counts(tallyveil, table, tmp_path, outputs, changes, columns):
    edit(table, *changes, ('epsilon = "0.25"', f'epsilon = "0.25"\noutputs = "{outputs}"'))
    out, again = tmp_path / "out", tmp_path / "again"
    key = ("--insecure-test-key", "d", "--json")
    code, said, _ = tallyveil("release", table, "--out", out, *key)
    assert code == 0
    told = json.loads(said)
    assert "no count is negative" in told["checks"]
    released = pl.read_parquet(out / "table.parquet")
    assert released.columns == columns
    assert released["count"].min() >= 0
    assert released["count"].to_numpy().reshape(4, 4).sum(axis=1).tolist() == [20, 55, 25, 35]
    spend = json.loads((out / "ledger.jsonl").read_text().splitlines()[-1])
    assert spend["cost"] == "1"
    assert ("restricted" in spend["event"]) is (outputs == "restricted")
    assert told["privacy"]["epsilon"] == 1.0
    assert ("twice that of the law" in told["privacy"]["statement"]) is (outputs == "restricted")
    assert (out / "diagnostics").exists() is (outputs == "nonnegative")
    tallyveil("release", table, "--out", again, *key)
    assert released.equals(pl.read_parquet(again / "table.parquet"))


@pytest.mark.nightly
@pytest.mark.parametrize("epsilon", ["0.1", "0.05", "1/3"])
def test_an_epsilon_that_is_no_float_is_released_with_its_page(tallyveil, table, tmp_path, epsilon):
    """At distance 4 these are 0.4, 0.2 and 4/3, of which the nearest float may lie above."""
    edit(table, ('epsilon = "0.25"', f'epsilon = "{epsilon}"'), ('epsilon = "1"', 'epsilon = "2"'))
    out = tmp_path / "out"
    code, _, said = tallyveil("release", table, "--out", out, "--insecure-test-key", "e", "--json")
    assert code == 0, said
    assert (out / "report.html").is_file()
    assert verify(out).holds


@pytest.mark.nightly
def test_the_nearest_table_under_sums_that_cross(tallyveil, table, tmp_path):
    """Beside both margins, a sum of cells of several counties and levels: an integer program finds the table."""
    crossing = 'name = "crossing"\ncells = { county = ["Alpha", "Beta"], education = ["low", "medium"] }\n\n[privacy]'
    edit(table, ("[privacy]", f"[[constraints]]\n{crossing}"))
    edit(table, ('epsilon = "0.25"', 'epsilon = "0.25"\noutputs = "nonnegative"'))
    out = tmp_path / "out"
    code, said, err = tallyveil("release", table, "--out", out, "--insecure-test-key", "h", "--json")
    assert code == 0, err
    assert "no count is negative" in json.loads(said)["checks"]
    released = pl.read_parquet(out / "table.parquet")
    counts, noisy = (released[name].to_numpy().reshape(4, 4) for name in ("count", "noisy"))
    assert counts.min() >= 0 > noisy.min()
    for axis in (0, 1):
        assert (counts.sum(axis=axis) == noisy.sum(axis=axis)).all()
    assert counts[:2, :2].sum() == noisy[:2, :2].sum()
    assert verify(out).holds


CROSSING_AGE = """
[release]
name = "ages"

[table]
path = "ages.csv"
count = "persons"

[[attributes]]
name = "region"
levels = ["north", "south"]
[[attributes]]
name = "sex"
levels = ["female", "male", "other"]
[[attributes]]
name = "age"
levels = ["0-17", "18-39", "40-64", "65+"]

[[constraints]]
name = "persons by region and sex"
margin = ["region", "sex"]
[[constraints]]
name = "adults under 40"
cells = { age = ["18-39"] }

[privacy]
epsilon = "2"

[mechanism]
law = "laplace"
norm = "l1"
epsilon = "0.25"
distance = "4"
outputs = "restricted"
"""


@pytest.mark.parametrize(
    ("norm", "largest", "outputs"),
    [
        ("l1", 9, "restricted"),
        ("l2", 1, "restricted"),
        nightly("l1", 1, "restricted"),
        nightly("l1", 1, "nonnegative"),
    ],
)
def test_sums_that_cross_and_tables_with_a_largest_count(tallyveil, tmp_path, norm, largest, outputs):
    """Region by sex and one group of ages that crosses them; 1: a 0/1 table, all of whose tables keep to 0 and 1."""
    path, out = tmp_path / "ages.toml", tmp_path / "out"
    path.write_text(CROSSING_AGE.replace('"l1"', f'"{norm}"').replace('"restricted"', f'"{outputs}"'))
    if largest == 1:
        edit(path, ('count = "persons"', 'count = "persons"\nlargest = 1'))
    counts = np.random.default_rng(3).integers(0, largest + 1, (2, 3, 4))
    levels = [re.findall('"([^"]*)"', line) for line in re.findall("levels = (.*)", CROSSING_AGE)]
    rows = [
        (*cell, int(count)) for cell, count in zip(itertools.product(*levels), counts.ravel(), strict=True)
    ]
    pl.DataFrame(rows, schema=["region", "sex", "age", "persons"], orient="row").write_csv(
        tmp_path / "ages.csv"
    )
    code, said, err = tallyveil("release", path, "--out", out, "--insecure-test-key", "c", "--json")
    assert code == 0, err
    told, released = (
        json.loads(said),
        pl.read_parquet(out / "table.parquet")["count"].to_numpy().reshape(2, 3, 4),
    )
    assert 0 <= released.min() <= released.max() <= (1 if largest == 1 else counts.sum())
    assert (released.sum(axis=2) == counts.sum(axis=2)).all()
    assert released[:, :, 1].sum() == counts[:, :, 1].sum()
    assert (released != counts).any()
    assert ("no count is above the largest" in told["checks"]) is (largest == 1)
    assert ("Only tables without a count above 1" in (out / "report.html").read_text()) is (largest == 1)
    if outputs == "restricted":
        assert told["privacy"]["epsilon"] == 2
        assert told["noise"]["sampler"] == "partial sums or redraws"
        assert (told["privacy"]["delta"] == 0) is (norm == "l1")
    ledger = (out / "ledger.jsonl").read_text()
    for said in (
        "The guarantee is between tables with counts from 0 to 1.",
        "leaves the invariants as they are and no count above 1.",
    ):
        assert (said in told["privacy"]["statement"]) is (largest == 1)
        assert (said in ledger) is (largest == 1)
    assert verify(out).holds


@pytest.mark.parametrize(
    ("norm", "epsilon", "error"), [("l1", "100000", ConfigError), ("l2", "0.00001", BudgetError)]
)
def test_a_law_that_no_sampler_has_is_refused_before_the_spend(
    tallyveil, table, tmp_path, norm, epsilon, error
):
    edit(table, ('"l1"', f'"{norm}"'), ('epsilon = "1"', 'epsilon = "1000000"'))
    edit(table, ('epsilon = "0.25"', f'epsilon = "{epsilon}"'))
    edit(table, ('distance = "4"', 'distance = "4"\noutputs = "restricted"'))
    rows = (tmp_path / "children.csv").read_text().splitlines()
    (tmp_path / "children.csv").write_text(
        "\n".join([rows[0], *(row.rsplit(",", 1)[0] + ",1" for row in rows[1:])])
    )
    code, _, said = tallyveil("release", table, "--out", tmp_path / "out")
    assert code == error.exit_code, said
    assert not (tmp_path / "out").exists()


def test_a_restricted_law_that_is_too_narrow_is_refused_before_the_table_is_read(tallyveil, tmp_path):
    path = tmp_path / "ages.toml"
    path.write_text(CROSSING_AGE.replace('"2"', '"3000"').replace('"0.25"', '"300"'))
    (tmp_path / "ages.csv").write_text("region,sex,age,persons\nnowhere,nobody,never,-1\n")
    code, _, err = tallyveil("release", path, "--out", tmp_path / "out", "--insecure-test-key", "c")
    assert code == ConfigError.exit_code
    assert "epsilon is about 300" in err
    assert "Nothing was read or spent" in err


def test_a_largest_count_is_refused_where_it_is_not_kept(tallyveil, tmp_path, table):
    edit(table, ('count = "children"', 'count = "children"\nlargest = 20'))
    code, _, said = tallyveil("release", table, "--out", tmp_path / "out")
    assert code == ConfigError.exit_code
    assert "may be larger" in " ".join(said.split())
    edit(
        table, ('distance = "4"', 'distance = "4"\noutputs = "nonnegative"'), ("largest = 20", "largest = 19")
    )
    code, _, said = tallyveil("release", table, "--out", tmp_path / "out")
    assert code == SchemaError.exit_code
    assert "above 19" in " ".join(said.split())
    assert not (tmp_path / "out").exists()


def test_the_restricted_law_is_declared_at_its_true_cost(tallyveil, table, tmp_path):
    edit(table, ONE_MARGIN, ('distance = "4"', 'distance = "4"\noutputs = "restricted"'))
    code, _, said = tallyveil("release", table, "--out", tmp_path / "out")
    assert code
    assert "epsilon = 2 at distance 4, more than the declared epsilon = 1" in " ".join(said.split())
    edit(table, ('distance = "4"', 'distance = "2"'))
    simulation = ("--out", tmp_path / "out", "--draws", 1, "--insecure-test-key", "k")
    for arguments in (("release", table, *simulation), ("diagnose", table, "--out", tmp_path / "plots")):
        code, _, said = tallyveil(*arguments)
        assert code
        assert "no noise" in " ".join(said.split())
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "plots").exists()
    assert tallyveil("diagnose", table)[0] == 0


def test_a_negative_count_is_refused_before_the_spend_unless_outputs_are_free(tallyveil, table, tmp_path):
    rows = (tmp_path / "children.csv").read_text().replace(",15\n", ",-15\n")
    (tmp_path / "children.csv").write_text(rows)
    edit(table, ('distance = "4"', 'distance = "4"\noutputs = "nonnegative"'))
    code, _, said = tallyveil("release", table, "--out", tmp_path / "out")
    assert code
    assert "negative count" in " ".join(said.split())
    assert not (tmp_path / "out").exists()


def test_gaussian_noise_is_paid_in_rho(tallyveil, table, tmp_path):
    edit(table, ('epsilon = "1"', 'rho = "1/10"'), ('law = "laplace"', 'law = "gaussian"'))
    edit(table, ('norm = "l1"\nepsilon = "0.25"', 'variance = "20"'))
    code, said, _ = tallyveil("release", table, "--out", tmp_path / "out", "--json")
    assert code == 0
    privacy = json.loads(said)["privacy"]
    assert privacy["rho"] == "1/10"
    assert privacy["delta"] == pytest.approx(1e-10)
    chain = edit(table, ('distance = "4"', 'distance = "4"\nsampler = "chain"'))
    code, _, err = tallyveil("diagnose", chain)
    assert code == SolverError.exit_code
    assert "allowed delta is 1e-06" in err


def test_diagnose_opens_no_table(tallyveil, table, tmp_path, monkeypatch, plots_are_empty):
    monkeypatch.setattr("tallyveil.products.lattice.page.diagnostics.write_plot", plots_are_empty)
    (tmp_path / "children.csv").unlink()
    code, said, _ = tallyveil("diagnose", table, "--out", tmp_path / "plots", "--draws", 50, "--plots", "png")
    assert code == 0
    assert "two-way margins" in said
    noise = pl.read_csv(tmp_path / "plots" / "noise.csv")
    assert noise.height == 16
    assert (tmp_path / "plots" / "noise.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ([('margin = ["county"]', 'margin = ["county", "education"]')], ConstraintError, "nothing is left"),
        ([('margin = ["county"]', 'margin = ["count"]')], ConstraintError, "Did you mean 'county'"),
        (
            [('margin = ["county"]', 'cells = { county = ["Alfa"] }')],
            ConstraintError,
            "Did you mean 'Alpha'",
        ),
        (
            [('margin = ["county"]', 'terms = [{ cells = { county = ["Alpha"] }, times = 0.5 }]')],
            ConstraintError,
            "[subspace-not-integer]",
        ),
        (
            [
                ('margin = ["county"]', 'cells = { county = ["Alpha"] }\ntotal = 20'),
                ('margin = ["education"]', 'cells = { county = ["Alpha"] }\ntotal = 21'),
            ],
            ConstraintError,
            "[subspace-inconsistent]",
        ),
        (
            [('margin = ["county"]', 'cells = { county = ["Alpha"] }\ntotal = 987654')],
            ConstraintError,
            "[subspace-totals-broken]",
        ),
        ([('epsilon = "0.25"', 'epsilon = "0"')], BudgetError, "infinite noise"),
        ([('epsilon = "1"', 'epsilon = "1/2"')], BudgetError, "more than the declared"),
        ([('epsilon = "1"', 'rho = "1"')], ConfigError, "must declare epsilon"),
        ([('distance = "4"', 'distance = "1/2"')], ConfigError, "[subspace-distance]"),
        ([('distance = "4"', 'distance = "1"')], BudgetError, "moves the table by l1 distance 2"),
        ([('distance = "4"', 'distance = "2"')], BudgetError, "at least l1 distance 4 apart"),
        ([('"l1"', '"l2"'), ('distance = "4"', 'distance = "19/10"')], BudgetError, "protect nobody"),
        ([('distance = "4"', "distance = 4.0")], ConfigError, "mechanism.distance"),
        ([('norm = "l1"', 'nrom = "l1"')], ConfigError, "did you mean 'norm'"),
        ([('epsilon = "0.25"', 'epsilon = "0.25"\nvariance = "9"')], ConfigError, "neither variance nor rho"),
        ([('margin = ["county"]', "")], ConfigError, "give one of margin, margin_by, cells"),
        ([('"Delta"', '"Zeta"')], SchemaError, "not levels of their attribute"),
        ([('count = "children"', 'count = "kids"')], ConfigError, "lacks the wanted column"),
        ([('path = "children.csv"', 'path = "child.csv"')], StoreError, "does not exist"),
    ],
)
def test_mistakes_leave_nothing_behind(tallyveil, table, tmp_path, changes, error, said):
    edit(table, *changes)
    code, out, err = tallyveil("release", table, "--out", tmp_path / "out")
    assert code == error.exit_code
    assert said in err
    assert "Traceback" not in err
    assert str(CANARY) not in out + err
    assert not (tmp_path / "out").exists()


def test_no_count_reaches_a_message(tallyveil, table, tmp_path):
    rows = (tmp_path / "children.csv").read_text().replace("Alpha,low,15", f"Alpha,low,{CANARY}.5")
    (tmp_path / "children.csv").write_text(rows)
    code, out, err = tallyveil("release", table, "--out", tmp_path / "out")
    assert code == SchemaError.exit_code
    assert str(CANARY) not in out + err
    (tmp_path / "children.csv").write_text(rows.replace(".5", ""))
    code, out, err = tallyveil("release", table, "--out", tmp_path / "out")
    assert code == 0
    said = out + err + "".join(p.read_text() for p in (tmp_path / "out").glob("*.json*"))
    assert str(CANARY) not in said


def test_a_finished_run_takes_up_where_a_killed_one_stopped(tallyveil, table, tmp_path, monkeypatch):
    import tallyveil.products.lattice.run.run as running

    write = running._write_table
    monkeypatch.setattr(
        running, "_write_table", lambda *_: (_ for _ in ()).throw(StoreError("killed", code="write-failed"))
    )
    out = tmp_path / "out"
    assert tallyveil("release", table, "--out", out)[0] == StoreError.exit_code
    monkeypatch.setattr(running, "_write_table", write)
    assert tallyveil("release", table, "--out", out)[0] == 0
    lines = (out / "ledger.jsonl").read_text().splitlines()
    assert sum('"spend"' in line for line in lines) == 1


def test_diagnostics_that_a_killed_process_left_out_are_written(table, tallyveil, tmp_path):
    """It was killed after the release and while writing them; the table itself is not drawn again."""
    out, words = tmp_path / "out", ("--insecure-test-key", "k", "-q")
    assert tallyveil("release", table, "--out", out, *words)[0] == 0
    whole = {path.name for path in (out / "diagnostics").iterdir()}
    assert "noise.csv" in whole
    (out / "diagnostics").rename(out / "diagnostics.partial")
    assert tallyveil("release", table, "--out", out, *words)[0] == 0
    assert {path.name for path in (out / "diagnostics").iterdir()} == whole
    assert not (out / "diagnostics.partial").exists()


@pytest.mark.parametrize(
    "command", [("diagnose",), ("release", "--insecure-test-key", "x")], ids=lambda words: words[0]
)
def test_more_draws_than_fit_into_memory_are_refused(tallyveil, table, tmp_path, command):
    out = tmp_path / "many"
    code, _, err = tallyveil(*command, table, "--out", out, "--draws", 10**11)
    assert code == 2
    assert "[subspace-draws]" in err
    assert "Ask for fewer" in err
    assert not out.exists()
