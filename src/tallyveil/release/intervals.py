"""The `intervals/` folder of a release: published counts beside unbiased estimates, standard errors and intervals.

Layout: files like those of `tables/`, in the same folders, `intervals/geolevel=<geolevel or family>/query=<query>/`,
with four more columns: `estimate`, `standard_error`, `lower`, `upper`. They have one row for every geounit and answer,
zeros included. Beside them are `_README.txt` and `_manifest.json`: readers of folders leave out names that begin with
an underscore. Where the measurements do not determine an answer, estimate, standard error and upper end are null.

The folder is filled under another name and then renamed: it is complete or absent. The tables of the same counts get
the same columns (`interval_tables`).
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.declared import ContentInPart, Declared, Flag, Number, Text, Whole, mapping_of
from tallyveil.errors import StoreError
from tallyveil.release.interval_tables import BESIDE
from tallyveil.release.intervals_format_1 import scan_format_1
from tallyveil.release.manifest import Manifest
from tallyveil.release.tables import table_folder, table_part, table_tags
from tallyveil.storage.json_files import JsonObject, read_declared
from tallyveil.storage.read import scan_parquet
from tallyveil.storage.write import (
    TEMPORARY_SUFFIX,
    file_digest,
    store_error,
    write_json,
    write_parquet,
    write_text,
)
from tallyveil.universe.answer_columns import answer_expression, code_expression, label_columns
from tallyveil.universe.query_group import QueryGroup

if TYPE_CHECKING:  # to read a release takes no compiler
    from tallyveil.intervals import Answers, Intervals

INTERVALS = "intervals"
INTERVALS_MANIFEST = "_manifest.json"
EARLIER_MANIFEST = "manifest.json"
"""Its name in folders that an earlier version wrote."""
README = "_README.txt"
AGAIN = "Remove that folder and make the intervals again with `tallyveil intervals`."
ROWS_PER_PART = 1 << 21
DECIMALS = 6
"""Of estimates and standard errors: far below a person, and the same whatever the order of sums of floats."""


@dataclass(frozen=True, slots=True)
class Compared(Declared):
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

    area: Text
    query: Text
    is_entity: Flag
    answers: Whole
    exact: Whole
    undetermined: Whole
    below: Whole
    above: Whole
    standard_error: Number | None


class ListedTable(ContentInPart):
    """A file of intervals, by its path in the release folder."""

    path: str
    sha256: str


class IntervalsManifest(ContentInPart):
    """What a command reads of the manifest of `intervals/`, whose other keys tell people what was asked."""

    run: str
    level: float
    covers: str
    bounds_left_out: list[str]
    compared: list[Compared]
    files: list[ListedTable]


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """What is known of the intervals of a table, or of some of its files.

    Attributes:
        area, query, is_entity: As in `Compared`.
        numbers: The numbers of `Compared`, from `answers` to `above`.
        errors: Standard errors of the answers neither exact nor undetermined.
    """

    area: str
    query: str
    is_entity: bool
    numbers: NDArray[np.int64]
    errors: NDArray[np.float32]


def compared_of(tallies: Iterable[Tally]) -> list[Compared]:
    """One entry for each table, in the order in which tables are first named."""
    found: dict[tuple[str, str, bool], list[Tally]] = {}
    for one in tallies:
        found.setdefault((one.area, one.query, one.is_entity), []).append(one)
    compared = []
    for table, own in found.items():
        errors = np.concatenate([one.errors for one in own])
        answers, exact, undetermined, below, above = np.sum([one.numbers for one in own], axis=0).tolist()
        middle = round(float(np.median(errors)), DECIMALS) if len(errors) else None
        compared.append(Compared(*table, answers, exact, undetermined, below, above, middle))
    return compared


def files_of_intervals(n_geounits: int, at_once: int, size: int) -> Iterator[tuple[int, int]]:
    """The geounits of each file of a table, if `at_once` geounits are added together.

    Args:
        n_geounits: Number of geounits of the table.
        at_once: How many are added by one call of `IntervalTable.add`.
        size: Answers of a geounit.
    """
    step = at_once * -(-ROWS_PER_PART // (at_once * size))
    for start in range(0, max(n_geounits, 1), step):
        yield start, min(start + step, n_geounits)


@dataclass(slots=True, eq=False)
class IntervalTable:
    """Writes one table of intervals, chunk by chunk, in parts of bounded size.

    Attributes:
        root: Release folder.
        area: A geolevel, or a family of entities.
        group: The query.
        is_entity: Whether the area is a family of entities.
        tags: Metadata of its files.
        staging: Where the published table is written anew with the same columns; None to leave it.
        first: Number of the first file.
    """

    root: Path
    area: str
    group: QueryGroup
    is_entity: bool
    tags: Mapping[str, str]
    staging: Path | None = None
    first: int = 0
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _parts: int = 0
    _counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(5, np.int64))
    _errors: list[NDArray[np.float32]] = field(default_factory=list)

    def add(self, codes: pl.Series, published: Integers, answers: "Answers", intervals: "Intervals") -> None:
        """Add some geounits or entities; arrays of shape (len(codes), group.size).

        Raises:
            StoreError: a part cannot be written.
        """
        self._tally(published, answers, intervals)
        n, size = published.shape
        known = np.isfinite(answers.variances).ravel()
        frame = pl.DataFrame(
            [
                codes.gather(np.repeat(np.arange(n), size)).alias("geocode"),
                *label_columns(self.group, np.tile(np.arange(size), n)),
                pl.Series("count", published.ravel()),
                _rounded(answers.estimates, known).alias("estimate"),
                _rounded(answers.standard_errors, known).alias("standard_error"),
                _whole(intervals.low).alias("lower"),
                _whole(intervals.high).alias("upper"),
            ]
        )
        self._frames.append(frame)
        if sum(kept.height for kept in self._frames) >= ROWS_PER_PART:
            self._flush()

    def finish(self) -> "Tally":
        """Write what is left."""
        if self._frames or not self._parts:
            self._flush()
        errors = np.concatenate(self._errors) if self._errors else np.zeros(0, np.float32)
        return Tally(self.area, self.group.name, self.is_entity, self._counts, errors)

    def _flush(self) -> None:
        place, part = (self.area, self.group.name), table_part(self.first + self._parts)
        tags = {**self.tags, **table_tags(*place, zeros=True)}
        frame = pl.concat(self._frames)
        write_parquet(table_folder(self.root, *place, INTERVALS + TEMPORARY_SUFFIX) / part, frame, tags)
        if self.staging is not None:
            write_parquet(table_folder(self.staging, *place) / part, frame, tags)
        self._frames.clear()
        self._parts += 1

    def _tally(self, published: Integers, answers: "Answers", intervals: "Intervals") -> None:
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
        "compared": [mapping_of(item) for item in compared],
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


def intervals_manifest(root: Path) -> Path | None:
    """The manifest of a release's intervals; None if it has none."""
    for name in (INTERVALS_MANIFEST, EARLIER_MANIFEST):
        if (root / INTERVALS / name).is_file():
            return root / INTERVALS / name
    return None


