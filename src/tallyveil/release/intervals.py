"""The `intervals/` folder of a release: published counts beside unbiased estimates, standard errors and intervals.

Layout: `intervals/<geolevel>/<query>/part-00000.parquet` with columns `geocode`, `answer`, `published`, `estimate`,
`standard_error`, `lower`, `upper`, one row for every geounit and answer, zeros included; the same below
`intervals/entities/<family>/` with `entity` in the place of `geocode`; `README.txt`; `manifest.json`. Where the
measurements do not determine an answer, estimate, standard error and upper end are null.

The folder is filled under another name and then renamed: it is complete or absent. The tables of the same counts get
the same columns (`interval_tables`).
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import StoreError
from tallyveil.intervals import Answers, Intervals
from tallyveil.release.columns import enum_column
from tallyveil.release.interval_tables import table_with_intervals
from tallyveil.release.tables import table_folder, table_tags
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.read import scan_parquet
from tallyveil.storage.write import (
    TEMPORARY_SUFFIX,
    file_digest,
    store_error,
    write_json,
    write_parquet,
    write_text,
)
from tallyveil.universe.query_group import QueryGroup

INTERVALS = "intervals"
ENTITIES = "entities"
INTERVALS_MANIFEST = "manifest.json"
README = "README.txt"
AGAIN = "Remove that folder and make the intervals again with `tallyveil intervals`."
ROWS_PER_PART = 1 << 22
DECIMALS = 6
"""Of estimates and standard errors: far below a person, and the same whatever the order of sums of floats."""


@dataclass(frozen=True, slots=True)
class Compared:
    """How the published counts of one table lie against their intervals.

    Attributes:
        area: A geolevel, or a family of entities.
        query: The query.
        is_entity: Whether the area is a family of entities.
        answers: Number of intervals.
        exact: Of these, those that are known exactly.
        undetermined: Of these, those that the measurements do not determine.
        below: Of these, those whose published count lies below the interval.
        above: Likewise, above it.
        standard_error: Median standard error of the answers neither exact nor undetermined, persons; None without.
    """

    area: str
    query: str
    is_entity: bool
    answers: int
    exact: int
    undetermined: int
    below: int
    above: int
    standard_error: float | None

    def to_mapping(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {name: getattr(self, name) for name in self.__slots__}


def interval_folder(root: Path, area: str, query: str, *, is_entity: bool) -> Path:
    """Folder of the parts of one table of intervals, below the folder of all."""
    return inside(root, *([ENTITIES] if is_entity else []), file_name(area), file_name(query))


@dataclass(slots=True, eq=False)
class IntervalTable:
    """Writes one table of intervals, chunk by chunk, in parts of bounded size.

    Attributes:
        root: The folder being filled.
        area: A geolevel, or a family of entities.
        group: The query.
        is_entity: Whether the area is a family of entities.
        tags: Metadata of its files.
        staging: Where the published table is written anew with the same columns; None to leave it.
    """

    root: Path
    area: str
    group: QueryGroup
    is_entity: bool
    tags: Mapping[str, str]
    staging: Path | None = None
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _parts: int = 0
    _counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(5, np.int64))
    _errors: list[NDArray[np.float32]] = field(default_factory=list)

    def add(self, codes: pl.Series, published: Integers, answers: Answers, intervals: Intervals) -> None:
        """Add some geounits or entities; arrays of shape (len(codes), group.size).

        Raises:
            StoreError: a part cannot be written.
        """
        self._tally(published, answers, intervals)
        n, size = published.shape
        labels = self.group.labels()
        known = np.isfinite(answers.variances).ravel()
        frame = pl.DataFrame(
            {
                "entity" if self.is_entity else "geocode": codes.gather(np.repeat(np.arange(n), size)),
                "answer": enum_column("answer", labels, np.tile(np.arange(size), n)),
                "published": published.ravel(),
                "estimate": _rounded(answers.estimates, known),
                "standard_error": _rounded(answers.standard_errors, known),
                "lower": _whole(intervals.low),
                "upper": _whole(intervals.high),
            }
        )
        self._frames.append(frame)
        if sum(kept.height for kept in self._frames) >= ROWS_PER_PART:
            self._flush()

    def finish(self) -> Compared:
        """Write what is left."""
        if self._frames or not self._parts:
            self._flush()
        errors = np.concatenate(self._errors) if self._errors else np.zeros(0, np.float32)
        answers, exact, undetermined, below, above = (int(n) for n in self._counts)
        middle = round(float(np.median(errors)), DECIMALS) if len(errors) else None
        return Compared(
            self.area, self.group.name, self.is_entity, answers, exact, undetermined, below, above, middle
        )

    def _flush(self) -> None:
        folder = interval_folder(self.root, self.area, self.group.name, is_entity=self.is_entity)
        tags = {**self.tags, "query": self.group.name, "area": self.area}
        frame, part = pl.concat(self._frames), f"part-{self._parts:05d}.parquet"
        write_parquet(folder / part, frame, tags)
        if self.staging is not None:
            tabulated = table_with_intervals(frame, self.area, self.group)
            tags = {**self.tags, **table_tags(self.group)}
            write_parquet(table_folder(self.staging, self.area, self.group.name) / part, tabulated, tags)
        self._frames.clear()
        self._parts += 1

    def _tally(self, published: Integers, answers: Answers, intervals: Intervals) -> None:
        errors = answers.standard_errors
        exact, known = errors < 10.0**-DECIMALS, np.isfinite(errors)
        masks = (known, exact, ~known, published < intervals.low, published > intervals.high)
        self._counts += [published.size, *(int(mask.sum()) for mask in masks[1:])]
        self._errors.append(errors[known & ~exact].astype(np.float32))


def _rounded(values: NDArray[np.float64], known: NDArray[np.bool_]) -> pl.Series:
    flat = np.where(known, values.ravel(), 0.0)
    return _where(np.round(flat, DECIMALS) + 0.0, known)  # + 0.0 makes -0.0 a plain zero


def _whole(ends: NDArray[np.float64]) -> pl.Series:
    """Ends of intervals as integers; null where there is none."""
    flat = ends.ravel()
    finite = np.isfinite(flat)
    return _where(np.where(finite, flat, 0.0).astype(np.int64), finite)


def _where(values: NDArray[Any], known: NDArray[np.bool_]) -> pl.Series:
    column = pl.Series(values)
    return column if bool(known.all()) else column.set(pl.Series(~known), None)


def start_intervals(root: Path) -> Path:
    """An empty folder to fill; what an interrupted run left of one is removed.

    Raises:
        StoreError: the release folder cannot be written to.
    """
    unfinished = root / (INTERVALS + TEMPORARY_SUFFIX)
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
    except OSError as error:
        raise store_error(unfinished, error) from error
    return unfinished


def finish_intervals(
    root: Path, unfinished: Path, content: Mapping[str, Any], compared: Sequence[Compared], readme: str
) -> dict[str, Any]:
    """Write README and manifest, and put the folder in the place of an earlier one.

    Args:
        root: Release folder.
        unfinished: The folder filled.
        content: What the manifest says besides.
        compared: One entry a table.
        readme: Text for readers of the files.
    Returns:
        Content of the manifest.
    Raises:
        StoreError: a file cannot be written.
    """
    write_text(unfinished / README, readme)
    paths = sorted(unfinished.rglob("*.parquet"))
    manifest = {
        **content,
        "compared": [item.to_mapping() for item in compared],
        "files": [
            {
                "path": f"{INTERVALS}/{path.relative_to(unfinished).as_posix()}",
                "bytes": path.stat().st_size,
                "sha256": file_digest(path),
            }
            for path in paths
        ],
    }
    write_json(unfinished / INTERVALS_MANIFEST, manifest)
    final = root / INTERVALS
    try:
        if final.exists():
            shutil.rmtree(final)
        unfinished.rename(final)
    except OSError as error:
        raise store_error(final, error) from error
    return manifest


def read_interval_table(root: Path, area: str, query: str, *, is_entity: bool = False) -> pl.LazyFrame:
    """One table of intervals of a release, lazily.

    Raises:
        StoreError: there is none.
    """
    folder = interval_folder(root / INTERVALS, area, query, is_entity=is_entity)
    parts = sorted(folder.glob("part-*.parquet"))
    if not parts:
        raise StoreError(
            f"{root} holds no intervals of '{query}' for {area}. Make them with `tallyveil intervals`, naming the "
            "query with --tables.",
            code="intervals-missing",
        )
    return scan_parquet(*parts)
