"""Releases that measure and publish queries whose groups overlap, from the release file to the intervals."""

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.samples import nightly

from tallyveil.accounting.costs import rho_of
from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.api.beginning import write_country
from tallyveil.errors import ConfigError, ConstraintError, SchemaError
from tallyveil.files.tables import table_folder
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.postprocess.measured import open_measurements
from tallyveil.products.topdown.page.release import write_report
from tallyveil.products.topdown.run.evaluate import evaluate_release
from tallyveil.products.topdown.run.run import measure_release, run_release

EXAMPLE = Path(__file__).parents[2] / "examples" / "race_combinations" / "release.toml"
KEY = insecure_key("overlapping")
UP_TO = """[[schema.recodes]]
name = "up_to"
attribute = "age"
overlapping = true
groups = { young = ["young"], middle = ["young", "middle"], any = ["young", "middle", "old"] }
[[schema.structural_zeros]]"""


@pytest.fixture
def overlapping(edit) -> Path:
    """The small release, with running sums over the ages, measured and published."""
    edit("[[schema.structural_zeros]]", UP_TO)
    edit('grown = "1/4"', '"up_to*home" = "1/8"\nup_to = "1/8"')
    return edit(
        'tables = ["total", "age", "home"]', 'tables = ["total", "age", "home", "up_to", "up_to*home"]'
    )


def table_of(root: Path, geolevel: str, query: str) -> pl.DataFrame:
    return pl.read_parquet(table_folder(root, geolevel, query))


def running_sums(root: Path, geolevel: str) -> pl.DataFrame:
    ages = table_of(root, geolevel, "age")
    order = pl.col("age").replace_strict({"young": 0, "middle": 1, "old": 2})
    frame = ages.sort("geocode", order)
    return frame.select("geocode", pl.col("count").cum_sum().over("geocode"))


def test_the_cost_and_the_noise_follow_from_the_overlap(overlapping):
    plan = load_plan(overlapping)
    assert plan.strategy.sensitivities == (("up_to", 3), ("up_to*home", 3))
    assert rho_of(plan.event()) == plan.spent == 2
    # A share of 2 * 1/4 * 1/8 at the region: 6 answers move by one each, so rho = 6 / (2 variance).
    assert plan.strategy.law("Region", "up_to").variance == Fraction(6) / (2 * Fraction(2, 32))
    assert plan.strategy.law("Region", "total").variance == Fraction(2) / (2 * Fraction(2, 16))


@pytest.mark.nightly
def test_an_answer_with_a_weight_of_its_own(edit, tmp_path):
    """A single answer is a query, with a share, a variance, a table and an interval of its own."""
    single = """[[schema.recodes]]
name = "olds"
attribute = "age"
groups = { old = ["old"] }
[[schema.structural_zeros]]"""
    edit("[[schema.structural_zeros]]", single)
    edit('grown = "1/4"', 'grown = "1/20"\nolds = "1/5"')
    plan = load_plan(edit('tables = ["total", "age", "home"]', 'tables = ["total", "age", "olds"]'))
    law = plan.strategy.law
    assert 4 * law("Region", "olds").variance == law("Region", "grown").variance
    assert rho_of(plan.event()) == plan.spent == 2
    root = tmp_path / "out"
    run_release(plan, root, test_key=KEY, workers=1)
    published = table_of(root, "Block", "olds")
    ages = table_of(root, "Block", "age").filter(age="old")
    assert published.select("geocode", "count").equals(ages.select("geocode", "count"))
    make_intervals(root, level=0.9)
    errors = {
        query: pl.read_parquet(table_folder(root, "Region", query, "intervals"))["standard_error"][0]
        for query in ("olds", "total")
    }
    assert 0 < errors["olds"] <= float(law("Region", "olds").variance) ** 0.5


@pytest.mark.parametrize("measurements", ["full", nightly("support")])
def test_a_whole_release(overlapping, tmp_path, measurements):
    text = overlapping.read_text()
    overlapping.write_text(text + f'measurements = "{measurements}"\n')
    root = tmp_path / "out"
    run_release(load_plan(overlapping), root, test_key=KEY, workers=1)
    _, entries = read_ledger(root / "ledger.jsonl")
    assert [entry.cost for entry in entries if entry.kind == "spend"] == [2]
    for geolevel in ("Region", "Town", "Block"):
        table = table_of(root, geolevel, "up_to")
        wanted = running_sums(root, geolevel)
        assert table["geocode"].to_list() == wanted["geocode"].to_list()
        assert table["count"].to_list() == wanted["count"].to_list()
    if measurements == "full":
        make_intervals(root, level=0.9)
        for query in ("up_to", "up_to*home"):
            rows = pl.read_parquet(table_folder(root, "Town", query, "intervals"))
            assert rows["standard_error"].is_finite().all()
    found = evaluate_release(root, overlapping.parent / "people.parquet")
    check_errors(found.errors, overlapping.parent / "people.parquet", root)
    page = write_report(root).read_text()
    assert '<td class="n">12</td>' in page  # four queries at three geolevels, each one measurement


