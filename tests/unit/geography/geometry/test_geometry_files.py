"""Reading files of geometry, and holding them to the spine: what is accepted, and every refusal."""

import json

import numpy as np
import polars as pl
import pyogrio
import pytest
import shapely

from tallyveil.errors import ConfigError, GeographyError, StoreError
from tallyveil.geography import geometry
from tallyveil.geography import geometry as extra_packages
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.geometry import (
    POLYGONS,
    geo_metadata,
    geometry_warnings,
    read_shapes,
    require_maps,
    with_geometry,
)

CODES = ("11", "12", "21", "22")
SQUARES = shapely.box([0, 1, 0, 1], [0, 0, 1, 1], [1, 2, 1, 2], [1, 1, 2, 2])


@pytest.fixture
def spine():
    return spine_from_prefixes(pl.Series(CODES), ["County", "Block"], [1, 2])


def parquet(path, codes=CODES, shapes=SQUARES, **column):
    geo = json.loads(geo_metadata(POLYGONS)["geo"])
    geo["columns"]["geometry"] |= column
    wkb = [None if shape is None else shapely.to_wkb(shape) for shape in shapes]
    frame = pl.DataFrame({"geocode": codes, "geometry": pl.Series(wkb, dtype=pl.Binary)})
    frame.write_parquet(path, metadata={"geo": json.dumps(geo)})
    return path


def by_gdal(path, driver, codes=CODES, shapes=SQUARES, crs="EPSG:4326", column="geocode", **options):
    pyogrio.raw.write(
        path,
        shapely.to_wkb(np.array(shapes)),
        [np.array(codes, dtype=object)],
        [column],
        driver=driver,
        geometry_type=shapes[0].geom_type,
        crs=crs,
        **options,
    )
    return path


def read_back(spine, path, column="geocode"):
    return with_geometry(spine, read_shapes(path, column))


@pytest.mark.parametrize(
    ("name", "driver"),
    [
        ("a.geojson", "GeoJSON"),
        ("a.json", "GeoJSON"),
        ("a.shp", "ESRI Shapefile"),
        ("a.gpkg", "GPKG"),
        ("a.parquet", None),
    ],
)
def test_every_form_gives_the_same_shapes_in_the_order_of_the_spine(tmp_path, spine, name, driver):
    order = [2, 0, 3, 1]
    given = {"codes": [CODES[i] for i in order], "shapes": SQUARES[order]}
    path = tmp_path / name
    if driver is None:
        parquet(path, **given)
    else:
        by_gdal(path, driver, **given)
    found = read_back(spine, path)
    assert not found.points
    assert shapely.equals(shapely.from_wkb(found.wkb.to_list()), SQUARES).all()


def test_a_column_may_have_another_name(tmp_path, spine):
    path = by_gdal(tmp_path / "a.gpkg", "GPKG", column="GEOID20")
    assert read_back(spine, path, "GEOID20").n_missing == 0
    with pytest.raises(ConfigError, match=r"GEOID20.*geometry_geocode") as refused:
        read_shapes(path, "geocode")
    assert refused.value.code == "column-missing"


def test_projected_coordinates_become_degrees(tmp_path, spine):
    metres = shapely.transform(SQUARES, lambda points: points * 111_319.49079327358)  # a degree of EPSG:3857
    found = read_back(spine, by_gdal(tmp_path / "a.gpkg", "GPKG", shapes=metres, crs="EPSG:3857"))
    corner = shapely.bounds(shapely.from_wkb(found.wkb[3]))
    assert corner[[0, 2]] == pytest.approx([1, 2], abs=1e-9)
    assert corner[1] == pytest.approx(0.99994, abs=1e-4)


def test_points_and_missing_shapes(tmp_path, spine):
    points = shapely.points([[0, 0], [1, 0], [0, 1]])
    found = read_back(spine, parquet(tmp_path / "a.parquet", CODES[:3], points))
    assert found.points
    assert found.wkb.is_null().to_list() == [False, False, False, True]
    assert "no shape for 1 of 4 finest geounits" in geometry_warnings(found)[0]
    assert not geometry_warnings(None)


def test_a_row_without_a_shape_is_a_missing_shape(tmp_path, spine):
    assert read_back(spine, parquet(tmp_path / "a.parquet", shapes=[*SQUARES[:3], None])).n_missing == 1


