"""Off-spine entities: areas for which counts are wanted, and which geounits of the spine sum to them.

The off-spine distance of an entity is the smallest number of geounits whose signed sum is the entity. Its
recipe is such a set of geounits.

For a geounit, `inner` is the smallest number that makes the entity's part of it if the geounit as a whole is
not used, and `outer` is the same number for the rest of the geounit. Then near = min(inner, outer + 1) is the
distance of the entity's part, and far = min(outer, inner + 1) that of the rest. `raise_level` computes inner
and outer at each geolevel from the level below, by sums over children. Only geounits that the entity touches
are visited. The distance is the sum of near over the roots.

The recipe goes from the roots down. A geounit that the entity touches is either counted in so far (the sums
of coarser geounits include it) or not. If it is better to have it counted in, it is added if necessary; if
not, it is subtracted if necessary (`_wanted`). Untouched children of a geounit that is counted in are
subtracted. At the finest geolevel all members must be counted in.

Worked case. A county has ten tracts, and the entity is the county without one tract. Adding nine tracts gives
inner = 9; the rest is one tract, so outer = 1. The distance is min(9, 1 + 1) = 2. The recipe counts the
county in, since outer + 1 = 2 is less than inner = 9, and subtracts the one tract.
"""

import hashlib
import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError, SolverError
from tallyveil.geography.spine import Spine
from tallyveil.schema.counts import entries_of_rows, sums_between

if TYPE_CHECKING:
    from tallyveil.kernels.tree.off_spine_distance import TouchedGeounits


