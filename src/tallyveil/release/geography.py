"""The public hierarchy of a release, so that a release folder can be read without the release file."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.spine import Spine
from tallyveil.storage.write import write_parquet_chunks

GEOGRAPHY = "geography.parquet"
GEOUNITS_AT_ONCE = 1 << 20


def write_geography(root: Path, spine: Spine, metadata: Mapping[str, str]) -> None:
    """Write one row a finest geounit, with its geocode at every geolevel, root first."""
    starts = [spine.finest_offsets(level) for level in range(spine.n_levels)]

    def frames() -> Iterator[pl.DataFrame]:
        for begin in range(0, spine.n_geounits(spine.finest), GEOUNITS_AT_ONCE):
            finest = np.arange(begin, min(begin + GEOUNITS_AT_ONCE, spine.n_geounits(spine.finest)))
            yield pl.DataFrame(
                [
                    spine.geocodes[level]
                    .text.alias(geolevel)
                    .gather(np.searchsorted(starts[level], finest, side="right") - 1)
                    for level, geolevel in enumerate(spine.geolevels)
                ]
            )

    write_parquet_chunks(root / GEOGRAPHY, frames(), metadata)


def read_geography(root: Path) -> Spine:
    """The spine of a release folder."""
    frame = pl.read_parquet(root / GEOGRAPHY)
    return spine_from_columns({name: frame[name] for name in frame.columns}, frame.columns)
