"""Areas that people know, on a spine that need not have them: the original geolevels, and entities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.geocodes import geocodes_of
from tallyveil.geography.optimise import OptimisedSpine
from tallyveil.geography.shares import GeounitShares
from tallyveil.geography.spine import Spine


class Deviation(NamedTuple):
    """Standard deviations of the totals of all areas of a kind, in counts: their mean and their greatest."""

    mean: float
    greatest: float


@dataclass(frozen=True, slots=True)
class AreaChange:
    """How exact the totals of a kind of areas are on a geography as given, and on the spine made of it.

    The deviations are those of the best unbiased estimates that all measurements allow, before counts are made
    non-negative and whole. All spines have the same budget.

    Attributes:
        name: Family of entities, or geolevel of the geography.
        kind: Which of the two.
        areas: Number of areas.
        aimed: Whether groups were chosen by variance for them.
        given: On the geography as given, measured with the shares of its geolevels, scaled to the whole budget.
        steps: On the spine that the steps make, before groups are chosen by variance.
        made: On the spine that is measured.
        unmet: Whether the limit on its loss could not be kept when groups were chosen.
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
    """The spine that is measured, and the areas that are published beside it.

    Attributes:
        spine: The spine that is measured.
        original: The spine of the geography table; `spine` itself where no step changes it.
        families: Families of entities, on `spine`.
        replaced: Geolevels of the original that `spine` does not have as they were, each as a family on `spine` with
            the geolevel's name: what was cut (counties), and what was made anew (block groups).
        shares: Share of the budget of every geounit of `spine`, where geounits were bypassed; else None.
        changes: What the steps change for every kind of area; empty where no step changes the spine or no measured
            query tells a total.
    """

    spine: Spine
    original: Spine
    families: tuple[EntityFamily, ...] = ()
    replaced: tuple[EntityFamily, ...] = ()
    shares: GeounitShares | None = None
    changes: tuple[AreaChange, ...] = ()

    @property
    def replaced_names(self) -> tuple[str, ...]:
        """Names of the original geolevels that the spine does not have as they were."""
        return tuple(family.name for family in self.replaced)

    @property
    def known_levels(self) -> tuple[int, ...]:
        """Levels of the spine whose name does not also stand for other areas of the original."""
        names = self.replaced_names
        return tuple(level for level, name in enumerate(self.spine.geolevels) if name not in names)

    def family(self, name: str) -> EntityFamily:
        """The family of entities of that name.

        Raises:
            GeographyError: there is none.
        """
        for family in self.families:
            if family.name == name:
                return family
        known = ", ".join(family.name for family in self.families)
        raise GeographyError(
            f"no entity family '{name}'; there are {known or 'none'}. Use one of these.",
            code="unknown-entity",
        )

    def require_whole(self, geolevel: str, what: str) -> None:
        """Refuse a geolevel of the original that is not on the spine as it was.

        Args:
            geolevel: Name of the geolevel.
            what: What is stated for it, for the message.

        Raises:
            GeographyError: some geounit of it is cut, or is no geounit of the spine.
        """
        if geolevel in self.spine.geolevels and geolevel not in self.replaced_names:
            return
        whole = [self.spine.geolevels[level] for level in self.known_levels]
        kept = [name for name in self.original.geolevels if name in whole]
        raise GeographyError(
            f"{what} is stated for {geolevel}, whose geounits the steps of the spine cut or replace, so that it "
            f"could not be made to hold. Geolevels kept whole: {', '.join(kept)}. State it for one of them, or "
            f"let the spine keep {geolevel}: a branch with `parts` leaves its geolevel whole.",
            code="not-on-spine",
        )


def plain_hierarchies(spine: Spine, families: Sequence[EntityFamily] = ()) -> Hierarchies:
    """A spine that no step has changed, with the families on it."""
    return Hierarchies(spine, spine, tuple(families))


def hierarchies_of(
    original: Spine,
    made: OptimisedSpine,
    families: Sequence[EntityFamily],
    changes: Sequence[AreaChange] = (),
) -> Hierarchies:
    """An optimised spine beside the one it was made from.

    Args:
        original: The spine that the steps started from.
        made: What they made.
        families: Families on the original.
        changes: What the steps change for every kind of area.
    """
    moved = tuple(family.reordered(made.rows) for family in families)
    replaced = replaced_areas(original, made)
    return Hierarchies(made.spine, original, moved, replaced, made.shares, tuple(changes))


def replaced_areas(original: Spine, made: OptimisedSpine) -> tuple[EntityFamily, ...]:
    """Geolevels of the original that a spine does not have as they were, each as a family on that spine."""
    return tuple(
        geounits_as_entities(original, level).reordered(made.rows)
        for level in range(original.finest)
        if not _has_as_it_was(original, level, made)
    )


def area_spine(family: EntityFamily) -> Spine:
    """A family's entities as the only geolevel of a spine, so that they are tabulated like geounits."""
    codes = pl.Series(family.codes, dtype=pl.String)
    return Spine((family.name,), (geocodes_of(codes, family.name),), ())


def _has_as_it_was(original: Spine, level: int, made: OptimisedSpine) -> bool:
    name = original.geolevels[level]
    if name not in made.spine.geolevels:
        return False
    place = made.spine.level_index(name)
    origin = made.origins[place]
    # As many geounits, each within one of the original: then each is one, for together they cover it.
    if len(origin) != original.n_geounits(level) or bool((origin < 0).any()):
        return False
    return bool((original.geocodes[level].text.gather(origin) == made.spine.geocodes[place].text).all())


def geounits_as_entities(spine: Spine, level: int) -> EntityFamily:
    """The geounits of a geolevel as a family of entities, so that another spine can be asked about them."""
    codes, offsets = spine.geocodes[level].text, spine.finest_offsets(level)
    order = codes.arg_sort().to_numpy().astype(np.int64)
    sizes = np.diff(offsets)[order]
    begin: Integers = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n_finest = spine.n_geounits(spine.finest)
    members = np.arange(n_finest, dtype=np.int64) + np.repeat(offsets[:-1][order] - begin[:-1], sizes)
    return EntityFamily(
        spine.geolevels[level], tuple(codes.gather(order).to_list()), begin, members, n_finest
    )
