"""Off-spine distance: how many geounits must be added or subtracted to make an entity."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine

if TYPE_CHECKING:
    from tallyveil.kernels.tree.off_spine_distance import Touched


@dataclass(frozen=True, slots=True, eq=False)
class OffSpineDistances:
    """Distances of a family's entities and of their complements.

    An entity that is a geounit has distance 1. The two arrays never differ by more than the number of
    roots: a complement is the roots less the entity, and the other way round.

    Attributes:
        family: Name of the family.
        codes: Its entities.
        distance: Of each entity; read-only, shape (n_entities,).
        complement: Of everything but the entity; read-only, shape (n_entities,).
    """

    family: str
    codes: tuple[str, ...]
    distance: Integers
    complement: Integers

    @property
    def mean(self) -> float:
        """Mean distance of the entities; 0 where there are none."""
        return float(self.distance.mean()) if len(self.distance) else 0.0

    @property
    def maximum(self) -> int:
        """Greatest distance of an entity; 0 where there are none."""
        return int(self.distance.max(initial=0))

    def quantile(self, numerator: int, denominator: int) -> int:
        """Least distance that at least that fraction of the entities do not exceed; 0 where there are none.

        Raises:
            GeographyError: the fraction is not between 0 and 1.
        """
        if not 0 <= numerator <= denominator or denominator == 0:
            raise GeographyError(
                f"quantile {numerator}/{denominator} of off-spine distances; wanted a fraction from 0 to 1."
            )
        n = len(self.distance)
        rank = max(-(-n * numerator // denominator), 1)
        return int(np.sort(self.distance)[rank - 1]) if n else 0


def off_spine_distances(spine: Spine, family: EntityFamily) -> OffSpineDistances:
    """Distance of every entity of a family, and of its complement.

    The distance is the least number of geounits, each added or subtracted, whose sum is the entity. The cost
    is proportional to the touched part of the tree, not to the tree.

    Raises:
        GeographyError: the family is of another spine.
    Source: Cumings-Menon et al. 2023, Algorithm 1; that it is exact is shown in docs/spine.md.
    """
    roots = touched_levels(spine, family)[0][0]
    near, far = near_and_far(roots)
    n_roots = spine.n_geounits(0)
    distance, complement = _by_entity(roots.begin, near), n_roots + _by_entity(roots.begin, far - 1)
    for array in (distance, complement):
        array.flags.writeable = False
    return OffSpineDistances(family.name, family.codes, distance, complement)


def touched_levels(spine: Spine, family: EntityFamily) -> tuple[tuple["Touched", Integers | None], ...]:
    """What every entity touches at each geolevel, root first.

    Returns:
        For each geolevel its entries and, below the root, the entry above that holds each.

    Raises:
        GeographyError: the family is of another spine.
    """
    from tallyveil.kernels.tree.off_spine_distance import Touched, raise_level

    require_same_spine(spine, family)
    ones, zeros = np.ones(len(family.members), dtype=np.int64), np.zeros(len(family.members), dtype=np.int64)
    # Read-only arrays would be another type to the compiler, and a second compilation.
    touched = Touched(family.offsets.copy(), family.members.copy(), ones, zeros)
    levels: list[tuple[Touched, Integers | None]] = []
    for level in range(spine.finest, 0, -1):
        raised, above = raise_level(touched, spine.parents(level), np.diff(spine.child_offsets[level - 1]))
        levels.append((touched, above))
        touched = raised
    return (*[(touched, None)], *levels[::-1])


def near_and_far(touched: "Touched") -> tuple[Integers, Integers]:
    """Distance of an entity's part of each touched geounit, and of the rest of the geounit."""
    near: Integers = np.minimum(touched.inner, touched.outer + 1)
    far: Integers = np.minimum(touched.outer, touched.inner + 1)
    return near, far


def require_same_spine(spine: Spine, family: EntityFamily) -> None:
    """Refuse a family that cannot be of the spine.

    Raises:
        GeographyError: they do not have the same number of finest geounits.
    """
    n_finest = spine.n_geounits(spine.finest)
    if family.n_finest != n_finest:
        raise GeographyError(
            f"entity family {family.name} was made on a spine of {family.n_finest} finest geounits; this one has "
            f"{n_finest}. Read the family on this spine.",
            code="entity-table",
        )


def _by_entity(begin: Integers, values: Integers) -> Integers:
    total = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(values)])
    found: NDArray[np.int64] = total[begin[1:]] - total[begin[:-1]]
    return found
