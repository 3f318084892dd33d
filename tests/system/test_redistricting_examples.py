"""The committed release files with the settings of the 2020 redistricting data."""

import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.pages import text_of
from tests.samples import nightly

import tallyveil
from tallyveil.accounting.numbers import at_most
from tallyveil.api.beginning import write_country
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.dhc.public.from_toml import load_programme
from tallyveil.products.dhc.public.plan import planned_total
from tallyveil.products.topdown.run.run import run_release

EXAMPLES = Path(__file__).parents[2] / "examples" / "redistricting"
PERSONS = ("national", "national_spine", "one_state", "puerto_rico", "puerto_rico_spine")
UNITS = ("national_units", "national_units_spine", "puerto_rico_units", "puerto_rico_units_spine")
SPINE = {
    "national_spine": "redistricting-persons-us",
    "puerto_rico_spine": "redistricting-persons-state-rooted",
    "national_units_spine": "redistricting-units-us",
    "puerto_rico_units_spine": "redistricting-units-state-rooted",
}


def test_every_file_is_here():
    assert {path.stem for path in EXAMPLES.glob("*.toml")} == {*PERSONS, *UNITS, "programme"}


def test_the_programme_is_of_persons_and_of_units():
    programme = load_programme(EXAMPLES / "programme.toml")
    assert [(one.name, one.file.stem) for one in programme.releases] == [
        ("persons", "national_spine"),
        ("units", "national_units_spine"),
    ]
    total = planned_total(programme)
    assert [part["units"] for part in total["by_unit"]] == [["people"], ["housing units"]]
    costs = [one.plan.strategy.total for one in programme.releases]
    assert Fraction(total["together"]["rho"]) == sum(costs)
    assert "bypass" in total["together"]["not_exact"]


@pytest.mark.parametrize("name", PERSONS)
def test_the_settings_are_those_of_2020(name):
    plan = load_plan(EXAMPLES / f"{name}.toml")
    assert plan.declared == plan.strategy.total
    assert plan.delta == Fraction(1, 10**10)
    assert plan.schema.size == 2016
    assert [(item.query, item.geolevels) for item in plan.invariants] == [("total", ("State",))]
    assert (None if plan.spine is None else plan.spine.preset) == SPINE.get(name)
    (bounds,) = plan.bounds
    assert (bounds.query, bounds.geolevel, bounds.missing_upper) == ("hhgq", "Block", 0)
    totals_first = {
        geolevel
        for geolevel, item in plan.estimation
        if item.passes[0] == ("total",) and len(item.passes) == 2
    }
    from_state = {"State"} if "puerto_rico" not in name else set()
    assert totals_first == from_state | {"County", "Tract", "Block_Group"}
    for _, item in plan.estimation:
        assert item.slack == Fraction(1, 10)
        assert item.target == "nearest"
        assert [query for stage in item.rounding for query in stage][-2:] == [
            "hhgq*votingage*hispanic*cenrace",
            "detailed",
        ]


@pytest.mark.parametrize("name", UNITS)
def test_the_settings_of_units_are_those_of_2020(name):
    plan = load_plan(EXAMPLES / f"{name}.toml")
    assert plan.declared == plan.strategy.total == Fraction(11417641, 152349649)
    assert plan.delta == Fraction(1, 10**10)
    assert [(item.query, item.geolevels) for item in plan.invariants] == [("total", ("Block",))]
    assert (None if plan.spine is None else plan.spine.preset) == SPINE.get(name)
    assert {query for _, shares in plan.strategy.query_shares for query, _ in shares} == {"detailed"}
    for _, item in plan.estimation:
        assert item.rounding == (("total", "detailed"),)


