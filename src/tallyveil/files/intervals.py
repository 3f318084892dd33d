"""The `intervals/` folder of a release: published counts beside unbiased estimates, standard errors and intervals.

A folder of measurements alone has one, too, without the column of counts.

Layout: files like those of `tables/`, in the same folders, `intervals/geolevel=<geolevel or family>/query=<query>/`,
with four more columns: `estimate`, `standard_error`, `lower`, `upper`. They have one row for every geounit and answer,
zeros included. Beside them are `_README.txt` and `_manifest.json`: readers of folders leave out names that begin with
an underscore. Where the measurements do not determine an answer, estimate, standard error and upper end are null.

The folder is filled under another name and then renamed: it is complete or absent.

The tables of the same counts get the same columns. They then have a row for every geounit and answer, zeros included,
and take the place of those without. They are written in a folder of their own, checked there, and then renamed into
place, table by table. Until the manifest lists the new tables, the old ones are kept beside them. So whoever goes on
after an interruption can tell from the manifest whether a table was changed by anybody else.

Releases that an earlier version finished may have intervals of format 1: one folder for each geolevel, a label for each
answer, and the count as `published`. Reports and districts read them; nothing writes them.
"""

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.declared import (
    ContentInPart,
    Declared,
    Flag,
    Number,
    Text,
    Whole,
    mapping_of,
)
from tallyveil.errors import StoreError
from tallyveil.files.data_package import DATA_PACKAGE, data_package
from tallyveil.files.manifest import ListedFile, Manifest, ReleaseKind, listed_file
from tallyveil.files.tables import TABLES, has_zeros, table_folder, table_part, table_tags
from tallyveil.schema.answer_columns import answer_expression, code_expression, label_columns
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.json_files import JsonObject, read_declared
from tallyveil.storage.paths import file_name, hive_folder, inside
from tallyveil.storage.read import (
    collect,
    parquet_columns,
    parquet_metadata,
    published_columns,
    scan_parquet,
)
from tallyveil.storage.write import (
    TEMPORARY_SUFFIX,
    entries_of_tags,
    file_digest,
    store_error,
    write_json,
    write_parquet,
    write_text,
)

if TYPE_CHECKING:  # to read a release takes no compiler
    from tallyveil.estimation.intervals.answers import Answers
    from tallyveil.estimation.intervals.interval import Intervals

INTERVALS = "intervals"
INTERVALS_MANIFEST = "_manifest.json"
EARLIER_MANIFEST = "manifest.json"
"""Its name in folders that an earlier version wrote."""
README = "_README.txt"
AGAIN = "Remove that folder and make the intervals again with `tallyveil intervals`."
ROWS_PER_PART = 1 << 21
"""Rows of a file, 2 million: a file is held in memory while it is written. Another number would give other files."""
DECIMALS = 6
"""Of estimates and standard errors: far below a person, and the same whatever the order of sums of floats."""
BESIDE: Final = {
    "estimate": pl.Float64,
    "standard_error": pl.Float64,
    "lower": pl.Int64,
    "upper": pl.Int64,
}
"""Columns that stand beside a count, with their types; null where the measurements do not determine it."""

