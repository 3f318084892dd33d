"""`tallyveil compare` from records to page: one input, methods of every kind, and marks on all that it writes."""

import json
import signal
import subprocess
import sys
import time

import polars as pl
import pytest
from tests.conftest import write_small_inputs

from tallyveil.compare.job import compare
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.run import run_release

FLAG = "--i-understand-this-is-not-private"

CELL_KEYS = """
kind = "cell_key"
name = "cell keys"
largest = 2
variance = "1"
"""
SWAPPING = """
kind = "permutation_swapping"
name = "swapping"
rate = "1/2"
within = "Street"
"""

FILE = """
release = "release.toml"
key = "system test"
note = "Made-up people."
draws = 1
tables = ["total", "age", "age*home"]

[attacks]
sensitive = "age"
people = 200

[[methods]]
kind = "topdown"
name = "TopDown"
budget = "1/2"

[[methods]]
kind = "release"
name = "a release"
path = "made"

[[methods]]
kind = "cell_key"
name = "cell keys"
largest = 2
variance = "1"

[[methods]]
kind = "suppression"
name = "suppression"
threshold = 4
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    release = write_small_inputs(folder)
    run_release(load_plan(release), folder / "made", test_key=insecure_key("made"), workers=1)
    (folder / "compare.toml").write_text(FILE)
    return folder


@pytest.fixture(scope="module")
def compared(folder):
    compare(folder / "compare.toml", folder / "out", lambda words: None)
    return folder / "out"


def test_every_method_has_its_numbers(compared):
    out = compared
    names = ["TopDown", "a release", "cell keys", "suppression"]
    losses, attacks = (pl.read_parquet(out / f"{name}.parquet") for name in ("losses", "attacks"))
    assert losses["method"].unique(maintain_order=True).to_list() == names
    errors = losses.filter((pl.col("measure") == "mean absolute error") & (pl.col("part") == "all"))
    assert errors.filter(pl.col("method") != "suppression")["value"].null_count() == 0
    bounded = attacks.filter(pl.col("bound").is_not_null())
    assert set(bounded["method"]) == {"TopDown", "a release"}
    # No attack beats a theorem by more than chance explains.
    assert (bounded["low"] <= bounded["bound"]).all()


def test_the_page_says_what_its_numbers_are_about(compared):
    page = (compared / "comparison.html").read_text()
    assert "Made-up people." in page
    assert page.count("for one record that changes its value") >= 2
    # Nothing random, so that no bound can exist; and nobody who is rare here, said with the number of all people.
    assert "None below 1 exists" in page
    people = pl.read_parquet(compared.parent / "people.parquet")["count"].sum()
    at_risk = json.loads((compared / "comparison.json").read_text())["at_risk"]
    for name, number in at_risk.items():
        assert name in page
        assert f"{number:,} of {people:,} people are such" in page


def test_everything_is_marked(compared):
    out = compared
    assert "NOT PRIVATE" in (out / "comparison.html").read_text()
    assert json.loads((out / "comparison.json").read_text())["protected"] is False
    assert set(pl.read_csv(out / "attacks.csv")["warning"]) == {"NOT PRIVATE"}
    entries = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]
    assert [entry["kind"] for entry in entries if entry["kind"] == "declassify"] == ["declassify"]
    # Releases that were made on the way are gone: their keys follow from a public text.
    assert not (out / "releases").exists()


@pytest.mark.nightly
def test_the_same_file_gives_the_same_numbers(compared, folder, command):
    out = compared
    said = json.loads(
        command(
            "compare", folder / "compare.toml", "--out", folder / "again", FLAG, "--json", "--workers", "3"
        )
    )
    assert said["protected"] is False
    assert [method["name"] for method in said["methods"]] == [
        "TopDown",
        "a release",
        "cell keys",
        "suppression",
    ]
    for name in ("losses", "attacks"):
        first, second = (pl.read_parquet(place / f"{name}.parquet") for place in (out, folder / "again"))
        assert first.equals(second)


def test_nothing_is_read_without_the_flag(folder, command):
    said = command("compare", folder / "compare.toml", "--out", folder / "no", code=2)
    assert "not-private" in said
    assert not (folder / "no").exists()


@pytest.mark.parametrize("out", ["made", "made/within", "."])
def test_nothing_is_written_to_what_a_method_reads(folder, command, out):
    before = sorted(folder.rglob("*"))
    said = command("compare", folder / "compare.toml", "--out", folder / out, FLAG, code=8)
    assert "input-in-output" in said
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (('sensitive = "age"', 'sensitive = "height"'), 2, "height"),
        (('kind = "cell_key"', 'kind = "cell_keys"'), 2, "'kind' should be 'cell_key'"),
        (('kind = "cell_key"\n', ""), 2, "the key 'kind' is required"),
        (('name = "a release"', 'name = "TopDown"'), 2, "named twice"),
        (("largest = 2\n", ""), 2, "largest"),
        ((CELL_KEYS, SWAPPING), 2, "'Street'"),
        ((CELL_KEYS, '\nkind = "coarsening"\nname = "x"\ndown_to = "Street"\n'), 2, "'Street'"),
        ((CELL_KEYS, '\nkind = "cell_key"\nname = "x"\ntable = "compare.toml"\n'), 8, "input-missing"),
        ((CELL_KEYS, '\nkind = "published"\nname = "x"\npath = "none.csv"\n'), 8, "none.csv"),
        (('path = "made"', 'path = "none"'), 8, "none"),
        (('"age*home"', '"age*height"'), 3, "height"),
        ((CELL_KEYS, SWAPPING.replace("Street", "Town") + 'match = ["height"]\n'), 3, "height"),
    ],
)
def test_a_wrong_file_is_refused_before_records_are_read(folder, command, change, code, words):
    (folder / "wrong.toml").write_text(FILE.replace(*change))
    assert words in command("compare", folder / "wrong.toml", "--out", folder / "wrong", FLAG, code=code)
    assert not (folder / "wrong").exists()


@pytest.mark.parametrize(
    ("records", "columns", "code", "words"),
    [
        ("none.parquet", "", 3, "no-records"),
        ("missing.parquet", "", 8, "missing.parquet"),
        ("people.parquet", 'households = "house"\n', 2, "house"),
    ],
)
def test_records_that_are_refused_leave_no_entry(folder, command, records, columns, code, words):
    """Nor do those of the first year, which were read by then."""
    text = (folder / "release.toml").read_text().replace('count = "count"\n', "")
    people = pl.read_parquet(folder / "people.parquet")
    people.head(0).write_parquet(folder / "none.parquet")
    (folder / "this-year.toml").write_text(text)
    (folder / "next-year.toml").write_text(text.replace("people.parquet", records))
    years = f'release = "this-year.toml"\nlater = "next-year.toml"\n{columns}'
    (folder / "refused.toml").write_text(FILE.replace('release = "release.toml"\n', years))
    assert words in command("compare", folder / "refused.toml", "--out", folder / "no", FLAG, code=code)
    assert not (folder / "no").exists()


def test_bounds_on_what_coins_change_are_refused_before_records_are_read(folder, command):
    bounds = (
        '[[bounds]]\nname = "limits"\nquery = "age"\ngeolevel = "Block"\npath = "no.csv"\nmissing = "zero"\n'
    )
    (folder / "bounded.toml").write_text((folder / "release.toml").read_text() + bounds)
    (folder / "coins.toml").write_text(FILE.replace('"release.toml"', '"bounded.toml"'))
    said = command("compare", folder / "coins.toml", "--out", folder / "coins", FLAG, code=2)
    assert "'limits'" in " ".join(said.split())
    assert not (folder / "coins").exists()


@pytest.mark.nightly
def test_households_and_contributors_are_read_from_the_records(folder, command):
    """Six people in three households: the swap moves whole households, and one of a pair is never alone."""
    people = pl.read_parquet(folder / "people.parquet").filter(pl.col("count") > 0)
    single = people.select(pl.exclude("count").repeat_by("count")).explode(pl.all())
    # Two who follow each other live together where they live in one block; a few are of no household.
    number = pl.int_range(pl.len()) // 2
    single.with_columns(
        pl.when(number % 7 > 0).then(number.cast(pl.String)).alias("house"),
        (number % 5).cast(pl.String).alias("employer"),
    ).write_parquet(folder / "single.parquet")
    text = (
        (folder / "release.toml").read_text().replace('"people.parquet"\ncount = "count"', '"single.parquet"')
    )
    (folder / "single.toml").write_text(text)
    methods = """
