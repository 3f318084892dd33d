"""Measurement files: Parquet anyone can read, in parts of bounded size.

Layout: `measurements/<geolevel>/<query>/part-00000.parquet` with columns `geocode` (text), `values` (list of
whole numbers, one an answer) and `variance` (persons squared); `measurements/answers.parquet` names the answers.
A `*` in a query's name is written `.` in its folder.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.errors import StoreError
from tallyveil.geography.spine import Spine
from tallyveil.measurements.measurements import Int64Array, MeasurementSource, NoisyMeasurements
from tallyveil.storage.write import write_parquet
from tallyveil.universe.query_group import QueryGroup

FOLDER = "measurements"
VALUES_PER_PART = 1 << 23


def query_folder(query: str) -> str:
    """Folder name of a query group: a `*` means something to shells, so it is written `.`."""
    return query.replace("*", ".")


def write_measurements(
    root: Path,
    source: MeasurementSource,
    spine: Spine,
    geolevel: str,
    group: QueryGroup,
    metadata: Mapping[str, str],
) -> Iterator[int]:
    """Measure every geounit of a geolevel for one query group and write it part by part.

    A part that is already there is kept: measuring it again would give the same bytes.

    Yields:
        Number of values finished after each part.
    Raises:
        StoreError: a part cannot be written.
    """
    level = spine.level_index(geolevel)
    answers = np.arange(group.size, dtype=np.int64)
    rows = max(1, VALUES_PER_PART // group.size)
    folder = root / FOLDER / geolevel / query_folder(group.name)
    for part, start in enumerate(range(0, spine.n_geounits(level), rows)):
        stop = min(start + rows, spine.n_geounits(level))
        path = folder / f"part-{part:05d}.parquet"
        if not path.exists():
            measured = source.measure(geolevel, group.name, start, stop, answers)
            frame = _frame(measured, spine.geocodes[level][start:stop])
            write_parquet(path, frame, {**metadata, "query": group.name, "geolevel": geolevel})
        yield (stop - start) * group.size


def write_answer_labels(root: Path, groups: Sequence[QueryGroup], metadata: Mapping[str, str]) -> None:
    """Write the dictionary of answers: one row an answer with its query, its number and its label."""
    frames = [
        pl.DataFrame(
            {
                "query": [group.name] * group.size,
                "answer": np.arange(group.size, dtype=np.int64),
                "label": group.labels(),
            }
        )
        for group in groups
    ]
    write_parquet(root / FOLDER / "answers.parquet", pl.concat(frames), metadata)


class StoredMeasurements:
    """Measurements read back from the files of a run; holds one geolevel of one query at a time per key."""

    def __init__(self, root: Path, spine: Spine) -> None:
        self._root = root
        self._spine = spine
        self._loaded: dict[tuple[str, str], tuple[Int64Array, float]] = {}

    def measure(
        self, geolevel: str, query: str, start: int, stop: int, answers: Int64Array
    ) -> NoisyMeasurements:
        """Noisy values as written; same signature and same values as the source that wrote them.

        Raises:
            StoreError: the files are absent or of another geography.
        """
        values, variance = self._load(geolevel, query)
        return NoisyMeasurements(geolevel, query, start, answers, values[start:stop][:, answers], variance)

    def _load(self, geolevel: str, query: str) -> tuple[Int64Array, float]:
        key = geolevel, query
        if key not in self._loaded:
            if any(loaded_level != geolevel for loaded_level, _ in self._loaded):
                self._loaded.clear()
            self._loaded[key] = self._read(geolevel, query)
        return self._loaded[key]

    def _read(self, geolevel: str, query: str) -> tuple[Int64Array, float]:
        folder = self._root / FOLDER / geolevel / query_folder(query)
        parts = sorted(folder.glob("part-*.parquet"))
        if not parts:
            raise StoreError(
                f"no measurements of '{query}' at {geolevel} in {folder}.", code="measurements-missing"
            )
        frame = pl.concat([pl.read_parquet(part) for part in parts])
        expected = self._spine.geocodes[self._spine.level_index(geolevel)]
        if frame.height != len(expected) or not np.array_equal(frame["geocode"].to_numpy(), expected):
            raise StoreError(
                f"the measurements in {folder} are of another geography than the one given.",
                code="measurements-mismatch",
            )
        width = len(frame["values"][0])
        values = frame["values"].cast(pl.Array(pl.Int64, width)).to_numpy()
        return values, float(frame["variance"][0])


def _frame(measured: NoisyMeasurements, geocodes: np.ndarray) -> pl.DataFrame:
    n_geounits, n_answers = measured.values.shape
    values = pl.Series("values", measured.values.ravel()).reshape((n_geounits, n_answers))
    return pl.DataFrame(
        {
            "geocode": pl.Series(geocodes, dtype=pl.String),
            "values": values.cast(pl.List(pl.Int64)),
            "variance": np.full(n_geounits, measured.variance),
        }
    )
