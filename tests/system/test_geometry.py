"""Geometry of finest geounits is published with a release, and changes no count."""

import json

import polars as pl
import pytest
import shapely
from tests.samples import nightly

from tallyveil.errors import ConfigError, GeographyError, StoreError
from tallyveil.files.geography import read_geography, read_geometry
from tallyveil.geography import geometry
from tallyveil.geography.geometry import POLYGONS, geo_metadata
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.measured import open_measurements
from tallyveil.products.topdown.run.before_spend import inputs_of
from tallyveil.products.topdown.run.inputs import read_hierarchies
from tallyveil.products.topdown.run.run import TopDownProduct, measure_release, run_release
from tallyveil.runs.observer import SilentObserver


@pytest.fixture
def mapped(edit, small_release):
    """A function that makes the plan of a release with a square for each block, in the reverse order of the spine."""
    edit("[geography]\n", '[geography]\ngeometry = "squares.parquet"\ngeometry_geocode = "code"\n')

    def plan(change=lambda frame: frame):
        folder = small_release.parent
        codes = pl.read_parquet(folder / "geography.parquet")["geocode"].sort(descending=True)
        wkb = shapely.to_wkb(shapely.box(range(len(codes)), 0, range(1, len(codes) + 1), 1))
        frame = pl.DataFrame({"code": codes, "geometry": list(wkb)})
        change(frame).write_parquet(folder / "squares.parquet", metadata=geo_metadata(POLYGONS))
        return load_plan(small_release)

    return plan


def test_geometry_is_published(mapped, tmp_path):
    plan = mapped()
    assert "squares.parquet" in {path.name for path in inputs_of(plan)}
    whole = run_release(plan, tmp_path / "whole", test_key=bytes(32), workers=1)
    path = tmp_path / "whole" / "geometry.parquet"
    assert whole.manifest.digests["geometry.parquet"]
    frame, spine = pl.read_parquet(path), read_geography(tmp_path / "whole")
    assert frame["geocode"].equals(spine.geocodes[-1].text.alias("geocode"))
    wests = shapely.bounds(shapely.from_wkb(frame["geometry"].to_list()))[:, 0]
    assert wests.tolist() == list(reversed(range(len(wests))))
    geo = json.loads(pl.read_parquet_metadata(path)["geo"])
    assert geo["version"] == "1.1.0"
    assert geo["columns"][geo["primary_column"]]["encoding"] == "WKB"
    measure_release(plan, tmp_path / "measured", test_key=bytes(32))
    estimate_release(open_measurements(tmp_path / "measured"), tmp_path / "later", workers=1)
    assert pl.read_parquet(tmp_path / "later" / "geometry.parquet").equals(frame)


def test_a_package_describes_the_shapes(mapped, tmp_path):
    run_release(mapped(), tmp_path / "out", test_key=bytes(32), workers=1)
    package = json.loads((tmp_path / "out" / "datapackage.json").read_text())
    (shapes,) = (one for one in package["resources"] if one["path"] == "geometry.parquet")
    assert [(field["name"], field["type"]) for field in shapes["schema"]["fields"]] == [
        ("geocode", "string"),
        ("geometry", "any"),
    ]


def test_geometry_changes_no_noise(mapped, small_release):
    with_shapes = mapped()
    keys = 'geometry = "squares.parquet"\ngeometry_geocode = "code"\n'
    small_release.write_text(small_release.read_text().replace(keys, ""))
    without = load_plan(small_release)
    assert with_shapes.measuring_digest() == without.measuring_digest()
    assert with_shapes.digest() != without.digest()


def test_other_shapes_are_another_run(mapped, tmp_path):
    """An interrupted run goes on only with the same shapes, since they are among what it publishes."""

    def job(plan):
        product = TopDownProduct(plan, protected=False)
        return product.read(tmp_path / "out", SilentObserver()).job()

    first, second = job(mapped()), job(mapped(lambda frame: frame[1:]))
    assert first.whole_plan != second.whole_plan


class _Warnings(SilentObserver):
    def __init__(self):
        self.said = []

    def warned(self, message):
        self.said.append(message)


