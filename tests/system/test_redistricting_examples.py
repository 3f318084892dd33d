"""The committed release files with the settings of the 2020 redistricting data."""

from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

from tallyveil.cli.synth import write_country
from tallyveil.config.load import load_plan
from tallyveil.execution.topdown.run import run_release
from tallyveil.noise.key import insecure_key

EXAMPLES = Path(__file__).parents[2] / "examples" / "redistricting"
NAMES = ("national", "one_state", "puerto_rico")


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_are_those_of_2020(name):
    plan = load_plan(EXAMPLES / f"{name}.toml")
    assert plan.declared == plan.strategy.total
    assert plan.delta == Fraction(1, 10**10)
    assert plan.schema.size == 2016
    assert [(item.query, item.geolevels) for item in plan.invariants] == [("total", ("State",))]
    (bounds,) = plan.bounds
    assert (bounds.query, bounds.geolevel, bounds.missing_upper) == ("hhgq", "Block", 0)
    totals_first = {
        geolevel
        for geolevel, item in plan.estimation
        if item.passes[0] == ("total",) and len(item.passes) == 2
    }
    from_state = {"State"} if name != "puerto_rico" else set()
    assert totals_first == from_state | {"County", "Tract", "Block_Group"}
    for _, item in plan.estimation:
        assert item.slack == Fraction(1, 10)
        assert item.target == "nearest"
        assert [query for stage in item.rounding for query in stage][-2:] == [
            "hhgq*votingage*hispanic*cenrace",
            "detailed",
        ]


def test_the_national_file_runs_and_keeps_what_it_promises(tmp_path):
    data = tmp_path / "data"
    write_country(data, blocks=150, schema="pl94-persons", seed=2)
    release = tmp_path / "release.toml"
    text = (EXAMPLES / "national.toml").read_text()
    assert text.count("../../releases/redistricting-data") == 3
    release.write_text(text.replace("../../releases/redistricting-data", data.as_posix()))
    outcome = run_release(load_plan(release), tmp_path / "out", test_key=insecure_key("national"))
    records = pl.read_parquet(data / "records.parquet")
    facilities = pl.read_parquet(data / "facilities.parquet").with_columns(pl.col("hhgq").cast(pl.String))
    blocks = pl.read_parquet(outcome.path / "histogram" / "Block.parquet").with_columns(
        pl.col("hhgq", "votingage").cast(pl.String)
    )

    def states(frame: pl.DataFrame) -> list[tuple[str, int]]:
        by_state = frame.group_by(pl.col("geocode").str.head(2)).agg(pl.col("count").sum())
        return sorted(by_state.rows())

    assert states(blocks) == states(records)
    assert blocks.filter(hhgq="nursing", votingage="under_18").is_empty()
    people = blocks.group_by("geocode", "hhgq").agg(pl.col("count").sum())
    assert people.join(facilities, on=["geocode", "hhgq"], how="anti").is_empty()
    both = facilities.join(people, on=["geocode", "hhgq"], how="left").with_columns(
        pl.col("count").fill_null(0)
    )
    assert (both["count"] >= both["lower"]).all()
    assert (both["lower"] > 0).any()
