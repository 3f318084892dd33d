"""The made-up geography: States, counties, tracts, block groups and blocks, areas that cross them, and a map.

Areas that cross tracts and block groups are places, county subdivisions, school districts and tribal areas.

The map has a polygon for every block, without gaps or overlaps in a state. A state is a square of cells,
ordered along a Hilbert curve. Each block is an interval of that curve, in the order of geocodes. Neighbouring
cells of the curve share an edge, so blocks hang together. So does every geounit: its blocks are an interval,
too. The corners of cells are moved by less than half a cell, so that borders look drawn by hand and cells
stay convex.

A block has no hole and touches itself nowhere. Take two cells of an interval that touch only at a corner, or
a hole: cells of the interval would then go around a cell outside. But all cells outside are joined, along the
curve, to its begin or its end, which lie in corners of the square.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Bytes, Floats, Integers
from tallyveil.errors import ConfigError

GEOGRAPHY_COLUMNS = ("geocode", "state", "county", "tract", "block_group")
"""Columns of the geography table: the block's geocode, then those of the geounits that contain it."""

# States are numbered upwards to 99. Codes of up to 21 states are above the last code of a real state or territory (78).
# With more states, some codes are the same as codes of real states.
LAST_STATE, MOST_STATES = 99, 51
# Blocks in a state where the number of states is left open. Twice as many halve the states and double the memory,
# because one state is made at a time.
BLOCKS_PER_STATE = 400_000
# Largest number of blocks, above the 11 million of the 2010 Census.
LARGEST_COUNTRY = 12_000_000

# Sizes of the census hierarchy, measured on the published geography of 2010.
BLOCKS_PER_BLOCK_GROUP_MEAN, BLOCKS_PER_BLOCK_GROUP_SPREAD = 30.0, 0.6
# Mean number of block groups of a tract. The codes allow nine, and a mean near it would cut the draws off there.
BLOCK_GROUPS_PER_TRACT_MEAN = 3.5
TRACTS_PER_COUNTY_MEDIAN, TRACTS_PER_COUNTY_SPREAD = 20.0, 1.0


def make_geography(
    n_blocks: int, generator: np.random.Generator, n_states: int | None = None
) -> pl.DataFrame:
    """Lay out a country.

    Args:
        n_blocks: Number of blocks.
        generator: Source of the random sizes.
        n_states: Wanted number of states. There are fewer if there are fewer counties. None gives one state for every
            400,000 blocks.
    Returns:
        One row for each block, sorted by geocode, with columns `GEOGRAPHY_COLUMNS`, all strings. A geocode has 15
        digits: state 2, county 3, tract 6, block group 1, block 3. Each geounit's geocode is a prefix of its blocks'
        geocodes.
    Raises:
        ConfigError: the number of blocks is not between 1 and 12 million, or the number of states is not between 1
            and 51.
    """
    if not 1 <= n_blocks <= LARGEST_COUNTRY:
        raise ConfigError(f"number of blocks: got {n_blocks}, wanted 1 to {LARGEST_COUNTRY}.")
    if n_states is None:
        n_states = math.ceil(n_blocks / BLOCKS_PER_STATE)
    if not 1 <= n_states <= MOST_STATES:
        raise ConfigError(f"number of states: got {n_states}, wanted 1 to {MOST_STATES}.")
    block_groups = _block_group_of_block(n_blocks, generator)
    tracts = _tract_of_block_group(int(block_groups[-1]) + 1, generator)
    counties = _county_of_tract(int(tracts[-1]) + 1, generator)
    states = _state_of_county(counties, n_states)
    state_code = states + (LAST_STATE - states[-1])
    # Real county codes are odd, so that new counties can be inserted between them.
    county_code = state_code * 1_000 + 2 * _rank_within(states) + 1
    tract_code = county_code[counties] * 1_000_000 + 100 * (101 + _rank_within(counties))
    block_group_code = tract_code[tracts] * 10 + 1 + _rank_within(tracts)
    block_code = block_group_code[block_groups] * 1_000 + _rank_within(block_groups)
    geocode = pl.Series("geocode", block_code).cast(pl.String)
    widths = zip(GEOGRAPHY_COLUMNS[1:], (2, 5, 11, 12), strict=True)
    return pl.DataFrame([geocode, *(geocode.str.slice(0, width).alias(name) for name, width in widths)])


