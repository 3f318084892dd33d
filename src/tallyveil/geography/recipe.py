"""Recipe of an entity: a smallest set of geounits whose signed sum is the entity.

Problem. As for the off-spine distance (`distance`), with the geounits themselves instead of their number.

Steps. From the roots down, a geounit that the entity touches is either counted in so far (the sums of coarser geounits
include it) or not. If it is better to have it counted in, it is added if necessary; if not, it is subtracted if
necessary. `_wanted` decides from `inner` and `outer` of the distance. Untouched children of a geounit that is counted
in are subtracted. At the finest geolevel all members must be counted in.

Stopping rule. Every geolevel is visited once.

Worked case. A county has ten tracts, and the entity is the county without one tract. The county is counted in, since
outer + 1 = 2 is less than inner = 9. Then the one tract outside is subtracted.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.geography.distance import off_spine_distances, touched_levels
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """Geounits whose signed sum is an area, sorted by geolevel (coarsest first), then in the spine's order.

    Attributes:
        levels: Geolevel of each geounit; read-only.
        geounits: Index of each geounit in its geolevel; read-only.
        signs: +1 to add the geounit, -1 to subtract it; read-only.
    """

    levels: Integers
    geounits: Integers
    signs: Integers

    def __len__(self) -> int:
        return len(self.signs)

    def lines(self, spine: Spine) -> tuple[tuple[int, str, str], ...]:
        """Sign, geolevel and geocode of each geounit."""
        steps = zip(self.signs.tolist(), self.levels.tolist(), self.geounits.tolist(), strict=True)
        return tuple(
            (sign, spine.geolevels[level], str(spine.geocodes[level][geounit]))
            for sign, level, geounit in steps
        )

    def sums(self, spine: Spine) -> Integers:
        """How often the signed sum counts each finest geounit; shape (n_finest,)."""
        # A difference array: each geounit adds its sign where it begins and takes it back where it ends.
        steps = np.zeros(spine.n_geounits(spine.finest) + 1, dtype=np.int64)
        for level in np.unique(self.levels).tolist():
            here = self.levels == level
            offsets = spine.finest_offsets(level)
            # add.at and not fancy indexing: two geounits of a recipe may begin at the same finest geounit.
            np.add.at(steps, offsets[self.geounits[here]], self.signs[here])
            np.subtract.at(steps, offsets[self.geounits[here] + 1], self.signs[here])
        return np.cumsum(steps[:-1])


def recipe_of(spine: Spine, family: EntityFamily, code: str, *, complement: bool = False) -> Recipe:
    """A shortest recipe of an entity, or of its complement. Its length is the off-spine distance.

    If several recipes have the same length, a geounit entirely inside the area is used as a whole, and otherwise adding
    children is preferred to subtracting them. Before the recipe is returned, its sum is compared with the area and its
    length with the distance.

    Raises:
        GeographyError: the entity does not exist, or the family belongs to another spine.
        SolverError: one of these checks failed.
    Source: Cumings-Menon et al. 2023, section 4.
    """
    entity = family.index(code)
    members = family.members_of(entity)
    if complement:
        members = np.setdiff1d(np.arange(family.n_finest, dtype=np.int64), members, assume_unique=True)
    if len(members) == 0:
        return _recipe([], [], [])
    # A family of this entity alone, so that the descent costs what this entity touches and no more.
    alone = EntityFamily(
        family.name, (code,), np.array([0, len(members)], dtype=np.int64), members, family.n_finest
    )
    recipe = _descend(spine, alone)
    wanted = np.zeros(family.n_finest, dtype=np.int64)
    wanted[members] = 1
    # The length comes from another computation than the recipe, so that an error in either shows.
    length = int(off_spine_distances(spine, alone).distance[0])
    if len(recipe) != length or not np.array_equal(recipe.sums(spine), wanted):
        raise SolverError(
            f"the recipe of entity '{code}' of {family.name} has {len(recipe)} geounits while the off-spine distance "
            f"is {length}, or its geounits do not add up to the entity. This is a defect of Tallyveil: please report "
            "this spine."
        )
    return recipe


def _descend(spine: Spine, alone: EntityFamily) -> Recipe:
    """Go down from the roots. For each touched geounit, remember whether it is counted in so far."""
    # The last one of `levels` is the finest geolevel; entries of a geolevel point to the entry above them.
    levels = touched_levels(spine, alone)
    found_levels: list[Integers] = []
    found_geounits: list[Integers] = []
    found_signs: list[Integers] = []

    def emit(level: int, geounits: Integers, signs: Integers) -> None:
        found_levels.append(np.full(len(geounits), level, dtype=np.int64))
        found_geounits.append(geounits)
        found_signs.append(signs)

    counted_above: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
    for level, (touched, above) in enumerate(levels):
        counted = np.zeros(len(touched.geounit), np.bool_) if above is None else counted_above[above]
        if above is not None:
            # A child that the entity does not touch has no entry; it is wholly outside, and must leave a sum that has
            # it.
            untouched = _untouched_children(
                spine, level, levels[level - 1][0].geounit[counted_above], touched.geounit
            )
            emit(level, untouched, np.full(len(untouched), -1, dtype=np.int64))
        wanted = _wanted(touched.inner, touched.outer, counted, finest=level == spine.finest)
        changed = np.flatnonzero(wanted != counted)
        emit(level, touched.geounit[changed], np.where(wanted[changed], 1, -1).astype(np.int64))
        counted_above = wanted
    return _recipe(found_levels, found_geounits, found_signs)


def _wanted(
    inner: Integers, outer: Integers, counted: NDArray[np.bool_], *, finest: bool
) -> NDArray[np.bool_]:
    """Whether each touched geounit should be counted in, so that finer geounits outside the area are subtracted."""
    if finest:
        return np.ones(len(inner), dtype=np.bool_)
    # `outer == 0` means wholly inside: then the geounit is taken as a whole, also where its parts would cost the same.
    taken: NDArray[np.bool_] = (outer + 1 < inner) | (outer == 0)
    # Equality here prefers to stay counted in, and the strict sign above prefers not to begin.
    stays: NDArray[np.bool_] = outer <= inner + 1
    return np.where(counted, stays, taken)


def _untouched_children(spine: Spine, level: int, parents: Integers, touched: Integers) -> Integers:
    offsets = spine.child_offsets[level - 1]
    counts = offsets[parents + 1] - offsets[parents]
    first = np.repeat(offsets[parents] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    children = first + np.arange(int(counts.sum()), dtype=np.int64)
    return np.setdiff1d(children, touched, assume_unique=True)


def _recipe(levels: list[Integers], geounits: list[Integers], signs: list[Integers]) -> Recipe:
    empty = np.zeros(0, dtype=np.int64)
    columns = [np.concatenate([empty, *parts]) for parts in (levels, geounits, signs)]
    # By geolevel, then by geounit; the recipe is the same whatever the order in which lines were emitted.
    order = np.lexsort((columns[1], columns[0]))
    sorted_columns = [column[order] for column in columns]
    for column in sorted_columns:
        column.flags.writeable = False
    return Recipe(*sorted_columns)
