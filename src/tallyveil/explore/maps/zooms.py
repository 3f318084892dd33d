"""The zooms for which tiles of a kind of area are made.

At zoom z the world is 2^z by 2^z tiles, and a tile is 4,096 by 4,096 units. Beyond the greatest zoom, pages
enlarge the tiles of this one.
"""

from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import Floats

EXTENT: Final = 4096
"""Units along the side of a tile."""
MOST_FEATURES: Final = 16_000
"""Areas in a tile from which on it would load slowly: pages show a coarser kind instead."""
MOST_TILES: Final = 20_000
"""Tiles of a kind at one zoom, at most, unless its smallest zoom needs more."""
GREATEST: Final = 16
"""Greatest zoom: a tile is then about 600 m wide at the equator. One more zoom makes four times as many tiles."""
_DETAIL: Final = 48.0
"""Units along the side of a finest geounit of middle size at the greatest zoom."""
_OUT: Final = 2
"""Zooms by which one may zoom out from the whole map."""


class Zooms(NamedTuple):
    """Smallest and greatest zoom for which tiles are made."""

    least: int
    greatest: int


def sharpest(boxes: Floats) -> int:
    """The greatest zoom that pages need, from the boxes of finest geounits on the plane; shape (n, 4)."""
    # The median, because a few huge areas of water or desert would make a mean that fits no block.
    sides = np.sqrt(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1))
    middle = float(np.median(sides))
    wanted = _DETAIL / EXTENT / middle if middle > 0 else 2.0**GREATEST
    return int(np.clip(np.ceil(np.log2(max(wanted, 1.0))), 0, GREATEST))


def zooms_of(boxes: Floats, greatest: int) -> Zooms:
    """The zooms of a kind of areas.

    Args:
        boxes: Boxes of its areas on the plane; shape (n, 4).
        greatest: What `sharpest` says.
    """
    whole = np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])
    side = float((whole[2:] - whole[:2]).max())
    fits = int(np.clip(np.floor(-np.log2(max(side, 2.0**-GREATEST))), 0, GREATEST))
    least = max(fits - _OUT, 0)
    # A tile with too many areas loads slowly, so the kind begins at a finer zoom.
    while least < GREATEST and _most_in_a_tile(boxes, least) > MOST_FEATURES:
        least += 1
    # At least one zoom, also where the smallest is beyond what pages need.
    greatest = max(greatest, least)
    while greatest > least and _tiles(whole, greatest) > MOST_TILES:
        greatest -= 1
    return Zooms(least, greatest)


def _most_in_a_tile(boxes: Floats, zoom: int) -> int:
    """The largest number of areas whose middle lies in one tile."""
    middles = np.floor((boxes[:, :2] + boxes[:, 2:]) / 2 * 2**zoom).astype(np.int64)
    return int(np.unique(middles, axis=0, return_counts=True)[1].max())


def _tiles(whole: Floats, zoom: int) -> int:
    """Number of tiles that the box of all areas touches."""
    ends = np.floor(whole * 2**zoom)
    return int(np.prod(ends[2:] - ends[:2] + 1))
