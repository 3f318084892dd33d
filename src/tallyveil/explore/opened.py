"""A finished release, or measurements, opened for an explorer: only published files, each held to its digest.

Measurements have no counts. What is shown of them are the estimates in their `intervals/`.

A part of a table holds whole areas, in the order of the areas. So a matrix is complete as soon as its part is
read, and no more than one part of a table is in memory at a time. A matrix has a row for each area and a
column for each answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError, StoreError
from tallyveil.explore.areas import Areas, Kind, areas_of
from tallyveil.explore.files import CHUNK
from tallyveil.files.finished import PLAN
from tallyveil.files.geography import GEOGRAPHY, GEOMETRY, NAMES, read_hierarchies
from tallyveil.files.intervals import (
    INTERVALS,
    known_queries,
    made_intervals,
    refuse_earlier_tables,
    refuse_format_1,
    unchanged_parts,
)
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import MAIN_PRODUCT, read_manifest, require_unchanged
from tallyveil.files.tables import TABLES, table_name
from tallyveil.geography.spine import Spine, geocodes_of
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.guarantee import with_guarantee
from tallyveil.plans.release import StatedPlan
from tallyveil.schema.answer_columns import answer_expression
from tallyveil.schema.names import as_named
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema, schema_from_mapping
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.paths import inside
from tallyveil.storage.read import collect, scan_parquet

COUNT: Final = "count"
BESIDE: Final = ("estimate", "standard_error", "lower", "upper")
"""Columns of intervals, in the order of the site."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The answers of some areas that follow one another.

    Attributes:
        start: Row of the first area in its kind.
        columns: For each column of the table a matrix of shape (areas, answers). Counts are whole, and missing of
            measurements; the columns of intervals are floats, NaN where the release has no number.
    """

    start: int
    columns: dict[str, NDArray[Any]]

    @property
    def n(self) -> int:
        """Number of areas."""
        return len(next(iter(self.columns.values())))


@dataclass(slots=True, eq=False)
class TableRows:
    """Reads a table as blocks of whole chunks.

    Attributes:
        parts: The files of the table, in order.
        kind: Its areas.
        group: Its query.
        names: Its columns: `COUNT` if there are counts, and those of `BESIDE` if there are intervals of the table.
    """

    parts: Sequence[Path]
    kind: Kind
    group: QueryGroup
    names: Sequence[str]
    _areas: Spine = field(init=False)

    def __post_init__(self) -> None:
        self._areas = Spine((self.kind.name,), (geocodes_of(self.kind.codes, self.kind.name),), ())

    def blocks(self) -> Iterator[Block]:
        """All areas of the kind in order, each block beginning with a chunk; counts that have no row are zero.

        Raises:
            StoreError: a part cannot be read, or its areas or labels are not those of the release.
        """
        # Where the order differs, rows of an area may be in any part, and all must be held.
        if not self.kind.in_order:
            yield self._whole()
            return
        waiting = self._empty(0, 0)
        for part in self.parts:
            start = waiting.start + waiting.n
            rows, answers, frame = self._read(part, start)
            block = self._empty(start, int(rows.max()) + 1 - start if len(rows) else 0)
            self._fill(block, rows, answers, frame)
            waiting = _joined(waiting, block)
            # Whole chunks only; the rest waits for the next part, in which it may go on.
            whole = waiting.n - waiting.n % CHUNK
            if whole:
                yield _rows(waiting, 0, whole)
                waiting = _rows(waiting, whole, waiting.n)
        stop = waiting.start + waiting.n
        # Areas without a row at the end of the table have zeros too.
        waiting = _joined(waiting, self._empty(stop, self.kind.n - stop))
        if waiting.n:
            yield waiting

    def _whole(self) -> Block:
        """All areas at once, where the table has them in another order."""
        block = self._empty(0, self.kind.n)
        for part in self.parts:
            self._fill(block, *self._read(part, 0))
        return block

    def _read(self, part: Path, start: int) -> tuple[Integers, Integers, pl.DataFrame]:
        """Area and answer of every row of a part, and its columns; no area comes before `start`."""
        wanted = pl.col("geocode"), answer_expression(self.group), *(pl.col(name) for name in self.names)
        frame = collect(scan_parquet(part).select(wanted), part, "table")
        rows = self._areas.locate(0, frame["geocode"])
        answers = frame["answer"].fill_null(-1).to_numpy()
        # A part may begin with the area at which the last one ended plus one, and never before.
        if len(rows) and (rows.min() < start or answers.min() < 0):
            raise StoreError(
                f"{part} has a row that is no answer of its query, or of an area that the release does not have or "
                "that an earlier part has. Restore the file from a copy of the release.",
                code="release-damaged",
            )
        return rows, answers, frame

    def _fill(self, block: Block, rows: Integers, answers: Integers, frame: pl.DataFrame) -> None:
        """Put the rows of a part in their places."""
        # Area and answer in one number, so that one assignment puts a whole part in place.
        places = (rows - block.start) * self.group.size + answers
        for name in self.names:
            block.columns[name].reshape(-1)[places] = _values(frame[name])

    def _empty(self, start: int, n: int) -> Block:
        """Areas of which the table has no row: their counts are zero, and they have no intervals."""
        shape = n, self.group.size
        columns: dict[str, NDArray[Any]] = {
            name: np.zeros(shape, dtype=np.int64) if name == COUNT else np.full(shape, np.nan)
            for name in self.names
        }
        return Block(start, columns)


def _values(column: pl.Series) -> NDArray[Any]:
    return column.to_numpy() if column.name == COUNT else column.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _joined(first: Block, second: Block) -> Block:
    """Two blocks of which the second begins where the first ends."""
    if not first.n:
        return second
    return Block(
        first.start,
        {name: np.concatenate([values, second.columns[name]]) for name, values in first.columns.items()},
    )


def _rows(block: Block, start: int, stop: int) -> Block:
    """Some areas of a block; their first is the `start`-th."""
    return Block(block.start + start, {name: values[start:stop] for name, values in block.columns.items()})


@dataclass(frozen=True, slots=True, eq=False)
class OpenedRelease:
    """What the explorer shows of a release.

    Attributes:
        root: Its folder.
        manifest: Content of its `manifest.json`.
        schema: The universe.
        areas: Its areas.
        plan: What its plan states.
        queries: The tables to show, in order.
        intervals: Content of the manifest of its intervals; None if it has none.
    """

    root: Path
    manifest: Manifest
    schema: Schema
    areas: Areas
    plan: StatedPlan
    queries: tuple[QueryGroup, ...]
    intervals: JsonObject | None

    @property
    def name(self) -> str:
        """Name of the release."""
        return str(self.manifest.body["name"])

    @property
    def has_counts(self) -> bool:
        """Whether there are published counts; measurements have none."""
        return self.manifest.kind is not ReleaseKind.MEASUREMENTS

    @property
    def tags(self) -> dict[str, str]:
        """Metadata of the files of its site."""
        return self.manifest.file_tags

    def has_intervals(self, query: str) -> bool:
        """Whether the release has intervals of a query, beside the counts of every kind that it has a table of."""
        return self.intervals is not None and any(
            item["query"] == query for item in self.intervals["compared"]
        )

    def rows(self, number: int, group: QueryGroup) -> TableRows | None:
        """The table of a query for a kind of areas; None if the release has none.

        Raises:
            StoreError: a file of it is missing or was changed.
        """
        kind, with_intervals = self.areas.kinds[number], self.has_intervals(group.name)
        parts = self._listed(table_name(kind.name, group.name, INTERVALS if with_intervals else TABLES))
        if not parts:
            return None
        if with_intervals:
            unchanged_parts(self.root, parts)
        else:
            for part in parts:
                require_unchanged(self.root, self.manifest, part)
        names = (*((COUNT,) if self.has_counts else ()), *(BESIDE if with_intervals else ()))
        return TableRows(parts, kind, group, names)

    def _listed(self, folder: str) -> list[Path]:
        """The files of a folder that the manifests of the release and of its intervals list, in order."""
        beside = [] if self.intervals is None else [file["path"] for file in self.intervals["files"]]
        names = [name for name in (*self.manifest.digests, *beside) if name.startswith(f"{folder}/")]
        return [inside(self.root, *name.split("/")) for name in sorted(names)]


def open_for_explorer(root: Path, tables: Sequence[str] | None) -> OpenedRelease:
    """Open a release.

    Args:
        root: Its folder.
        tables: The queries to show; None for those of its tables.
    Raises:
        StoreError: the folder holds no finished release of the main product, or a file in it was changed.
        ConfigError: the release has no such table.
    """
    manifest = read_manifest(root)
    if manifest.kind not in MAIN_PRODUCT:
        raise StoreError(
            f"{root} holds a release of `{manifest.kind.command}`. There is an explorer only for releases of "
            "`tallyveil run` and `tallyveil estimate`, and for measurements with intervals, which have numbers of "
            "every area of a geography. "
            f"`tallyveil report {root}` writes the page of this release.",
            code="no-explorer",
        )
    manifest = with_guarantee(root, manifest)
    refuse_earlier_tables(root, "Read their files directly")
    refuse_format_1(root / INTERVALS)
    for name in (GEOGRAPHY, NAMES, GEOMETRY):
        if name in manifest.digests:  # a file that is missing is refused, too
            require_unchanged(root, manifest, root / name)
    plan = manifest.body["plan"]
    intervals = made_intervals(root, manifest.run)
    schema = schema_from_mapping(plan["schema"])
    names = _table_names(root, manifest, tables)
    return OpenedRelease(
        root,
        manifest,
        schema,
        areas_of(read_hierarchies(root), plan),
        stated_plan(root / PLAN, plan),
        tuple(schema.query(name) for name in names),
        intervals,
    )


def _table_names(root: Path, manifest: Manifest, tables: Sequence[str] | None) -> list[str]:
    """The queries to show, in the order of the release."""
    known = known_queries(root, manifest)
    if manifest.kind is ReleaseKind.MEASUREMENTS:
        # The plan names tables of counts, which measurements do not have.
        intervals = made_intervals(root, manifest.run)
        if intervals is None:
            raise StoreError(
                f"{root} holds measurements, which have no counts, and no estimates were made of them yet. `tallyveil "
                f"intervals {root} --tables QUERY,...` makes them and spends nothing. `tallyveil estimate` makes a "
                "release with counts.",
                code="intervals-missing",
            )
        known = list(dict.fromkeys(item["query"] for item in intervals["compared"]))
    wanted = known if tables is None else [as_named(name, known) for name in tables]
    missing = [name for name in wanted if name not in known]
    if missing or not wanted:
        what = f"has no table of {', '.join(missing)}" if missing else "has no tables to show"
        raise ConfigError(
            f"{root} {what}. It has tables of {', '.join(known) or 'nothing'}. Name some of these, or make intervals "
            "of other queries first: `tallyveil intervals RUN --tables QUERY,...` writes their counts, too.",
            code="no-table",
        )
    return [name for name in known if name in wanted]
