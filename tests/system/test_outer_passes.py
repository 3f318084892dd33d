"""Whole releases with outer passes: what is promised is in the written files."""

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.outer_worlds import write_kinds, write_persons, write_units
from tests.samples import every

from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.exchange.exported import noisy_answers
from tallyveil.postprocess.measured import open_measurements
from tallyveil.products.topdown.run.run import measure_release, run_release
from tallyveil.runs.product import Outcome

KEY = insecure_key("outer passes")


def contents(out: Path) -> dict[str, bytes]:
    """Every published file."""
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


def counts_of(out: Path, geolevel: str) -> pl.DataFrame:
    frame = pl.read_parquet(out / "histogram" / f"{geolevel}.parquet")
    return frame.with_columns(pl.col(name).cast(pl.String) for name in frame.columns if name != "count")


def released(folder: Path, write: Callable[[Path], tuple[Path, Path]]) -> tuple[Path, Outcome]:
    """The folder of a world, and its release with outer passes, after the coarse one that it agrees with."""
    coarse, fine = write(folder)
    run_release(load_plan(coarse), folder / "coarse", test_key=KEY, workers=1)
    return folder, run_release(load_plan(fine), folder / "out", test_key=KEY, workers=1)


@pytest.fixture(scope="module")
def persons(tmp_path_factory):
    return released(tmp_path_factory.mktemp("persons"), write_persons)


@pytest.fixture(scope="module")
def units(tmp_path_factory):
    return released(tmp_path_factory.mktemp("units"), write_units)


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    return released(tmp_path_factory.mktemp("kinds"), write_kinds)


def test_persons_agree_with_the_coarse_release_everywhere(persons):
    folder, outcome = persons
    for geolevel in ("Region", "Town", "Block"):
        grouped = counts_of(outcome.path, geolevel).select(
            "geocode",
            home=pl.col("relation").replace_strict({"head": "house", "other": "house"}, default="quarters"),
            grown=pl.col("age").replace_strict({"0": "young", "1": "young"}, default="adult"),
            count="count",
        )
        keys = ["geocode", "home", "grown"]
        found = grouped.group_by(keys).agg(pl.col("count").sum()).sort(keys)
        assert found.rows() == counts_of(folder / "coarse", geolevel).sort(keys).rows()
    assert "agreement coarse holds in every answer at Region, Town, Block" in outcome.manifest.checks
    assert not (outcome.path / "passes").exists()


def test_kinds_of_a_class_are_those_that_measurements_tell(kinds, command):
    """By facilities, a prison and a college in one block have the same number of people, or one more or less."""
    folder, outcome = kinds
    kind = pl.col("relation").replace({"head": "house", "other": "house"})
    blocks = counts_of(outcome.path, "Block").group_by("geocode", kinds=kind).agg(pl.col("count").sum())
    bounds = pl.read_parquet(folder / "kinds.parquet").filter(pl.col("kinds") != "house")
    held = bounds.join(blocks, on=["geocode", "kinds"], how="left").fill_null(0)
    assert (held["count"] >= held["lower"]).all()
    assert (
        blocks.join(bounds, on=["geocode", "kinds"], how="anti").filter(pl.col("kinds") != "house").is_empty()
    )
    coarse = counts_of(folder / "coarse", "Block").filter(home="quarters")
    whole = coarse.group_by("geocode").agg(pl.col("count").sum()).sort("geocode")
    assert held.group_by("geocode").agg(pl.col("count").sum()).sort("geocode").rows() == whole.rows()
    both = held.pivot("kinds", index="geocode", values="count").drop_nulls()
    assert (both["college"] - both["prison"]).abs().max() > 1
    truth = pl.read_parquet(folder / "persons.parquet").filter(relation="prison")
    total = held.filter(kinds="prison")["count"].sum()
    # Six noisy answers make a region's sum, with a standard deviation of about 5; facilities are some 60 people off.
    assert abs(total - truth["count"].sum()) < 25
    command("verify", outcome.path)


def test_children_add_up_and_no_impossible_cell_is_filled(persons):
    _, outcome = persons
    cells = ["relation", "sex", "age"]
    for above, below, length in (("Region", "Town", 1), ("Town", "Block", 3)):
        sums = counts_of(outcome.path, below).group_by(pl.col("geocode").str.head(length), *cells)
        keys = ["geocode", *cells]
        assert (
            sums.agg(pl.col("count").sum()).sort(keys).rows()
            == counts_of(outcome.path, above).sort(keys).rows()
        )
    blocks = counts_of(outcome.path, "Block")
    assert blocks.filter((pl.col("relation") == "prison") & pl.col("age").is_in(["0", "1"])).is_empty()
    assert blocks.filter((pl.col("relation") == "head") & (pl.col("age") == "0")).is_empty()


