"""Tables with shapes as GeoParquet: the answers of the tables, merged shapes, and the metadata of the standard."""

import json

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
import shapely

from tallyveil.errors import ConfigError, SchemaError, StoreError
from tallyveil.files import whole_tables
from tallyveil.files.whole_tables import publish_geoparquet
from tallyveil.geography.geometry import POINTS, POLYGONS, geo_metadata
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.products.topdown.run.run import run_release

TYPES = {
    *(
        "Point",
        "LineString",
        "Polygon",
        "MultiPoint",
        "MultiLineString",
        "MultiPolygon",
        "GeometryCollection",
    ),
}


def require_geoparquet(path):
    """The rules of GeoParquet 1.1 that concern a file with WKB in longitude and latitude, as in its JSON schema."""
    file = pq.ParquetFile(path)
    geo = json.loads(file.metadata.metadata[b"geo"])
    assert geo["version"] == "1.1.0"
    assert geo["primary_column"] in geo["columns"]
    for name, column in geo["columns"].items():
        assert set(column) <= {
            *("encoding", "geometry_types", "crs", "edges", "orientation", "bbox", "epoch", "covering")
        }
        assert column["encoding"] == "WKB"
        assert set(column["geometry_types"]) <= TYPES
        assert len(set(column["geometry_types"])) == len(column["geometry_types"])
        place = file.schema.names.index(name)
        assert file.schema.column(place).physical_type == "BYTE_ARRAY"
        assert file.schema.column(place).path == name  # a column of the root
        assert file.schema.column(place).max_repetition_level == 0
        held = shapely.from_wkb([one for one in file.read()[name].to_pylist() if one is not None])
        assert {shape.geom_type for shape in held} <= set(column["geometry_types"])
        assert not shapely.has_z(held).any()
    return file.read()


@pytest.fixture(scope="module")
def released(tmp_path_factory, make_small_inputs):
    """A release with a square for each block, in rows of ten; one block has no shape."""
    folder = tmp_path_factory.mktemp("map")
    release = make_small_inputs(folder)
    codes = pl.read_parquet(release.parent / "geography.parquet")["geocode"].sort()
    x, y = np.arange(len(codes)) % 10, np.arange(len(codes)) // 10
    shapes = list(shapely.to_wkb(shapely.box(x, y, x + 1, y + 1)))
    shapes[3] = None
    frame = pl.DataFrame({"geocode": codes, "geometry": shapes})
    frame.write_parquet(release.parent / "squares.parquet", metadata=geo_metadata(POLYGONS))
    text = release.read_text()
    text = text.replace("[geography]\n", '[geography]\ngeometry = "squares.parquet"\nnames = "names.csv"\n')
    release.write_text(text)
    names = pl.DataFrame({"geolevel": ["Town"], "geocode": ["P01"], "name": ["Sand"]})
    names.write_csv(release.parent / "names.csv")
    run_release(load_plan(release), folder / "out", test_key=bytes(32), workers=1)
    return folder / "out"


def table(root, area, query):
    return pl.read_parquet(root / f"tables/geolevel={area}/query={query}/*.parquet", hive_partitioning=False)


@pytest.mark.parametrize("area", ["Region", "Town", "Block"])
def test_every_area_has_its_answers_and_its_shape(released, tmp_path, command, area):
    out = tmp_path / "map.parquet"
    said = command("publish", "geoparquet", released, "--geolevel", area, "--tables", "age", "--out", out)
    assert "areas" in said
    require_geoparquet(out)
    found = pl.read_parquet(out)
    rows = table(released, area, "age")
    assert found["geocode"].to_list() == rows["geocode"].unique(maintain_order=True).to_list()
    for label in rows["age"].unique():
        assert found[f"age={label}"].to_list() == rows.filter(pl.col("age") == label)["count"].to_list()
    assert "name" in found.columns
    blocks = pl.read_parquet(released / "geometry.parquet")
    covered = shapely.union_all(shapely.from_wkb(blocks["geometry"].drop_nulls().to_list()))
    shapes = shapely.from_wkb(found["geometry"].drop_nulls().to_list())
    assert shapely.area(shapes).sum() == pytest.approx(covered.area)
    assert shapely.equals(shapely.union_all(shapes), covered)