[[methods]]
kind = "swapping"
name = "swapping"
rate = "1/2"
within = "Region"
across = "Town"
[[methods]]
kind = "suppression"
name = "dominance"
largest = 1
percent = "50"
secondary = false
"""
    compared = FILE.partition("[[methods]]")[0].replace('"release.toml"', '"single.toml"') + methods
    columns = 'key = "units"\nhouseholds = "house"\ncontributors = "employer"'
    (folder / "units.toml").write_text(compared.replace('key = "system test"', columns))
    command("compare", folder / "units.toml", "--out", folder / "units", FLAG, "--quiet")
    notes = json.loads((folder / "units" / "comparison.json").read_text())["methods"]
    assert "Contributors are those of the records" in " ".join(notes[1]["notes"])
    ledger = (folder / "units" / "ledger.jsonl").read_text()
    assert "households: true counts" in ledger
    assert "contributors: true counts" in ledger
    losses = pl.read_parquet(folder / "units" / "losses.parquet")
    # Households of one size change places, so that blocks keep their numbers of people.
    size = losses.filter(
        (pl.col("method") == "swapping") & (pl.col("query") == "total") & (pl.col("areas") == "Block")
    )
    assert size.filter(pl.col("measure") == "mean absolute error")["value"].max() == 0
    # Where a row is a count, nobody knows whose record it is.
    (folder / "counted.toml").write_text(
        FILE.replace('key = "system test"', 'key = "x"\nhouseholds = "house"')
    )
    assert "column of counts" in command(
        "compare", folder / "counted.toml", "--out", folder / "no", FLAG, code=2
    )


@pytest.mark.nightly
def test_changes_to_a_later_year_are_compared(folder, command):
    people = pl.read_parquet(folder / "people.parquet")
    people.with_columns(pl.col("count") + pl.int_range(pl.len()) % 3 * (pl.col("count") > 0)).write_parquet(
        folder / "next.parquet"
    )
    release = (folder / "release.toml").read_text()
    (folder / "next.toml").write_text(release.replace('"people.parquet"', '"next.parquet"'))
    methods = """
