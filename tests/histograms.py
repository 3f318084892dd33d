"""Histograms from triplets, for tests that state true counts themselves."""

from tallyveil.arrays import Integers
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.schema.counts import compress_rows


def histogram_from_triplets(
    geolevel: str, n_geounits: int, rows: Integers, cells: Integers, counts: Integers
) -> ConfidentialHistogram:
    """Sort and sum (geounit, cell, count) triplets. Zero sums are dropped."""
    return ConfidentialHistogram(geolevel, *compress_rows(n_geounits, rows, cells, counts))
