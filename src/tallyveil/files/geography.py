"""The public hierarchy of a release, and the shapes of its finest geounits.

With them a release folder can be read without the release file. `geometry.parquet` is GeoParquet 1.1. Its
rows are the finest geounits in the order of the spine. Columns: `geocode`, and `geometry` as well-known
binary in longitude and latitude (OGC:CRS84), null where a geounit has no shape. QGIS, GDAL and geopandas open
it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.geography.areas import NAME_COLUMNS, NAME_IN, Hierarchies
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.geometry import COLUMN, GEO, POINTS, POLYGONS, Geometry, geo_metadata
from tallyveil.geography.spine import Geocodes, GeounitShares, Spine
from tallyveil.geography.tables import (
    entities_from_columns,
    entities_from_pairs,
    share_texts,
    shares_of_columns,
)
from tallyveil.storage.json_files import damaged
from tallyveil.storage.read import (
    names_of_tag,
    published_columns,
    published_schema,
    published_tags,
    read_published,
)
from tallyveil.storage.write import write_parquet, write_parquet_chunks

GEOMETRY: Final = "geometry.parquet"
_COLUMNS: Final = {"geocode": pl.String, COLUMN: pl.Binary}


def write_geometry(root: Path, spine: Spine, geometry: Geometry, metadata: Mapping[str, str]) -> None:
    """Write the shapes of the finest geounits of a release; raises StoreError.

    Args:
        root: Release folder.
        spine: The spine that is measured.
        geometry: Shapes in the order of its finest geounits.
        metadata: Tags of the run.
    """
    frame = pl.DataFrame([spine.geocodes[spine.finest].text.alias("geocode"), geometry.wkb.alias(COLUMN)])
    write_parquet(root / GEOMETRY, frame, metadata, geo_metadata(POINTS if geometry.points else POLYGONS))


def read_geometry(root: Path, spine: Spine) -> Geometry | None:
    """The shapes of a release; None if it has none.

    Args:
        root: Release folder.
        spine: Its spine.
    Raises:
        StoreError: the file is damaged, or is of another geography.
    """
    path = root / GEOMETRY
    if not path.is_file():
        return None
    schema, kinds = published_schema(path), _kinds(path)
    if any(schema.get(name) != kind for name, kind in _COLUMNS.items()) or kinds is None:
        raise damaged(path, "the columns and the metadata `geo`", _RESTORE)
    frame = read_published(path, tuple(_COLUMNS))
    if not frame["geocode"].equals(spine.geocodes[spine.finest].text.alias("geocode")):
        raise damaged(path, "the geocodes of the finest geounits in the order of the spine", _RESTORE)
    return Geometry(frame[COLUMN], points=kinds == POINTS)


def _kinds(path: Path) -> tuple[str, ...] | None:
    """Types of shapes that the file names; None if it names others than a release has."""
    try:
        column = json.loads(published_tags(path)[GEO])["columns"][COLUMN]
        kinds = tuple(column["geometry_types"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return kinds if kinds in (POINTS, POLYGONS) and column.get("encoding") == "WKB" else None


_RESTORE: Final = "Restore the file from a copy of the release."


GEOGRAPHY = "geography.parquet"
NAMES = "names.parquet"
# Finest geounits that are put into words at a time, about 200 MB of text columns. The file is the same with others.
GEOUNITS_AT_ONCE = 1 << 20
ORIGINAL = "original."
ENTITY = "entity."
SHARES = "share."
GEOLEVELS = "geolevels"


def write_geography(root: Path, hierarchies: Hierarchies, metadata: Mapping[str, str]) -> None:
    """Write one row a finest geounit: its geocode at every geolevel of the spine, root first; then at every original
    geolevel that the spine replaces (`original.<geolevel>`); then its entities (`entity.<family>`); then, where
    geounits were bypassed, the exact share of its geounit at every geolevel (`share.<geolevel>`).

    Names of geounits and entities, and the geometry of finest geounits, are written beside it if there are any.

    A family's column holds text, null where a finest geounit is in no entity; where entities overlap, lists of text.
    """
    spine = hierarchies.spine
    areas = [(ORIGINAL + family.name, family) for family in hierarchies.replaced]
    areas += [(ENTITY + family.name, family) for family in hierarchies.families]
    entities = [(name, _entities_of(family)) for name, family in areas]
    starts = [spine.finest_offsets(level) for level in range(spine.n_levels)]
    held = [(name, codes.text, starts[level]) for level, (name, codes) in enumerate(_named(spine))]
    if hierarchies.shares is not None:
        held += [
            (SHARES + name, share_texts(hierarchies.shares, level), starts[level])
            for level, name in enumerate(spine.geolevels)
        ]

    def frames() -> Iterator[pl.DataFrame]:
        for begin in range(0, spine.n_geounits(spine.finest), GEOUNITS_AT_ONCE):
            finest = np.arange(begin, min(begin + GEOUNITS_AT_ONCE, spine.n_geounits(spine.finest)))
            columns = [
                text.alias(name).gather(np.searchsorted(begins, finest, side="right") - 1)
                for name, text, begins in held
            ]
            # The geolevels, the areas, the shares.
            areas_here = [
                entities_of_finest.gather(finest).alias(name) for name, entities_of_finest in entities
            ]
            yield pl.DataFrame([*columns[: spine.n_levels], *areas_here, *columns[spine.n_levels :]])

    tags = {**metadata, GEOLEVELS: json.dumps(spine.geolevels)}
    write_parquet_chunks(root / GEOGRAPHY, frames(), tags)
    if hierarchies.names is not None:
        write_parquet(root / NAMES, hierarchies.names, metadata)
    if hierarchies.geometry is not None:
        write_geometry(root, spine, hierarchies.geometry, metadata)


def read_geography(root: Path) -> Spine:
    """The spine of a release folder: the one that was measured."""
    frame = read_published(root / GEOGRAPHY, _geolevels(root))
    return spine_from_columns({name: frame[name] for name in frame.columns}, frame.columns)


def read_shares(root: Path, spine: Spine) -> GeounitShares | None:
    """Share of every geounit of a release folder's spine, as `read_geography` gives it; None where none were bypassed.

    Raises:
        GeographyError: the file's shares do not fit the spine.
    """
    names = [SHARES + name for name in spine.geolevels]
    if any(name not in published_columns(root / GEOGRAPHY) for name in names):
        return None
    frame = read_published(root / GEOGRAPHY, [spine.geolevels[-1], *names])
    rows = spine.locate(spine.finest, frame[spine.geolevels[-1]])
    # The inverse of `rows`: file rows may have an order of their own, shares follow the spine.
    order = np.empty(len(rows), dtype=np.int64)
    order[rows] = np.arange(len(rows))
    return shares_of_columns(spine, [frame[name].gather(order) for name in names])


def read_areas(root: Path, spine: Spine) -> tuple[tuple[EntityFamily, ...], tuple[EntityFamily, ...]]:
    """Areas of a release folder that are not on its spine.

    Args:
        root: Release folder.
        spine: Its spine, as `read_geography` gives it.
    Returns:
        The geolevels of the original geography that the spine replaces, and the families of entities.
    """
    geolevels = _geolevels(root)
    stored = published_columns(root / GEOGRAPHY)
    names = [name for name in stored if name not in geolevels and name.startswith((ORIGINAL, ENTITY))]
    # A release without such areas is spared a second reading of the file.
    if not names:
        return (), ()
    frame = read_published(root / GEOGRAPHY, [geolevels[-1], *names])
    families = [family_of_column(spine, frame.select(geolevels[-1], name)) for name in names]
    return (
        tuple(_renamed(family, ORIGINAL) for family in families if family.name.startswith(ORIGINAL)),
        tuple(_renamed(family, ENTITY) for family in families if family.name.startswith(ENTITY)),
    )


def read_hierarchies(root: Path) -> Hierarchies:
    """The spine of a release folder, all areas beside it, and names; geometry is read where it is needed.

    Raises:
        GeographyError: the file's shares do not fit the spine.
    """
    spine = read_geography(root)
    replaced, families = read_areas(root, spine)
    return Hierarchies(spine, spine, families, replaced, read_shares(root, spine), names=read_names(root))


def read_names(root: Path) -> pl.DataFrame | None:
    """The names of areas of a release folder, in all its languages (`names_in`); None if it has none."""
    path = root / NAMES
    if not path.is_file():
        return None
    others = [name for name in published_columns(path) if name.startswith(NAME_IN)]
    return read_published(path, (*NAME_COLUMNS, *others))


def _geolevels(root: Path) -> tuple[str, ...]:
    """Columns of the file that are geolevels of the spine; all, where it does not say."""
    path = root / GEOGRAPHY
    stated = published_tags(path).get(f"tallyveil.{GEOLEVELS}")
    return names_of_tag(path, stated) if stated else published_columns(path)


def _named(spine: Spine) -> Iterator[tuple[str, Geocodes]]:
    return zip(spine.geolevels, spine.geocodes, strict=True)


def _renamed(family: EntityFamily, prefix: str) -> EntityFamily:
    return replace(family, name=family.name.removeprefix(prefix))


def _entities_of(family: EntityFamily) -> pl.Series:
    """The entity of each finest geounit, or the list of its entities where they overlap; null where it is in none."""
    codes = pl.Series(family.codes, dtype=pl.String)
    entity = np.repeat(np.arange(family.n_entities, dtype=np.int64), family.sizes)
    if family.is_disjoint:
        entities = np.full(family.n_finest, -1, dtype=np.int64)
        entities[family.members] = entity
        return codes.gather(pl.Series(entities).replace(-1, None))
    pairs = pl.DataFrame({"row": family.members, "entity": codes.gather(entity)})
    # Sorted, so that the lists do not depend on the order in which members are stored.
    lists = pairs.group_by("row").agg(pl.col("entity").sort())
    # A left join brings back geounits that are in no entity, with null.
    rows = pl.DataFrame({"row": np.arange(family.n_finest, dtype=np.int64)})
    return rows.join(lists, on="row", how="left", maintain_order="left")["entity"]


def family_of_column(spine: Spine, frame: pl.DataFrame) -> EntityFamily:
    """The family of a table of finest geounits and their entity, or entities.

    Args:
        spine: The spine of the family.
        frame: Two columns: the finest geocode, and the entity (null: in none), or a list of them where entities
            overlap. The second column has the name of the family.
    """
    finest, name = frame.columns
    if isinstance(frame.schema[name], pl.List):
        pairs = frame.drop_nulls(name).explode(name, empty_as_null=False)
        return entities_from_pairs(spine, name, pairs[finest], pairs[name])
    columns = {column: frame[column].alias(column) for column in frame.columns}
    return entities_from_columns(spine, columns, [name], finest)[0]
