"""`tallyveil compare` from records to page: one input, methods of every kind, and marks on all that it writes."""

import json

import polars as pl
import pytest
from tests.conftest import write_small_inputs

from tallyveil.compare.job import compare
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.run import run_release

FLAG = "--i-understand-this-is-not-private"

FILE = """
release = "release.toml"
key = "system test"
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


def test_everything_is_marked(compared):
    out = compared
    assert "NOT PRIVATE" in (out / "comparison.html").read_text()
    assert json.loads((out / "comparison.json").read_text())["protected"] is False
    assert set(pl.read_csv(out / "attacks.csv")["warning"]) == {"NOT PRIVATE"}
    entries = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]
    assert [entry["kind"] for entry in entries if entry["kind"] == "declassify"] == ["declassify"]
    # Releases that were made on the way are gone: their keys follow from a public text.
    assert not list(out.glob("releases-*"))


@pytest.mark.nightly
def test_the_same_file_gives_the_same_numbers(compared, folder, command):
    out = compared
    said = json.loads(command("compare", folder / "compare.toml", "--out", folder / "again", FLAG, "--json"))
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


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (('sensitive = "age"', 'sensitive = "height"'), 2, "height"),
        (('kind = "cell_key"', 'kind = "cell_keys"'), 2, "methods"),
        (('name = "a release"', 'name = "TopDown"'), 2, "named twice"),
        (("largest = 2\n", ""), 2, "largest"),
    ],
)
def test_a_wrong_file_is_refused_before_records_are_read(folder, command, change, code, words):
    (folder / "wrong.toml").write_text(FILE.replace(*change))
    assert words in command("compare", folder / "wrong.toml", "--out", folder / "wrong", FLAG, code=code)
    assert not (folder / "wrong").exists()