@pytest.mark.parametrize("codes", [CODES, ()])
def test_a_file_without_any_shape_is_refused(tmp_path, spine, codes):
    path = parquet(
        tmp_path / "a.parquet", codes=pl.Series(codes, dtype=pl.String), shapes=[None] * len(codes)
    )
    with pytest.raises(GeographyError, match=f"has no shape: it has {len(codes)} rows") as refused:
        read_back(spine, path)
    assert refused.value.code == "geometry-shape"


def test_height_is_left_out(tmp_path, spine):
    found = read_back(spine, parquet(tmp_path / "a.parquet", shapes=shapely.force_3d(SQUARES, 7.0)))
    assert not shapely.has_z(shapely.from_wkb(found.wkb.to_list())).any()


BOW_TIE = shapely.from_wkt("POLYGON ((0 0, 1 1, 1 0, 0 1, 0 0))")


@pytest.mark.parametrize(
    ("codes", "shapes", "code", "said"),
    [
        (
            ("11", "12", "21", "21"),
            SQUARES,
            "geometry-geocodes",
            "2 rows share their geocode with another row, such as '21'",
        ),
        (
            ("11", "12", "21", "99"),
            SQUARES,
            "geometry-geocodes",
            "1 rows have a geocode that is not in the geography",
        ),
        (("11", "12", "21", None), SQUARES, "geometry-geocodes", "1 rows have no geocode"),
        (CODES, [*SQUARES[:3], BOW_TIE], "geometry-shape", "1 finest geounits, such as '22', are invalid"),
        (CODES, [*SQUARES[:3], shapely.Polygon()], "geometry-shape", "are empty"),
        (CODES, [*SQUARES[:3], shapely.Point(0, 0)], "geometry-shape", "are no polygons"),
        (CODES, [*SQUARES[:3], shapely.box(179, 0, 181, 1)], "geometry-shape", "lie outside longitudes"),
        (
            CODES,
            shapely.points([[0, 0], [1, 0], [0, 1], [np.nan, 0]]),
            "geometry-shape",
            "lie outside|are empty",
        ),
        (CODES, [*SQUARES[:3], shapely.LineString([(0, 0), (1, 1)])], "geometry-shape", "are no polygons"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, spine, codes, shapes, code, said):
    with pytest.raises(GeographyError, match=said) as refused:
        read_back(spine, parquet(tmp_path / "a.parquet", codes, shapes))
    assert refused.value.code == code


def test_bytes_that_are_no_shape_are_refused(tmp_path, spine):
    path = parquet(tmp_path / "a.parquet")
    broken = pl.read_parquet(path).with_columns(geometry=pl.Series([b"no shape"] * 4))
    broken.write_parquet(path, metadata=geo_metadata(POLYGONS))
    with pytest.raises(GeographyError, match="cannot be read as well-known binary"):
        read_back(spine, path)


@pytest.mark.parametrize("crs", [None, {"type": "EngineeringCRS", "name": "x"}, {}])
def test_an_unknown_reference_system_is_refused(tmp_path, spine, crs):
    with pytest.raises(ConfigError) as refused:
        read_back(spine, parquet(tmp_path / "a.parquet", crs=crs))
    assert refused.value.code == "geometry-crs"


def test_a_shapefile_without_its_reference_system_is_refused(tmp_path, spine):
    path = by_gdal(tmp_path / "a.shp", "ESRI Shapefile")
    path.with_suffix(".prj").unlink()
    with pytest.raises(ConfigError, match="does not state") as refused:
        read_back(spine, path)
    assert refused.value.code == "geometry-crs"


@pytest.mark.parametrize(
    ("column", "said"),
    [({"encoding": "polygon"}, "another encoding than WKB"), ({"crs": "EPSG:4326"}, "not PROJJSON")],
)
def test_geoparquet_of_another_kind_is_refused(tmp_path, column, said):
    with pytest.raises(ConfigError, match=said) as refused:
        read_shapes(parquet(tmp_path / "a.parquet", **column), "geocode")
    assert refused.value.code == "geometry-file"


@pytest.mark.parametrize(
    "geo", [None, "no JSON", "{}", '{"primary_column": "a", "columns": {}}', "[" * 100_000, "3"]
)
def test_parquet_without_the_metadata_is_refused(tmp_path, geo):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"geocode": ["11"]}).write_parquet(path, metadata=None if geo is None else {"geo": geo})
    with pytest.raises(ConfigError, match="without the metadata `geo`"):
        read_shapes(path, "geocode")


