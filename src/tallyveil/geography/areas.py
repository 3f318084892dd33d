"""Published areas (original geolevels and entities) that may be absent from the spine that is measured.

Names of geounits and entities are for people who read a release; no count depends on them.

A step may cut the geounits of a geolevel. The AIAN spine cuts every State into two parts, which are children
of the US. A constraint on a State is then a constraint on the sum of its parts (`stated_geounits`). This is
possible where the parts are siblings, so that one family of the estimation has them all. The roots of a spine
count as siblings. Unbiased estimates know exact answers only as those of geounits. So they are made on a
spine on which each State is a geounit again, between the US and its parts, of which nothing is measured
(`with_sums`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.geometry import Geometry
from tallyveil.geography.optimise import OptimisedSpine
from tallyveil.geography.spine import Geocodes, GeounitShares, Spine, geocodes_of
from tallyveil.schema.counts import entries_of_rows


class Deviation(NamedTuple):
    """Mean and largest standard deviation of the totals of all areas of a kind, in counts."""

    mean: float
    greatest: float


@dataclass(frozen=True, slots=True)
class AreaChange:
    """Accuracy of the totals of one kind of area, on the given geography and on the spine made from it.

    The deviations are those of the best linear unbiased estimates from all measurements, before counts are made
    non-negative integers. All spines have the same budget.

    Attributes:
        name: The family of entities, or the geolevel of the geography.
        kind: Whether the areas are entities or a geolevel.
        areas: Number of areas.
        aimed: Whether groups were chosen to make the variances of these areas small.
        given: On the given geography, measured with the shares of its geolevels, scaled to the whole budget.
        steps: On the spine that the steps make, before groups are chosen by variance.
        made: On the spine that is measured.
        unmet: Whether the chosen groups break the limit for these areas.
    """

    name: str
    kind: Literal["entities", "geolevel"]
    areas: int
    aimed: bool
    given: Deviation
    steps: Deviation
    made: Deviation
    unmet: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchies:
    """The spine that is measured, and the other areas for which counts are published.

    Attributes:
        spine: The spine that is measured.
        original: The spine of the geography table. It is `spine` itself if no step changes it.
        families: Families of entities, on `spine`.
        replaced: Geolevels of the original whose geounits are not all geounits of `spine`, because they were cut
            (counties) or replaced (block groups). Each is a family on `spine` with the geolevel's name.
        shares: Share of the budget of every geounit of `spine`, if geounits were bypassed; otherwise None.
        changes: What the steps change for every kind of area. It is empty if no step changes the spine or if no
            measured query determines a total.
        names: Names of geounits and entities for readers; None if there are none.
        geometry: Shapes of the finest geounits of `spine`, for maps; None if there are none, or if they are not read.
    """

    spine: Spine
    original: Spine
    families: tuple[EntityFamily, ...] = ()
    replaced: tuple[EntityFamily, ...] = ()
    shares: GeounitShares | None = None
    changes: tuple[AreaChange, ...] = ()
    names: pl.DataFrame | None = None
    geometry: Geometry | None = None

    @property
    def replaced_names(self) -> tuple[str, ...]:
        """Names of the original geolevels that are not whole on the spine."""
        return tuple(family.name for family in self.replaced)

    @property
    def known_levels(self) -> tuple[int, ...]:
        """Levels of the spine whose name does not also denote other areas, those of a replaced original geolevel."""
        names = self.replaced_names
        return tuple(level for level, name in enumerate(self.spine.geolevels) if name not in names)

    def original_ancestors(self, level: int) -> Integers:
        """For each finest geounit of `spine`, the geounit of `original` at a level that contains it; shape (n_finest,).

        Args:
            level: Number of a geolevel of `original`, root first.
        """
        # Steps may have put the finest geounits into another order.
        finest = self.original.locate(self.original.finest, self.spine.geocodes[-1].text)
        ancestors: Integers = self.original.ancestors(level)[finest]
        return ancestors

    def codes_of(self, area: str) -> pl.Series:
        """The geocodes or names of what there are tables of, in the order of the tables.

        Args:
            area: A geolevel as people know it, or a family of entities.
        Raises:
            GeographyError: there is no such geolevel or family.
        """
        for family in (*self.replaced, *self.families):
            if family.name == area:
                return pl.Series(family.codes, dtype=pl.String)
        return self.spine.geocodes[self.spine.level_index(area)].text

    def family(self, name: str) -> EntityFamily:
        """The family of entities with a given name.

        # A name in a geolevel and in a replaced family is taken as the family's: it has the areas that readers know.
        Raises:
            GeographyError: there is no such family.
        """
        for family in self.families:
            if family.name == name:
                return family
        known = ", ".join(family.name for family in self.families)
        raise GeographyError(
            f"there is no entity family '{name}'; there are {known or 'none'}. Use one of these.",
            code="unknown-entity",
        )


def plain_hierarchies(spine: Spine, families: Sequence[EntityFamily] = ()) -> Hierarchies:
    """A spine that no step has changed, with families of entities on it."""
    return Hierarchies(spine, spine, tuple(families))


def hierarchies_of(
    original: Spine,
    optimised: OptimisedSpine,
    families: Sequence[EntityFamily],
    changes: Sequence[AreaChange] = (),
) -> Hierarchies:
    """An optimised spine together with the spine that it was made from.

    Args:
        original: The spine at the start of the steps.
        optimised: The spine that the steps made.
        families: Families on the original.
        changes: What the steps change for every kind of area.
    """
    moved = tuple(family.reordered(optimised.rows) for family in families)
    replaced = replaced_areas(original, optimised)
    return Hierarchies(optimised.spine, original, moved, replaced, optimised.shares, tuple(changes))


def replaced_areas(original: Spine, optimised: OptimisedSpine) -> tuple[EntityFamily, ...]:
    """Geolevels of the original that are not whole on a spine, each as a family on that spine."""
    # The finest geolevel is never replaced: every step keeps the finest geounits and their geocodes.
    return tuple(
        geounits_as_entities(original, level).reordered(optimised.rows)
        for level in range(original.finest)
        if not _has_as_it_was(original, level, optimised)
    )


def given_geography(hierarchies: Hierarchies, plan: Mapping[str, Any]) -> Spine:
    """The spine of the geography that a finished release was given, whose folder has the measured spine alone.

    Args:
        hierarchies: The measured spine, and the areas beside it.
        plan: The plan in its manifest, which names the geolevels of the geography.
    """
    spine, stated = hierarchies.spine, plan.get("spine")
    geolevels = spine.geolevels if stated is None else tuple(stated["from"])
    if geolevels == spine.geolevels and not hierarchies.replaced:
        return spine
    replaced = {family.name: family for family in hierarchies.replaced}
    columns = {
        name: _entities_of_finest(replaced[name])
        if name in replaced
        else spine.geocodes[spine.level_index(name)].text.gather(spine.ancestors(spine.level_index(name)))
        for name in geolevels
    }
    return spine_from_columns(columns, list(geolevels))


def _entities_of_finest(family: EntityFamily) -> pl.Series:
    """The entity of every finest geounit, where each is in exactly one."""
    entity = np.empty(family.n_finest, dtype=np.int64)
    entity[family.members] = np.repeat(np.arange(family.n_entities, dtype=np.int64), family.sizes)
    return pl.Series(family.codes, dtype=pl.String).gather(entity)


def area_spine(family: EntityFamily, order: Integers | None = None) -> Spine:
    """A family's entities as the only geolevel of a spine, so that they can be tabulated like geounits.

    Args:
        family: The entities.
        order: Their numbers in the order wanted; None for the order of their names.
    """
    codes = pl.Series(family.codes, dtype=pl.String)
    # A spine of one geolevel has no offsets, so that the order of its geounits is free.
    codes = codes if order is None else codes.gather(order)
    return Spine((family.name,), (geocodes_of(codes, family.name),), ())


def _has_as_it_was(original: Spine, level: int, optimised: OptimisedSpine) -> bool:
    name = original.geolevels[level]
    if name not in optimised.spine.geolevels:
        return False
    place = optimised.spine.level_index(name)
    origin = optimised.origins[place]
    # Equal numbers of geounits, each inside an original one, and together they cover everything: so each is one.
    if len(origin) != original.n_geounits(level) or bool((origin < 0).any()):
        return False
    # The geocodes too must be equal, because a cut geounit has a geocode of its own even where nothing was split off.
    return bool((original.geocodes[level].text.gather(origin) == optimised.spine.geocodes[place].text).all())


def geounits_as_entities(spine: Spine, level: int) -> EntityFamily:
    """The geounits of a geolevel as a family of entities, so that their variances on another spine can be computed."""
    codes, offsets = spine.geocodes[level].text, spine.finest_offsets(level)
    # A family's names are sorted by code point, and a spine's need not be: siblings are sorted only within a parent.
    order = codes.arg_sort().to_numpy().astype(np.int64)
    begin: Integers = np.concatenate([[0], np.cumsum(np.diff(offsets)[order])]).astype(np.int64)
    members, n_finest = entries_of_rows(offsets, order), spine.n_geounits(spine.finest)
    return EntityFamily(
        spine.geolevels[level], tuple(codes.gather(order).to_list()), begin, members, n_finest
    )


NAME_COLUMNS: Final = ("geolevel", "geocode", "name")
NAME_IN: Final = "name:"
"""What the column of names in a language is called before the language: `name:fr`. OpenStreetMap calls them so."""


def names_in(names: pl.DataFrame, language: str | None) -> pl.DataFrame:
    """The columns `NAME_COLUMNS`, with names in a language where there are any, and else those without a language."""
    column = f"{NAME_IN}{language}"
    name = pl.coalesce(column, "name") if column in names.columns else pl.col("name")
    return names.select(*NAME_COLUMNS[:2], name.alias("name"))


def with_names(hierarchies: Hierarchies, table: pl.DataFrame) -> Hierarchies:
    """Hierarchies with names of their geounits and entities, and of no others.

    Args:
        hierarchies: The spine and the areas beside it.
        table: Text columns `NAME_COLUMNS`, and columns of names in languages (`NAME_IN`), where null and an empty text
            stand for the name without a language. `geolevel` may be the name of a family of entities.
    Raises:
        GeographyError: a row lacks a text, an area has two names, a geolevel does not exist, or no area is named.
    """
    codes = _codes(hierarchies)
    unknown = table["geolevel"].drop_nulls().unique().sort().to_list()
    # A column of names may hold nulls; these are counted as lacking below, and sorting them with text would fail.
    unknown = [name for name in unknown if name not in codes]
    lacking = sum(table.select(NAME_COLUMNS).null_count().row(0)) or (table["name"] == "").any()
    # A pair of geolevel and geocode may stand once: of two names of an area, either could be the wrong one.
    if unknown or lacking or not table.select("geolevel", "geocode").is_unique().all():
        what = (
            f"names the geolevel '{unknown[0]}'"
            if unknown
            else "has a row without text, or two names of one area"
        )
        raise GeographyError(
            f"the table of names {what}. Wanted: at most one row for each geounit or entity, with geolevel, geocode "
            f"and name. The geolevels and families of this release are {', '.join(codes)}.",
            code="geounit-names",
        )
    # Rows of other areas are dropped without a word: a table of names is often that of the whole country.
    parts = [
        table.filter(pl.col("geolevel") == name, pl.col("geocode").is_in(area_codes.implode()))
        for name, area_codes in codes.items()
    ]
    others = [name for name in table.columns if name.startswith(NAME_IN)]
    named = pl.concat(parts).select(*NAME_COLUMNS, *(pl.col(name).replace("", None) for name in others))
    if named.is_empty():
        raise GeographyError(
            f"none of the {table.height:,} rows of the table of names has the code of a geounit or entity of this "
            "release, so that it names nothing. Use codes of the same geography, with their leading zeros.",
            code="geounit-names",
        )
    return replace(hierarchies, names=named)


def _codes(hierarchies: Hierarchies) -> dict[str, pl.Series]:
    """The codes of all geounits and entities that counts may be published of, by geolevel or family."""
    spine, areas = hierarchies.spine, (*hierarchies.replaced, *hierarchies.families)
    return {
        **{spine.geolevels[level]: spine.geocodes[level].text for level in hierarchies.known_levels},
        **{area.name: pl.Series(area.codes, dtype=pl.String) for area in areas},
    }


@dataclass(frozen=True, slots=True, eq=False)
class StatedGeounits:
    """The geounits of a geolevel of the geography, as sums of siblings on the spine.

    Attributes:
        geolevel: The geolevel that a constraint names.
        level: Number of the spine's geolevel that has the siblings.
        areas: A spine that has the geounits, in the order of their bounds.
        place: Number of their geolevel on `areas`.
        groups: For each geounit of the spine's geolevel, the number of the stated geounit that it is a part of. They
            are numbered as they first appear. None where the stated geounits are those of the spine.
    """

    geolevel: str
    level: int
    areas: Spine
    place: int
    groups: Integers | None = None

    @property
    def n_geounits(self) -> int:
        """Number of stated geounits."""
        return self.areas.n_geounits(self.place)

    @property
    def summed(self) -> str | None:
        """Name of the geolevel that `with_sums` makes of sums of siblings; None if there are no such sums."""
        # No other geolevel has this name, because names have no slashes (`universe.names`).
        return None if self.groups is None else f"{self.geolevel}/sums"

    @property
    def apart(self) -> str | None:
        """Geocode of a geounit whose parts have parts of another one between them; None if there is none."""
        if self.groups is None:
            return None
        # A run is a stretch of siblings of the same group. A group with more than one run has others in between.
        begins_run = np.append(True, self.groups[1:] != self.groups[:-1])
        runs = np.bincount(self.groups[begins_run])
        return None if runs.max() == 1 else str(self.areas.geocodes[self.place][int(runs.argmax())])


def stated_geounits(hierarchies: Hierarchies, geolevel: str, what: str) -> StatedGeounits:
    """Where the geounits of a geolevel are on the spine that is measured.

    Args:
        hierarchies: The spine that is measured, and the geography that it was made from.
        geolevel: Name of the geolevel.
        what: What is stated for it, for the message.
    Raises:
        GeographyError: some geounit of the geolevel is not a sum of siblings.
    """
    spine = hierarchies.spine
    cut = next((family for family in hierarchies.replaced if family.name == geolevel), None)
    if cut is None:
        level = spine.level_index(geolevel)
        return StatedGeounits(geolevel, level, spine, level)
    sums = sums_of_siblings(spine, cut)
    if sums is not None:
        return sums
    whole = [spine.geolevels[level] for level in hierarchies.known_levels]
    names = [name for name in hierarchies.original.geolevels if name in whole]
    raise GeographyError(
        f"{what} is stated for {geolevel}. The steps of the spine cut or regroup its geounits into parts that are not "
        "all children of one geounit, so that no family of the estimation has them together and the constraint could "
        f"not be made to hold. Geolevels kept whole: {', '.join(names)}. State it for one of them, or choose steps "
        f"that keep the parts of each {geolevel} together: a branch with `parts` leaves its geolevel whole.",
        code="not-on-spine",
    )


def sums_of_siblings(spine: Spine, cut: EntityFamily) -> StatedGeounits | None:
    """The geounits of a geolevel that a spine cuts, as sums of siblings; None where some geounit is no such sum.

    Args:
        spine: The spine that is measured.
        cut: The geounits, as a family of entities on that spine with the name of their geolevel.
    """
    known = cut.name in spine.geolevels
    # From the finest geolevel upwards: where the parts of a geounit have several parents, their parents may be whole
    # parts that have one.
    for level in range(spine.level_index(cut.name) if known else spine.finest, -1, -1):
        entity = _whole_parts(spine, level, cut)
        if entity is not None and _are_siblings(spine, level, entity):
            return _numbered(cut, level, entity)
    return None


def with_sums(spine: Spine, stated: Iterable[StatedGeounits]) -> Spine:
    """A spine on which sums of siblings are geounits too, each the parent of its siblings.

    Siblings are sorted by geocode. If those of one stated geounit are not neighbours, which only geocodes of unusual
    form allow, the geounits whose siblings are mixed make one geounit together.

    Args:
        spine: The spine that is measured.
        stated: Geounits that are geounits of the spine, or sums of siblings on it.
    Returns:
        The spine with a geolevel `StatedGeounits.summed` directly above that of the siblings. Finest geounits keep
        their order. It is `spine` itself if there are no sums.
    """
    sums = {item.summed: item for item in stated if item.summed is not None}
    if not sums:
        return spine
    names: list[str] = []
    codes: list[Geocodes] = []
    begins: list[Integers] = []  # the first finest geounit of each geounit, and where the last one ends
    for level, geolevel in enumerate(spine.geolevels):
        begin = spine.finest_offsets(level)
        here = [(name, item) for name, item in sums.items() if item.level == level]
        # Several stated geolevels may have their siblings on one geolevel; coarser sums go above finer ones.
        for name, item in sorted(here, key=lambda pair: pair[1].n_geounits):
            groups, first = _neighbours(item)
            names.append(name)
            codes.append(geocodes_of(item.areas.geocodes[item.place].text.gather(groups[first]), name))
            begins.append(begin[np.append(first, len(groups))])
        names.append(geolevel)
        codes.append(spine.geocodes[level])
        begins.append(begin)
    # Offsets between two geolevels follow from where their geounits begin among the finest; both lists are sorted.
    offsets = [np.searchsorted(below, above).astype(np.int64) for above, below in pairwise(begins)]
    return Spine(tuple(names), tuple(codes), tuple(offsets))


def _neighbours(item: StatedGeounits) -> tuple[Integers, Integers]:
    """The groups of siblings, and the first sibling of each run that has whole groups alone."""
    assert item.groups is not None
    # Groups are numbered as they first appear. So a run ends where all later groups have higher numbers.
    later = np.minimum.accumulate(item.groups[::-1])[::-1]
    before = np.maximum.accumulate(item.groups)
    return item.groups, np.append(0, np.flatnonzero(before[:-1] < later[1:]) + 1)


def _whole_parts(spine: Spine, level: int, family: EntityFamily) -> Integers | None:
    """The entity that each geounit of a geolevel lies in; None where one lies in several."""
    # Every finest geounit is in one entity, because these are the geounits of a geolevel: the array is filled entirely.
    of_finest = np.empty(family.n_finest, dtype=np.int64)
    of_finest[family.members] = np.repeat(np.arange(family.n_entities, dtype=np.int64), family.sizes)
    starts = spine.finest_offsets(level)[:-1]
    least, most = np.minimum.reduceat(of_finest, starts), np.maximum.reduceat(of_finest, starts)
    return least if np.array_equal(least, most) else None


def _are_siblings(spine: Spine, level: int, entity: Integers) -> bool:
    """Whether all geounits of each entity have one parent."""
    if level == 0:
        return True
    parents = spine.parents(level)
    # The first sibling of each entity says which parent all the others must have.
    first = parents[np.unique(entity, return_index=True)[1]]
    return bool((parents == first[entity]).all())


def _numbered(family: EntityFamily, level: int, entity: Integers) -> StatedGeounits:
    """The entities in the order in which they appear on the spine."""
    first = np.unique(entity, return_index=True)[1]
    order = np.argsort(first)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    return StatedGeounits(family.name, level, area_spine(family, order), 0, number[entity])