_REPLACED = "replaced"


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
        below: Of these, those whose published count lies below the interval; 0 if there are no published counts.
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
    by_table: dict[tuple[str, str, bool], list[Tally]] = {}
    for tally in tallies:
        by_table.setdefault((tally.area, tally.query, tally.is_entity), []).append(tally)
    compared = []
    for table, tallies_of_table in by_table.items():
        errors = np.concatenate([tally.errors for tally in tallies_of_table])
        answers, exact, undetermined, below, above = np.sum(
            [tally.numbers for tally in tallies_of_table], axis=0
        ).tolist()
        # Rounded like every number of the table, so that it does not depend on the order in which chunks ended.
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
    # Whole chunks up to the size of a part, so that files do not depend on who computed which chunk.
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

    def add(
        self, codes: pl.Series, published: Integers | None, answers: "Answers", intervals: "Intervals"
    ) -> None:
        """Add some geounits or entities; arrays of shape (len(codes), group.size); None without published counts.

        Raises:
            StoreError: a part cannot be written.
        """
        self._tally(published, answers, intervals)
        n, size = answers.estimates.shape
        # An infinite variance is that of an answer which the measurements do not determine.
        known = np.isfinite(answers.variances).ravel()
        frame = pl.DataFrame(
            [
                codes.gather(np.repeat(np.arange(n), size)).alias("geocode"),
                *label_columns(self.group, np.tile(np.arange(size), n)),
                *([] if published is None else [pl.Series("count", published.ravel())]),
                _rounded(answers.estimates, known).alias("estimate"),
                _rounded(answers.standard_errors, known).alias("standard_error"),
                _whole(intervals.low).alias("lower"),
                _whole(intervals.high).alias("upper"),
            ]
        )
        self._frames.append(frame)
        if sum(waiting.height for waiting in self._frames) >= ROWS_PER_PART:
            self._flush()

    def finish(self) -> "Tally":
        """Write what is left."""
        # A table without rows has one empty file, so that readers find its columns.
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
            # The same frame twice, so that a table and its intervals cannot differ.
            write_parquet(table_folder(self.staging, *place) / part, frame, tags)
        self._frames.clear()
        self._parts += 1

    def _tally(self, published: Integers | None, answers: "Answers", intervals: "Intervals") -> None:
        errors = answers.standard_errors
        # What rounds to 0 in the file counts as exact.
        exact, known = errors < 10.0**-DECIMALS, np.isfinite(errors)
        outside = () if published is None else (published < intervals.low, published > intervals.high)
        counted = [errors.size, *(int(mask.sum()) for mask in (exact, ~known, *outside))]
        self._counts[: len(counted)] += counted
        # float32 for the median alone: half the memory, and more digits than are shown.
        self._errors.append(errors[known & ~exact].astype(np.float32))


def _rounded(values: NDArray[np.float64], known: NDArray[np.bool_]) -> pl.Series:
    # 0 in the place of what is not known, because NaN would warn when it is rounded; the mask makes it null.
    flat = np.where(known, values.ravel(), 0.0)
    return _where(np.round(flat, DECIMALS) + 0.0, known)  # + 0.0 makes -0.0 a plain zero


def _whole(ends: NDArray[np.float64]) -> pl.Series:
    """Ends of intervals as integers; null where there is none."""
    # Ends can be infinite, which no integer is.
    flat = ends.ravel()
    finite = np.isfinite(flat)
    return _where(np.where(finite, flat, 0.0).astype(np.int64), finite)


def _where(values: NDArray[Any], known: NDArray[np.bool_]) -> pl.Series:
    column = pl.Series(values)
    return column if bool(known.all()) else column.set(pl.Series(~known), None)


def _empty_folder(folder: Path) -> Path:
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    except OSError as error:
        raise store_error(folder, error) from error
    return folder


def start_intervals(root: Path) -> Path:
    """An empty folder to fill; what an interrupted run left of one is removed.

    Raises:
        StoreError: the release folder cannot be written to.
    """
    return _empty_folder(root / (INTERVALS + TEMPORARY_SUFFIX))


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
    # Sorted, so that the manifest is the same on every file system.
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
    # The manifest comes last into the folder, and the folder's name after it: whoever sees the name sees all.
    write_json(unfinished / INTERVALS_MANIFEST, manifest)
    final = root / INTERVALS
    try:
        # A rename replaces no folder that is not empty, so that the old one goes first. A kill in between loses
        # intervals alone, which can be made again.
        if final.exists():
            shutil.rmtree(final)
        unfinished.rename(final)
    except OSError as error:
        raise store_error(final, error) from error
    return manifest


def intervals_manifest(root: Path) -> Path | None:
    """The manifest of a release's intervals; None if it has none."""
    # Today's name first, because a release may have been given new intervals beside nothing of the old.
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
    intervals = made_intervals(root, manifest.run)
    beside = [] if intervals is None else [item["query"] for item in intervals["compared"]]
    # The order of the plan, then the others; a query with tables and intervals once.
    return list(dict.fromkeys([*manifest.body["plan"]["tables"], *beside]))


