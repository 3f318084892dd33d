"""Published counts of areas that are not on the spine: sums of the published finest counts."""

from collections.abc import Sequence

from tallyveil.geography.areas import Hierarchies, area_spine
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.schema.counts import PublicCounts, sum_members

Tabulated = tuple[Spine, PublicCounts]
"""Counts, and a spine that has a geolevel of their name."""


def area_counts(finest: PublicCounts, family: EntityFamily, n_cells: int) -> PublicCounts:
    """Counts of a family's entities, under the family's name: for each the sum over its finest geounits.

    Args:
        finest: Counts of the finest geolevel of the family's spine.
        family: The entities; they may overlap.
        n_cells: Number of cells of the schema.
    """
    summed = sum_members(finest.offsets, finest.cells, finest.counts, family.offsets, family.members, n_cells)
    return PublicCounts(family.name, *summed)


def tabulated(
    hierarchies: Hierarchies, counts: Sequence[PublicCounts], entities: Sequence[str], n_cells: int
) -> tuple[Tabulated, ...]:
    """What tables are published of: geolevels as people know them, then families of entities.

    A geolevel of the spine that has the name of an original one, but other geounits, is left to the histograms:
    its table is that of the original geounits.

    Args:
        hierarchies: The spine and the areas beside it.
        counts: Counts of every geolevel of the spine, root first.
        entities: Names of the families.
        n_cells: Number of cells of the schema.
    """
    areas = (*hierarchies.replaced, *(hierarchies.family(name) for name in entities))
    return (
        *((hierarchies.spine, counts[level]) for level in hierarchies.known_levels),
        *((area_spine(area), area_counts(counts[-1], area, n_cells)) for area in areas),
    )