@pytest.fixture(scope="module")
def country(tmp_path_factory):
    """Persons, facilities and entities of two states with tribal areas in both, and their housing units."""
    folder = tmp_path_factory.mktemp("country")
    write_country(folder, blocks=90, schema="pl94-persons", seed=2)
    counties = pl.read_parquet(folder / "geography.parquet")["geocode"].str.head(5).unique().sort()
    state = pl.when(pl.col("geocode").str.head(5) == counties[0]).then(pl.lit("98")).otherwise(pl.lit("99"))
    inside = (pl.int_range(pl.len()) % 30 >= 8) & (pl.int_range(pl.len()) % 30 < 19)
    for path in folder.glob("*.parquet"):
        frame = pl.read_parquet(path).with_columns(geocode=state + pl.col("geocode").str.slice(2))
        if path.stem == "entities":
            frame = frame.with_columns(tribal_area=pl.when(inside).then(pl.lit("area")))
        frame.write_parquet(path)
    blocks = pl.read_parquet(folder / "geography.parquet")["geocode"]
    rng = np.random.default_rng(2)
    units = [
        (b, h, n) for b in blocks for h, n in zip(("vacant", "occupied"), rng.poisson((2, 15)), strict=True)
    ]
    pl.DataFrame(units, schema=["geocode", "h1", "count"], orient="row").write_parquet(
        folder / "units.parquet"
    )
    return folder


def run_example(name, country, tmp_path):
    """Run an example on the country, or on the first of its states where the file has one state."""
    data = tmp_path / "data"
    data.mkdir()
    for path in country.glob("*.parquet"):
        frame = pl.read_parquet(path)
        if "national" not in name:
            frame = frame.filter(pl.col("geocode").str.head(2) == "98")
        frame.write_parquet(data / path.name)
    if name in UNITS:
        (data / "units.parquet").rename(data / "records.parquet")
    release = tmp_path / "release.toml"
    text = (EXAMPLES / f"{name}.toml").read_text()
    for folder in ("redistricting-data", "redistricting-units"):
        text = text.replace(f"../../releases/{folder}", data.as_posix())
    assert "../.." not in text
    release.write_text(text)
    return data, run_release(load_plan(release), tmp_path / "out", test_key=insecure_key(name))


def sums(frame: pl.DataFrame, digits: int) -> dict[str, int]:
    by_area = frame.group_by(pl.col("geocode").str.head(digits)).agg(pl.col("count").sum())
    return {code: count for code, count in by_area.iter_rows() if count}


@pytest.mark.parametrize(
    "name", ["national_spine", *map(nightly, ("national", "puerto_rico", "puerto_rico_spine"))]
)
def test_a_file_of_persons_runs_and_keeps_what_it_promises(name, country, tmp_path):
    data, outcome = run_example(name, country, tmp_path)
    facilities = pl.read_parquet(data / "facilities.parquet").with_columns(pl.col("hhgq").cast(pl.String))
    blocks = pl.read_parquet(outcome.path / "histogram" / "Block.parquet").with_columns(
        pl.col("hhgq", "votingage").cast(pl.String)
    )
    assert sums(blocks, 2) == sums(pl.read_parquet(data / "records.parquet"), 2)
    assert blocks.filter(hhgq="nursing", votingage="under_18").is_empty()
    people = blocks.group_by("geocode", "hhgq").agg(pl.col("count").sum())
    assert people.join(facilities, on=["geocode", "hhgq"], how="anti").is_empty()
    both = facilities.join(people, on=["geocode", "hhgq"], how="left").with_columns(
        pl.col("count").fill_null(0)
    )
    assert (both["count"] >= both["lower"]).all()
    assert (both["lower"] > 0).any() or "national" not in name
    states = set(pl.read_parquet(outcome.path / "geography.parquet")["State"])
    if name == "national_spine":
        assert states == {"98+AIAN", "98-AIAN", "99+AIAN", "99-AIAN"}
        name_of_check = "invariant total holds at US and every sum of State geounits that makes one State"
        assert name_of_check in outcome.manifest.checks
        assert outcome.manifest.body["solver"]["State"]["rounding"] == {"network_flow": 1}


