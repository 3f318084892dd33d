"""The public hierarchy of a release, so that a release folder can be read without the release file."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.spine import Spine
from tallyveil.storage.write import write_parquet

GEOGRAPHY = "geography.parquet"


def write_geography(root: Path, spine: Spine, metadata: Mapping[str, str]) -> None:
    """Write one row a finest geounit, with its geocode at every geolevel, root first."""
    columns = [
        pl.Series(geolevel, spine.geocodes[level], dtype=pl.String).gather(spine.ancestors(level))
        for level, geolevel in enumerate(spine.geolevels)
    ]
    write_parquet(root / GEOGRAPHY, pl.DataFrame(columns), metadata)


def read_geography(root: Path) -> Spine:
    """The spine of a release folder."""
    frame = pl.read_parquet(root / GEOGRAPHY)
    return spine_from_columns({name: frame[name] for name in frame.columns}, frame.columns)
