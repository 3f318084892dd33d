"""Geocodes of the layout for a spine: each begins with its parent's, and a block's ends with its tabulation block.

A spine of tabulation geounits keeps its geocodes. Any other geounit gets the geocode of its parent and its number among
the parent's children. In both cases the order of geounits stays.
"""

from typing import Final

import numpy as np
import polars as pl

from tallyveil.errors import GeographyError
from tallyveil.geography.spine import Spine
from tallyveil.measurements.layouts.census_2020.names import GEOLEVELS

# Digits of a tabulation geocode that name its geounit at each geolevel.
_DIGITS: Final = {"State": 2, "County": 5, "Tract": 11, "Block_Group": 12}


def published_geocodes(spine: Spine) -> tuple[pl.Series, ...]:
    """Geocodes of all geounits by geolevel, in the order of the spine.

    Raises:
        GeographyError: the geolevels are not those of the layout, or a block's geocode does not have 15 digits.
    """
    _require_geolevels(spine)
    blocks = spine.geocodes[-1].text
    if not bool(blocks.str.contains(r"^[0-9]{15}$").all()):
        bad = blocks.filter(~blocks.str.contains(r"^[0-9]{15}$"))
        raise GeographyError(
            f"the geocode {bad[0]!a:.60} of {spine.geolevels[-1]} does not have 15 digits: State (2), county (3), "
            'tract (6) and block (4). The layout "census-2020" needs them. Write the layout "tidy", which takes any '
            "geocodes.",
            code="layout-unsuited",
        )
    # The files write the number of the block group by itself, too.
    long = blocks.str.slice(0, 11) + blocks.str.slice(11, 1) + blocks.str.slice(11)
    tabulated = tuple(_tabulated(spine, level, long) for level in range(spine.finest))
    if all(column is not None for column in tabulated):
        return (*(column for column in tabulated if column is not None), long)
    # From here on geocodes are made up: parents first, so that each begins with that of its parent.
    codes = [_first(spine)]
    for level in range(1, spine.n_levels):
        parents = spine.parents(level)
        number = np.arange(len(parents)) - spine.child_offsets[level - 1][parents]
        # One width for a geolevel, because all its geocodes have one length.
        width = len(str(int(number.max(initial=0))))
        numbers = pl.Series(number).cast(pl.String).str.zfill(width) if level < spine.finest else long
        codes.append(codes[-1].gather(parents) + numbers)
    return tuple(codes)


def _first(spine: Spine) -> pl.Series:
    """Geocodes of the roots: empty for the US, else numbers."""
    roots = spine.n_geounits(0)
    if spine.geolevels[0] == GEOLEVELS[0] and roots == 1:
        return pl.Series([""])
    return pl.Series(np.arange(roots)).cast(pl.String).str.zfill(len(str(roots)))


def _tabulated(spine: Spine, level: int, blocks: pl.Series) -> pl.Series | None:
    """Geocodes of a geolevel whose geounits are those of the tabulation geography; None for another geolevel."""
    name = spine.geolevels[level]
    if name == GEOLEVELS[0]:
        return pl.Series([""]) if spine.n_geounits(level) == 1 else None
    codes = spine.geocodes[level].text
    of_blocks = blocks.str.slice(0, _DIGITS[name])
    # Compared at the blocks: a geolevel is that of the tabulation if every block agrees.
    return codes if codes.gather(spine.ancestors(level)).equals(of_blocks) else None


def _require_geolevels(spine: Spine) -> None:
    names = spine.geolevels
    if names not in (GEOLEVELS, GEOLEVELS[1:]):
        raise GeographyError(
            f'the measurements have the geolevels {", ".join(names)}; the layout "census-2020" has '
            f'{", ".join(GEOLEVELS)}, where US may be left out. Write the layout "tidy", which takes any geolevels.',
            code="layout-unsuited",
        )
