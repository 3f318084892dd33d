"""Whole releases with lift passes: every promise is held to the written files."""

from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.lift_worlds import write_homes, write_world
from tests.outer_worlds import blocks

from tallyveil.errors import TallyveilError
from tallyveil.estimation.leaf_lift import alone_limits
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.measured import open_measurements
from tallyveil.postprocess.passes import driver
from tallyveil.postprocess.passes.lifts import lift_pass
from tallyveil.products.topdown.run.run import measure_release, run_release

KEY = insecure_key("lift passes")
LEVELS = {"Region": 1, "Town": 3, "Block": 5}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    coarse, homes, persons = write_world(folder)
    run_release(load_plan(coarse), folder / "coarse", test_key=KEY, workers=1)
    write_homes(folder)
    run_release(load_plan(homes), folder / "homes", test_key=KEY, workers=1)
    return folder, run_release(load_plan(persons), folder / "out", test_key=KEY, workers=1)


def counts_of(out: Path, geolevel: str) -> pl.DataFrame:
    frame = pl.read_parquet(out / "histogram" / f"{geolevel}.parquet")
    return frame.with_columns(pl.col(name).cast(pl.String) for name in frame.columns if name != "count")


def by_geounit(frame: pl.DataFrame, codes: list[str]) -> np.ndarray:
    summed = dict(frame.group_by("geocode").agg(pl.col("count").sum()).iter_rows())
    return np.array([summed.get(code, 0) for code in codes])


def test_heads_are_the_occupied_units_at_every_geolevel(world):
    folder, outcome = world
    for geolevel, length in LEVELS.items():
        codes = sorted({code[:length] for code in blocks()})
        frame = counts_of(outcome.path, geolevel)
        heads = by_geounit(frame.filter(pl.col("relation").is_in(["alone", "head"])), codes)
        occupied = counts_of(folder / "homes", geolevel).filter(status="occupied")
        assert np.array_equal(heads, by_geounit(occupied, codes))
    assert "agreement homes holds in every answer at Region, Town, Block" in outcome.manifest.checks


def test_the_coarse_counts_are_kept_and_those_who_live_alone_leave_room(world):
    folder, outcome = world
    frame = counts_of(outcome.path, "Block")
    keys = ["geocode", "home", "grown"]
    found = frame.select(
        "geocode",
        home=pl.when(pl.col("relation") == "prison").then(pl.lit("quarters")).otherwise(pl.lit("house")),
        grown=pl.when(pl.col("age").is_in(["0", "1"])).then(pl.lit("young")).otherwise(pl.lit("adult")),
        count="count",
    )
    wanted = counts_of(folder / "coarse", "Block").sort(keys)
    assert (
        found.group_by(keys).agg(pl.col("count").sum()).sort(keys).rows()
        == wanted.select(*keys, "count").rows()
    )
    parts = [by_geounit(frame.filter(relation=one), blocks()) for one in ("alone", "head", "other")]
    alone, others = parts[0], parts[2]
    occupied = parts[0] + parts[1]
    lower, upper = alone_limits(occupied + others, occupied)
    assert bool(((lower <= alone) & (alone <= upper)).all())
    assert bool((parts[1] <= others).all())
    assert frame.filter(pl.col("relation").is_in(["alone", "head"]), age="0").is_empty()


def test_counts_are_near_the_truth(world):
    folder, outcome = world
    truth = pl.read_parquet(folder / "persons.parquet")
    for relation in ("alone", "head"):
        true = by_geounit(
            truth.filter(relation=relation).with_columns(geocode=pl.col("geocode").str.head(1)), ["P", "Q"]
        )
        found = by_geounit(counts_of(outcome.path, "Region").filter(relation=relation), ["P", "Q"])
        assert np.abs(true - found).max() < 25


def test_the_manifest_tells_how_the_lifts_ended(world):
    record = world[1].manifest.body["solver"]["Block"]
    assert [one["cells"] for one in record["passes"]] == ["role*grown", "relation*grown", "detailed"]
    assert record["passes"][0]["estimate"] == {"lifted": 6}


@pytest.mark.nightly
def test_workers_and_interruptions_change_nothing(world, tmp_path, monkeypatch):
    folder, outcome = world
    plan = load_plan(folder / "persons.toml")
    run_release(plan, tmp_path / "two", test_key=KEY, workers=2)
    stops = iter(range(100))

    def stopping(limit, original, *arguments):
        if next(stops) == limit:
            raise KeyboardInterrupt
        return original(*arguments)

    for limit in (1, 4):
        stops = iter(range(100))
        with monkeypatch.context() as patch:
            patch.setattr(driver, "lift_pass", partial(stopping, limit, lift_pass))
            with pytest.raises(KeyboardInterrupt):
                run_release(plan, tmp_path / "stopped", test_key=KEY, workers=1)
    run_release(plan, tmp_path / "stopped", test_key=KEY, workers=1)
    for name in ("two", "stopped"):
        for geolevel in LEVELS:
            place = Path("histogram") / f"{geolevel}.parquet"
            assert (tmp_path / name / place).read_bytes() == (outcome.path / place).read_bytes()


@pytest.mark.nightly
def test_measuring_and_estimating_apart_gives_the_same_counts(world, tmp_path):
    folder, outcome = world
    path = folder / "full.toml"
    path.write_text(
        (folder / "persons.toml").read_text().replace('measurements = "none"', 'measurements = "full"')
    )
    measure_release(load_plan(path), tmp_path / "measured", test_key=KEY, workers=1)
    estimated = estimate_release(open_measurements(tmp_path / "measured"), tmp_path / "out", workers=1)
    for geolevel in LEVELS:
        assert counts_of(estimated.path, geolevel).equals(counts_of(outcome.path, geolevel))


def test_more_units_than_people_are_refused_before_the_spend(tmp_path):
    coarse, homes, persons = write_world(tmp_path)
    run_release(load_plan(coarse), tmp_path / "coarse", test_key=KEY, workers=1)
    write_homes(tmp_path, more=100)
    run_release(load_plan(homes), tmp_path / "homes", test_key=KEY, workers=1)
    with pytest.raises(TallyveilError, match="has more records of 'heads'") as caught:
        run_release(load_plan(persons), tmp_path / "out", test_key=KEY, workers=1)
    assert caught.value.code == "constraints-conflict"
    assert not (tmp_path / "out" / "ledger.jsonl").exists()
