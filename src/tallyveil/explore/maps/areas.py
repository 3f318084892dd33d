"""The areas of one kind (a geolevel, or a family of entities) as sets of finest geounits."""

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine


@dataclass(frozen=True, slots=True, eq=False)
class AreasOfKind:
    """The areas of one kind. Area `i` consists of the finest geounits `members[offsets[i]:offsets[i + 1]]`.

    Attributes:
        number: Number of the kind in `site.json`.
        offsets: Start of each area's members; shape (n_areas + 1,).
        members: Rows of finest geounits, on the spine that is measured.
    """

    number: int
    offsets: Integers
    members: Integers

    @property
    def n_areas(self) -> int:
        """Number of areas."""
        return len(self.offsets) - 1

    @property
    def is_disjoint(self) -> bool:
        """Whether no finest geounit is in two areas."""
        return bool(np.bincount(self.members, minlength=1).max() <= 1)


def areas_of_geolevel(spine: Spine, level: int, number: int) -> AreasOfKind:
    """The geounits of a geolevel of a spine, in their order.

    Args:
        spine: The spine that is measured.
        level: Index of the geolevel.
        number: Number of the kind.
    """
    n_finest = spine.n_geounits(spine.finest)
    return AreasOfKind(number, spine.finest_offsets(level), np.arange(n_finest, dtype=np.int64))


def areas_of_family(family: EntityFamily, number: int) -> AreasOfKind:
    """The entities of a family on the spine that is measured, in their order."""
    return AreasOfKind(number, family.offsets, family.members)
