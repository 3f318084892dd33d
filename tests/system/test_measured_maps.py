"""Intervals, maps and the explorer of measurements alone: the estimates of `ask` and of a release, without counts."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import shapely

import tallyveil
from tallyveil.errors import ConfigError, GeographyError, StoreError
from tallyveil.explore.site import make_site
from tallyveil.files.whole_tables import publish_geoparquet
from tallyveil.geography.geometry import POLYGONS, geo_metadata

BESIDE = ["estimate", "standard_error", "lower", "upper"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, make_small_inputs) -> Path:
    """Measurements with a square for each block and with intervals, and the release that is estimated from them."""
    folder = tmp_path_factory.mktemp("alone")
    release = make_small_inputs(folder)
    codes = pl.read_parquet(release.parent / "geography.parquet")["geocode"].sort()
    x, y = np.arange(len(codes)) % 10, np.arange(len(codes)) // 10
    shapes = pl.DataFrame({"GEOID": codes, "geometry": list(shapely.to_wkb(shapely.box(x, y, x + 1, y + 1)))})
    shapes.write_parquet(folder / "squares.parquet", metadata=geo_metadata(POLYGONS))
    text = release.read_text()
    release.write_text(
        text.replace(
            "[geography]\n",
            f'[geography]\ngeometry = "{folder}/squares.parquet"\ngeometry_geocode = "GEOID"\n',
        )
    )
    measured = tallyveil.measure(release, folder / "measured", insecure_test_key="alone", workers=1)
    tallyveil.estimate(measured.path, folder / "release", workers=1).add_intervals(
        ["total", "age"], workers=1
    )
    measured.add_intervals(["total", "age"], workers=1)
    return folder


def rows(root: Path, area: str, query: str) -> pl.DataFrame:
    parts = root / f"intervals/geolevel={area}/query={query}/*.parquet"
    return pl.read_parquet(parts, hive_partitioning=False)


@pytest.mark.parametrize("area", ["Region", "Town", "Block"])
def test_intervals_are_those_of_a_release_and_of_a_question(folder, area):
    alone, beside = rows(folder / "measured", area, "age"), rows(folder / "release", area, "age")
    assert alone.columns == [name for name in beside.columns if name != "count"]
    assert alone.equals(beside.drop("count"))
    asked = tallyveil.open(folder / "measured").ask(f"age by {area}", workers=1).to_frame()
    both = alone.join(asked, on=["geocode", "age"], suffix="_asked")
    assert both.height == alone.height
    for name in BESIDE:
        assert both[name].to_list() == pytest.approx(both[f"{name}_asked"].to_list(), abs=1e-5)


def test_they_are_verified_and_bound_to_the_manifest(folder):
    verdict = tallyveil.open(folder / "measured").verify(whole=True)
    assert verdict.holds
    assert any("intervals follow from measurements" in line for line in verdict.proved)
    manifest = folder / "measured/intervals/_manifest.json"
    before = manifest.read_text()
    manifest.write_text(before.replace('"level": 0.95', '"level": 0.96'))
    try:
        assert not tallyveil.open(folder / "measured").verify().holds
    finally:
        manifest.write_text(before)


def test_a_map_has_estimates_and_no_counts(folder, command, tmp_path):
    out = tmp_path / "map.parquet"
    command(
        "publish", "geoparquet", folder / "measured", "--geolevel", "Town", "--tables", "age", "--out", out
    )
    frame, wanted = pl.read_parquet(out), rows(folder / "measured", "Town", "age")
    labels = wanted["age"].unique(maintain_order=True).to_list()
    names = [f"age={label} {name}" for label in labels for name in BESIDE]
    assert frame.columns == ["geocode", *names, "geometry"]
    for label in labels:
        of_label = wanted.filter(pl.col("age") == label)
        assert frame[f"age={label} estimate"].to_list() == of_label["estimate"].to_list()
    blocks = shapely.from_wkb(pl.read_parquet(folder / "squares.parquet")["geometry"].to_list())
    assert shapely.area(shapely.from_wkb(frame["geometry"].to_list())).sum() == pytest.approx(len(blocks))
    with pytest.raises(StoreError, match="tallyveil intervals"):
        publish_geoparquet(folder / "measured", "Town", ["home"], tmp_path / "other.parquet")


def test_a_site_shows_estimates_and_no_counts(folder, tmp_path):
    site = tallyveil.open(folder / "measured").explore(tmp_path / "site")
    said = json.loads((site.path / "data/site.json").read_text())
    assert said["counts"] is False
    assert site.tables == ("total", "age")
    assert said["share_of"] is None
    assert said["district"] is not None
    assert said["map"] is not None
    finest = said["finest"]
    numbers = pl.read_parquet(site.path / f"data/areas/{finest}/table-0-0.parquet")
    assert numbers.columns == ["e0", "s0", "l0", "u0"]
    assert numbers["e0"].to_list() == rows(folder / "measured", "Block", "total")["estimate"].to_list()
    classes = json.loads((site.path / f"data/areas/{finest}/classes-0.json").read_text())["measures"]
    assert list(classes) == ["estimate", "standard_error", "relative_standard_error"]
    assert classes["estimate"][0]["least"] == numbers["e0"].min()
    assert "counts" not in json.loads(
        (make_site(folder / "release", tmp_path / "other").path / "data/site.json").read_text()
    )
    with pytest.raises(ConfigError, match="no published counts"):
        make_site(folder / "measured", tmp_path / "site", compared=folder / "release")


def test_an_unknown_geolevel_is_not_only_called_one_without_intervals(folder, tmp_path):
    with pytest.raises(StoreError, match="Name a geolevel or family") as raised:
        publish_geoparquet(folder / "measured", "Twon", ["total"], tmp_path / "other.parquet")
    assert raised.value.code == "intervals-missing"


def test_measurements_of_others_get_shapes_when_they_are_imported(folder, command, tmp_path):
    tallyveil.export_measurements(folder / "measured", tmp_path / "tidy", layout="tidy")
    squares = pl.read_parquet(folder / "squares.parquet")
    # A water block, which nobody lives in, is in the files of shapes and not in the tree.
    water = squares.head(1).with_columns(GEOID=pl.lit("water"))
    pl.concat([water, squares]).write_parquet(tmp_path / "shapes.parquet", metadata=geo_metadata(POLYGONS))
    command(
        *("measurements", "import", tmp_path / "tidy", "--layout", "tidy", "--out", tmp_path / "imported"),
        *("--shapes", tmp_path / "shapes.parquet", "--shapes-geocode", "GEOID"),
    )
    assert (tmp_path / "imported/geometry.parquet").read_bytes()
    with pytest.raises(StoreError, match="tallyveil intervals"):
        make_site(tmp_path / "imported", tmp_path / "site")
    command("intervals", tmp_path / "imported", "--tables", "total")
    command(
        "publish",
        "geoparquet",
        tmp_path / "imported",
        "--geolevel",
        "Town",
        "--out",
        tmp_path / "map.parquet",
    )
    found = pl.read_parquet(tmp_path / "map.parquet")
    assert (
        found["total estimate"].to_list() == rows(folder / "measured", "Town", "total")["estimate"].to_list()
    )
    with pytest.raises(ConfigError, match="only together with --shapes") as raised:
        tallyveil.import_measurements(
            tmp_path / "tidy", tmp_path / "none", layout="tidy", shapes_geocode="GEOID"
        )
    assert raised.value.code == "bad-flag"
    squares.head(0).write_parquet(tmp_path / "none.parquet", metadata=geo_metadata(POLYGONS))
    with pytest.raises(GeographyError):
        tallyveil.import_measurements(
            tmp_path / "tidy",
            tmp_path / "none",
            layout="tidy",
            shapes=tmp_path / "none.parquet",
            shapes_geocode="GEOID",
        )
