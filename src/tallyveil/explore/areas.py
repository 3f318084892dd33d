"""The areas of a release as its explorer shows them: kinds in one order, with tree, members, codes and names.

The geolevels of the explorer are those of the geography as people know it. Where the spine that was measured
cut or regrouped them, they are restored from the release, and the geolevels that only the spine has are
families beside them. So the geolevels of the explorer are always one tree whose finest geounits are in
depth-first order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil.explore.files import CHUNK, NAMES_FILE, chunk_ranges, list_path, members_path, write_data
from tallyveil.geography.areas import Hierarchies, geounits_as_entities, given_geography
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.schema.schema import plural_of
from tallyveil.storage.json_files import JsonObject


class KindType(StrEnum):
    """Whether the areas of a kind are geounits of the tree, or sets of its finest geounits."""

    GEOLEVEL = "geolevel"
    FAMILY = "family"


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """All areas of one kind.

    Attributes:
        name: The geolevel, or the family of entities.
        type: Which of the two.
        codes: Geocode, or name of the entity, of every area.
        in_order: Whether the tables of the release have the areas in this order.
        family: For a family, the finest geounits of each entity, as rows of the finest kind; None for a geolevel.
    """

    name: str
    type: KindType
    codes: pl.Series
    in_order: bool
    family: EntityFamily | None = None

    @property
    def n(self) -> int:
        """Number of areas."""
        return len(self.codes)

    @property
    def rises(self) -> bool:
        """Whether the codes are sorted, so that an area can be looked up by halving."""
        return bool(self.codes.is_sorted())


@dataclass(frozen=True, slots=True, eq=False)
class Areas:
    """The kinds of areas of one release.

    Attributes:
        spine: The spine that was measured.
        tree: The geolevels of the explorer, root first. It is `spine` itself where that is the geography as given.
        kinds: The geolevels of `tree`, then the families.
        measured: For each finest geounit of `tree`, its row in the finest geolevel of `spine`.
        names: Columns `geolevel`, `geocode` and `name`, and names in languages; None if the release has no names.
    """

    spine: Spine
    tree: Spine
    kinds: tuple[Kind, ...]
    measured: Integers
    names: pl.DataFrame | None

    @property
    def finest(self) -> int:
        """Number of the finest geolevel's kind."""
        return self.tree.finest

    def parent(self, number: int) -> int | None:
        """The kind whose areas contain those of a kind whole; None for roots and families."""
        return number - 1 if 0 < number <= self.finest else None


def areas_of(hierarchies: Hierarchies, plan: JsonObject) -> Areas:
    """The areas of a release.

    Args:
        hierarchies: Its spine, and the areas beside it.
        plan: Its plan, which names the geolevels of the geography and the families with tables.
    """
    spine = hierarchies.spine
    tree = given_geography(hierarchies, plan)
    measured = spine.locate(spine.finest, tree.geocodes[tree.finest].text)
    of_plan = [
        geounits_as_entities(spine, level)
        for level in hierarchies.known_levels
        if spine.geolevels[level] not in tree.geolevels
    ]
    published = [hierarchies.family(name) for name in plan.get("entities", [])]
    geolevels = zip(tree.geolevels, tree.geocodes, strict=True)
    kinds = [Kind(name, KindType.GEOLEVEL, codes.text, tree is spine) for name, codes in geolevels]
    for family, in_order in (*((entry, False) for entry in of_plan), *((entry, True) for entry in published)):
        codes = pl.Series(family.codes, dtype=pl.String)
        kinds.append(Kind(family.name, KindType.FAMILY, codes, in_order, family.reordered(measured)))
    return Areas(spine, tree, tuple(kinds), measured, hierarchies.names)


BOX = ("west", "south", "east", "north")


def kind_entries(areas: Areas) -> list[JsonObject]:
    """What `site.json` says of every kind."""
    named = _named_kinds(areas)
    return [
        {
            "number": number,
            "name": kind.name,
            "many": plural_of(kind.name.lower()),
            "type": kind.type.value,
            "n": kind.n,
            "chunk": CHUNK,
            "parent": areas.parent(number),
            # The first geocode of each chunk tells the page which chunk has the geocode that it looks for.
            "first_geocodes": kind.codes.gather_every(CHUNK).to_list(),
            "sorted": kind.rises,
            "named": kind.name in named,
            "overlaps": kind.family is not None and not kind.family.is_disjoint,
        }
        for number, kind in enumerate(areas.kinds)
    ]