def read_interval_table(root: Path, area: str, query: str) -> pl.LazyFrame:
    """One table of intervals, lazily: `geocode`, `count` (if it is not of measurements alone) and `BESIDE`.

    Raises:
        StoreError: there is none, or it was changed.
    """
    parts = unchanged_parts(root, _parts(root, area, query))
    rows = scan_parquet(*parts) if parts else scan_format_1(root / INTERVALS, area, query)
    if rows is None:
        raise _missing(root, area, query)
    counts = [] if parts and "count" not in published_columns(parts[0]) else ["count"]
    return rows.select("geocode", *counts, *BESIDE)


def interval_files(root: Path, area: str, query: str) -> list[Path]:
    """The files of a table of intervals, in order, each held to its digest; raises StoreError if there is none."""
    parts = unchanged_parts(root, _parts(root, area, query))
    if not parts:
        raise _missing(root, area, query)
    return parts


def _missing(root: Path, area: str, query: str) -> StoreError:
    return StoreError(
        f"{root} holds no intervals of '{query}' for {area}. Name a geolevel or family of the folder `intervals`, or "
        "make them with `tallyveil intervals`, naming the query with --tables.",
        code="intervals-missing",
    )


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
    # The manifest of the intervals, and not that of the release: intervals can be made after a release is finished.
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


def refuse_earlier_tables(root: Path, otherwise: str) -> None:
    """Refuse tables of an earlier version, which have one label for each answer and no columns for attributes.

    Args:
        root: Release folder.
        otherwise: What can be done with these tables, as the beginning of a sentence.
    Raises:
        StoreError: the release has such tables.
    """
    # Today's folders are called `query=...`; those of an earlier version were named otherwise.
    if any(not path.parent.name.startswith("query=") for path in (root / TABLES).rglob("*.parquet")):
        raise StoreError(
            f"the tables of {root} were written by an earlier version of Tallyveil, with one label for each answer. "
            f"{otherwise}, or make the same release with tables of today's form from its measurements: `tallyveil "
            "estimate` spends nothing.",
            code="tables-format",
        )


def undo_exchange(root: Path, manifest: Manifest) -> None:
    """Put back the tables that an interrupted exchange put aside, if the manifest lists those and not the new ones.

    Args:
        root: Release folder.
        manifest: Of the release; it is written when all tables are exchanged.
    Raises:
        StoreError: the release folder cannot be written to, or a table cannot be read.
    """
    staging = root / (TABLES + TEMPORARY_SUFFIX)
    try:
        for old in sorted((staging / _REPLACED).glob("*/*")):
            place = root / TABLES / old.parent.name / old.name
            # The manifest is written last: while it lists the tables put aside, the new ones are not yet the release's.
            digests = {
                f"{place.relative_to(root).as_posix()}/{path.name}": file_digest(path)
                for path in old.iterdir()
            }
            # All files of the old table are listed, so that the new one beside it is not yet the release's.
            if place.exists() and digests and digests.items() <= manifest.digests.items():
                shutil.rmtree(place)
            if not place.exists():
                old.rename(place)
    except OSError as error:
        raise store_error(staging, error) from error


def start_tables(root: Path) -> Path:
    """An empty folder for new tables.

    Raises:
        StoreError: the release folder cannot be written to.
    """
    return _empty_folder(root / (TABLES + TEMPORARY_SUFFIX))


def clear_other_tables(root: Path, staging: Path, others: Iterable[QueryGroup]) -> None:
    """Write the tables of other queries with empty columns of intervals, so that all tables have the same columns.

    Their rows are again those of a table without intervals.

    Args:
        root: Release folder.
        staging: From `start_tables`.
        others: Queries of tables that have no intervals.
    Raises:
        StoreError: a table cannot be read or written.
    """
    # A column of nulls of the right type, so that all tables of a release can be read together.
    empty = [pl.lit(None, dtype=kind).alias(name) for name, kind in BESIDE.items()]
    for group in others:
        zeros = has_zeros(group)
        for path in sorted((root / TABLES).glob(f"*/{hive_folder('query', group.name)}/*.parquet")):
            tags = parquet_metadata(path)
            if "tallyveil.level" not in tags and set(BESIDE) <= set(parquet_columns(path)):
                continue
            rows = scan_parquet(path).with_columns(empty)
            frame = collect(rows if zeros else rows.filter(pl.col("count") > 0), path, "table")
            kept_tags = {
                name: value
                for name, value in entries_of_tags(tags).items()
                if name not in ("level", "covers")
            }
            about = table_tags(tags["tallyveil.geolevel"], group.name, zeros=zeros)
            write_parquet(staging / path.relative_to(root), frame, {**kept_tags, **about})


