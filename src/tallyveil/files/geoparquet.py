"""Tables of a release as one GeoParquet file: a row for each area of a kind, with its shape and its answers.

There is a column for each answer, which is called as the answer is, such as `hispanic=hispanic * cenrace=white`. That
of the total is `total`. Where a table has intervals, further columns follow each answer, such as
`total standard_error`. Shapes of areas above the finest geolevel are merged from those of their finest geounits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError
from tallyveil.files.finished import MANIFEST
from tallyveil.files.geography import GEOGRAPHY, NAMES, read_hierarchies
from tallyveil.files.geometry import GEOMETRY, read_geometry
from tallyveil.files.intervals import BESIDE, refuse_earlier_tables
from tallyveil.files.kinds import ReleaseKind
from tallyveil.files.manifest_files import read_manifest, require_unchanged
from tallyveil.files.marks import Marks, marks_of
from tallyveil.files.whole_tables import table_files, whole_table
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.geometry import Geometry, require_maps
from tallyveil.geography.geometry.geoparquet import COLUMN, POLYGONS, geo_metadata
from tallyveil.geography.geometry.merge import merged
from tallyveil.schema.names import as_named
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import schema_from_mapping
from tallyveil.storage.outputs import new_file, refuse_output_inside
from tallyveil.storage.write import file_digest, write_parquet

MOST_ANSWERS: Final = 1_000
"""Most answers of an area. Programs for maps list all columns, of which an answer with its interval has five."""
# Areas of several points are one shape of several, also where an area has one point alone.
_SEVERAL_POINTS: Final = ("Point", "MultiPoint")


@dataclass(frozen=True, slots=True)
class MapFile:
    """A file that was made.

    Attributes:
        areas: Number of its rows.
        columns: Number of its columns of numbers.
        n_missing: Number of areas without a shape.
        marks: What must be said wherever the release is shown.
    """

    areas: int
    columns: int
    n_missing: int
    marks: Marks


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
    # Each query once, whatever the order in which its factors are named.
    groups = [schema.query(name) for name in dict.fromkeys(as_named(query, known) for query in queries)]
    for group in groups:
        table_files(root, manifest, geolevel, group.name)
    _refuse_many(groups)
    # A hidden lock beside the file: two processes with one --out do not write it at once.
    with new_file(out, []):
        # What is read below must be what the release published, or the file would name a release that it is not of.
        for name in (GEOGRAPHY, GEOMETRY, NAMES):
            if name in manifest.digests:
                require_unchanged(root, manifest, root / name)
        hierarchies = read_hierarchies(root)
        codes, offsets, members = _areas(hierarchies, geolevel)
        geometry = read_geometry(root, hierarchies.spine)
        if geometry is None:
            raise _no_geometry(root)
        columns = [codes.alias("geocode"), *_names(hierarchies, geolevel, codes)]
        for group in groups:
            columns += _answers(group, pl.concat(whole_table(root, manifest, geolevel, group)))
        shapes, kinds = _shapes(geometry, offsets, members)
        frame = pl.DataFrame([*columns, shapes.alias(COLUMN)])
        marks = marks_of(manifest)
        tags = {
            "run": manifest.run,
            "manifest": file_digest(root / MANIFEST),
            "geolevel": geolevel,
            **marks.tags(),
        }
        write_parquet(out, frame, tags, geo_metadata(kinds))
    # The geocode and the name are text; all other columns are numbers.
    numbers = len(columns) - len([name for name in ("geocode", "name") if name in frame.columns])
    return MapFile(frame.height, numbers, shapes.null_count(), marks)


def _refuse_many(groups: Sequence[QueryGroup]) -> None:
    answers = sum(group.size for group in groups)
    if answers > MOST_ANSWERS:
        raise ConfigError(
            f"the tables have {answers:,} answers of each area together, wanted at most {MOST_ANSWERS:,}. Name fewer "
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
    # The finest geounits of any geounit are neighbours, so that the rows are all of them in order.
    rows = np.arange(spine.n_geounits(spine.finest), dtype=np.int64)
    return spine.geocodes[level].text, spine.finest_offsets(level), rows


def _names(hierarchies: Hierarchies, geolevel: str, codes: pl.Series) -> list[pl.Series]:
    """The column of names, if the release has names."""
    if hierarchies.names is None:
        return []
    # A left join keeps the order of the areas, in which all other columns are.
    names_here = hierarchies.names.filter(pl.col("geolevel") == geolevel).select("geocode", "name")
    names = pl.DataFrame([codes.alias("geocode")]).join(
        names_here, on="geocode", how="left", maintain_order="left"
    )
    return [names["name"]]


def _answers(group: QueryGroup, rows: pl.DataFrame) -> Iterator[pl.Series]:
    """The columns of a table, in the order of its answers, from all its rows."""
    # A table may have the columns without an estimate, where only other tables have intervals.
    has_intervals = "estimate" in rows.columns and rows["estimate"].null_count() < rows.height
    numbers = ("count", *BESIDE) if has_intervals else ("count",)
    for answer, label in enumerate(group.labels()):
        for name in numbers:
            # Whole tables have a row for every answer, so that an answer is every size-th row from its number on.
            counts = rows[name].gather_every(group.size, answer)
            yield counts.alias(label if name == "count" else f"{label} {name}")


def _shapes(geometry: Geometry, offsets: Integers, members: Integers) -> tuple[pl.Series, Sequence[str]]:
    """The shapes of areas as well-known binary, and the types of shapes among them."""
    import shapely

    finest = shapely.from_wkb(np.array(geometry.wkb.to_list(), dtype=object))
    known = finest[~shapely.is_missing(finest)]
    # A valid coverage shares its borders exactly, and merging it is faster; others are overlaid.
    shared = not geometry.points and bool(shapely.coverage_is_valid(known))
    shapes: NDArray[Any] = merged(finest, offsets, members, shared=shared)
    stored = pl.Series(list(shapely.to_wkb(shapes, byte_order=1, flavor="iso")), dtype=pl.Binary)
    return stored, _SEVERAL_POINTS if geometry.points else POLYGONS