def write_lists(site: Path, areas: Areas, boxes: Mapping[int, Floats], tags: Mapping[str, str]) -> None:
    """Write the list of every kind, the members of every family, and the names.

    Args:
        site: The folder of the site.
        areas: The areas.
        boxes: For a kind, the bounding boxes of its areas: west, south, east, north; shape (n, 4). No entry for a kind
            without geometry.
        tags: Metadata of the files.
    Raises:
        StoreError: a file cannot be written.
    """
    for number, kind in enumerate(areas.kinds):
        frame = _list_frame(areas, number, boxes.get(number))
        for chunk, start, stop in chunk_ranges(kind.n):
            write_data(site, list_path(number, chunk), frame.slice(start, stop - start), tags)
        if kind.family is not None:
            _write_members(site, number, kind.family, tags)
    if areas.names is not None:
        write_data(site, NAMES_FILE, _names_frame(areas), tags)


def _list_frame(areas: Areas, number: int, boxes: Floats | None) -> pl.DataFrame:
    kind = areas.kinds[number]
    columns = [kind.codes.alias("geocode"), *_names_of(areas, kind), *_tree_columns(areas, number)]
    for place, name in enumerate(BOX):
        values = pl.Series(name, [None] * kind.n, dtype=pl.Float64) if boxes is None else boxes[:, place]
        # NaN is no JSON and no number for a browser; null says that there is no box.
        columns.append(pl.Series(name, values, dtype=pl.Float64, nan_to_null=True))
    if number == areas.finest:
        columns += [
            # Only disjoint families: a column holds one entity.
            _entity_rows(f"in_{other}", kind_of_area.family)
            for other, kind_of_area in enumerate(areas.kinds)
            if kind_of_area.family is not None and kind_of_area.family.is_disjoint
        ]
    return pl.DataFrame(columns)


def _tree_columns(areas: Areas, number: int) -> list[pl.Series]:
    """Parent, children and finest geounits of every area of a kind; null where it has none."""
    tree, kind = areas.tree, areas.kinds[number]
    rows: dict[str, Integers | None] = dict.fromkeys(
        ("parent", "first_child", "n_children", "first_finest", "n_finest")
    )
    if kind.type is KindType.GEOLEVEL:
        if number > 0:
            rows["parent"] = tree.parents(number)
        # The finest have no children, and a list of nothing would say the same at the cost of a column.
        if number < areas.finest:
            children = tree.child_offsets[number]
            rows["first_child"], rows["n_children"] = children[:-1], np.diff(children)
        finest = tree.finest_offsets(number)
        rows["first_finest"], rows["n_finest"] = finest[:-1], np.diff(finest)
    return [
        pl.Series(name, [None] * kind.n if numbers is None else numbers, dtype=pl.Int32)
        for name, numbers in rows.items()
    ]


def _entity_rows(name: str, family: EntityFamily) -> pl.Series:
    """The entity of every finest geounit; null where it is in none."""
    entity_of_row = np.full(family.n_finest, -1, dtype=np.int64)
    entity_of_row[family.members] = np.repeat(np.arange(family.n_entities, dtype=np.int64), family.sizes)
    return pl.Series(name, entity_of_row, dtype=pl.Int32).replace(-1, None)


def _write_members(site: Path, number: int, family: EntityFamily, tags: Mapping[str, str]) -> None:
    for chunk, start, stop in chunk_ranges(family.n_entities):
        members = slice(int(family.offsets[start]), int(family.offsets[stop]))
        entity = np.repeat(np.arange(start, stop, dtype=np.int64), family.sizes[start:stop])
        frame = pl.DataFrame(
            [
                pl.Series("entity", entity, dtype=pl.Int32),
                pl.Series("finest", family.members[members], dtype=pl.Int32),
            ]
        )
        write_data(site, members_path(number, chunk), frame, tags)


def _named_kinds(areas: Areas) -> set[str]:
    return set() if areas.names is None else set(areas.names["geolevel"].unique())


def _names_of(areas: Areas, kind: Kind) -> list[pl.Series]:
    """The name of every area of a kind, null where it has none; then its names in languages (`NAME_IN`)."""
    if areas.names is None:
        return [pl.Series("name", [None], dtype=pl.String).new_from_index(0, kind.n)]
    # A left join, so that areas without a name keep their row.
    of_kind = areas.names.filter(pl.col("geolevel") == kind.name).drop("geolevel")
    codes = pl.DataFrame([kind.codes.alias("geocode")])
    return codes.join(of_kind, on="geocode", how="left", maintain_order="left").drop("geocode").get_columns()


def _names_frame(areas: Areas) -> pl.DataFrame:
    """Every area that has a name: kind, row, geocode and name, and names in languages."""
    return pl.concat(
        pl.DataFrame(
            [
                pl.Series("kind", np.full(kind.n, number), dtype=pl.Int32),
                pl.Series("row", np.arange(kind.n), dtype=pl.Int32),
                kind.codes.alias("geocode"),
                *_names_of(areas, kind),
            ]
        ).drop_nulls("name")
        for number, kind in enumerate(areas.kinds)
    )