def made_intervals(root: Path, run: str) -> JsonObject | None:
    """Content of the manifest of `intervals/`; None if the release has none.

    Args:
        root: Release folder.
        run: Public name of the release's run.
    Raises:
        StoreError: it is damaged, or belongs to another run.
    """
    path = intervals_manifest(root)
    if path is None:
        return None
    content: JsonObject
    content, manifest = read_declared(path, IntervalsManifest, AGAIN)
    if manifest.run != run:
        raise StoreError(
            f"{path} belongs to run {manifest.run}, but the release belongs to run {run}. Remove that folder and make "
            "the intervals again.",
            code="release-damaged",
        )
    return content


def known_queries(root: Path, manifest: Manifest) -> list[str]:
    """The queries that a release has tables of, in order, then others that it has intervals of.

    Raises:
        StoreError: as `made_intervals`.
    """
    made = made_intervals(root, manifest.run)
    beside = [] if made is None else [item["query"] for item in made["compared"]]
    return list(dict.fromkeys([*manifest.body["plan"]["tables"], *beside]))


def read_interval_table(root: Path, area: str, query: str) -> pl.LazyFrame:
    """One table of intervals of a release, lazily: `geocode`, `count` and `BESIDE`.

    Raises:
        StoreError: there is none, or it was changed.
    """
    parts = unchanged_parts(root, _parts(root, area, query))
    rows = scan_parquet(*parts) if parts else scan_format_1(root / INTERVALS, area, query)
    if rows is None:
        raise StoreError(
            f"{root} holds no intervals of '{query}' for {area}. Make them with `tallyveil intervals`, naming the "
            "query with --tables.",
            code="intervals-missing",
        )
    return rows.select("geocode", "count", *BESIDE)


def read_interval_answers(root: Path, area: str, group: QueryGroup) -> pl.LazyFrame | None:
    """Geocode, number of the answer, and estimate of each row of a table of intervals; None if there is no table.

    Raises:
        StoreError: the table was changed.
    """
    parts = unchanged_parts(root, _parts(root, area, group.name))
    if parts:
        return scan_parquet(*parts).select("geocode", answer_expression(group), "estimate")
    rows = scan_format_1(root / INTERVALS, area, group.name)
    return (
        None
        if rows is None
        else rows.select("geocode", code_expression("answer", group.labels()), "estimate")
    )


def _parts(root: Path, area: str, query: str) -> list[Path]:
    return sorted(table_folder(root, area, query, INTERVALS).glob("part-*.parquet"))


def unchanged_parts(root: Path, parts: list[Path]) -> list[Path]:
    """Files of intervals, after a check that they are those that the manifest of the intervals lists.

    Raises:
        StoreError: the manifest is damaged, or a file is another one or cannot be read.
    """
    if not parts:
        return parts
    path = intervals_manifest(root) or root / INTERVALS / INTERVALS_MANIFEST
    _, manifest = read_declared(path, IntervalsManifest, AGAIN)
    listed = {file.path: file.sha256 for file in manifest.files}
    for part in parts:
        try:
            digest = file_digest(part)
        except OSError as error:
            raise store_error(part, error) from error
        if listed.get(part.relative_to(root).as_posix()) != digest:
            raise StoreError(
                f"{part} is not the file that {path} lists: its SHA-256 is another one. It was changed after it was "
                f"written. {AGAIN}",
                code="release-damaged",
            )
    return parts
