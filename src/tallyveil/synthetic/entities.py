"""Made-up areas that cross tracts and block groups: places, county subdivisions, school districts, tribal areas."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers

ENTITY_COLUMNS = ("place", "county_subdivision", "school_district", "tribal_area")
"""Families in the table of entities. Each is disjoint, and null means that a block is in none of its entities."""


# Number of blocks of an area, about as in the fifty states.
BLOCKS_PER_PLACE, BLOCKS_PER_SUBDIVISION, BLOCKS_PER_DISTRICT = 330, 320, 840
# Part of the square that the discs of places cover together. With half, fewer blocks lie in places; with twice, most
# discs overlap.
SHARE_IN_PLACES = 0.3
TRIBAL_AREAS = ((60_000, 1, 0.002), (6_000, 3, 0.1), None)
"""Tribal areas of the first state, the second, the third, and so on in turn: blocks of the state for each area, the
least number of areas, and the share of the state in them; None for a state without tribal areas."""
SPREAD = 0.3
"""Standard deviation of a block's distance from the curve, in widths of a block. It makes every border irregular."""
_STREAM = 0x656E74  # a separate random stream from those that make people
CURVE_ORDER = 12
"""The finest curve: a square of 2^12 by 2^12 cells."""


def make_entities(geography: pl.DataFrame, seed: int) -> Iterator[pl.DataFrame]:
    """Make up a point and off-spine entities for every block, one state at a time.

    In the order of their geocodes, blocks lie along a space-filling curve, so tracts and block groups are compact.
    County subdivisions are cells within counties, school districts are cells of the state, and places and tribal areas
    are discs, which can cross counties. Areas do not depend on tracts. So their borders cross tracts and block groups,
    as real ones do. Every third state has no tribal area.

    Args:
        geography: Columns geocode, state and county, sorted by geocode.
        seed: The same seed makes the same entities. Their random stream is used for nothing else.
    Yields:
        For each state, its blocks with geocode, `ENTITY_COLUMNS`, latitude, longitude.
    """
    ends = np.cumsum(geography["state"].rle().struct.field("len").to_numpy()).tolist()
    for number, (start, stop) in enumerate(pairwise([0, *ends])):
        generator = np.random.Generator(np.random.PCG64([seed, _STREAM, number]))
        yield _of_state(geography.slice(start, stop - start), number, generator)


def _of_state(blocks: pl.DataFrame, number: int, generator: np.random.Generator) -> pl.DataFrame:
    n = blocks.height
    state = str(blocks["state"][0])
    points = hilbert_points(n)
    points = points + generator.normal(scale=SPREAD / np.sqrt(n), size=points.shape)
    county = blocks["county"].rle_id().to_numpy().astype(np.int64)
    subdivision = _cells(points, _some(n, BLOCKS_PER_SUBDIVISION), generator)
    parts = np.unique(np.stack([county, subdivision]), axis=1, return_inverse=True)[1].reshape(-1)
    place = _discs(points, _some(n, BLOCKS_PER_PLACE), SHARE_IN_PLACES, 1.0, generator)
    district = _cells(points, _some(n, BLOCKS_PER_DISTRICT), generator)
    tribal = _tribal_areas(points, number, generator)
    return pl.DataFrame(
        [
            blocks["geocode"],
            _named("place", state, place),
            _named("county_subdivision", state, parts.astype(np.int64)),
            _named("school_district", state, district),
            _named("tribal_area", "", tribal, "R" + state),
            pl.Series("latitude", np.round(state_corner(number)[1] + points[:, 1], 6)),
            pl.Series("longitude", np.round(state_corner(number)[0] + points[:, 0], 6)),
        ]
    )


def _tribal_areas(points: Floats, number: int, generator: np.random.Generator) -> Integers:
    """For each point, its tribal area, or -1. The state's number says how many areas there are, and how large."""
    kind = TRIBAL_AREAS[number % len(TRIBAL_AREAS)]
    if kind is None:
        return np.full(len(points), -1, dtype=np.int64)
    blocks_each, fewest, share = kind
    return _discs(points, max(_some(len(points), blocks_each), fewest), share, 0.3, generator)


def hilbert_points(n: int) -> Floats:
    """Evenly spaced points along a Hilbert curve through the unit square; shape (n, 2)."""
    # Integers below n * 2^24, so that no rounding can put two blocks out of order.
    d = np.arange(n, dtype=np.int64) * (1 << (2 * CURVE_ORDER)) // max(n, 1)
    return np.stack(curve_cells(d), axis=1) / (1 << CURVE_ORDER)


def state_corner(number: int) -> tuple[float, float]:
    """Longitude and latitude of a state's south-west corner. States lie in a row; each is one degree wide and high."""
    return -120 + 1.1 * number, 30.0


def curve_cells(places: Integers) -> tuple[Integers, Integers]:
    """The cells (x, y) at places of the Hilbert curve of order `CURVE_ORDER`."""
    d, n = places.copy(), len(places)
    x, y = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    # One bit of both coordinates at a time, from the finest square to the whole one: the usual iteration.
    for bit in range(CURVE_ORDER):
        side = 1 << bit
        right, up = 1 & (d // 2), 1 & (d ^ (d // 2))
        # Quarters of the curve are turned or flipped, so that each begins where the one before has ended.
        turn = up == 0
        flip = turn & (right == 1)
        x[flip], y[flip] = side - 1 - x[flip], side - 1 - y[flip]
        # Both copies are made before either is written, because the arrays exchange their contents.
        x[turn], y[turn] = y[turn].copy(), x[turn].copy()
        x, y = x + side * right, y + side * up
        d //= 4
    return x, y


def _some(n: int, blocks_each: int) -> int:
    return max(round(n / blocks_each), 1)


def _cells(points: Floats, n: int, generator: np.random.Generator) -> Integers:
    """For each point, the nearest of n random centres."""
    # Inside the function, because importing scipy.spatial takes long, and few commands make entities.
    from scipy.spatial import cKDTree

    nearest: Integers = cKDTree(generator.random((n, 2))).query(points)[1].astype(np.int64)
    return nearest


def _discs(points: Floats, n: int, share: float, spread: float, generator: np.random.Generator) -> Integers:
    """The nearest of n centres if it is within its radius, otherwise -1. Discs cover about `share` of the square."""
    from scipy.spatial import cKDTree

    centre, radius = generator.random((n, 2)), generator.lognormal(0.0, spread, n)
    # The areas of all discs add up to the share; overlaps make the covered part a little smaller.
    radius *= np.sqrt(share / np.pi / np.sum(radius**2))
    distance, nearest = cKDTree(centre).query(points)
    area: Integers = np.where(distance < radius[nearest], nearest, -1).astype(np.int64)
    return area


def _named(name: str, before: str, labels: Integers, after: str = "") -> pl.Series:
    """Codes of five digits, with the state's code before or after them; null for -1."""
    codes = before + pl.Series(labels).cast(pl.String).str.zfill(5) + after
    frame = pl.DataFrame({"code": codes, "label": labels})
    return frame.select(pl.when(pl.col("label") >= 0).then("code").alias(name))[name]
