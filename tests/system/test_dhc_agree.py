"""Persons and units of a small made-up place whose files agree: the written files are searched for contradictions."""

import json
from pathlib import Path

import polars as pl
import pytest

from tallyveil.api.beginning import write_country
from tallyveil.files.between import checks_between
from tallyveil.files.manifest_files import read_manifest
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.dhc.page import write_programme_report
from tallyveil.products.dhc.public.from_toml import load_programme
from tallyveil.products.dhc.run.run import ProgrammeSettings, run_programme
from tallyveil.products.topdown.run.run import run_release
from tallyveil.runs.observer import SilentObserver
from tallyveil.schema.presets import load_preset

HOLDERS = ["householder_living_alone", "householder_with_others"]
PARTNERS = [f"{sex}_sex_{bond}" for sex in ("opposite", "same") for bond in ("spouse", "unmarried_partner")]
VACANT = ["for_rent", "rented_not_occupied", "for_sale", "sold_not_occupied", "seasonal", "migrant_workers"]
STARTS = [25, 35, 45, 55, 60, 65, 75, 85]
AGES = ["15_24", "25_34", "35_44", "45_54", "55_59", "60_64", "65_74", "75_84", "85_plus"]
ONE_RACE = ["white", "black", "aian", "asian", "nhopi", "sor"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The finished programme."""
    folder = tmp_path_factory.mktemp("agree")
    write_country(folder / "people", blocks=12, people=900, schema="dhc", agree=True)
    programme = folder / "people" / "programme.toml"
    # Without the pages of the four releases, which take longer than their counts.
    settings = ProgrammeSettings(
        insecure_key("dhc files that agree"), SilentObserver(), 1, lambda name, made: None
    )
    run_programme(load_programme(programme, folder / "R"), folder / "R", settings)
    write_programme_report(folder / "R")
    return folder / "R"


def finest(made: Path, release: str) -> pl.DataFrame:
    frame = pl.read_parquet(made / release / "histogram" / "Block.parquet")
    labels = [pl.col(name).cast(pl.String) for name in frame.columns if name != "count"]
    return frame.select(*labels, count=pl.col("count").cast(pl.Int64))


def summed(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
    return frame.group_by("geocode", *keys).agg(pl.col("count").sum()).sort("geocode", *keys)


def test_every_kind_agrees_in_every_block(made):
    persons, units, h1 = (finest(made, name) for name in ("dhc-persons", "dhc-units", "h1"))
    home = pl.col("household")
    occupied = units.filter(home != "none")
    holders = persons.filter(pl.col("relgq").is_in(HOLDERS))
    assert summed(holders).equals(summed(occupied))
    assert summed(holders).equals(summed(h1.filter(h1="occupied")))
    assert summed(units.filter(pl.col("tenvacgq").is_in([*VACANT, "other_vacant"]))).equals(
        summed(h1.filter(h1="vacant"))
    )
    couples = occupied.filter(home.str.starts_with("married") | home.str.starts_with("cohabiting"))
    assert summed(persons.filter(pl.col("relgq").is_in(PARTNERS))).equals(summed(couples))
    keys = ("alone", "sex", "age", "origin", "race")
    race = pl.when(pl.col("cenrace").is_in(ONE_RACE)).then(pl.col("cenrace")).otherwise(pl.lit("two_or_more"))
    kinds = holders.select(
        "geocode",
        "sex",
        "count",
        alone=pl.col("relgq") == HOLDERS[0],
        age=pl.col("age").cast(pl.Int64).cut([start - 0.5 for start in STARTS], labels=AGES).cast(pl.String),
        origin="hispanic",
        race=race,
    )
    same = occupied.select(
        "geocode",
        "count",
        alone=home.str.contains(r"size_1\b"),
        sex="householder_sex",
        age="householder_age",
        origin="householder_hispanic",
        race="householder_race",
    )
    assert summed(kinds, *keys).equals(summed(same, *keys))


def test_the_programme_says_so(made):
    between = json.loads((made / "programme.json").read_text())["between"]
    assert all(one["agrees"] for one in between)
    both = next(one for one in between if one["check"] == "dhc-persons and dhc-units")
    assert {one["kind"] for one in both["kinds"] if one["can_agree"] and one["geounits"]} == set()
    assert {one["kind"] for one in both["kinds"] if not one["can_agree"]} >= {"sizes", "minors"}
    page = (made / "report.html").read_text()
    assert "householders of each kind: living alone or with others" in page
    assert "Not all checks between them agree" not in page
    units = read_manifest(made / "dhc-units")
    assert [one["name"] for one in units.body["agreement"]] == ["dhc-persons", "partners", "h1"]
    assert {one["run"] for one in units.body["agreement"][:2]} == {read_manifest(made / "dhc-persons").run}
    levels = ", ".join(units.body["plan"]["geolevels"])
    for name in ("dhc-persons", "partners", "h1"):
        assert f"agreement {name} holds in every answer at {levels}" in units.checks


@pytest.mark.nightly
@pytest.mark.parametrize(("sizes", "length"), [("tract", 11), ("block", 15)])
def test_sizes_add_up_where_this_is_asked_for(made, tmp_path, sizes, length):
    """Other units for the published persons. Everything else agrees as well."""
    write_country(tmp_path / "people", blocks=12, people=900, schema="dhc", agree=True, sizes=sizes)
    file = tmp_path / "people" / "dhc-units.toml"
    text = file.read_text().replace('release = "dhc-persons"\n', "")
    for name, release in (("dhc-persons", "dhc-persons"), ("partners", "dhc-persons"), ("h1", "h1")):
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\npath = "{made / release}"\n')
    file.write_text(text)
    outcome = run_release(
        load_plan(file), tmp_path / "units", test_key=insecure_key("sizes that add up"), workers=2
    )
    (tmp_path / "dhc-persons").symlink_to(made / "dhc-persons")
    persons = ("dhc-persons", read_manifest(made / "dhc-persons"))
    *_, both = checks_between(tmp_path, [persons, ("units", outcome.manifest)])
    wrong = {one["kind"]: one["geounits"] for one in both["kinds"] if one["can_agree"]}
    assert len(wrong) == 8
    assert f"sizes in {sizes.title()}" in wrong
    assert not any(wrong.values())
    area = pl.col("geocode").str.head(length)
    roles = pl.col("relgq").is_in(load_preset("dhc-persons").attributes[0].levels[:18])
    people = finest(made, "dhc-persons").filter(roles).group_by(area).agg(people=pl.col("count").sum())
    size = pl.col("household").str.extract(r"size_(\d)").cast(pl.Int64)
    homes = finest(tmp_path, "units").filter(pl.col("household") != "none")
    held = homes.group_by(area).agg(
        held=(size * pl.col("count")).sum(), large=pl.col("count").filter(size == 7).sum()
    )
    joined = people.join(held, on="geocode", how="full").fill_null(0)
    least, most = (
        pl.col("held") <= pl.col("people"),
        (pl.col("large") > 0) | (pl.col("held") == pl.col("people")),
    )
    assert joined.select((least & most).all()).item()