[[methods]]
kind = "exact"
name = "exact"
[[methods]]
kind = "rounding"
name = "=1+1"
base = 10
"""
    settings = 'later = "next.toml"\nquestions = false\nkey = "'
    compared = FILE.partition("[[methods]]")[0].replace('key = "', settings) + methods
    (folder / "years.toml").write_text(compared)
    command("compare", folder / "years.toml", "--out", folder / "years", FLAG, "--quiet")
    losses = pl.read_parquet(folder / "years" / "losses.parquet")
    wrong = losses.filter(pl.col("measure").str.contains("change"), pl.col("value") > 0)
    # Exact tables have exact changes; small ones vanish or grow where counts are rounded.
    assert set(wrong["method"]) == {"=1+1"}
    assert wrong.filter(pl.col("measure").str.starts_with("mean absolute error")).height
    # Nobody is asked about areas that users choose.
    attacks = set(pl.read_parquet(folder / "years" / "attacks.parquet")["attack"])
    assert "knows everybody else" in attacks
    assert "repeated questions" not in attacks
    assert "repeated questions, is left out" in (folder / "years" / "comparison.html").read_text()
    # A spreadsheet takes no name for a formula.
    assert {row[:2] for row in (folder / "years" / "losses.csv").read_text().splitlines()} == {
        "me",
        "ex",
        "'=",
    }


@pytest.mark.nightly
def test_a_killed_comparison_is_repeated_to_the_same_numbers(compared, folder):
    """A process that ends at once leaves no result; the same command makes all of it, and removes what lay about."""
    out = folder / "killed"
    words = ["compare", str(folder / "compare.toml"), "--out", str(out), FLAG, "--quiet"]
    run = [sys.executable, "-m", "tallyveil", *words]
    process = subprocess.Popen(run)
    while not list(out.glob("releases/*")) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not (out / "comparison.html").exists()
    subprocess.run(run, check=True)
    assert not (out / "releases").exists()
    for name in ("losses", "attacks"):
        first, second = (pl.read_parquet(place / f"{name}.parquet") for place in (compared, out))
        assert first.equals(second)
    # Both looked at the true counts, and the ledger says so.
    assert (out / "ledger.jsonl").read_text().count('"kind":"declassify"') == 2