def test_names_and_intervals_stand_beside(released, tmp_path):
    import shutil

    root = tmp_path / "out"
    shutil.copytree(released, root)
    make_intervals(root, tables=["total"], workers=1)
    made = publish_geoparquet(root, "Town", ["total"], tmp_path / "map.parquet")
    assert made.columns == 5
    found, rows = pl.read_parquet(tmp_path / "map.parquet"), table(root, "Town", "total")
    assert found.filter(geocode="P01")["name"].to_list() == ["Sand"]
    for name in ("estimate", "standard_error", "lower", "upper"):
        assert found[f"total {name}"].to_list() == rows[name].to_list()


def test_a_release_that_protects_nobody_says_so(released, tmp_path, command):
    out = tmp_path / "map.parquet"
    said = json.loads(
        command("publish", "geoparquet", released, "--geolevel", "Town", "--out", out, "--json")
    )
    tags = pl.read_parquet_metadata(out)
    assert not said["protected"]
    (mark,) = said["warnings"]
    assert tags["tallyveil.warning"] == f"NOT PRIVATE: {mark}"
    assert tags["tallyveil.protected"].startswith("false")
    printed = command(
        "publish", "geoparquet", released, "--geolevel", "Town", "--out", tmp_path / "b.parquet"
    )
    assert mark in " ".join(printed.split())


def test_points_become_several_points(released, tmp_path, monkeypatch):
    import shutil

    root = tmp_path / "out"
    shutil.copytree(released, root)
    path = root / "geometry.parquet"
    tags = {key: text for key, text in pl.read_parquet_metadata(path).items() if key.startswith("tallyveil")}
    frame = pl.read_parquet(path)
    points = shapely.to_wkb(shapely.points(range(frame.height), 0))
    frame.with_columns(geometry=pl.Series(list(points))).write_parquet(
        path, metadata={**tags, **geo_metadata(POINTS)}
    )
    monkeypatch.setattr(whole_tables, "require_unchanged", lambda *_: None)
    publish_geoparquet(root, "Town", ["total"], tmp_path / "map.parquet")
    require_geoparquet(tmp_path / "map.parquet")


def test_the_geometry_of_a_release_is_geoparquet(released):
    require_geoparquet(released / "geometry.parquet")


def refused(error, code, *arguments):
    with pytest.raises(error) as caught:
        publish_geoparquet(*arguments)
    assert caught.value.code == code


def test_what_cannot_be_made_is_refused(released, tmp_path, monkeypatch):
    out = tmp_path / "map.parquet"
    refused(ConfigError, "no-table", released, "Nowhere", ["total"], out)
    with pytest.raises(SchemaError):
        publish_geoparquet(released, "Town", ["income"], out)
    refused(StoreError, "input-in-output", released, "Town", ["total"], released / "map.parquet")
    out.write_text("mine")
    refused(StoreError, "file-taken", released, "Town", ["total"], out)
    out.unlink()
    monkeypatch.setattr(whole_tables, "MOST_ANSWERS", 1)
    refused(ConfigError, "bad-flag", released, "Town", ["total", "age"], out)
    assert not out.exists()


def test_a_changed_file_is_refused(released, tmp_path):
    import shutil

    for number, name in enumerate(("geometry.parquet", "tables/geolevel=Town/query=age/part-00000.parquet")):
        root = tmp_path / str(number)
        shutil.copytree(released, root)
        pl.read_parquet(root / name, hive_partitioning=False).write_parquet(root / name)
        refused(StoreError, "release-damaged", root, "Town", ["age"], tmp_path / "map.parquet")
        assert not (tmp_path / "map.parquet").exists()


def test_a_release_without_shapes_is_refused(small_release, tmp_path):
    run_release(load_plan(small_release), tmp_path / "out", test_key=bytes(32), workers=1)
    refused(ConfigError, "no-geometry", tmp_path / "out", "Town", ["age"], tmp_path / "map.parquet")
