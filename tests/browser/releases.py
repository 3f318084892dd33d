"""Releases to look at in the browser: a town with everything, one with hostile texts, one with counts alone."""

import json
import random
from pathlib import Path

import polars as pl
from typer.testing import CliRunner

from tallyveil.cli.main import app

BLOCKS = 1500  # more than one file of the finest geolevel
PLACE_NAMES = ("Port Émile", "Ash Creek", "New Ash")
HOSTILE_NAME = "</script><img src=x onerror=alert(1)>"


def tallyveil(*arguments: str | Path) -> None:
    """Run the command line, which must succeed. It runs in this process, which has loaded everything already."""
    done = CliRunner().invoke(app, [*map(str, arguments), "--quiet"])
    assert done.exit_code == 0, done.output


def make_town(folder: Path) -> None:
    """A release with a map, names of places, entities and intervals, and one of the same people with counts alone.

    The site `twins` shows the second release beside itself.
    """
    population = folder / "population"
    tallyveil(
        "synth", "--out", population, "--blocks", BLOCKS, "--schema", "race-age", "--geometry", "--seed", 3
    )
    text = (population / "release.toml").read_text()
    places = sorted(pl.read_parquet(population / "entities.parquet")["place"].drop_nulls().unique())
    names = [("State", "99", "Made-up State"), *zip(["place"] * 9, places, PLACE_NAMES, strict=False)]
    _write_names(names, population)
    named = text.replace('path = "geography.parquet"', 'path = "geography.parquet"\nnames = "names.parquet"')
    entities = '[spine]\nentities = "entities.parquet"\nfamilies = ["place"]\n\n[schema]'
    full = named.replace("[schema]", entities) + 'entities = ["place"]\nintervals = "0.95"\n'
    (population / "full.toml").write_text(full)
    tallyveil("run", population / "full.toml", "--out", folder / "town")
    (population / "plain.toml").write_text(text.replace('geometry = "geometry.parquet"\n', ""))
    tallyveil("run", population / "plain.toml", "--out", folder / "plain")
    for name in ("town", "plain"):
        tallyveil("explore", folder / name, "--out", folder / f"{name}-site")
    # Measurements alone, with their estimates and the map.
    tallyveil("measure", population / "full.toml", "--out", folder / "measured")
    tallyveil("intervals", folder / "measured", "--tables", "total,race_ethnicity")
    tallyveil("explore", folder / "measured", "--out", folder / "measured-site")
    tallyveil("explore", folder / "plain", "--with", folder / "plain", "--out", folder / "twins-site")


def make_hostile(folder: Path) -> None:
    """A release whose names, geocodes and labels are hostile."""
    population = folder / "hostile-population"
    population.mkdir()
    chance = random.Random(3)
    towns = ["T1\"'><svg onload=alert(2)>", "=1+cmd|' /C calc'!A0"]
    blocks = [(f"{town}|{block} \u202e<b>", town, "C <i>") for town in towns for block in range(6)]
    pl.DataFrame(blocks, ["block", "Town", "Country"], orient="row").write_parquet(
        population / "geography.parquet"
    )
    levels = ["m<script>alert(3)</script>", '=HYPERLINK("http://x.test")']
    people = [(chance.choice(blocks)[0], chance.choice(levels)) for _ in range(600)]
    pl.DataFrame(people, ["block", "sex"], orient="row").write_parquet(population / "records.parquet")
    _write_names(
        [("Country", "C <i>", HOSTILE_NAME), ("Town", towns[0], "[a](javascript:alert(4))")], population
    )
    (population / "release.toml").write_text(_HOSTILE.format(levels=json.dumps(levels)))
    tallyveil("run", population / "release.toml", "--out", folder / "hostile")
    tallyveil("explore", folder / "hostile", "--out", folder / "hostile-site")


def _write_names(names: list[tuple[str, str, str]], population: Path) -> None:
    pl.DataFrame(names, ["geolevel", "geocode", "name"], orient="row").write_parquet(
        population / "names.parquet"
    )


_HOSTILE = """
[release]
name = "hostile <img src=x onerror=alert(1)> & co"
[records]
path = "records.parquet"
geocode = "block"
[geography]
path = "geography.parquet"
geocode = "block"
geolevels = ["Country", "Town", "Block"]
parent_columns = ["Country", "Town"]
names = "names.parquet"
[schema]
name = "hostile <s>"
unit = "person"
attributes = [{{name = "sex", levels = {levels}}}]
[privacy]
neighbours = "bounded"
mechanism = "discrete_gaussian"
rho = "1"
delta = "1e-10"
[[invariants]]
query = "total"
geolevels = ["Country"]
[strategy]
rho = "1"
[strategy.geolevels]
Country = "1/2"
Town = "1/4"
Block = "1/4"
[strategy.queries.Country]
detailed = "1"
[strategy.queries.Town]
detailed = "1"
[strategy.queries.Block]
detailed = "1"
[outputs]
tables = ["total", "sex"]
intervals = "0.95"
"""
