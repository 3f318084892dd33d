"""Published areas (original geolevels and entities) that may be absent from the optimised spine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.geocodes import geocodes_of
from tallyveil.geography.geometry.geometry import Geometry
from tallyveil.geography.optimise import OptimisedSpine
from tallyveil.geography.shares import GeounitShares
from tallyveil.geography.spine import Spine


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
        names: Names of geounits and entities for readers (`geography.names`); None if there are none.
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
    sizes = np.diff(offsets)[order]
    begin: Integers = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n_finest = spine.n_geounits(spine.finest)
    # Members run in steps of 1 from each geounit's first row; `begin` is taken off where the running number starts
    # again.
    members = np.arange(n_finest, dtype=np.int64) + np.repeat(offsets[:-1][order] - begin[:-1], sizes)
    return EntityFamily(
        spine.geolevels[level], tuple(codes.gather(order).to_list()), begin, members, n_finest
    )