@dataclass(frozen=True, slots=True, eq=False)
class EntityFamily:
    """Off-spine entities of one kind, such as all places. Each entity is a set of finest geounits.

    The finest geounits of entity `i` are rows `members[offsets[i]:offsets[i + 1]]` of one spine's finest geolevel, in
    its depth-first numbering. A family belongs to the spine on which it was made; `reordered` converts it to a reshaped
    spine. Entities may overlap, and need not cover the spine. Complements are not stored, because they follow from the
    entities.

    Build one with `entities_from_columns` or `entities_from_pairs`.

    Attributes:
        name: Kind of entity, such as "place".
        codes: Name of each entity, sorted, each once.
        offsets: Start of each entity's members; read-only, shape (n_entities + 1,).
        members: Rows of finest geounits, increasing within each entity; read-only.
        n_finest: Number of finest geounits of the spine.

    Raises:
        GeographyError: names are repeated or not sorted, an entity has no members, or members do not increase or lie
            outside the spine.
    """

    name: str
    codes: tuple[str, ...]
    offsets: Integers
    members: Integers
    n_finest: int

    def __post_init__(self) -> None:
        # Strictly rising: the same comparison finds names that are repeated and names out of order.
        if any(first >= second for first, second in zip(self.codes, self.codes[1:], strict=False)):
            raise _unsound(self.name, "names that are sorted, each once")
        offsets, members = self.offsets, self.members
        if offsets.dtype != np.int64 or members.dtype != np.int64:
            raise _unsound(self.name, "int64 offsets and members")
        if offsets.shape != (len(self.codes) + 1,) or offsets[0] != 0 or offsets[-1] != len(members):
            raise _unsound(self.name, f"{len(self.codes) + 1} offsets from 0 to {len(members)}")
        if not bool(np.all(offsets[1:] > offsets[:-1])):
            raise _unsound(self.name, "at least one member in every entity")
        if len(members) and (int(members.min()) < 0 or int(members.max()) >= self.n_finest):
            raise _unsound(self.name, f"members from 0 to {self.n_finest - 1}")
        if not _rises_within(offsets, members):
            raise _unsound(self.name, "members that rise within each entity")
        # Views, so that arrays of the caller stay writable.
        for name in ("offsets", "members"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @property
    def n_entities(self) -> int:
        """Number of entities."""
        return len(self.codes)

    @property
    def sizes(self) -> Integers:
        """Number of finest geounits of each entity; shape (n_entities,)."""
        return np.diff(self.offsets)

    @property
    def is_disjoint(self) -> bool:
        """Whether no finest geounit is in two entities."""
        # A finest geounit in two entities occurs twice among the members.
        return bool(np.bincount(self.members, minlength=1).max() <= 1)

    def index(self, code: str) -> int:
        """Position of the entity with a given name.

        Raises:
            GeographyError: there is no such entity.
        """
        # The names are sorted, so that a binary search finds one in a family of tens of thousands.
        place = bisect_left(self.codes, code)
        if place == self.n_entities or self.codes[place] != code:
            shown = ", ".join(self.codes[:5]) + (", ..." if self.n_entities > 5 else "")
            raise GeographyError(
                f"there is no entity '{code}' in family {self.name}; it has {shown or 'none'}. Use one of its names.",
                code="unknown-entity",
            )
        return place

    def members_of(self, entity: int) -> Integers:
        """Integers of an entity's finest geounits, increasing."""
        return self.members[self.offsets[entity] : self.offsets[entity + 1]]

    def digest(self) -> bytes:
        """SHA-256 of the family: its name, its entities and their members."""
        header = json.dumps([self.name, list(self.codes), self.n_finest], separators=(",", ":"))
        # The number in this line is the version of the digest.
        digest = hashlib.sha256(b"tallyveil entities 1\n" + header.encode("ascii") + b"\n")
        for array in (self.offsets, self.members):
            digest.update(array.astype("<i8", copy=False).tobytes())
        return digest.digest()

    def inside(self, codes: Sequence[str] | None = None) -> NDArray[np.bool_]:
        """Whether each finest geounit is in one of the named entities, or by default in any entity; shape (n_finest,).

        Raises:
            GeographyError: an entity does not exist.
        """
        mask = np.zeros(self.n_finest, dtype=np.bool_)
        if codes is None:
            mask[self.members] = True
        else:
            for code in codes:
                mask[self.members_of(self.index(code))] = True
        return mask

    def with_remainder(self, code: str | None = None) -> "EntityFamily":
        """The family with one more entity: everything that is in none of its entities.

        If the entities cover the spine, the result is the family itself.

        Args:
            code: Name of the new entity; by default "outside <family>".

        Raises:
            GeographyError: an entity already has that name.
        Source: Cumings-Menon et al. 2023, section 6, which adds this entity to every family.
        """
        name = f"outside {self.name}" if code is None else code
        place = bisect_left(self.codes, name)
        if self.codes[place : place + 1] == (name,):
            raise GeographyError(
                f"family {self.name} has an entity '{name}' already. Give the remainder another name.",
                code="entity-table",
            )
        rest = np.flatnonzero(~self.inside()).astype(np.int64, copy=False)
        if len(rest) == 0:
            return self
        # The remainder is put at its place among the sorted names, and offsets after it move up by its size.
        start = int(self.offsets[place])
        return EntityFamily(
            self.name,
            (*self.codes[:place], name, *self.codes[place:]),
            np.concatenate([self.offsets[: place + 1], self.offsets[place:] + len(rest)]),
            np.concatenate([self.members[:start], rest, self.members[start:]]),
            self.n_finest,
        )

    def reordered(self, rows: Integers) -> "EntityFamily":
        """The same entities on a spine whose finest geounits are in another order.

        Args:
            rows: For each finest geounit of the other spine, its present row; shape (n_finest,).

        Raises:
            GeographyError: the rows do not contain each present row exactly once.
        """
        # The inverse of `rows`: where each present row goes. A row that no entry names keeps -1 and is refused.
        place = np.full(self.n_finest, -1, dtype=np.int64)
        if len(rows) == self.n_finest:
            place[rows] = np.arange(self.n_finest, dtype=np.int64)
        if bool(np.any(place < 0)):
            raise _unsound(self.name, f"each of {self.n_finest} rows once, to be put in another order")
        entity = np.repeat(np.arange(self.n_entities, dtype=np.int64), self.sizes)
        # The keys of an entity are contiguous when sorted, so one sort orders the members of every entity.
        keys = np.sort(entity * self.n_finest + place[self.members])
        return EntityFamily(self.name, self.codes, self.offsets, keys - entity * self.n_finest, self.n_finest)

    def __repr__(self) -> str:
        return f"EntityFamily({self.name}: {self.n_entities} entities over {self.n_finest} finest geounits)"


def _rises_within(offsets: Integers, members: Integers) -> bool:
    rises = members[1:] > members[:-1]
    rises[offsets[1:-1] - 1] = True  # between two entities, members may decrease
    return bool(rises.all())


def _unsound(name: str, wanted: str) -> GeographyError:
    return GeographyError(
        f"the arrays of entity family {name} do not fit together; wanted {wanted}. "
        "Build it with entities_from_columns or entities_from_pairs.",
        code="entity-table",
    )


@dataclass(frozen=True, slots=True, eq=False)
class OffSpineDistances:
    """Distances of a family's entities and of their complements.

    An entity that is a geounit has distance 1. The distance of an entity and that of its complement differ by at most
    the number of roots, because the complement is the sum of the roots minus the entity, and conversely.

    Attributes:
        family: Name of the family.
        codes: Names of its entities.
        distance: Distance of each entity; read-only, shape (n_entities,).
        complement: Distance of each entity's complement; read-only, shape (n_entities,).
    """

    family: str
    codes: tuple[str, ...]
    distance: Integers
    complement: Integers

    @property
    def mean(self) -> float:
        """Mean distance of the entities; 0 if there are none."""
        return float(self.distance.mean()) if len(self.distance) else 0.0

    @property
    def maximum(self) -> int:
        """Largest distance of an entity; 0 if there are none."""
        return int(self.distance.max(initial=0))

    def quantile(self, numerator: int, denominator: int) -> int:
        """Smallest distance that at least this fraction of the entities does not exceed; 0 if there are none.

        Raises:
            GeographyError: the fraction is not between 0 and 1.
        """
        if not 0 <= numerator <= denominator or denominator == 0:
            raise GeographyError(
                f"the quantile of off-spine distances is {numerator}/{denominator}; wanted a fraction from 0 to 1."
            )
        n = len(self.distance)
        # The rank is rounded up in integers: float arithmetic could miss the boundary by one entity.
        rank = max(-(-n * numerator // denominator), 1)
        return int(np.sort(self.distance)[rank - 1]) if n else 0


def off_spine_distances(spine: Spine, family: EntityFamily) -> OffSpineDistances:
    """Distance of every entity of a family, and of its complement.

    The distance is the smallest number of geounits, each added or subtracted, whose sum is the entity. The time is
    proportional to the part of the tree that entities touch.

    Raises:
        GeographyError: the family belongs to another spine.
    Source: Cumings-Menon et al. 2023, Algorithm 1; docs/spine.md shows that it is exact.
    """
    roots = touched_levels(spine, family)[0][0]
    near, far = near_and_far(roots.inner, roots.outer)
    n_roots = spine.n_geounits(0)
    # Each root that the complement contains adds 1 untouched; `far - 1` corrects those that the entity touches.
    distance, complement = sums_between(roots.begin, near), n_roots + sums_between(roots.begin, far - 1)
    for array in (distance, complement):
        array.flags.writeable = False
    return OffSpineDistances(family.name, family.codes, distance, complement)


def touched_levels(
    spine: Spine, family: EntityFamily
) -> tuple[tuple["TouchedGeounits", Integers | None], ...]:
    """The geounits that every entity touches at each geolevel, root first.

    Returns:
        For each geolevel its entries and, below the root, the position of the entry above that contains each one.

    Raises:
        GeographyError: the family belongs to another spine.
    """
    # Inside the function, because importing the kernel compiles or loads it.
    from tallyveil.kernels.tree.off_spine_distance import TouchedGeounits, raise_level

    require_same_spine(spine, family)
    # At the finest geolevel, a member is one geounit by itself (inner 1), and nothing of it is outside (outer 0).
    ones, zeros = np.ones(len(family.members), dtype=np.int64), np.zeros(len(family.members), dtype=np.int64)
    # To the compiler a read-only array is another type, which would cause a second compilation.
    touched = TouchedGeounits(family.offsets.copy(), family.members.copy(), ones, zeros)
    levels: list[tuple[TouchedGeounits, Integers | None]] = []
    # From below, because inner and outer of a geounit are sums over its children.
    for level in range(spine.finest, 0, -1):
        raised, above = raise_level(touched, spine.parents(level), np.diff(spine.child_offsets[level - 1]))
        levels.append((touched, above))
        touched = raised
    return (*[(touched, None)], *levels[::-1])


def near_and_far(inner: Integers, outer: Integers) -> tuple[Integers, Integers]:
    """Distance of an entity's part of each geounit, and of the rest of it, from their sums over its children."""
    near: Integers = np.minimum(inner, outer + 1)
    far: Integers = np.minimum(outer, inner + 1)
    return near, far


def require_same_spine(spine: Spine, family: EntityFamily) -> None:
    """Refuse a family that cannot belong to the spine.

    Raises:
        GeographyError: they do not have the same number of finest geounits.
    """
    n_finest = spine.n_geounits(spine.finest)
    if family.n_finest != n_finest:
        raise GeographyError(
            f"entity family {family.name} was read on a spine of {family.n_finest} finest geounits; this one has "
            f"{n_finest}. Read the family on this spine.",
            code="entity-table",
        )


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
    children = entries_of_rows(spine.child_offsets[level - 1], parents)
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
