"""The job of `tallyveil intervals`: write an interval beside every published count of a finished release."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError
from tallyveil.geography.areas import area_spine
from tallyveil.geography.spine import Spine
from tallyveil.intervals import (
    Answers,
    KeptRows,
    Questions,
    TreeEstimate,
    fit_tree,
    questions_of,
    region_answers,
    region_of,
    stream_answers,
    tree_covariance,
)
from tallyveil.intervals.interval import covers_of_tables, intervals_if_any, refuse_level
from tallyveil.measurements.store import FOLDER as MEASUREMENTS
from tallyveil.postprocess.bounds_files import BOUNDS
from tallyveil.postprocess.interval_areas import (
    Area,
    entity_families,
    family_counts,
    released_areas,
    with_given,
)
from tallyveil.postprocess.interval_model import (
    FinishedRelease,
    measured_rows,
    open_release,
    published_invariants,
    refuse_partial_measurements,
    release_model,
)
from tallyveil.postprocess.interval_readme import readme_of
from tallyveil.release.areas import area_counts
from tallyveil.release.checks import check_tables
from tallyveil.release.estimated import require_own_kind
from tallyveil.release.geography import GEOGRAPHY
from tallyveil.release.histograms import HISTOGRAM, read_histogram
from tallyveil.release.interval_tables import (
    BESIDE,
    clear_other_tables,
    exchange_tables,
    manifest_with_tables,
    refuse_earlier_tables,
    start_tables,
)
from tallyveil.release.intervals import (
    INTERVALS,
    INTERVALS_MANIFEST,
    Compared,
    IntervalTable,
    finish_intervals,
    intervals_manifest,
    start_intervals,
)
from tallyveil.release.kinds import ReleaseKind
from tallyveil.release.manifest import ListedFile, Manifest, stage_times
from tallyveil.release.manifest_files import require_unchanged_files, write_manifest, written_manifest
from tallyveil.release.tables import TABLES
from tallyveil.runs.observer import Observer, SilentObserver
from tallyveil.runs.stopwatch import Stopwatch
from tallyveil.storage.claims import Claim, is_unfinished
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.system import usable_cores
from tallyveil.storage.write import file_digest
from tallyveil.universe.counts import PublicCounts
from tallyveil.universe.names import check_table_name
from tallyveil.universe.query_group import QueryGroup
from tallyveil.version import VERSION

COMMAND = "intervals"
READ = frozenset({GEOGRAPHY, BOUNDS, HISTOGRAM, MEASUREMENTS})
"""Files and folders of a release from which intervals follow."""
INTERVALS_FORMAT = 2


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
    observer: Observer | None = None,
    workers: int | None = None,
) -> IntervalsOutcome:
    """Write `intervals/` into the folder of a finished release and add columns to its tables, replacing earlier ones.

    Args:
        root: Release folder, with all its measurements.
        tables: Queries, measured or not; None for those of the release's tables.
        entities: Table with a column `geocode` of finest geocodes and a column for each family of entities, or None.
        families: Columns of `entities` to read; None for every other text column.
        level: Coverage of each interval.
        simultaneous: Whether all intervals of a table together have that coverage (Bonferroni).
        with_bounds: Whether the zeros of the release's public bounds are used.
        in_tables: Whether the tables of the release get the same columns, and its manifest their new digests.
        in_run: Whether this is the last step of the release's own run, which holds the folder and whose manifest then
            states its time and memory.
        observer: Told of progress.
        workers: Threads; None for one a core. The files do not depend on it.
    Raises:
        StoreError: the release is not finished, lacks measurements or bounds, or a file was changed; another process
            makes intervals in it, or it cannot be written to.
        ConfigError: the level is out of range.
        SchemaError, GeographyError, ConstraintError: queries, entities or zeros do not fit the release.
    Privacy: post-processing. Nothing is spent, because everything follows from published data.
    """
    written_manifest(root, ReleaseKind.TOPDOWN)  # no file is made in a folder that holds no release
    with Claim(root, COMMAND) as claim:
        release = open_release(root, in_run=in_run)
        refuse_partial_measurements(release)
        if not in_run:  # the run has just looked at its files
            # Where the same command was interrupted, it may have exchanged tables already.
            tabulated = {TABLES} if in_tables and not claim.goes_on else set()
            require_unchanged_files(root, release.manifest, READ | tabulated)
        if in_tables:
            refuse_earlier_tables(root, "Leave them as they are with --leave-tables")
        told = observer or SilentObserver()
        watch, threads = Stopwatch(told), workers or usable_cores()
        groups = _asked(release, tables)
        found = () if entities is None else entity_families(release.spine, entities, families)
        areas = with_given(release.spine, released_areas(release), found)
        with watch.stage("covariances"):
            model = release_model(release, with_bounds=with_bounds)
            refuse_level(level)
            covariance = tree_covariance(model, workers=threads)
        with watch.stage("read and fit"):
            rows = KeptRows(measured_rows(release, model))
            fit = fit_tree(covariance, rows, published_invariants(release, model), workers=threads)
        staging = start_tables(root) if in_tables else None
        questions = questions_of(covariance.algebra, groups)
        work = _Work(release, fit, groups, questions, level, simultaneous, threads, staging)
        unfinished = start_intervals(root)
        compared: list[Compared] = []
        for name, size, write in work.steps(areas, told):
            with watch.stage(f"intervals {name}", size):
                compared += write()
        content = work.content(with_bounds=with_bounds)
        readme = readme_of(release, model, level, work.covers, with_bounds=with_bounds)
        claim.begin()
        manifest = _finish(work, unfinished, content, compared, readme, watch.stages if in_run else [])
    return IntervalsOutcome(manifest, tuple((stage["stage"], stage["seconds"]) for stage in watch.stages))


@dataclass(frozen=True, slots=True)
class PlannedIntervals:
    """The last step of a release: the intervals that its plan asks for. Those that are there stay.

    Attributes:
        level: Coverage that the plan asks for; None if it asks for no intervals.
        estimated_from: What the release says of the measurements it is estimated from; None for its own.
        observer: Receives reports of progress.
        workers: Number of threads.
    """

    level: Fraction | None
    estimated_from: JsonObject | None = None
    observer: Observer | None = None
    workers: int | None = None

    def refuse(self, out: Path, manifest: Manifest) -> None:
        """Refuse a finished release of the same plan that another command made; raises StoreError."""
        require_own_kind(out, manifest, ReleaseKind.TOPDOWN, self.estimated_from)

    def is_done(self, out: Path) -> bool:
        """Whether the folder holds the intervals, or the plan asks for none."""
        there = intervals_manifest(out) is not None and not is_unfinished(out)
        return self.level is None or there

    def do(self, out: Path) -> None:
        """Make the intervals; raises StoreError."""
        level = None if self.level is None else float(self.level)
        if level is not None:
            make_intervals(out, level=level, in_run=True, observer=self.observer, workers=self.workers)


def _asked(release: FinishedRelease, tables: Sequence[str] | None) -> tuple[QueryGroup, ...]:
    names = dict.fromkeys(tables or release.plan["tables"])
    if not names:
        raise ConfigError(
            f"{release.root} publishes no tables beside which intervals could be written. Name queries with --tables.",
            code="interval-tables",
        )
    for name in names:
        check_table_name(name, "query")
    return tuple(release.schema.query(name) for name in names)


def _finish(
    work: "_Work",
    unfinished: Path,
    content: Mapping[str, Any],
    compared: Sequence[Compared],
    readme: str,
    stages: Sequence[JsonObject],
) -> dict[str, Any]:
    """Replace `intervals/`, then the tables and their digests."""
    root = work.release.root
    if work.staging is not None:
        clear_other_tables(root, work.staging, work.tabulated)
    manifest = finish_intervals(root, unfinished, content, compared, readme)
    exchanged = set() if work.staging is None else exchange_tables(root, work.staging)
    stated = {
        "level": work.level,
        "tables": sorted(work.tabulated) if work.staging is not None else [],
        "columns": list(BESIDE),
        "manifest_sha256": file_digest(root / INTERVALS / INTERVALS_MANIFEST),
    }
    beside = [ListedFile(**file) for file in manifest["files"]]
    whole = manifest_with_tables(root, work.release.manifest, exchanged, beside, stated)
    timed = {stage["stage"] for stage in stages}
    kept = tuple(stage for stage in whole.performance if stage.stage not in timed)
    write_manifest(root, replace(whole, performance=kept + stage_times(stages)))
    return manifest


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """One job, with everything that its tables need."""

    release: FinishedRelease
    fit: TreeEstimate
    groups: tuple[QueryGroup, ...]
    questions: Questions
    level: float
    simultaneous: bool
    workers: int
    staging: Path | None

    @property
    def covers(self) -> str:
        """What the intervals cover, or why there are none."""
        return covers_of_tables(self.fit.covariance.model, self.level, simultaneous=self.simultaneous)

    @property
    def tabulated(self) -> set[str]:
        """Queries for which the release publishes tables."""
        return {group.name for group in self.groups} & set(self.release.plan["tables"])

    def steps(
        self, areas: Sequence[Area], observer: Observer
    ) -> list[tuple[str, int, Callable[[], list[Compared]]]]:
        """Name, size and work of every area: original geolevels by their number of geounits, then entities."""
        spine = self.release.spine
        replaced = {area.family.name for area in areas if not area.is_entity}
        levels: list[tuple[str, int, Callable[[], list[Compared]]]] = [
            (name, spine.n_geounits(number), partial(self.write_level, number, observer))
            for number, name in enumerate(spine.geolevels)
            if name not in replaced
        ]
        others = [
            (area.family.name, area.family.n_entities, partial(self.write_area, area, observer))
            for area in areas
        ]
        levels += others[: len(replaced)]
        return sorted(levels, key=lambda step: step[1]) + others[len(replaced) :]

    def write_level(self, number: int, observer: Observer) -> list[Compared]:
        """Write every table of a geolevel."""
        release = self.release
        geolevel = release.spine.geolevels[number]
        counts = read_histogram(release.root, geolevel, release.schema, release.spine)
        codes = release.spine.geocodes[number].text
        tables = self._tables(geolevel, is_entity=False, tabulated=True)
        for start, stop, answers in stream_answers(self.fit, number, self.questions, workers=self.workers):
            published = [group.apply(*counts.rows(start, stop), stop - start) for group in self.groups]
            self._add(tables, len(codes), codes[start:stop], np.concatenate(published, axis=1), answers)
            observer.advanced(stop - start)
        compared = [table.finish() for table in tables]
        self._check(counts, release.spine)
        return compared

    def write_area(self, area: Area, observer: Observer) -> list[Compared]:
        """Write every table of an area that is not on the spine."""
        spine, family = self.release.spine, area.family
        counts = read_histogram(self.release.root, spine.geolevels[-1], self.release.schema, spine)
        regions = [region_of(spine, family.members_of(entity)) for entity in range(family.n_entities)]
        answers = region_answers(self.fit, regions, self.questions, workers=self.workers)
        tables = self._tables(family.name, is_entity=area.is_entity, tabulated=area.tabulated)
        published = family_counts(counts, family, self.groups)
        self._add(tables, family.n_entities, pl.Series(family.codes), published, answers)
        observer.advanced(family.n_entities)
        compared = [table.finish() for table in tables]
        if area.tabulated:
            self._check(area_counts(counts, family, self.release.schema.size), area_spine(family))
        return compared

    def content(self, *, with_bounds: bool) -> dict[str, Any]:
        """The part of the manifest that does not list tables and files."""
        bounds = [item["name"] for item in self.release.plan["bounds"]]
        return {
            "format": INTERVALS_FORMAT,
            "name": self.release.name,
            "run": self.release.manifest.run,
            "protected": self.release.manifest.protected,
            "level": self.level,
            "kind": "unified" if self.fit.covariance.model.gaussian else "none",
            "simultaneous": self.simultaneous,
            "covers": self.covers,
            "bounds_used": bounds if with_bounds else [],
            "bounds_left_out": [] if with_bounds else bounds,
            "tallyveil": VERSION,
        }

    def _tables(self, area: str, *, is_entity: bool, tabulated: bool) -> list[IntervalTable]:
        tags = {**self.release.tags, "level": f"{self.level:g}", "covers": self.covers}
        return [
            IntervalTable(
                self.release.root,
                area,
                group,
                is_entity,
                tags,
                self.staging if tabulated and group.name in self.tabulated else None,
            )
            for group in self.groups
        ]

    def _check(self, counts: PublicCounts, spine: Spine) -> None:
        """Read back the tables that got new columns and check them."""
        if self.staging is not None:
            groups = [group for group in self.groups if group.name in self.tabulated]
            check_tables(self.staging, counts, groups, spine)

    def _add(
        self,
        tables: Sequence[IntervalTable],
        n_rows: int,
        codes: pl.Series,
        published: Integers,
        answers: Answers,
    ) -> None:
        """Add some of the `n_rows` geounits or entities of an area to its tables."""
        place = 0
        for table in tables:
            own = slice(place, place + table.group.size)
            part = Answers(answers.estimates[:, own], answers.variances[:, own])
            together = n_rows * table.group.size if self.simultaneous else 1
            model = self.fit.covariance.model
            made = intervals_if_any(model, part, level=self.level, simultaneous=together)
            table.add(codes, published[:, own], part, made)
            place = own.stop