def test_missing_shapes_are_said_and_are_null(mapped, tmp_path):
    observer = _Warnings()
    run_release(
        mapped(lambda frame: frame[1:]), tmp_path / "out", test_key=bytes(32), workers=1, observer=observer
    )
    assert any("no shape for 1 of " in message for message in observer.said)
    assert pl.read_parquet(tmp_path / "out" / "geometry.parquet")["geometry"].null_count() == 1


def test_shapes_that_do_not_fit_are_refused_before_anything_is_made(mapped, tmp_path):
    plan = mapped(lambda frame: pl.concat([frame, frame[:1]]))
    with pytest.raises(GeographyError) as refused:
        run_release(plan, tmp_path / "out", test_key=bytes(32), workers=1)
    assert refused.value.code == "geometry-geocodes"
    assert not (tmp_path / "out").exists()


def test_without_the_extra_nothing_is_made(mapped, tmp_path, monkeypatch):
    plan = mapped()
    monkeypatch.setattr(geometry, "PACKAGES", ("no_such_package",))
    with pytest.raises(ConfigError) as refused:
        run_release(plan, tmp_path / "out", test_key=bytes(32), workers=1)
    assert refused.value.code == "maps-extra"
    assert not (tmp_path / "out").exists()


def test_the_records_are_no_geometry(edit, small_release):
    edit("[geography]\n", '[geography]\ngeometry = "people.parquet"\n')
    with pytest.raises(ConfigError) as refused:
        read_hierarchies(load_plan(small_release))
    assert refused.value.code == "records-not-public"


def test_a_column_without_a_file_is_refused(edit, small_release):
    edit("[geography]\n", '[geography]\ngeometry_geocode = "code"\n')
    with pytest.raises(ConfigError, match="give geometry as well"):
        load_plan(small_release)


@pytest.mark.parametrize(
    "damage",
    [
        lambda frame: frame.reverse(),
        *map(
            nightly,
            (
                lambda frame: frame[1:],
                lambda frame: frame.drop("geometry"),
                lambda frame: frame.with_columns(geometry=pl.lit("text")),
            ),
        ),
    ],
)
def test_a_damaged_file_is_refused(mapped, tmp_path, damage):
    run_release(mapped(), tmp_path / "out", test_key=bytes(32), workers=1)
    path, spine = tmp_path / "out" / "geometry.parquet", read_geography(tmp_path / "out")
    assert read_geometry(tmp_path / "out", spine) is not None
    tags = pl.read_parquet_metadata(path)
    damage(pl.read_parquet(path)).write_parquet(path, metadata={"geo": tags["geo"]})
    with pytest.raises(StoreError) as refused:
        read_geometry(tmp_path / "out", spine)
    assert refused.value.code == "release-damaged"


@pytest.mark.parametrize(
    "geo", [None, nightly("{}"), '{"columns": {"geometry": {"geometry_types": ["LineString"]}}}']
)
def test_damaged_metadata_is_refused(mapped, tmp_path, geo):
    run_release(mapped(), tmp_path / "out", test_key=bytes(32), workers=1)
    path, spine = tmp_path / "out" / "geometry.parquet", read_geography(tmp_path / "out")
    pl.read_parquet(path).write_parquet(path, metadata=None if geo is None else {"geo": geo})
    with pytest.raises(StoreError) as refused:
        read_geometry(tmp_path / "out", spine)
    assert refused.value.code == "release-damaged"
    path.unlink()
    assert read_geometry(tmp_path / "out", spine) is None


def test_changed_shapes_are_not_estimated_with(mapped, tmp_path):
    measure_release(mapped(), tmp_path / "measured", test_key=bytes(32))
    path = tmp_path / "measured" / "geometry.parquet"
    tags = {key: text for key, text in pl.read_parquet_metadata(path).items() if not key.startswith("ARROW")}
    pl.read_parquet(path).with_columns(geometry=None).write_parquet(path, metadata=tags)
    with pytest.raises(StoreError):
        open_measurements(tmp_path / "measured")
