"""Sizes of geounits (numbers of records) in the published counts."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.errors import StoreError
from tallyveil.files.histograms import histogram_path
from tallyveil.files.manifest_files import require_unchanged
from tallyveil.report.release_files import ReleaseFiles
from tallyveil.storage.read import UNREADABLE, parquet_columns, scan_parquet


@dataclass(frozen=True, slots=True, eq=False)
class GeolevelSizes:
    """Sizes of one geolevel, as published.

    Attributes:
        geolevel: Name.
        geounits: Number of geounits, including empty ones.
        empty: Number of geounits without a published record.
        nonzero_cells: Number of published counts above zero.
        records: Number of published records.
        totals: Number of published records in each geounit that is not empty, sorted from small to large.
    """

    geolevel: str
    geounits: int
    empty: int
    nonzero_cells: int
    records: int
    totals: NDArray[np.int64]

    @property
    def median(self) -> int:
        """Lower median of the sizes of all geounits, including empty ones."""
        # `totals` leaves out empty geounits, which stand before all others in the order.
        place = (self.geounits + 1) // 2 - self.empty - 1
        return int(self.totals[place]) if place >= 0 else 0

    @property
    def largest(self) -> int:
        """Size of the largest geounit."""
        return int(self.totals[-1]) if len(self.totals) else 0


def geolevel_sizes(files: ReleaseFiles) -> tuple[GeolevelSizes, ...]:
    """Sizes at every geolevel, root first.

    Raises:
        StoreError: a published histogram is missing or damaged.
    """
    return tuple(_sizes(files, geolevel) for geolevel in files.geolevels)


def attribute_names(files: ReleaseFiles) -> list[str]:
    """Names of the attributes of the published counts: all columns except geocode and count."""
    path = histogram_path(files.root, files.geolevels[0])
    try:
        names = parquet_columns(path)
    except UNREADABLE as error:
        raise _unreadable(str(path), error) from None
    return [name for name in names if name not in ("geocode", "count")]


def _sizes(files: ReleaseFiles, geolevel: str) -> GeolevelSizes:
    path = histogram_path(files.root, geolevel)
    require_unchanged(files.root, files.manifest, path)
    try:
        counts = scan_parquet(path).select("geocode", pl.col("count").cast(pl.Int64))
        # Streaming, and sorted inside the query: only one number for each geounit comes back.
        totals = counts.group_by("geocode").agg(pl.col("count").sum()).select(pl.col("count").sort())
        records = totals.collect(engine="streaming")["count"].to_numpy()
    except UNREADABLE as error:
        raise _unreadable(str(path), error) from None
    stated = files.manifest.body["sizes"]["geolevels"][geolevel]
    return GeolevelSizes(
        geolevel=geolevel,
        geounits=stated["geounits"],
        # The published histogram has no rows of empty geounits, so their number is that of the manifest less
        # those that occur.
        empty=stated["geounits"] - len(records),
        nonzero_cells=stated["nonzero_cells"],
        records=int(records.sum()),
        totals=records,
    )


def _unreadable(path: str, error: Exception) -> StoreError:
    return StoreError(
        f"{path} cannot be read: {type(error).__name__}. Restore the folder as the run left it.",
        code="release-unreadable",
    )
