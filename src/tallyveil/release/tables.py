"""Published tables: every answer of the workload for every geounit, in long form."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.geography.spine import Spine
from tallyveil.measurements.store import query_folder
from tallyveil.release.columns import enum_column
from tallyveil.storage.write import write_parquet
from tallyveil.universe.counts import PublicCounts
from tallyveil.universe.query_group import QueryGroup

TABLES = "tables"
ROWS_PER_PART = 1 << 22


def table_folder(root: Path, geolevel: str, query: str) -> Path:
    """Folder of the parts of one table."""
    return root / TABLES / geolevel / query_folder(query)


def write_table(
    root: Path, counts: PublicCounts, group: QueryGroup, spine: Spine, metadata: Mapping[str, str]
) -> Iterator[int]:
    """Write `geolevel, geocode, query, answer, count` for every geounit, zeros included.

    Yields:
        Rows written after each part.
    """
    level = spine.level_index(counts.geolevel)
    labels = group.labels()
    size = group.size
    geounits_per_part = max(1, ROWS_PER_PART // size)
    folder = table_folder(root, counts.geolevel, group.name)
    for part, start in enumerate(range(0, counts.n_geounits, geounits_per_part)):
        stop = min(start + geounits_per_part, counts.n_geounits)
        answers = group.apply(*counts.rows(start, stop), stop - start)
        n_rows = answers.size
        answer = np.tile(np.arange(size), stop - start)
        geocodes = pl.Series("geocode", spine.geocodes[level][start:stop], dtype=pl.String)
        frame = pl.DataFrame(
            {
                "geolevel": pl.Series([counts.geolevel]).new_from_index(0, n_rows),
                "geocode": geocodes.gather(np.repeat(np.arange(stop - start), size)),
                "query": pl.Series([group.name]).new_from_index(0, n_rows),
                "answer": enum_column("answer", labels, answer),
                "count": answers.ravel(),
            }
        )
        write_parquet(folder / f"part-{part:05d}.parquet", frame, {**metadata, "query": group.name})
        yield n_rows
