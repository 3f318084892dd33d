"""Make a release of public counts with the real TopDown, and read the counts that it publishes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from tallyveil.files.histograms import histogram_path
from tallyveil.storage.read import read_parquet
from tallyveil.storage.write import write_parquet, write_text
from tallyveil_studies.exhibit import StudyInputs

_RECORDS, _GEOGRAPHY = "records.parquet", "geography.parquet"


def release_text(name: str, digits: Mapping[str, int], tables: str) -> str:
    """The text of a release file of persons by race and age, whose histograms alone are wanted.

    Args:
        name: Name of the release.
        digits: The geolevels, root first, and the digits of their geocodes.
        tables: The tables that say how the release is made, such as [privacy] and [strategy].
    """
    return f"""
[release]
name = "{name}"
[records]
path = "{_RECORDS}"
count = "count"
[geography]
path = "{_GEOGRAPHY}"
geolevels = {list(digits)}
prefix_lengths = {list(digits.values())}
[schema]
preset = "race-age"
[outputs]
measurements = "none"
microdata = false
{tables}"""


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
        release: Text of the release file, made by `release_text`.
        records: Table of records. It is public: the key is known, so that nothing here protects it.
        geography: All finest geounits.
        geolevels: Geolevels whose counts are wanted.
        key: Text that stands for the test key.
    Returns:
        For each geolevel the counts above zero: `geocode`, a column for each attribute, and `count`.
    Raises:
        TallyveilError: the release cannot be made.
    """
    # Removed with everything in it: a release with a known key must not be left where it could be mistaken.
    with TemporaryDirectory(prefix="tallyveil-study-") as name:
        folder = Path(name)
        # Public counts, written as records so that the path is that of every release.
        write_parquet(folder / _RECORDS, records, {})
        write_parquet(folder / _GEOGRAPHY, geography, {})
        write_text(folder / "release.toml", release)
        inputs.make_release(folder / "release.toml", folder / "out", insecure_test_key=key)
        return {geolevel: read_parquet(histogram_path(folder / "out", geolevel)) for geolevel in geolevels}