@pytest.fixture(scope="module")
def published(country, tmp_path_factory):
    """The programme of persons and units on production's spine, run for publication: its folder and its file."""
    folder = tmp_path_factory.mktemp("published")
    for path in EXAMPLES.glob("*.toml"):
        text = path.read_text().replace("../../releases", folder.as_posix())
        (folder / path.name).write_text(text)
    for name in ("redistricting-data", "redistricting-units"):
        shutil.copytree(country, folder / name)
    units = folder / "redistricting-units"
    (units / "units.parquet").rename(units / "records.parquet")
    programme = folder / "programme.toml"
    return tallyveil.run_programme(programme, folder / "out").path, programme


def proved(command, *folders):
    """What `account total` proves of the ledgers."""
    return json.loads(command("account", "total", *folders, "--json"))["epsilon"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["persons", "units"])
def test_every_headline_is_what_account_total_proves(name, published, command):
    """On this spine paths are of more than four kinds, and epsilon differs from that by rho by four per cent."""
    out, programme = published
    epsilon = proved(command, out / name)
    stated = tallyveil.open(out / name).privacy
    assert stated["exact"]["epsilon"] == epsilon
    assert stated["epsilon"] == epsilon["upper"] < 0.97 * stated["classical_epsilon"]
    assert epsilon["upper"] - epsilon["lower"] < 1e-8
    headline = at_most(epsilon["upper"], places=3)
    assert stated["statement"].startswith(f"epsilon <= {headline} at delta = 1e-10, ")
    page = text_of(out / name / "report.html")
    assert f"ε ≤ {headline}" in page
    assert "No smaller ε holds at this δ" in page
    assert headline in text_of(out / "report.html")
    file = next(one.file for one in load_programme(programme).releases if one.name == name)
    plan = json.loads(command("plan", file, "--read-geography", "--json"))
    assert plan["privacy"]["exact"] == stated["exact"]
    alone = json.loads(command("account", "epsilon", "--plan", file, "--delta", "1e-10", "--json"))
    assert alone["epsilon"] == epsilon


@pytest.mark.nightly
def test_the_headline_of_a_programme_is_what_account_total_proves(published, command):
    out, programme = published
    epsilon = proved(command, out / "persons", out / "units")
    stated = json.loads((out / "programme.json").read_text())["guarantee"]
    assert stated["together"]["exact_epsilon"] == epsilon
    assert [part["exact_epsilon"] for part in stated["by_unit"]] == [
        proved(command, out / name) for name in ("persons", "units")
    ]
    assert at_most(epsilon["upper"], places=3) in text_of(out / "report.html")
    plan = json.loads(command("plan", programme, "--read-geography", "--json"))
    assert plan["guarantee"]["together"]["exact_epsilon"] == epsilon
    assert "the exact epsilon follows from it" in command("plan", programme)


@pytest.mark.nightly
def test_a_plan_says_that_the_exact_epsilon_follows(command):
    """Before the geography is opened, nobody knows which geounits are bypassed."""
    stated = json.loads(command("plan", EXAMPLES / "national_spine.toml", "--json"))["privacy"]
    assert stated["epsilon"] == stated["classical_epsilon"]
    assert stated["statement"].endswith("follows from the geography (plan --read-geography, run)")


@pytest.mark.nightly
@pytest.mark.parametrize("name", UNITS)
def test_a_file_of_units_runs_and_keeps_what_it_promises(name, country, tmp_path):
    data, outcome = run_example(name, country, tmp_path)
    blocks = pl.read_parquet(outcome.path / "histogram" / "Block.parquet")
    assert sums(blocks, 15) == sums(pl.read_parquet(data / "records.parquet"), 15)
    states = set(pl.read_parquet(outcome.path / "geography.parquet")["State"])
    assert any("AIAN" in state for state in states) == (name == "national_units_spine")
