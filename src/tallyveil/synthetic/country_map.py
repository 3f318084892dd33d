"""A made-up map: a polygon for every block, without gaps or overlaps in a state.

A state is a square of cells, ordered along a Hilbert curve. Each block is an interval of that curve, in the order of
geocodes. Neighbouring cells of the curve share an edge, so blocks hang together. So does every geounit: its blocks
are an interval, too. The corners of cells are moved by less than half a cell, so that borders look drawn by hand and
cells stay convex.

A block has no hole and touches itself nowhere. Take two cells of an interval that touch only at a corner, or a hole:
cells of the interval would then go around a cell outside. But all cells outside are joined, along the curve, to its
begin or its end, which lie in corners of the square.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Bytes, Floats, Integers
from tallyveil.synthetic.entities import CURVE_ORDER, curve_cells, state_corner

_STREAM: Final = 0x6D6170  # a separate random stream from those that make people and entities
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
        generator = np.random.Generator(np.random.PCG64([seed, _STREAM, number]))
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
