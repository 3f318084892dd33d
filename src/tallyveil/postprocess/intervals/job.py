"""The job of `tallyveil intervals`: write an interval beside every published count of a finished release."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import polars as pl

from tallyveil.estimation.intervals.interval import refuse_level
from tallyveil.estimation.intervals.model import TreeModel
from tallyveil.files.geography import GEOGRAPHY
from tallyveil.files.histograms import HISTOGRAM
from tallyveil.files.intervals import (
    BESIDE,
    INTERVALS,
    INTERVALS_MANIFEST,
    Compared,
    clear_other_tables,
    exchange_tables,
    finish_intervals,
    forget_replaced,
    intervals_manifest,
    manifest_with_tables,
    refuse_earlier_tables,
    start_intervals,
    start_tables,
    undo_exchange,
)
from tallyveil.files.manifest import ListedFile, Manifest, ReleaseKind
from tallyveil.files.manifest_files import (
    MAIN_PRODUCT,
    require_own_kind,
    require_unchanged_files,
    write_manifest,
    written_manifest,
)
from tallyveil.files.marks import marked_text, marks_of
from tallyveil.files.tables import TABLES
from tallyveil.measurements.names import FOLDER as MEASUREMENTS
from tallyveil.postprocess.constraint_files import BOUNDS
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.intervals.chunks import (
    IntervalQuestion,
    IntervalWork,
    interval_executor,
    pieces_of,
    write_tables,
)
from tallyveil.postprocess.intervals.model import FinishedRelease, open_release, refuse_partial_measurements
from tallyveil.postprocess.intervals.writing import Folders, IntervalJob
from tallyveil.runs.executor import Executors, Threads
from tallyveil.runs.observer import Observer, SilentObserver, Stopwatch
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.system import usable_cores
from tallyveil.storage.write import Claim, file_digest, is_unfinished

COMMAND = "intervals"
READ = frozenset({GEOGRAPHY, BOUNDS, HISTOGRAM, MEASUREMENTS})
"""Files and folders of a release from which intervals follow."""


@dataclass(frozen=True, slots=True)
class IntervalsOutcome:
    """What was written.

    Attributes:
        manifest: Content of `intervals/_manifest.json`.
        seconds: Time by stage, in order.
    """

    manifest: dict[str, Any]
    seconds: tuple[tuple[str, float], ...]


def make_intervals(
    root: Path,
    *,
    tables: Sequence[str] | None = None,
    entities: "pl.DataFrame | None" = None,
    families: Sequence[str] | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    with_bounds: bool = True,
    in_tables: bool = True,
    in_run: bool = False,
    looked: bool = False,
    observer: Observer | None = None,
    workers: int | None = None,
    executors: Executors | None = None,
) -> IntervalsOutcome:
    """Write `intervals/` into the folder of a finished release and add columns to its tables, replacing earlier ones.

    Args:
        root: Release folder, with all its measurements; or a folder of measurements alone, which has no counts.
        tables: Queries, measured or not; None for those of the release's tables.
        entities: Table with a column `geocode` of finest geocodes and a column for each family of entities, or None.
        families: Columns of `entities` to read; None for every other text column.
        level: Coverage of each interval.
        simultaneous: Whether all intervals of a table together have that coverage (Bonferroni).
        with_bounds: Whether the zeros of the release's public bounds are used.
        in_tables: Whether the tables of the release get the same columns, and its manifest their new digests.
        in_run: Whether this is the last step of the release's own run, which holds the folder.
        looked: Whether this process has just compared every file of the release with its manifest.
        observer: Told of progress.
        workers: Threads; None for one a core. The files do not depend on it.
        executors: What does the work; None for these threads. The files do not depend on it.
    Raises:
        StoreError: the release is not finished, lacks measurements or bounds, or a file was changed; another process
            makes intervals in it, or it cannot be written to.
        ConfigError: the level is out of range.
        SchemaError, GeographyError, ConstraintError: queries, entities or zeros do not fit the release.
    Privacy: post-processing. Nothing is spent, because everything follows from published data.
    """
    # No file is made in a folder that holds no release. Measurements alone have no tables.
    alone = written_manifest(root, *MAIN_PRODUCT).kind is ReleaseKind.MEASUREMENTS
    in_tables = in_tables and not alone
    threads = workers or usable_cores()
    question = IntervalQuestion(tables, entities, families, level, simultaneous, with_bounds, in_tables)
    # The claim keeps two commands from exchanging the same tables.
    with Claim(root, COMMAND) as claim, interval_executor(root, executors or Threads(threads)) as executor:
        release = open_release(root, in_run=in_run, kinds=MAIN_PRODUCT)
        refuse_partial_measurements(release)
        # A command that was killed while tables were exchanged left both; the released ones are put back.
        undo_exchange(root, release.manifest)
        # In a run's last step every file has just been compared, which takes as long as reading all of them.
        if not looked:
            require_unchanged_files(root, release.manifest, READ | ({TABLES} if in_tables else set()))
        if in_tables:
            refuse_earlier_tables(root, "Leave them as they are with --leave-tables")
        told = observer or SilentObserver()
        watch = Stopwatch(told)
        refuse_level(level)
        job = question.job(release)
        folders = list[Folders]()

        def start() -> Folders:
            staging = start_tables(root) if in_tables else None
            folders.append(Folders(start_intervals(root), staging))
            return folders[0]._replace(root=root)

        work = IntervalWork(
            job,
            pieces_of(job, is_remote=executor.is_remote),
            ChunkFolders(root),
            in_tables,
            workers=threads,
            observer=told,
            watch=watch,
        )
        tallies = write_tables(executor, question, work, start)
        readme = readme_of(release, job.model, level, job.covers(job.model), with_bounds=with_bounds)
        # From here on the folder counts as unfinished until everything is exchanged.
        claim.begin()
        manifest = _finish(job, folders[0], job.in_order(tallies), readme)
    return IntervalsOutcome(manifest, tuple(watch.seconds))


@dataclass(frozen=True, slots=True)
class PlannedIntervals:
    """The last step of a release: the intervals that its plan asks for. Those that are there stay.

    Attributes:
        level: Coverage that the plan asks for; None if it asks for no intervals.
        estimated_from: What the release says of the measurements it is estimated from; None for its own.
        observer: Receives reports of progress.
        workers: Number of threads.
        executors: What does the work; None for these threads.
    """

    level: Fraction | None
    estimated_from: JsonObject | None = None
    observer: Observer | None = None
    workers: int | None = None
    executors: Executors | None = None

    def refuse(self, out: Path, manifest: Manifest) -> None:
        """Refuse a finished release of the same plan that another command made; raises StoreError."""
        require_own_kind(out, manifest, ReleaseKind.TOPDOWN, self.estimated_from)

    def is_done(self, out: Path) -> bool:
        """Whether the folder holds the intervals, or the plan asks for none."""
        there = intervals_manifest(out) is not None and not is_unfinished(out)
        return self.level is None or there

    def do(self, out: Path, *, looked: bool) -> None:
        """Make the intervals; raises StoreError. The argument is that of `make_intervals`."""
        level = None if self.level is None else float(self.level)
        if level is not None:
            make_intervals(
                out,
                level=level,
                in_run=True,
                looked=looked,
                observer=self.observer,
                workers=self.workers,
                executors=self.executors,
            )


def _finish(
    job: IntervalJob,
    folders: Folders,
    compared: Sequence[Compared],
    readme: str,
) -> dict[str, Any]:
    """Replace `intervals/`, then the tables and their digests.

    Args:
        job: What was asked.
        folders: The folder of the intervals, and that of the tables.
        compared: One entry for each table.
        readme: Text for readers of the files.
    """
    root = job.release.root
    # Intervals first, tables next, the manifest last: it lists the digests of both.
    if folders.staging is not None:
        clear_other_tables(root, folders.staging, job.without_intervals)
    manifest = finish_intervals(root, folders.root, job.content(), compared, readme)
    exchanged = set() if folders.staging is None else exchange_tables(root, folders.staging)
    stated = {
        "level": job.level,
        "tables": sorted(job.tabulated) if folders.staging is not None else [],
        "columns": list(BESIDE),
        "manifest_sha256": file_digest(root / INTERVALS / INTERVALS_MANIFEST),
    }
    beside = [ListedFile(**file) for file in manifest["files"]]
    write_manifest(root, manifest_with_tables(root, job.release.manifest, exchanged, beside, stated))
    if folders.staging is not None:
        # Only after the new manifest names the new tables may the old ones go.
        forget_replaced(folders.staging)
    return manifest


def readme_of(
    release: FinishedRelease, model: TreeModel, level: float, covers: str, *, with_bounds: bool
) -> str:
    """The text of `intervals/_README.txt`.

    Args:
        release: The release.
        model: The model of its measurements.
        level: Coverage of the intervals.
        covers: What the intervals cover, or why there are none.
        with_bounds: Whether the zeros of public bounds are used.
    """
    zeros = "Public zeros of the release's bounds were used."
    if not release.plan["bounds"]:
        zeros = "The release has no public bounds."
    elif not with_bounds:
        zeros = "Public bounds were left out, which widens the intervals."
    if release.stated.tables_apart:
        zeros += (
            " Each query is estimated by itself,\nfrom noisy answers of the queries that _manifest.json lists. So "
            "estimates of two queries need not agree."
        )
    text = _README.format(
        name=release.name,
        attributes=", ".join(release.schema.attribute_names),
        interval=f"the {100 * level:g} % interval: whole numbers, both ends belong to it"
        if model.gaussian
        else "null; the count itself where it is exact",
        count="" if release.is_alone else _COUNT,
        chosen="estimates" if release.is_alone else "counts",
        what="an estimate" if release.is_alone else "a count",
        covers=covers,
        units=release.schema.unit.many,
        zeros=zeros,
    )
    return marked_text(marks_of(release.manifest).lines(), text)


_COUNT: Final = "  count           the released count: whole, not negative, and for that slightly biased\n"
_README = """Intervals of the release {name}

One row for every geounit (or entity) and answer, zeros included:
  geolevel, query the geolevel or family of entities, and the query: in the names of the folders
  geocode         the geounit, or the name of the entity
  {attributes}
                  the label of the answer's group; null where the query sums the attribute out
{count}  estimate        an unbiased estimate from the noisy measurements; may be negative or fractional
  standard_error  of the estimate, from the privacy noise alone, {units}
  lower, upper    {interval}
A number is null where the measurements do not determine the answer. Where the standard error is 0 the count is exact.

{covers}

{zeros}
For a sum of rows do not add up ends: estimates add up, ends and standard errors do not. Ask for the sum itself:
`tallyveil intervals RUN --district FILE`, or entities with --entities. Choose rows by their codes and labels, not by
their {chosen}: rows with {what} above 0 have estimates that are too high, and their intervals cover less often than
stated. Nothing here costs privacy-loss budget.
"""
