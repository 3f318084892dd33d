"""Tables of a release as one GeoParquet file: a row for each area of a kind, with its shape and its answers.

There is a column for each answer, which is called as the answer is, such as `hispanic=hispanic * cenrace=white`. That
of the total is `total`. Where a
table has intervals and holds its zeros, further columns follow each answer, such as `total standard_error`. Shapes of
areas above the finest geolevel are merged from those of their finest geounits.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError, StoreError
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.geometry import Geometry, require_maps
from tallyveil.geography.geometry.geoparquet import COLUMN, POLYGONS, geo_metadata
from tallyveil.geography.geometry.merge import merged
from tallyveil.release.finished import MANIFEST
from tallyveil.release.geography import GEOGRAPHY, NAMES, read_hierarchies
from tallyveil.release.geometry import GEOMETRY, read_geometry
from tallyveil.release.interval_tables import BESIDE, refuse_earlier_tables
from tallyveil.release.kinds import ReleaseKind
from tallyveil.release.manifest import Manifest
from tallyveil.release.manifest_files import read_manifest, require_unchanged
from tallyveil.release.tables import has_zeros, table_folder
from tallyveil.storage.outputs import new_file, refuse_output_inside
from tallyveil.storage.published import published_columns
from tallyveil.storage.read import collect, scan_parquet
from tallyveil.storage.write import file_digest, write_parquet
from tallyveil.universe.answer_columns import answer_expression
from tallyveil.universe.names import as_named
from tallyveil.universe.presets import schema_from_mapping
from tallyveil.universe.query_group import QueryGroup

MOST_COLUMNS: Final = 1_000
"""Most columns of numbers. Programs for maps list them all, and zeros take their place in memory, too."""
_SEVERAL_POINTS: Final = ("Point", "MultiPoint")


@dataclass(frozen=True, slots=True)
class MapFile:
    """A file that was made.

    Attributes:
        areas: Number of its rows.
        columns: Number of its columns of numbers.
        n_missing: Number of areas without a shape.
        warnings: What must be said wherever the release is shown.
    """

    areas: int
    columns: int
    n_missing: int
    warnings: tuple[str, ...]


def publish_geoparquet(root: Path, geolevel: str, queries: Sequence[str], out: Path) -> MapFile:
    """Write tables of a finished release with the shapes of its areas.

    Args:
        root: Folder of the release.
        geolevel: A geolevel, or a family of entities, that the release has tables of.
        queries: Queries of the tables; each once.
        out: A file outside the release that does not exist.
    Raises:
        ConfigError: the extra `maps` is not installed, the release has no geometry or no such table, or the tables
            have too many answers.
        StoreError: the release is not finished or damaged, or the file cannot be written.
    Privacy: nothing is spent: the file holds what is published.
    """
    require_maps("a file with shapes")
    refuse_output_inside(out, root)
    manifest = read_manifest(root, ReleaseKind.TOPDOWN)
    refuse_earlier_tables(root, "Read them as they are")
    schema = schema_from_mapping(manifest.body["plan"]["schema"])
    known = manifest.body["plan"]["tables"]
    groups = [schema.query(name) for name in dict.fromkeys(as_named(query, known) for query in queries)]
    folders = [_folder(root, geolevel, group) for group in groups]
    _refuse_many(groups)
    with new_file(out, []):
        for name in (GEOGRAPHY, GEOMETRY, NAMES):
            if name in manifest.digests:
                require_unchanged(root, manifest, root / name)
        hierarchies = read_hierarchies(root)
        codes, offsets, members = _areas(hierarchies, geolevel)
        geometry = read_geometry(root, hierarchies.spine)
        if geometry is None:
            raise _no_geometry(root)
        columns = [codes.alias("geocode"), *_names(hierarchies, geolevel, codes)]
        for group, folder in zip(groups, folders, strict=True):
            columns += _answers(root, manifest, codes, group, folder)
        shapes, kinds = _shapes(geometry, offsets, members)
        frame = pl.DataFrame([*columns, shapes.alias(COLUMN)])
        tags = {
            "run": manifest.run,
            "manifest": file_digest(root / MANIFEST),
            "geolevel": geolevel,
            "protected": str(manifest.protected).lower(),
            "warnings": json.dumps(list(manifest.warnings)),
        }
        write_parquet(out, frame, tags, geo_metadata(kinds))
    numbers = len(columns) - len([name for name in ("geocode", "name") if name in frame.columns])
    return MapFile(frame.height, numbers, shapes.null_count(), tuple(manifest.warnings))


def _folder(root: Path, geolevel: str, group: QueryGroup) -> Path:
    """The folder of a table; raises ConfigError."""
    folder = table_folder(root, geolevel, group.name)
    if not folder.is_dir():
        raise ConfigError(
            f"{root} has no table of '{group.name}' for '{geolevel}'. Name a geolevel or family and queries of its "
            "folder `tables`.",
            code="no-table",
        )
    return folder


def _refuse_many(groups: Sequence[QueryGroup]) -> None:
    numbers = sum(group.size * (1 + len(BESIDE) * has_zeros(group)) for group in groups)
    if numbers > MOST_COLUMNS:
        raise ConfigError(
            f"the tables have {numbers:,} columns of numbers together, wanted at most {MOST_COLUMNS:,}. Name fewer "
            "tables.",
            code="bad-flag",
        )


def _no_geometry(root: Path) -> ConfigError:
    return ConfigError(
        f"{root} has no {GEOMETRY}, because its release file names no `[geography] geometry`. Only a release with "
        "shapes can be shown on a map.",
        code="no-geometry",
    )


def _areas(hierarchies: Hierarchies, geolevel: str) -> tuple[pl.Series, Integers, Integers]:
    """Codes of the areas, and their finest geounits as offsets and rows."""
    for family in (*hierarchies.replaced, *hierarchies.families):
        if family.name == geolevel:
            return pl.Series(family.codes, dtype=pl.String), family.offsets, family.members
    spine = hierarchies.spine
    level = spine.level_index(geolevel)
    rows = np.arange(spine.n_geounits(spine.finest), dtype=np.int64)
    return spine.geocodes[level].text, spine.finest_offsets(level), rows


def _names(hierarchies: Hierarchies, geolevel: str, codes: pl.Series) -> list[pl.Series]:
    """The column of names, if the release has names."""
    if hierarchies.names is None:
        return []
    own = hierarchies.names.filter(pl.col("geolevel") == geolevel).select("geocode", "name")
    found = pl.DataFrame([codes.alias("geocode")]).join(own, on="geocode", how="left", maintain_order="left")
    return [found["name"]]


def _answers(
    root: Path, manifest: Manifest, codes: pl.Series, group: QueryGroup, folder: Path
) -> Iterator[pl.Series]:
    """The columns of a table, in the order of its answers."""
    parts = sorted(folder.glob("*.parquet"))
    for part in parts:
        require_unchanged(root, manifest, part)
    beside = BESIDE if has_zeros(group) and "estimate" in published_columns(parts[0]) else {}
    wanted = [pl.col("geocode"), answer_expression(group), *map(pl.col, ("count", *beside))]
    rows = collect(scan_parquet(*parts).select(wanted), folder, "table")
    keys = pl.DataFrame([codes.alias("geocode")]).with_row_index("area")
    rows = rows.join(keys, on="geocode", how="left").drop("geocode")
    if rows["area"].null_count() or rows["answer"].null_count():
        raise StoreError(
            f"{folder} has a row that is no answer of its query or of no area of the release. Restore it from a copy.",
            code="release-damaged",
        )
    found = {int(answer): own for (answer,), own in rows.group_by("answer")}
    for answer, label in enumerate(group.labels()):
        own = keys.select("area").join(
            found.get(answer, rows.clear()), on="area", how="left", maintain_order="left"
        )
        yield own["count"].fill_null(0).alias(label)
        yield from (own[name].alias(f"{label} {name}") for name in beside)


def _shapes(geometry: Geometry, offsets: Integers, members: Integers) -> tuple[pl.Series, Sequence[str]]:
    """The shapes of areas as well-known binary, and the types of shapes among them."""
    import shapely

    finest = shapely.from_wkb(np.array(geometry.wkb.to_list(), dtype=object))
    known = finest[~shapely.is_missing(finest)]
    shared = not geometry.points and bool(shapely.coverage_is_valid(known))
    found: NDArray[Any] = merged(finest, offsets, members, shared=shared)
    stored = pl.Series(list(shapely.to_wkb(found, byte_order=1, flavor="iso")), dtype=pl.Binary)
    return stored, _SEVERAL_POINTS if geometry.points else POLYGONS
