from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.files.manifest import listed_file
from tallyveil.files.manifest_files import write_manifest, written_manifest
from tallyveil.products.topdown.page.short import attribute_names, geolevel_sizes
from tallyveil.report.release_files import read_release_files


def test_sizes_are_those_of_the_published_counts(make_race_age: Callable[..., Path]) -> None:
    root = make_race_age()
    files = read_release_files(root)
    for item in geolevel_sizes(files):
        frame = pl.read_parquet(root / "histogram" / f"{item.geolevel}.parquet")
        totals: dict[str, int] = {}
        for geocode, count in zip(frame["geocode"], frame["count"], strict=True):
            totals[geocode] = totals.get(geocode, 0) + count
        every = sorted([0] * (item.geounits - len(totals)) + list(totals.values()))
        assert item.empty == every.count(0)
        assert item.records == sum(every) == 200_000
        assert item.largest == every[-1]
        assert item.median == int(np.quantile(every, 0.5, method="inverted_cdf"))
        assert item.nonzero_cells == frame.height
    assert attribute_names(files) == ["voting_age", "race_ethnicity"]


def test_a_release_of_nobody_has_sizes(make_race_age: Callable[..., Path]) -> None:
    root = make_race_age()
    for path in (root / "histogram").iterdir():
        tags = pl.read_parquet_metadata(path)
        pl.read_parquet(path).clear().write_parquet(path, metadata={"tallyveil.run": tags["tallyveil.run"]})
    manifest = written_manifest(root)
    write_manifest(
        root, replace(manifest, files=tuple(listed_file(root, file.path) for file in manifest.files))
    )
    finest = geolevel_sizes(read_release_files(root))[-1]
    assert (finest.records, finest.largest, finest.median, finest.empty) == (0, 0, 0, 25_181)