def check_errors(errors: pl.DataFrame, people: Path, root: Path) -> None:
    """The errors of the running sums at Block, computed from the true records and the published ages."""
    blocks = pl.read_parquet(people.parent / "geography.parquet")["geocode"].to_list()
    true = {
        (block, age): count
        for block, age, count in pl.read_parquet(people)
        .group_by("geocode", "age")
        .agg(pl.sum("count"))
        .iter_rows()
    }
    ages = table_of(root, "Block", "age")
    published = {(block, age): count for block, age, count in ages["geocode", "age", "count"].iter_rows()}
    names = ("young", "middle", "old")
    wanted = []
    for block in blocks:
        each = [published[block, age] - true.get((block, age), 0) for age in names]
        wanted += np.abs(np.cumsum(each)).tolist()
    row = errors.filter(geolevel="Block", query="up_to", size_class="all").row(0, named=True)
    assert row["n_answers"] == len(wanted)
    assert row["mean_absolute_error"] == pytest.approx(np.mean(wanted))
    total = sum((3 if age == "young" else 2 if age == "middle" else 1) * n for (_, age), n in true.items())
    assert row["relative_l1"] == pytest.approx(sum(wanted) / total)


@pytest.mark.nightly
def test_estimating_later_gives_the_same_counts(overlapping, tmp_path):
    run_release(load_plan(overlapping), tmp_path / "out", test_key=KEY, workers=1)
    measure_release(load_plan(overlapping), tmp_path / "measured", test_key=KEY)
    shutil.rmtree(overlapping.parent)
    estimate_release(open_measurements(tmp_path / "measured"), tmp_path / "later", None, workers=2)
    names = sorted(path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*.parquet"))
    assert any(name.parts[:2] == ("tables", "geolevel=Block") for name in names)
    for name in names:
        assert pl.read_parquet(tmp_path / "out" / name).equals(pl.read_parquet(tmp_path / "later" / name))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('[["total"], ["home", "age*home"]]', '[["total"], ["up_to"]]'),
        ('query = "total"\ngeolevels', 'query = "up_to"\ngeolevels'),
        ('"*" = [["total"], ["*"]]', '"*" = [["total"], ["up_to"], ["*"]]'),
        ('query = "home"', 'query = "up_to*home"'),
        ("[[bounds]]", '[[subspace]]\nquery = "up_to"\ngeolevel = "Town"\nrho = "1/4"\n\n[[bounds]]'),
    ],
)
def test_what_overlaps_is_refused_where_it_cannot_be_used(overlapping, edit, old, new):
    edit(
        'rho = "2"\n\n[strategy]', 'rho = "3"\n\n[strategy]'
    )  # so that nothing else is wrong with further counts
    edit(old, new)
    with pytest.raises(ConfigError, match="overlap") as error:
        load_plan(overlapping)
    assert error.value.code == "overlapping-query"


def test_intervals_that_need_large_blocks_are_refused_before_data_is_opened(tmp_path):
    folder = write_example(tmp_path)
    text = folder.read_text().replace("[outputs]", '[outputs]\nintervals = "0.95"')
    folder.write_text(text)
    with pytest.raises(ConstraintError) as error:
        run_release(load_plan(folder), tmp_path / "out", test_key=KEY, workers=1)
    assert error.value.code == "zeros-not-kept"
    assert not (tmp_path / "out" / "ledger.jsonl").exists()


def write_example(tmp_path: Path) -> Path:
    """The example on a made-up county of 30 blocks."""
    write_country(tmp_path / "data", blocks=30, schema="pl94-persons", seed=5)
    release = tmp_path / "example.toml"
    text = EXAMPLE.read_text().replace("../../releases/race-data", (tmp_path / "data").as_posix())
    assert "../.." not in text
    release.write_text(text)
    return release


@pytest.mark.nightly
def test_the_example_publishes_races_alone_or_in_combination(tmp_path):
    root = tmp_path / "out"
    plan = load_plan(write_example(tmp_path))
    assert plan.strategy.sensitivities == (("hispanic*racecomb", 6),)
    run_release(plan, root, test_key=KEY, workers=1)
    for geolevel in ("County", "Block"):
        people = pl.read_parquet(root / "histogram" / f"{geolevel}.parquet")
        table = table_of(root, geolevel, "hispanic*racecomb")
        wanted = {}
        for code, hispanic, race, count in people["geocode", "hispanic", "cenrace", "count"].iter_rows():
            for one in race.split("_"):
                key = code, hispanic, one
                wanted[key] = wanted.get(key, 0) + count
        found = {
            tuple(key): n for *key, n in table["geocode", "hispanic", "cenrace", "count"].iter_rows() if n
        }
        assert found == wanted
    evaluated = evaluate_release(root, tmp_path / "data" / "records.parquet")
    errors = evaluated.errors.filter(size_class="all", geolevel="Block")
    noise = plan.strategy.law("Block", "hispanic*racecomb").variance_float()
    (squared,) = errors.filter(query="hispanic*racecomb")["mean_squared_error"]
    assert squared < noise


def test_an_undeclared_overlap_is_refused(overlapping, edit):
    edit("overlapping = true\n", "")
    with pytest.raises(SchemaError, match="set overlapping = true"):
        load_plan(overlapping)


def test_a_schema_with_an_unused_overlap_has_the_plan_of_one_without(small_release, edit):
    plain = load_plan(small_release)
    edit("[[schema.structural_zeros]]", UP_TO)
    assert load_plan(small_release).digest() == plain.digest()
