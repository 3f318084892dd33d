"""The intervals of a release made by worker processes, from its published files.

Where all tables have one model, a chunk is a file of a table of a geolevel, or all tables of an area; each worker
process estimates the model once, for itself. Where each table has a model of its own, a chunk is a table: it is
estimated by one worker process.

The folder of results is removed at the end, and when the command is given again.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from tallyveil.estimation.intervals.answers import at_once_of
from tallyveil.files.finished import MANIFEST
from tallyveil.files.intervals import Tally, files_of_intervals
from tallyveil.files.tables import TABLES
from tallyveil.noise.key import KEY_BYTES
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.intervals.areas import entity_families, released_areas, with_given
from tallyveil.postprocess.intervals.fits import fits_of
from tallyveil.postprocess.intervals.model import FinishedRelease, named_queries, open_release
from tallyveil.postprocess.intervals.writing import (
    Folders,
    IntervalJob,
    IntervalWork,
    LevelTables,
    Step,
    steps_of,
)
from tallyveil.runs.executor import Chunks, Executor, Executors, Site, gathered
from tallyveil.runs.observer import Observer, SilentObserver
from tallyveil.runs.stopwatch import Stopwatch
from tallyveil.storage.archives import Archived
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.read import read_parquet
from tallyveil.storage.shared_files import await_file, made_with_patience
from tallyveil.storage.write import TEMPORARY_SUFFIX, file_digest

Made = tuple[int, list[Tally]]
"""Number of a chunk, and what is known of its tables."""
CHUNKS: Final = "interval-chunks" + TEMPORARY_SUFFIX
"""Folder of results in the release folder, while the work lasts."""
ENTITIES: Final = "entities"
"""Name of the shared table of entities."""
_SHARED, _STAGED = "shared", "staged"


@dataclass(frozen=True, slots=True, eq=False)
class IntervalQuestion:
    """What is asked of a release; the arguments of `make_intervals`."""

    tables: Sequence[str] | None
    entities: pl.DataFrame | None
    families: Sequence[str] | None
    level: float
    simultaneous: bool
    with_bounds: bool
    in_tables: bool

    def job(self, release: FinishedRelease) -> IntervalJob:
        """What follows from it, before anything is estimated.

        Raises:
            TallyveilError: as `make_intervals`.
        """
        groups = named_queries(release, self.tables)
        found = () if self.entities is None else entity_families(release.spine, self.entities, self.families)
        areas = with_given(release.spine, released_areas(release), found)
        fits = fits_of(release, groups, with_bounds=self.with_bounds)
        return IntervalJob(release, groups, fits, areas, self.level, self.simultaneous, self.with_bounds)

    def described(self) -> JsonObject:
        """As JSON, without the table of entities."""
        return {
            "tables": None if self.tables is None else list(self.tables),
            "families": None if self.families is None else list(self.families),
            "level": self.level,
            "simultaneous": self.simultaneous,
            "with_bounds": self.with_bounds,
            "in_tables": self.in_tables,
        }


class Piece(NamedTuple):
    """What a chunk makes.

    Attributes:
        fit: Number of the fit.
        step: Number of the geolevel or area among the steps of a fit; None for all tables of the fit.
        query: Number of the query; None for all tables of the step.
        file: Number of the file.
        rows: How many rows it has, about.
    """

    fit: int
    step: int | None = None
    query: int | None = None
    file: int = 0
    rows: int = 0


def pieces_of(job: IntervalJob) -> list[Piece]:
    """All chunks, in the order in which their tables are listed."""
    if job.fits[0].merged is not None:
        return [Piece(fit) for fit in range(len(job.fits))]
    spine = job.release.spine
    width = sum(group.size for group in job.groups)
    pieces = []
    for number, (_, size, level, _) in enumerate(steps_of(spine, job.areas)):
        if level is None:
            pieces.append(Piece(0, number, rows=size * width))
            continue
        for query, group in enumerate(job.groups):
            files = files_of_intervals(size, at_once_of(spine, level), group.size)
            pieces += [
                Piece(0, number, query, file, (stop - start) * group.size)
                for file, (start, stop) in enumerate(files)
            ]
    return pieces


@contextmanager
def interval_executor(root: Path, executors: Executors) -> Iterator[Executor]:
    """What does the work, with a folder for its results that is removed at the end."""
    folder = root / CHUNKS
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with executors.begin(folder) as executor:
            yield executor
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_elsewhere(
    executor: Executor,
    question: IntervalQuestion,
    job: IntervalJob,
    start: Callable[[], Folders],
    observer: Observer,
) -> list[Tally]:
    """Let worker processes make the tables; returns what is known of them.

    Args:
        executor: The worker processes.
        question: What is asked.
        job: What follows from it.
        start: Makes the folders, once there is a first result.
        observer: Told of progress.
    Raises:
        TallyveilError: what the work raises.
    """
    root = job.release.root.absolute()
    if question.entities is not None:
        executor.share(ENTITIES, question.entities.write_parquet)
    entities = file_digest(root / CHUNKS / _SHARED / ENTITIES) if question.entities is not None else None
    description = {
        "release": str(root),
        "manifest": file_digest(root / MANIFEST),
        "question": question.described(),
        "entities": entities,
    }
    executor.serve(
        Site(
            f"{open_intervals.__module__}:{open_intervals.__name__}", description, b"", os.urandom(KEY_BYTES)
        )
    )
    pieces, started = pieces_of(job), list[Folders]()
    chunks = _chunks(ChunkFolders(root), lambda number: [])

    def read(path: Path) -> Made:
        if not started:
            started.append(start())
        return chunks.read(path)

    largest_first = sorted(range(len(pieces)), key=lambda number: -pieces[number].rows)
    own = Chunks(chunks.address, chunks.work, chunks.write, read)
    made = gathered(executor, own, largest_first, lambda number: observer.advanced(1))
    return [tally for _, tallies in made for tally in tallies]


def open_intervals(description: JsonObject, secret: bytes) -> "OpenedIntervals":
    """Open a finished release whose intervals are asked for; the secret is empty.

    Raises:
        StoreError: a file is missing, or is not what the command read.
    """
    root = Path(description["release"])
    await_file(root / MANIFEST, description["manifest"])
    table = None
    if description["entities"] is not None:
        shared = root / CHUNKS / _SHARED / ENTITIES
        await_file(shared, description["entities"])
        table = read_parquet(shared)
    question = IntervalQuestion(entities=table, **description["question"])
    job = made_with_patience(lambda: question.job(open_release(root, in_run=True)))
    staged = root / CHUNKS / _STAGED / os.urandom(8).hex()
    return OpenedIntervals(job, question.in_tables, ChunkFolders(root, staged))


@dataclass(slots=True, eq=False)
class OpenedIntervals:
    """The intervals of a release in a worker process. What was estimated last is kept for the next chunk.

    Attributes:
        job: What is asked.
        in_tables: Whether tables are written anew, too.
        folders: Where chunks write.
    """

    job: IntervalJob
    in_tables: bool
    folders: ChunkFolders
    _work: tuple[int, IntervalWork] | None = field(default=None)
    _level: tuple[int, LevelTables] | None = field(default=None)

    def chunks(self, address: JsonObject) -> Chunks[Made]:
        """The work; there is only one."""
        pieces = pieces_of(self.job)
        return _chunks(self.folders, lambda number: self._made(number, pieces[number]))

    def _made(self, number: int, piece: Piece) -> list[Tally]:
        root = self.folders.root(number)
        folders = Folders(root, root / (TABLES + TEMPORARY_SUFFIX) if self.in_tables else None)
        work = self._fit(piece.fit)
        if piece.step is None:
            return [tally for step in work.steps() for tally in step.write(folders, SilentObserver())]
        step: Step = list(work.steps())[piece.step]
        if piece.query is None or step.level is None:
            return step.write(folders, SilentObserver())
        return self._tables(work, step.level).write_file(folders, piece.query, piece.file)

    def _fit(self, number: int) -> IntervalWork:
        if self._work is None or self._work[0] != number:
            self._work = None  # frees what it holds
            self._work = number, self.job.work(self.job.fits[number], 1, Stopwatch(SilentObserver()))
        return self._work[1]

    def _tables(self, work: IntervalWork, level: int) -> LevelTables:
        if self._level is None or self._level[0] != level:
            self._level = None
            self._level = level, work.level(level)
        return self._level[1]


def _chunks(folders: ChunkFolders, work: Callable[[int], list[Tally]]) -> Chunks[Made]:
    def numbered(number: int) -> Made:
        return number, work(number)

    return Chunks({"work": "intervals"}, numbered, folders.writing(_archived), folders.reading(_made_of))


def _archived(made: Made) -> tuple[int, Archived]:
    number, tallies = made
    record = [[one.area, one.query, one.is_entity, one.numbers.tolist()] for one in tallies]
    errors = {f"errors-{place}": one.errors for place, one in enumerate(tallies)}
    return number, Archived({"number": number, "tables": record}, errors)


def _made_of(content: Archived) -> Made:
    return content.record["number"], [
        Tally(area, query, is_entity, np.array(numbers, np.int64), content.arrays[f"errors-{place}"])
        for place, (area, query, is_entity, numbers) in enumerate(content.record["tables"])
    ]
