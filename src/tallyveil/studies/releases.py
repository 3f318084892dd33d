"""Make a release of public counts with the real TopDown, and read the counts that it publishes."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from tallyveil.release.histograms import histogram_path
from tallyveil.storage.read import read_parquet
from tallyveil.storage.write import write_parquet, write_text
from tallyveil.studies.exhibit import StudyInputs

RECORDS, GEOGRAPHY = "records.parquet", "geography.parquet"
"""Names of the input files, for the release file."""


def published_counts(
    inputs: StudyInputs,
    release: str,
    records: pl.DataFrame,
    geography: pl.DataFrame,
    geolevels: Sequence[str],
    key: str,
) -> dict[str, pl.DataFrame]:
    """Counts that a release publishes, by geolevel; the release itself is removed.

    Args:
        inputs: The inputs of the exhibit; they make the release.
        release: Text of the release file. It names `RECORDS` and `GEOGRAPHY`, without a folder.
        records: Table of records. It is public: the key is known, so that nothing here protects it.
        geography: All finest geounits.
        geolevels: Geolevels whose counts are wanted.
        key: Text that stands for the test key.
    Returns:
        For each geolevel the counts above zero: `geocode`, a column for each attribute, and `count`.
    Raises:
        TallyveilError: the release cannot be made.
    """
    with TemporaryDirectory(prefix="tallyveil-study-") as name:
        folder = Path(name)
        write_parquet(folder / RECORDS, records, {})
        write_parquet(folder / GEOGRAPHY, geography, {})
        write_text(folder / "release.toml", release)
        inputs.make_release(folder / "release.toml", folder / "out", key)
        return {geolevel: read_parquet(histogram_path(folder / "out", geolevel)) for geolevel in geolevels}
