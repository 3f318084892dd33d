"""Readers of public geography: files of the Census Bureau, spines, shapes, and published noisy measurements."""

import json
import shutil
from pathlib import Path

import base_inputs as base
import input_targets
import polars as pl
import product_inputs as products
import shapely
from targets import Builder, Target, at

from tallyveil.api.beginning import write_country
from tallyveil.geography.census import Sources, import_geography
from tallyveil.geography.geometry import POLYGONS, geo_metadata
from tallyveil.geography.tables import read_aimed, read_spine_file, write_spine
from tallyveil.measurements.layouts.census_2020.words import ANSWERS, CONSTRAINTS
from tallyveil.measurements.layouts.layout import Layout
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.descriptions import descriptions_named
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.exchange.exported import export_measurements
from tallyveil.postprocess.exchange.imported import open_published
from tallyveil.postprocess.measured import open_measurements
from tallyveil.products.topdown.run.run import measure_release


def _spine(root: Path) -> Target:
    """Files of a spine; one that is accepted is written and read again."""
    valid = base.spine(root).files["one.parquet"]
    assert valid is not None
    path, again = root / "read.parquet", root / "again.parquet"

    def read() -> object:
        spine, shares = read_spine_file(path)
        write_spine(again, spine, shares, read_aimed(path))
        other, _ = read_spine_file(again)
        for mine, theirs in zip(spine.geocodes, other.geocodes, strict=True):
            assert mine.text.equals(theirs.text), "a spine that was read is written as another one"
        return spine.geolevels

    return Target(valid, at(path, read), "parquet")


def _shapes(root: Path, name: str) -> Target:
    """Shapes of the finest geounits, in one of the known forms."""
    path = input_targets._small_release(root)
    blocks = sorted(pl.read_parquet(root / "geography.parquet")["geocode"].to_list())
    boxes = shapely.box(range(len(blocks)), 0, range(1, len(blocks) + 1), 1)
    path.write_text(path.read_text().replace("[geography]", f'[geography]\ngeometry = "{name}"'))
    features = [
        {"type": "Feature", "properties": {"geocode": block}, "geometry": json.loads(shapely.to_geojson(box))}
        for block, box in zip(blocks, boxes, strict=True)
    ]
    if name.endswith(".parquet"):
        frame = pl.DataFrame({"geocode": blocks, "geometry": list(shapely.to_wkb(boxes))})
        frame.write_parquet(root / name, metadata=geo_metadata(POLYGONS))
    elif name.endswith(".geojson"):
        (root / name).write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    else:
        _write_by_gdal(root / name, blocks, boxes)
    part = root / name.replace(".shp", ".dbf") if name == "attributes.shp" else root / name
    form = {".parquet": "parquet", ".geojson": "json"}.get(path.with_name(name).suffix, "bytes")
    return input_targets.table_target(path, part, part.read_bytes(), form)


def _write_by_gdal(path: Path, blocks: list[str], boxes: object) -> None:
    import numpy as np
    import pyogrio

    driver = "GPKG" if path.suffix == ".gpkg" else "ESRI Shapefile"
    values = [np.array(blocks, dtype=object)]
    wkb = np.array(shapely.to_wkb(boxes), dtype=object)
    pyogrio.raw.write(path, wkb, values, ["geocode"], driver=driver, geometry_type="Polygon", crs="EPSG:4326")


def _census(root: Path, name: str) -> Target:
    """A file of the Census Bureau; all files are imported, because they check each other."""
    for other, content in products.imported(root / "made").files.items():
        if content is not None:
            path = root / other
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    found = next(
        path for path in sorted(root.rglob("*.txt")) if name in path.name and "made" not in path.parts
    )
    folder = next(path for path in sorted(root.rglob("baf44")) if "made" not in path.parts)
    references = (folder.parent / "grf.txt",) if name == "grf" else ()
    facilities = None if references else folder.parent / "facilities.txt"
    sources = Sources(() if references else (folder,), references, facilities)
    return Target(found.read_bytes(), at(found, lambda: import_geography(sources).geography.height), "csv")


def _published(root: Path, table: str) -> Target:
    """Noisy measurements in the layout of the Census Bureau."""
    write_country(root / "country", blocks=12, states=2, schema="pl94-units")
    plan = load_plan(root / "country" / "release.toml")
    measured = open_measurements(measure_release(plan, root / "measured", test_key=insecure_key("fuzz")).path)
    export_measurements(measured, root / "files", Layout.CENSUS_2020)
    shutil.rmtree(root / "measured")
    files = sorted(path for path in (root / "files").rglob("*.parquet") if table in str(path))
    path = files[len(files) // 2]
    known = descriptions_named(Layout.CENSUS_2020.value)
    return Target(
        path.read_bytes(), at(path, lambda: open_published(root / "files", known).digest()), "parquet"
    )


GEOGRAPHY_TARGETS: dict[str, Builder] = {
    "spine-file": _spine,
    "shapes-geojson": lambda root: _shapes(root, "shapes.geojson"),
    "shapes-geopackage": lambda root: _shapes(root, "shapes.gpkg"),
    "shapes-shapefile": lambda root: _shapes(root, "shapes.shp"),
    "shapes-attributes": lambda root: _shapes(root, "attributes.shp"),
    "shapes-geoparquet": lambda root: _shapes(root, "shapes.parquet"),
    "census-assignment": lambda root: _census(root, "INCPLACE"),
    "census-reference": lambda root: _census(root, "grf"),
    "census-facilities": lambda root: _census(root, "facilities"),
    "published-measurements": lambda root: _published(root, ANSWERS),
    "published-constraints": lambda root: _published(root, CONSTRAINTS),
}
