"""The intervals of a release in chunks, from its published files.

Threads share one estimate of each fit, and a chunk is all tables of a geolevel or of an area, one after the other. For
worker processes work is divided further. Where all tables have one model, a chunk is a file of a table of a geolevel,
or all tables of an area; each worker process estimates the model once, for itself. Where each table has a model of its
own, a chunk is a table: it is estimated by one worker process.

The folder of results is removed at the end, and when the command is given again.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from tallyveil.estimation.intervals.answers import at_once_of
from tallyveil.files.finished import MANIFEST
from tallyveil.files.intervals import Tally, files_of_intervals
from tallyveil.files.manifest_files import MAIN_PRODUCT
from tallyveil.files.tables import TABLES
from tallyveil.noise.key import KEY_BYTES
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.intervals.areas import entity_families, released_areas, with_given
from tallyveil.postprocess.intervals.fits import fits_of
from tallyveil.postprocess.intervals.model import FinishedRelease, named_queries, open_release
from tallyveil.postprocess.intervals.writing import (
    FitTables,
    Folders,
    IntervalJob,
    LevelTables,
    WritingStep,
    steps_of,
)
from tallyveil.runs.executor import Chunks, Executor, Executors, Site, gathered
from tallyveil.runs.observer import Observer, SilentObserver, Stopwatch
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.read import read_parquet
from tallyveil.storage.write import TEMPORARY_SUFFIX, await_file, file_digest, made_with_patience

CHUNKS: Final = "interval-chunks" + TEMPORARY_SUFFIX
"""Folder of results in the release folder, while the work lasts."""
ADDRESS: Final = {"work": "intervals"}
"""All work of a job has one address."""
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
        asked = () if self.entities is None else entity_families(release.spine, self.entities, self.families)
        areas = with_given(release.spine, released_areas(release), asked)
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


def pieces_of(job: IntervalJob, *, is_remote: bool) -> list[Piece]:
    """All chunks, in the order in which their tables are listed."""
    spine = job.release.spine
    steps = steps_of(spine, job.areas)
    if not is_remote:
        # Threads share one fit, so a chunk may be all tables of a geolevel.
        return [Piece(fit, step) for fit in range(len(job.fits)) for step in range(len(steps))]
    # A model for each table: whoever estimates it writes all its tables.
    if job.fits[0].merged is not None:
        return [Piece(fit) for fit in range(len(job.fits))]
    width = sum(group.size for group in job.groups)
    pieces = []
    for number, (_, size, level, _) in enumerate(steps):
        if level is None:
            pieces.append(Piece(0, number, rows=size * width))
            continue
        for query, group in enumerate(job.groups):
            # The cut of files is that of one process, so that both write the same files.
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
    # Results of an interrupted command are of another key, and would never be believed.
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with executors.begin(folder) as executor:
            yield executor
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_tables(
    executor: Executor,
    question: IntervalQuestion,
    work: "IntervalWork",
    start: Callable[[], Folders],
) -> list[Tally]:
    """Make all tables; returns what is known of them.

    Args:
        executor: Does the chunks.
        question: What is asked.
        work: What follows from it, in this process.
        start: Makes the folders, once there is something to write.
    Raises:
        TallyveilError: what the work raises.
    """
    executor.serve(lambda: _site(executor, question, work.job.release.root.absolute()))
    started = list[Folders]()

    # Made with the first result and not before: a refusal must leave earlier intervals in place.
    def folders() -> Folders:
        if not started:
            started.append(start())
        return started[0]

    chunks = replace(work, start=folders).chunks(ADDRESS)
    if not executor.is_remote:
        return _joined(gathered(executor, chunks, range(len(work.pieces))))

    def read(path: Path) -> list[Tally]:
        folders()
        return chunks.read(path)

    largest_first = sorted(range(len(work.pieces)), key=lambda number: -work.pieces[number].rows)
    # With results of other processes, the folders must exist before files are moved into them.
    with work.watch.stage("intervals", len(work.pieces)):
        done = replace(chunks, read=read)
        return _joined(gathered(executor, done, largest_first, lambda _: work.observer.advanced(1)))


def _joined(tallies: Sequence[list[Tally]]) -> list[Tally]:
    return [tally for of_piece in tallies for tally in of_piece]


def _site(executor: Executor, question: IntervalQuestion, root: Path) -> Site:
    """How worker processes open the release."""
    if question.entities is not None:
        executor.share(ENTITIES, question.entities.write_parquet)
    entities = file_digest(root / CHUNKS / _SHARED / ENTITIES) if question.entities is not None else None
    description = {
        "release": str(root),
        "manifest": file_digest(root / MANIFEST),
        "question": question.described(),
        "entities": entities,
    }
    opener = f"{open_intervals.__module__}:{open_intervals.__name__}"
    # A new key for each command, for results are not kept beyond it.
    return Site(opener, description, b"", os.urandom(KEY_BYTES))


def open_intervals(description: JsonObject, secret: bytes) -> "IntervalWork":
    """Open a finished release whose intervals are asked for; the secret is empty.

    Raises:
        StoreError: a file is missing, or is not what the command read.
    """
    root = Path(description["release"])
    # The manifest names every other file by its digest, so this one binds them all.
    await_file(root / MANIFEST, description["manifest"])
    table = None
    if description["entities"] is not None:
        shared = root / CHUNKS / _SHARED / ENTITIES
        await_file(shared, description["entities"])
        table = read_parquet(shared)
    question = IntervalQuestion(entities=table, **description["question"])
    job = made_with_patience(lambda: question.job(open_release(root, in_run=True, kinds=MAIN_PRODUCT)))
    staged = root / CHUNKS / _STAGED / os.urandom(8).hex()
    return IntervalWork(job, pieces_of(job, is_remote=True), ChunkFolders(root, staged), question.in_tables)


@dataclass(slots=True, eq=False)
class IntervalWork:
    """The intervals of a release in one process. What was estimated last is held for the next chunk.

    Attributes:
        job: What is asked.
        pieces: What each chunk makes.
        folders: Where chunks write.
        in_tables: Whether tables are written anew, too.
        start: Where the run's own process writes; None in other processes, which write to a folder for each chunk.
        workers: Number of threads of a chunk.
        observer: Told of progress.
        watch: Times the stages.
    """

    job: IntervalJob
    pieces: list[Piece]
    folders: ChunkFolders
    in_tables: bool
    start: Callable[[], Folders] | None = None
    workers: int = 1
    observer: Observer = field(default_factory=SilentObserver)
    watch: Stopwatch = field(default_factory=lambda: Stopwatch(SilentObserver()))
    _estimate: tuple[int, FitTables] | None = field(init=False, default=None)
    _level: tuple[int, LevelTables] | None = field(init=False, default=None)

    def chunks(self, address: JsonObject) -> Chunks[list[Tally]]:
        """The work; there is only one."""
        return self.folders.chunks(address, list[Tally], self._tallies, at_once=1)

    def _tallies(self, number: int) -> list[Tally]:
        piece = self.pieces[number]
        tables = self._fit(piece.fit)
        folders = self._folders(number) if self.start is None else self.start()
        if piece.step is None:
            return _joined([step.write(folders, self.observer) for step in tables.steps()])
        step: WritingStep = list(tables.steps())[piece.step]
        if piece.query is not None and step.level is not None:
            return self._of_level(tables, step.level).write_file(folders, piece.query, piece.file)
        with self.watch.stage(tables.interval_fit.stage(f"intervals {step.name}"), step.size):
            return step.write(folders, self.observer)

    def _folders(self, number: int) -> Folders:
        root = self.folders.root(number)
        return Folders(root, root / (TABLES + TEMPORARY_SUFFIX) if self.in_tables else None)

    def _fit(self, number: int) -> FitTables:
        if self._estimate is None or self._estimate[0] != number:
            # The model before is freed first; two may not fit.
            self._estimate = None  # frees what it holds
            self._estimate = number, self.job.tables_of(self.job.fits[number], self.workers, self.watch)
        return self._estimate[1]

    def _of_level(self, tables: FitTables, level: int) -> LevelTables:
        if self._level is None or self._level[0] != level:
            self._level = None
            self._level = level, tables.level(level)
        return self._level[1]