def exchange_tables(root: Path, staging: Path) -> set[str]:
    """Put the new tables in the place of the old ones, which stay beside them until `forget_replaced`.

    Returns:
        The folders exchanged, relative to the release folder.
    Raises:
        StoreError: the release folder cannot be written to.
    """
    exchanged = set()
    try:
        for new in sorted((staging / TABLES).glob("*/*")):
            exchanged.add(new.relative_to(staging).as_posix())
            place = root / new.relative_to(staging)
            aside = staging / _REPLACED / place.parent.name / place.name
            aside.parent.mkdir(parents=True, exist_ok=True)
            place.rename(aside)
            new.rename(place)
    except OSError as error:
        raise store_error(staging, error) from error
    return exchanged


def forget_replaced(staging: Path) -> None:
    """Remove the old tables, once the manifest lists the new ones; raises StoreError."""
    try:
        shutil.rmtree(staging)
    except OSError as error:
        raise store_error(staging, error) from error


def manifest_with_tables(
    root: Path,
    manifest: Manifest,
    exchanged: Collection[str],
    beside: Sequence[ListedFile],
    intervals: JsonObject,
) -> Manifest:
    """The release's manifest, once its tables have been exchanged, and `datapackage.json` anew.

    Measurements alone have no tables and no such file.

    Args:
        root: Release folder.
        manifest: Before.
        exchanged: Folders of tables, from `exchange_tables`.
        beside: The tables of `intervals/`, which have a manifest of their own.
        intervals: What the release's manifest is to say of the intervals.
    Raises:
        StoreError: a file cannot be read, or `datapackage.json` cannot be written.
    """
    body = {**manifest.body, "intervals": intervals}
    if manifest.kind is ReleaseKind.MEASUREMENTS:
        return replace(manifest, body=body)
    unchanged = [
        file for file in manifest.files if PurePosixPath(file.path).parent.as_posix() not in exchanged
    ]
    paths = [path for folder in exchanged for path in (root / folder).glob("*.parquet")]
    new = [listed_file(root, path.relative_to(root).as_posix()) for path in paths]
    files = _in_order([*(file for file in unchanged if file.path != DATA_PACKAGE), *new])
    content = data_package(root, body["plan"], manifest.run, manifest.warnings, [*files, *beside])
    write_json(root / DATA_PACKAGE, content)
    files = _in_order([*files, listed_file(root, DATA_PACKAGE)])
    return replace(manifest, files=tuple(files), body=body)


def _in_order(files: Iterable[ListedFile]) -> list[ListedFile]:
    return sorted(files, key=lambda file: PurePosixPath(file.path))


def scan_format_1(folder: Path, geolevel: str, query: str) -> pl.LazyFrame | None:
    """A table of a geolevel, lazily: `geocode`, `answer` (its label), `count` and the numbers of its interval.

    Args:
        folder: The folder of the intervals.
        geolevel: The geolevel.
        query: Name of the query.
    Returns:
        None if there is no such table.
    """
    parts = sorted(inside(folder, file_name(geolevel), file_name(query)).glob("part-*.parquet"))
    return scan_parquet(*parts).rename({"published": "count"}) if parts else None


def refuse_format_1(folder: Path) -> None:
    """Refuse intervals of format 1, where their rows are wanted as they stand.

    Args:
        folder: The folder of the intervals.
    Raises:
        StoreError: they have format 1.
    """
    if any(not path.parent.name.startswith("query=") for path in folder.rglob("*.parquet")):
        raise StoreError(
            f"the intervals in {folder} were written by an earlier version of Tallyveil, with one label for each "
            f"answer. Make them again: `tallyveil intervals {folder.parent} --leave-tables` writes today's form and "
            "spends nothing. Answers for districts need no new ones.",
            code="tables-format",
        )
