"""Public sizes of a run: geounits of every geolevel, people, and how many cells these are expected to fill.

No record is read. The number of people is given by the user, or it is forty for each finest geounit, and a curve gives
the number of cells that they fill.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from tallyveil.errors import ConfigError
from tallyveil.geography.spine import Spine

PEOPLE_PER_GEOUNIT: Final = 40
"""People in a finest geounit, if the total number is not given."""

GEOUNITS_PER_PARENT: Final = (30.0, 3.5, 45.0, 60.0)
"""Children of a geounit, from the parents of the finest geounits upward, as in the census. The last number repeats."""

MOST_CHILDREN, LARGEST_SHARE = 30, 0.6
"""The largest number of children of a parent is taken to be the first number times the mean, and at most the second
number, a share, times all children."""

FILLED_CELLS: Final = ((1, 1), (30, 6), (900, 40), (3_100, 70), (146_000, 270), (12_700_000, 900))
"""People in a geounit, and how many of the 2,016 cells of redistricting data they fill; linear on a log-log scale
between these points."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Public sizes of a run.

    Attributes:
        geounits: Geounits of every geolevel, root first.
        people: Number of people.
        most_children: Most children of a parent, by geolevel of the children; 1 at the root.
    """

    geounits: tuple[int, ...]
    people: int
    most_children: tuple[int, ...]


def sizes_of_spine(spine: Spine, people: int | None = None) -> Sizes:
    """Sizes of a geography, with forty people for each finest geounit if no number is given."""
    geounits = tuple(spine.n_geounits(level) for level in range(spine.n_levels))
    most = tuple(int(np.diff(offsets).max()) for offsets in spine.child_offsets)
    return Sizes(geounits, people if people is not None else PEOPLE_PER_GEOUNIT * geounits[-1], (1, *most))


def sizes_of_blocks(n_levels: int, blocks: int, people: int | None = None) -> Sizes:
    """Sizes of a hierarchy with a given number of finest geounits, and with fan-outs like those of the census.

    Args:
        n_levels: Number of geolevels.
        blocks: Number of finest geounits.
        people: Number of people; None for forty for each finest geounit.
    Raises:
        ConfigError: there are no finest geounits, or the number of people is negative.
    """
    if blocks < 1 or (people is not None and people < 0):
        raise ConfigError(
            f"sizes to predict for: got {blocks} finest geounits and {people} records; wanted at least 1 finest "
            "geounit and at least 0 records.",
            code="bad-flag",
        )
    geounits = [blocks]
    for step in range(n_levels - 1):
        ratio = GEOUNITS_PER_PARENT[min(step, len(GEOUNITS_PER_PARENT) - 1)]
        # Rounded at each step from the finest upward, so that a hierarchy has at least one geounit everywhere.
        # Nearly every hierarchy has one root.
        geounits.append(max(1, round(geounits[-1] / ratio)) if step < n_levels - 2 else 1)
    geounits.reverse()
    most = [1, *(_most_children(below, above) for above, below in pairwise(geounits))]
    return Sizes(tuple(geounits), people if people is not None else PEOPLE_PER_GEOUNIT * blocks, tuple(most))


def _most_children(geounits: int, parents: int) -> int:
    """Most children of a parent where only the numbers of both are known: a large county has most tracts of a state."""
    # A single parent has all children; no guess is needed.
    if parents == 1:
        return geounits
    return max(1, min(MOST_CHILDREN * geounits // parents, round(LARGEST_SHARE * geounits)))


def filled_cells(
    sizes: Sizes, n_cells: int, curve: Sequence[tuple[int, int]] = FILLED_CELLS
) -> tuple[int, ...]:
    """Number of non-zero cells at each geolevel.

    Args:
        sizes: Public sizes.
        n_cells: Number of cells of the schema.
        curve: People in a geounit, and how many cells they fill.
    """
    filled = []
    for n_geounits in sizes.geounits:
        each = sizes.people / n_geounits
        # No geounit fills more cells than it has people, nor more than the schema has.
        filled.append(round(n_geounits * min(cells_of(each, curve), each, n_cells)))
    return tuple(filled)


def cells_of(people: float, curve: Sequence[tuple[int, int]] = FILLED_CELLS) -> float:
    """How many cells people fill in one geounit."""
    # Straight lines between the logarithms; outside the curve its ends hold, and nobody fills one cell.
    given, cells = np.log(np.array(curve, dtype=np.float64)).T
    return float(np.exp(np.interp(np.log(max(people, 1.0)), given, cells)))