def test_numbers_are_no_geocodes(tmp_path):
    path = tmp_path / "a.geojson"
    shape = {"type": "Point", "coordinates": [0, 0]}
    features = [{"type": "Feature", "properties": {"geocode": 11}, "geometry": shape}]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    with pytest.raises(ConfigError) as refused:
        read_shapes(path, "geocode")
    assert refused.value.code == "geocode-not-text"


VRT = '<OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource>{}</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>'


@pytest.mark.parametrize("name", ["a.geojson", "a.shp", "a.gpkg"])
def test_a_file_that_names_other_files_is_not_opened(tmp_path, name):
    """GDAL would take it for a virtual layer, whatever its ending, and read the other file or ask an address."""
    other = by_gdal(tmp_path / "other.gpkg", "GPKG")
    (tmp_path / name).write_text(VRT.format(other))
    with pytest.raises(ConfigError, match="does not begin as a file of the format"):
        read_shapes(tmp_path / name, "geocode")


@pytest.mark.parametrize("name", ["a.csv", "a", "a.kml", "/vsicurl/http:a.tif"])
def test_other_endings_are_refused(tmp_path, name):
    with pytest.raises(ConfigError, match=r"wanted \.parquet, \.geojson"):
        read_shapes(tmp_path / name, "geocode")


@pytest.mark.parametrize("name", ["a.parquet", "a.gpkg", "a.geojson"])
def test_a_missing_and_a_cut_file_are_refused(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(StoreError) as refused:
        read_shapes(path, "geocode")
    assert refused.value.code == "input-missing"
    whole = (
        parquet(path) if name.endswith("parquet") else by_gdal(path, "GPKG" if "gpkg" in name else "GeoJSON")
    )
    path.write_bytes(whole.read_bytes()[:150])
    with pytest.raises(StoreError) as refused:
        read_shapes(path, "geocode")
    assert refused.value.code == "input-unreadable"


def test_every_cut_of_a_shapefile_is_refused(tmp_path):
    """GDAL reads what is missing at the end of a .shp as rows without a shape."""
    path = by_gdal(tmp_path / "a.shp", "ESRI Shapefile")
    whole = path.read_bytes()
    for size in range(4, len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(StoreError, match="where its header states") as refused:
            read_shapes(path, "geocode")
        assert refused.value.code == "input-unreadable"


def test_a_file_without_columns_says_so(tmp_path):
    path = tmp_path / "a.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": []}))
    with pytest.raises(ConfigError, match=r"It has no column\. A GeoJSON has columns if") as refused:
        read_shapes(path, "geocode")
    assert refused.value.code == "column-missing"


def test_several_layers_are_refused(tmp_path):
    path = tmp_path / "a.gpkg"
    by_gdal(path, "GPKG", layer="a")
    by_gdal(path, "GPKG", layer="b", append=True)
    with pytest.raises(ConfigError, match="has 2 layers"):
        read_shapes(path, "geocode")


@pytest.mark.parametrize("name", ["a.parquet", "a.gpkg"])
def test_hostile_sizes_are_refused_before_the_shapes_are_held(tmp_path, monkeypatch, name):
    path = tmp_path / name
    parquet(path) if name.endswith("parquet") else by_gdal(path, "GPKG")
    monkeypatch.setattr(geometry, "MOST_BYTES", 300)
    with pytest.raises(StoreError, match="wanted at most 300") as refused:
        read_shapes(path, "geocode")
    assert refused.value.code == "geometry-file"


def test_geometry_in_an_object_store_must_be_parquet():
    from tallyveil.storage.addresses import addressed

    with pytest.raises(ConfigError, match=r"s3://bucket/a\.gpkg lies in an object store"):
        read_shapes(addressed("s3://bucket/a.gpkg"), "geocode")


def test_the_extra_is_asked_for(monkeypatch):
    require_maps("a map")
    monkeypatch.setattr(extra_packages, "PACKAGES", ("json", "no_such_package"))
    with pytest.raises(
        ConfigError, match=r"a map needs the package\(s\) no_such_package.*tallyveil\[maps\]"
    ) as refused:
        require_maps("a map")
    assert refused.value.code == "maps-extra"


def test_a_digest_tells_shapes_apart(tmp_path, spine):
    whole = read_back(spine, parquet(tmp_path / "a.parquet"))
    again = read_back(spine, parquet(tmp_path / "b.parquet"))
    other = read_back(spine, parquet(tmp_path / "c.parquet", shapes=[*SQUARES[:3], None]))
    assert whole.digest() == again.digest() != other.digest()