def test_counts_are_near_the_truth(persons):
    folder, outcome = persons
    truth = pl.read_parquet(folder / "persons.parquet")
    region = truth.group_by(pl.col("geocode").str.head(1), "sex", "age").agg(true=pl.col("count").sum())
    found = counts_of(outcome.path, "Region").group_by("geocode", "sex", "age").agg(pl.col("count").sum())
    joined = region.join(found, on=["geocode", "sex", "age"], how="left").fill_null(0)
    error = (joined["count"] - joined["true"]).to_numpy()
    assert np.abs(error).mean() < 6  # the standard deviation of one measured cell is about 2


def test_the_manifest_tells_how_the_passes_ended(persons):
    _, outcome = persons
    record = outcome.manifest.body["solver"]["Block"]
    assert [one["cells"] for one in record["passes"]] == ["relation*ages*sex", "detailed"]
    assert record["families"] == 2 * 6
    assert record["largest_residual"] <= 0.1


def test_units_agree_keep_invariants_and_their_places(units):
    folder, outcome = units
    blocks = counts_of(outcome.path, "Block")
    occupied = blocks.filter(pl.col("tenure").is_in(["owned", "rented", "free"]))
    vacant = blocks.filter(pl.col("tenure").is_in(["for_rent", "other_vacant"]))
    published = counts_of(folder / "coarse", "Block")
    for status, found in (("occupied", occupied), ("vacant", vacant)):
        wanted = published.filter(status=status).sort("geocode").select("geocode", "count")
        assert found.group_by("geocode").agg(pl.col("count").sum()).sort("geocode").rows() == wanted.rows()
    assert set(occupied["holder"]) == {"male", "female"}
    others = blocks.filter(~pl.col("tenure").is_in(["owned", "rented", "free"]))
    assert set(others["holder"]) | set(others["size"]) == {"none"}
    truth = pl.read_parquet(folder / "units.parquet").filter(
        pl.col("tenure") == "prison", pl.col("count") > 0
    )
    prisons = blocks.filter(tenure="prison").select("geocode", "count").sort("geocode")
    assert prisons.rows() == truth.select("geocode", "count").sort("geocode").rows()


def with_measurements(folder: Path, which: str) -> ReleasePlan:
    """The plan of the persons in a folder, with other measurements written."""
    path = folder / f"{which}.toml"
    text = (folder / "persons.toml").read_text()
    path.write_text(text.replace('measurements = "none"', f'measurements = "{which}"'))
    return load_plan(path)


@pytest.mark.nightly
@pytest.mark.parametrize("world", ["persons", "kinds"])
def test_measuring_and_estimating_apart_gives_the_same_counts(world, request, tmp_path):
    folder, outcome = request.getfixturevalue(world)
    plan = with_measurements(folder, "full")
    measured = measure_release(plan, tmp_path / "measured", test_key=KEY, workers=1)
    assert "the geography and the constraints are read back as they were written" in measured.manifest.checks
    estimated = estimate_release(open_measurements(tmp_path / "measured"), tmp_path / "out", workers=1)
    for geolevel in ("Region", "Town", "Block"):
        assert counts_of(estimated.path, geolevel).equals(counts_of(outcome.path, geolevel))
    assert estimated.manifest.body["agreement"] == outcome.manifest.body["agreement"]


@pytest.mark.nightly
def test_measurements_on_the_support_are_those_that_the_passes_used(persons, tmp_path):
    folder, outcome = persons
    full = run_release(with_measurements(folder, "full"), tmp_path / "full", test_key=KEY, workers=1)
    support = run_release(with_measurements(folder, "support"), tmp_path / "support", test_key=KEY, workers=1)
    for geolevel in ("Town", "Block"):
        assert counts_of(support.path, geolevel).equals(counts_of(outcome.path, geolevel))
        for query in ("ages*sex", "detailed"):
            whole = noisy_answers(full.path, full.manifest, geolevel, query)
            kept = noisy_answers(support.path, support.manifest, geolevel, query)
            keys = [name for name in whole.columns if name not in ("value", "variance")]
            joined = kept.join(whole, on=keys, how="left")
            assert 0 < kept.height <= whole.height
            assert joined["value"].equals(joined["value_right"], check_names=False)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("world", "first"), every(8, [*product(["persons"], (5, 6, 7, 8)), *product(["units"], (6, 5, 7, 8))])
)
def test_neither_threads_nor_kills_change_a_byte(world, first, request, tmp_path, killed_at):
    """At each fourth write: after the file is written at odd numbers, before it at even ones."""
    folder, outcome = request.getfixturevalue(world)
    expected = contents(outcome.path)
    plan = load_plan(folder / f"{world}.toml")
    assert contents(run_release(plan, tmp_path / "threads", test_key=KEY, workers=3).path) == expected
    number, killed = first - 4, True
    while killed:
        number += 4
        out = tmp_path / f"killed-{number}"
        made = partial(run_release, plan, out, test_key=KEY, workers=1)
        killed = killed_at(number, made, before=number % 2 == 0)
        assert contents(run_release(plan, out, test_key=KEY, workers=1).path) == expected
    assert number > 18  # there are that many files to write, or the test has tested nothing