def _block_group_of_block(n_blocks: int, generator: np.random.Generator) -> NDArray[np.int64]:
    mean, spread = BLOCKS_PER_BLOCK_GROUP_MEAN, BLOCKS_PER_BLOCK_GROUP_SPREAD
    # Every block group has at least two blocks, so half as many draws as blocks are enough.
    draws = generator.lognormal(math.log(mean) - spread**2 / 2, spread, n_blocks // 2 + 1)
    return _fill(np.clip(np.rint(draws), 2, 999), n_blocks)


def _tract_of_block_group(n_block_groups: int, generator: np.random.Generator) -> NDArray[np.int64]:
    # A block group's code is one digit, 1 to 9.
    draws = 1 + generator.poisson(BLOCK_GROUPS_PER_TRACT_MEAN - 1, n_block_groups)
    return _fill(np.minimum(draws, 9), n_block_groups)


def _county_of_tract(n_tracts: int, generator: np.random.Generator) -> NDArray[np.int64]:
    # A small country still has several counties, so that every geolevel has some content.
    median = min(TRACTS_PER_COUNTY_MEDIAN, max(2.0, n_tracts / 5))
    largest = min(2_500, max(1, n_tracts // 3))
    draws = generator.lognormal(math.log(median), TRACTS_PER_COUNTY_SPREAD, n_tracts)
    return _fill(np.clip(np.rint(draws), 1, largest), n_tracts)


def _state_of_county(counties: NDArray[np.int64], n_states: int) -> NDArray[np.int64]:
    """Divide counties, in order, into states with about equal numbers of tracts; shape (n_counties,)."""
    tracts = np.bincount(counties)
    middle = np.cumsum(tracts) - tracts / 2
    states = np.minimum((middle * n_states / tracts.sum()).astype(np.int64), n_states - 1)
    # A county that is larger than a state would leave a gap in the numbering.
    return np.unique(states, return_inverse=True)[1].astype(np.int64)


def _fill(sizes: NDArray[np.float64] | NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Put `total` things into boxes of given sizes, in order; returns the box of each thing, shape (total,)."""
    ends = np.cumsum(sizes.astype(np.int64))
    return np.searchsorted(ends, np.arange(total), side="right").astype(np.int64)


def _rank_within(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of each entry within its group; `groups` is sorted."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    rank: NDArray[np.int64] = np.arange(len(groups)) - starts[groups]
    return rank


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
_AREAS_STREAM = 0x656E74  # a separate random stream from those that make people
STRETCH = 512
"""Blocks whose nearest centres are found together. Half as many take twice as many steps; with twice as many, each of
them meets twice as many centres that cannot be nearest to it."""
ROUNDING = 1e-9
"""Far more than the relative rounding of a squared distance."""
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
        generator = np.random.Generator(np.random.PCG64([seed, _AREAS_STREAM, number]))
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
    return _nearest(points, generator.random((n, 2)))[1]


def _discs(points: Floats, n: int, share: float, spread: float, generator: np.random.Generator) -> Integers:
    """The nearest of n centres if it is within its radius, otherwise -1. Discs cover about `share` of the square."""
    centre, radius = generator.random((n, 2)), generator.lognormal(0.0, spread, n)
    # The areas of all discs add up to the share; overlaps make the covered part a little smaller.
    radius *= np.sqrt(share / np.pi / np.sum(radius**2))
    distance, nearest = _nearest(points, centre)
    area: Integers = np.where(distance < radius[nearest], nearest, -1).astype(np.int64)
    return area


def _nearest(points: Floats, centres: Floats) -> tuple[Floats, Integers]:
    """For each point, the distance of the nearest centre and its number."""
    distance, nearest = np.empty(len(points)), np.empty(len(points), np.int64)
    # Points follow the curve, so a stretch of them lies in a small rectangle, and few centres can be nearest to one of
    # them: those whose distance from the rectangle is at most the least distance to its farthest corner.
    for start in range(0, len(points), STRETCH):
        part = points[start : start + STRETCH]
        low, high = part.min(axis=0), part.max(axis=0)
        least = np.sum((centres - np.clip(centres, low, high)) ** 2, axis=1)
        most = np.sum(np.maximum(centres - low, high - centres) ** 2, axis=1)
        near = np.flatnonzero(least <= most.min() * (1 + ROUNDING))
        x, y = (np.subtract.outer(centres[near, axis], part[:, axis]) for axis in (0, 1))
        squares = x * x + y * y
        nearest[start : start + STRETCH] = near[squares.argmin(axis=0)]
        distance[start : start + STRETCH] = np.sqrt(squares.min(axis=0))
    return distance, nearest


def _named(name: str, before: str, labels: Integers, after: str = "") -> pl.Series:
    """Codes of five digits, with the state's code before or after them; null for -1."""
    codes = before + pl.Series(labels).cast(pl.String).str.zfill(5) + after
    frame = pl.DataFrame({"code": codes, "label": labels})
    return frame.select(pl.when(pl.col("label") >= 0).then("code").alias(name))[name]


_MAP_STREAM: Final = 0x6D6170  # a separate random stream from those that make people and entities
_CELLS_PER_BLOCK: Final = 2
"""A block has at least so many cells, and less than four times as many, where the curve is fine enough."""
_SHIFT: Final = 0.25
"""Largest shift of a corner along each axis, in cells. With 0.25, moved cells stay convex."""
# Decimals of a degree that are written, 0.1 m on the ground. With half as many, corners of one block fall together.
_DECIMALS: Final = 6
_HEAD: Final = np.frombuffer(b"\x01" + (3).to_bytes(4, "little") + (1).to_bytes(4, "little"), dtype=np.uint8)
"""Begin of a polygon of one ring as little-endian well-known binary."""
# Bytes of a point: two float64.
_POINT_BYTES: Final = 16
_EDGES: Final = np.array([[0, 0, 0, -1], [1, 0, 1, 0], [1, 1, 0, 1], [0, 1, -1, 0]])
"""Edges of a cell, counter-clockwise: its first corner (x, y) from the cell's, and the neighbour behind it (x, y)."""


def make_map(geography: pl.DataFrame, seed: int) -> Iterator[pl.DataFrame]:
    """Make up a polygon for every block, one state at a time.

    Args:
        geography: Columns geocode and state, sorted by geocode.
        seed: The same seed makes the same map.
    Yields:
        For each state, its blocks with geocode and geometry: well-known binary in longitude and latitude.
    """
    ends = np.cumsum(geography["state"].rle().struct.field("len").to_numpy()).tolist()
    for number, (start, stop) in enumerate(pairwise([0, *ends])):
        generator = np.random.Generator(np.random.PCG64([seed, _MAP_STREAM, number]))
        codes = geography["geocode"].slice(start, stop - start)
        yield pl.DataFrame([codes, pl.Series("geometry", _polygons(len(codes), number, generator))])


def _polygons(n: int, number: int, generator: np.random.Generator) -> list[bytes]:
    """The polygons of a state's blocks, in order."""
    block = _block_of_cell(n)
    side = len(block)
    corners = _corners(side, number, generator)
    owner, first, second = _borders(block)
    lengths = np.bincount(owner, minlength=n)
    rings = _rings(owner, first, second, lengths)
    return _as_wkb(corners[rings], lengths)


def _block_of_cell(n: int) -> Integers:
    """The block of every cell of a state's square; shape (side, side), indexed by x and y."""
    order = 1
    while 4**order < _CELLS_PER_BLOCK * n and order < CURVE_ORDER:
        order += 1
    places = np.arange(4**order, dtype=np.int64)
    x, y = curve_cells(places * 4 ** (CURVE_ORDER - order))
    block = np.empty((2**order, 2**order), dtype=np.int64)
    block[x >> (CURVE_ORDER - order), y >> (CURVE_ORDER - order)] = places * n // len(places)
    return block


def _corners(side: int, number: int, generator: np.random.Generator) -> Floats:
    """Longitude and latitude of every corner of a cell; shape ((side + 1)^2, 2). Those of the outer border stay put."""
    grid = np.stack(np.meshgrid(np.arange(side + 1.0), np.arange(side + 1.0), indexing="ij"), axis=-1)
    grid[1:-1, 1:-1] += generator.uniform(-_SHIFT, _SHIFT, (side - 1, side - 1, 2))
    corners: Floats = np.round(grid.reshape(-1, 2) / side + state_corner(number), _DECIMALS)
    return corners


def _borders(block: Integers) -> tuple[Integers, Integers, Integers]:
    """The edges of cells behind which another block begins: block, first and second corner, sorted by both."""
    side = len(block)
    # A border of -1 around the square, so that its edge is a border of the blocks there too.
    around = np.pad(block, 1, constant_values=-1)
    edges = []
    for number, (dx, dy, beyond_x, beyond_y) in enumerate(_EDGES):
        other = around[1 + beyond_x : 1 + beyond_x + side, 1 + beyond_y : 1 + beyond_y + side]
        x, y = np.nonzero(other != block)
        next_dx, next_dy = _EDGES[(number + 1) % 4, :2]
        first = (x + dx) * (side + 1) + y + dy
        second = (x + next_dx) * (side + 1) + y + next_dy
        edges.append((block[x, y], first, second))
    owner, begin, end = (np.concatenate(parts) for parts in zip(*edges, strict=True))
    # Sorted by block and first corner, so that the edge that goes on from a corner is found by a binary search.
    order = np.lexsort((begin, owner))
    return owner[order], begin[order], end[order]


def _rings(owner: Integers, first: Integers, second: Integers, lengths: Integers) -> Integers:
    """The corners of every block's ring in order, one ring after the other.

    All rings are walked at once, an edge at a time. A block leaves each corner of its border by one edge.
    """
    n_corners = int(max(first.max(), second.max())) + 1
    following = np.searchsorted(owner * n_corners + first, owner * n_corners + second)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    rings, place = np.empty(len(owner), dtype=np.int64), starts.copy()
    for step in range(int(lengths.max())):
        going = lengths > step
        rings[starts[going] + step] = first[place[going]]
        place = following[place]
    return rings


def _as_wkb(points: Floats, lengths: Integers) -> list[bytes]:
    """Polygons of one ring each as well-known binary; each ring ends at its first point."""
    ends = np.cumsum(lengths)
    starts = ends - lengths
    order = np.insert(np.arange(len(points)), ends, starts)
    data: Bytes = points[order].astype("<f8").view(np.uint8).reshape(-1)
    # A ring repeats its first point at its end, and so has one point more than corners.
    counts = (lengths + 1).astype("<u4")
    head, whole, shapes, begin = _HEAD.tobytes(), data.tobytes(), [], 0
    for count in counts:
        size = int(count) * _POINT_BYTES
        shapes.append(head + count.tobytes() + whole[begin : begin + size])
        begin += size
    return shapes
