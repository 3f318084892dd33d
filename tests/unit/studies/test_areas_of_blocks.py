"""Figure 9's seven kinds of areas, from files in the published layouts to the sums that are regressed."""

import runpy
import sys
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil import import_geography
from tallyveil.plans.from_toml.load import parse_file
from tallyveil.plans.from_toml.study_files import StudyFile
from tallyveil_studies.fdp_census.own_files import read_own_data

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "made_up_areas.py"
LEVELS = ("under_9", "grades_9_to_12", "high_school", "some_college", "associate", "bachelor")
NUMBERS = {
    "States": 6,
    "Metropolitan areas": 15,
    "Counties": 30,
    "Tracts": 180,
    "County subdivisions": 120,
    "Places": 72,
    "ZIP Code areas": 96,
}


def test_published_files_give_the_areas_of_the_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    imported, _ = import_geography(
        tmp_path / "geography",
        baf=[tmp_path / "baf"],
        zcta=tmp_path / "zcta.txt",
        cbsa=tmp_path / "list1.csv",
    )
    own = read_own_data(tmp_path / "own.toml", parse_file(tmp_path / "own.toml", StudyFile))
    assert {one.name: len(one.places.outcome) for one in own.regressions} == NUMBERS
    # The sums by another way: one join and one sum for each kind of area.
    people = pl.read_parquet(tmp_path / "education.parquet")
    blocks = people.join(imported.geography.join(imported.entities, on="geocode"), on="geocode")
    columns = ("state", "cbsa", "county", "tract", "published_county_subdivision", "published_place", "zcta")
    for one, column in zip(own.regressions, columns, strict=True):
        sums = blocks.drop_nulls(column).group_by(column).agg(pl.col(LEVELS).sum()).sort(column)
        assert np.array_equal(one.places.counts, sums.select(LEVELS).to_numpy())
        # Earnings were made as a line in the exact share: codes that were mixed up would not lie near it.
        share = one.places.counts[:, -1] / one.places.counts.sum(axis=1)
        assert np.abs(one.places.outcome - 25_000 - 30_000 * share).max() < 10_000
