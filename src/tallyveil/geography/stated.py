"""The geounits for which a constraint is stated, and where they are on the spine that is measured.

A step may cut the geounits of a geolevel. The AIAN spine cuts every State into two parts, which are children of the US.
A constraint on a State is then a constraint on the sum of its parts. This is possible where the parts are siblings, so
that one family of the estimation has them all. The roots of a spine count as siblings.

Unbiased estimates know exact answers only as those of geounits. So they are made on a spine on which each State is a
geounit again, between the US and its parts, of which nothing is measured (`with_sums`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.areas import Hierarchies, area_spine
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.geocodes import Geocodes, geocodes_of
from tallyveil.geography.spine import Spine


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
