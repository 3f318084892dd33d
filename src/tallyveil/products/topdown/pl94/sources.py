"""The releases that a publication is made of, and their areas: the releases share their geography."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import GeographyError, SchemaError
from tallyveil.files.geography import ENTITY, GEOGRAPHY, ORIGINAL, family_of_column, read_geography
from tallyveil.files.histograms import area_counts, histogram_path, read_histogram
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_manifest, require_unchanged
from tallyveil.geography.spine import Spine
from tallyveil.products.topdown.pl94.layouts import HOUSEHOLD, TableLayout
from tallyveil.schema.counts import PublicCounts, sum_members
from tallyveil.schema.schema import Schema, schema_from_mapping
from tallyveil.storage.read import published_columns, read_published

_BESIDE: Final = {"hhgq": {HOUSEHOLD}, "votingage": {"under_18"}}
"""Levels that an attribute has although no column of the tables counts them."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceRelease:
    """A finished release that tables are made from.

    Attributes:
        root: Its folder.
        manifest: Content of its `manifest.json`.
        schema: Its universe.
        spine: The hierarchy that was measured.
        layouts: The tables that are made from it.
        geolevels: Geolevels as people know them, fewest areas first. Those that the spine cut or replaced have their
            original geounits.
        entities: Families of entities that it publishes tables of.
        blocks: One row for each finest geounit, sorted by geocode, with a column for each of the geolevels and
            entities: the geocode or the entity that it lies in, null for none, a list where entities overlap.
        own_levels: The geolevels among these that are geolevels of the spine.
    """

    root: Path
    manifest: Manifest
    schema: Schema
    spine: Spine
    layouts: tuple[TableLayout, ...]
    geolevels: tuple[str, ...]
    entities: tuple[str, ...]
    blocks: pl.DataFrame
    own_levels: frozenset[str]

    @property
    def finest(self) -> str:
        """Name of the finest geolevel."""
        return self.spine.geolevels[-1]


def open_source(root: Path, layouts: tuple[TableLayout, ...]) -> SourceRelease:
    """Open a finished release for some tables.

    Args:
        root: Folder of the release.
        layouts: The tables.
    Raises:
        StoreError: the folder holds no finished release of `tallyveil run` or `tallyveil estimate`, or a file is
            not the one that its manifest lists.
        SchemaError: its schema lacks an attribute of the tables, or an attribute has other levels.
    """
    manifest = read_manifest(root, ReleaseKind.TOPDOWN)
    plan = manifest.body["plan"]
    schema = schema_from_mapping(plan["schema"])
    _require_attributes(root, schema, layouts)
    require_unchanged(root, manifest, root / GEOGRAPHY)
    spine = read_geography(root)
    entities = tuple(plan.get("entities", ()))
    stored = published_columns(root / GEOGRAPHY)
    # Where a step cut a geolevel, people know the geolevel of the geography, which stands under a prefix.
    replaced = [name.removeprefix(ORIGINAL) for name in stored if name.startswith(ORIGINAL)]
    levels = [name for name in spine.geolevels if name not in replaced]
    columns = {
        **{name: name for name in levels},
        **{ORIGINAL + name: name for name in replaced},
        **{ENTITY + name: name for name in entities},
    }
    blocks = read_published(root / GEOGRAPHY, list(columns)).rename(columns).sort(spine.geolevels[-1])
    # Files are held to the manifest before they are read: later ones are read without a check.
    for name in levels:
        require_unchanged(root, manifest, histogram_path(root, name))
    geolevels = coarse_first(blocks, list(dict.fromkeys([*spine.geolevels, *replaced])))
    return SourceRelease(
        root, manifest, schema, spine, layouts, geolevels, entities, blocks, frozenset(levels)
    )


def coarse_first(blocks: pl.DataFrame, names: Sequence[str]) -> tuple[str, ...]:
    """Geolevels in the order of the number of their geounits; equal numbers in the order given."""
    return tuple(sorted(names, key=lambda name: blocks[name].n_unique()))


def _require_attributes(root: Path, schema: Schema, layouts: Sequence[TableLayout]) -> None:
    """Refuse a schema that lacks attributes of the tables, or has them with other levels."""
    known = {attribute.name: set(attribute.levels) for attribute in schema.attributes}
    missing: dict[str, list[str]] = {}
    other: dict[str, list[str]] = {}
    for layout in layouts:
        for place, name in enumerate(layout.attributes):
            counted = {levels[place] for column in layout.columns for levels in column.counts}
            if name not in known:
                missing.setdefault(name, []).append(layout.name)
            # Levels that no column counts may be missing or there; any other level would belong to no column.
            elif not counted <= known[name] <= counted | _BESIDE.get(name, set()):
                other.setdefault(name, []).append(layout.name)
    said = [f"has no attribute {_needed(missing)}"] if missing else []
    said += [f"has other levels than production for attribute {_needed(other)}"] if other else []
    if said:
        raise SchemaError(
            f"the schema '{schema.name}' of the release {root} {', and '.join(said)}. To make "
            f"{', '.join(layout.name for layout in layouts)}, name a release with the attributes and levels of "
            f"schema preset {'pl94-units' if layouts[0].name == 'H1' else 'pl94-persons'}.",
            code="publish-attributes",
        )


