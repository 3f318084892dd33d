"""Off-spine distance: how many geounits must be added or subtracted to obtain an entity.

Problem. An entity is a set of finest geounits. Wanted is the smallest number of geounits whose signed sum is the
entity.

Variables. For a geounit, `inner` is the smallest number that makes the entity's part of it if the geounit as a whole is
not used, and `outer` is the same number for the rest of the geounit. Then near = min(inner, outer + 1) is the distance
of the entity's part, and far = min(outer, inner + 1) that of the rest.

Steps. `raise_level` computes inner and outer at each geolevel from the level below, by sums over children. Only
geounits that the entity touches are visited. The distance is the sum of near over the roots.

Worked case. A county has ten tracts, and the entity is the county without one tract. Adding nine tracts gives
inner = 9; the rest is one tract, so outer = 1. The distance is min(9, 1 + 1) = 2: the county minus the tract.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.schema.counts import sums_between

if TYPE_CHECKING:
    from tallyveil.kernels.tree.off_spine_distance import TouchedGeounits


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
    near, far = near_and_far(roots)
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


def near_and_far(touched: "TouchedGeounits") -> tuple[Integers, Integers]:
    """Distance of an entity's part of each touched geounit, and of the rest of the geounit."""
    near: Integers = np.minimum(touched.inner, touched.outer + 1)
    far: Integers = np.minimum(touched.outer, touched.inner + 1)
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