def _needed(names: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{name} (for {', '.join(dict.fromkeys(tables))})" for name, tables in names.items())


def source_counts(
    source: SourceRelease, name: str, members: pl.DataFrame, finest: PublicCounts
) -> PublicCounts:
    """Published counts of all areas of a kind, in the order of their codes.

    Args:
        source: The release.
        name: Geolevel or family; it need not be one of this release.
        members: Finest geounits and the area, or list of areas, that each lies in; two columns.
        finest: Counts of the finest geolevel of the release.
    Raises:
        StoreError: a histogram cannot be read.
    """
    # No histogram was published for these areas. Their counts are sums of the finest geolevel.
    if name not in source.own_levels:
        return area_counts(finest, family_of_column(source.spine, members), source.schema.size)
    counts = finest
    if name != source.finest:
        counts = read_histogram(source.root, name, source.schema, source.spine)
    codes = source.spine.geocodes[source.spine.level_index(name)].text
    # The spine sorts by tree; tables are sorted by code, which differs where the steps moved geounits.
    if codes.is_sorted():
        return counts
    order = codes.arg_sort().to_numpy().astype("int64")
    # One member for each area: summing over them only permutes the rows.
    each_once = pl.int_range(len(codes) + 1, eager=True).to_numpy()
    summed = sum_members(counts.offsets, counts.cells, counts.counts, each_once, order, source.schema.size)
    return PublicCounts(name, *summed)


@dataclass(frozen=True, slots=True, eq=False)
class PublishedAreas:
    """All areas of a publication: those of its releases, which share their geography.

    Attributes:
        finest: Name of the finest geolevel.
        geolevels: Names of the geolevels, fewest areas first.
        entities: Names of the families of entities.
        blocks: As in `SourceRelease`.
    """

    finest: str
    geolevels: tuple[str, ...]
    entities: tuple[str, ...]
    blocks: pl.DataFrame

    @property
    def names(self) -> tuple[str, ...]:
        """Geolevels and families of entities."""
        return (*self.geolevels, *self.entities)

    def members(self, name: str) -> pl.DataFrame:
        """The finest geounits and the area of a kind that each lies in."""
        area = self.blocks[name]
        return pl.DataFrame([self.blocks[self.finest].alias("finest_geounits"), area])

    def codes(self, name: str) -> pl.Series:
        """Codes of all areas of a kind, sorted."""
        column = self.blocks[name]
        held = column.explode(empty_as_null=False) if isinstance(column.dtype, pl.List) else column
        return held.drop_nulls().unique().sort()

    def rows(self, name: str) -> pl.DataFrame:
        """One row for each area of a kind, in the order of codes.

        Columns: `geocode`; the number of its finest geounits; then, for each coarser geolevel, the geounit that holds
        the whole area (null if none does). Finest geounits also have their entities, if these do not overlap.
        """
        names = (
            self.geolevels[: self.geolevels.index(name)] if name in self.geolevels else self.geolevels[:-1]
        )
        if name == self.finest:
            lists = {column for column in self.entities if isinstance(self.blocks.schema[column], pl.List)}
            names = (*names, *(column for column in self.entities if column not in lists))
        held = self.blocks.select(pl.col(name).alias("geocode"), *names)
        if isinstance(held.schema["geocode"], pl.List):
            held = held.explode("geocode", empty_as_null=False)
        whole = [
            pl.when(pl.col(column).n_unique() == 1).then(pl.col(column).first()).alias(column)
            for column in names
        ]
        grouped = held.drop_nulls("geocode").group_by("geocode")
        return grouped.agg(pl.len().cast(pl.Int64).alias("finest_geounits"), *whole).sort("geocode")


RESERVED: Final = ("geocode", "finest_geounits", "POP100", "HU100")
"""Columns of the geography that no geolevel and no family may be named like."""


def published_areas(sources: Sequence[SourceRelease]) -> PublishedAreas:
    """The areas of one release, or of two with the same geography.

    Raises:
        GeographyError: the releases have other finest geounits, or areas of the same name with other members; or a
            geolevel or family has the name of another column of the geography.
    """
    first = sources[0]
    blocks, geolevels, entities = first.blocks, list(first.geolevels), list(first.entities)
    for source in sources[1:]:
        _require_same(first, source)
        more = [name for name in source.blocks.columns if name not in blocks.columns]
        blocks = blocks.with_columns(source.blocks.select(more))
        geolevels += [name for name in source.geolevels if name in more]
        entities += [name for name in source.entities if name in more]
    if reserved := [name for name in blocks.columns if name in RESERVED]:
        raise GeographyError(
            f"{', '.join(reserved)} is the name of a geolevel or family of {first.root}, and of a column of the "
            "geography that is published with the tables. Rename it in the release file.",
            code="publish-geography",
        )
    return PublishedAreas(first.finest, coarse_first(blocks, geolevels), tuple(entities), blocks)


def _require_same(left: SourceRelease, right: SourceRelease) -> None:
    both = f"{left.root} and {right.root}"
    mend = (
        "Tables of both belong into one publication only if they count the same areas. Publish each by itself, or make "
        "both releases with the same geography and entity tables."
    )
    if left.finest != right.finest:
        raise GeographyError(
            f"the finest geolevel of {left.root} is {left.finest}, that of {right.root} is {right.finest}. {mend}",
            code="publish-geography",
        )
    ours, theirs = left.blocks[left.finest], right.blocks[left.finest]
    apart = sorted(set(ours) ^ set(theirs)) if not ours.equals(theirs) else []
    if apart:
        raise GeographyError(
            f"{both} have different geographies: {len(apart)} {left.finest} geounits are in one of them only, such as "
            f"'{apart[0]}'. {mend}",
            code="publish-geography",
        )
    for name in [name for name in left.blocks.columns if name in right.blocks.columns]:
        here, there = left.blocks[name], right.blocks[name]
        if here.dtype != there.dtype or not here.equals(there):
            raise GeographyError(
                f"{both} have different geographies: {name} does not have the same areas in both. {mend}",
                code="publish-geography",
            )
