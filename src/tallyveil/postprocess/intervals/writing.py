"""The tables of a job of intervals, each written from the estimate of its fit."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.estimation.intervals.answers import Answers, LevelAnswers, region_answers
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import TreeEstimate, fit_tree
from tallyveil.estimation.intervals.interval import covers_of_tables, intervals_if_any
from tallyveil.estimation.intervals.model import TreeModel
from tallyveil.estimation.intervals.questions import Questions
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.files.checks import check_table_part, check_tables
from tallyveil.files.histograms import area_counts, read_histogram
from tallyveil.files.intervals import (
    Compared,
    IntervalTable,
    Tally,
    compared_of,
    files_of_intervals,
)
from tallyveil.geography.areas import area_spine
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.postprocess.intervals.areas import IntervalArea, family_counts
from tallyveil.postprocess.intervals.fits import IntervalFit
from tallyveil.postprocess.intervals.model import FinishedRelease
from tallyveil.runs.observer import Observer, Stopwatch
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.query_group import QueryGroup
from tallyveil.version import VERSION

# Of `intervals/_manifest.json`; readers refuse a format that they do not know.
INTERVALS_FORMAT = 2


class Folders(NamedTuple):
    """Where intervals are written.

    Attributes:
        root: The release folder, or one from which files are moved into it.
        staging: Where tables are written anew, with intervals; None to leave them.
    """

    root: Path
    staging: Path | None


@dataclass(frozen=True, slots=True, eq=False)
class IntervalJob:
    """What is asked of a release.

    Attributes:
        release: The release.
        groups: Queries of the tables.
        fits: What is estimated.
        areas: The areas that get intervals beside the geolevels of the spine.
        level: Coverage.
        simultaneous: Whether all intervals of a table together have it.
        with_bounds: Whether the zeros of public bounds are used.
    """

    release: FinishedRelease
    groups: tuple[QueryGroup, ...]
    fits: Sequence[IntervalFit]
    areas: Sequence[IntervalArea]
    level: float
    simultaneous: bool
    with_bounds: bool

    @property
    def model(self) -> TreeModel:
        """The model of the last fit."""
        return self.fits[-1].model

    @property
    def tabulated(self) -> set[str]:
        """Queries for which the release publishes tables; none of measurements alone."""
        if self.release.is_alone:
            return set()
        return {group.name for group in self.groups} & set(self.release.plan["tables"])

    @property
    def without_intervals(self) -> list[QueryGroup]:
        """The other queries for which the release publishes tables."""
        schema, names = self.release.schema, self.release.plan["tables"]
        return [schema.query(name) for name in names if name not in self.tabulated]

    def covers(self, model: TreeModel) -> str:
        """What the intervals of a model cover, or why there are none."""
        return covers_of_tables(model, self.level, simultaneous=self.simultaneous)

    def content(self) -> dict[str, Any]:
        """The part of the manifest that does not list tables and files."""
        bounds = [item["name"] for item in self.release.plan["bounds"]]
        apart = [fit.to_mapping(self.release) for fit in self.fits if fit.merged is not None]
        return {
            "format": INTERVALS_FORMAT,
            "name": self.release.name,
            "run": self.release.manifest.run,
            "protected": self.release.manifest.protected,
            "level": self.level,
            "kind": "unified" if self.model.gaussian else "none",
            "simultaneous": self.simultaneous,
            "covers": self.covers(self.model),
            "bounds_used": bounds if self.with_bounds else [],
            "bounds_left_out": [] if self.with_bounds else bounds,
            "tallyveil": VERSION,
            **({"estimated_from": apart} if apart else {}),
            # Only said where it differs from what all releases have.
            **({"counts": False} if self.release.is_alone else {}),
        }

    def in_order(self, tallies: Sequence[Tally]) -> list[Compared]:
        """One entry for each table, by area and then by query."""
        compared = compared_of(tallies)
        areas = list(dict.fromkeys(table.area for table in compared))
        queries = [group.name for group in self.groups]
        return sorted(compared, key=lambda table: (areas.index(table.area), queries.index(table.query)))

    def tables_of(self, fit: IntervalFit, workers: int, watch: Stopwatch) -> "FitTables":
        """Estimate one fit."""
        with watch.stage(fit.stage("covariances")):
            covariance = tree_covariance(fit.model, workers=workers)
        with watch.stage(fit.stage("read and fit")):
            rows, exact = fit.rows(self.release), fit.invariants(self.release)
            return FitTables(self, fit, fit_tree(covariance, rows, exact, workers=workers), workers)


class WritingStep(NamedTuple):
    """The tables of a geolevel or of an area.

    Attributes:
        name: Its name.
        size: Its number of geounits or entities.
        level: Number of the geolevel; None for an area.
        write: Writes them.
    """

    name: str
    size: int
    level: int | None
    write: Callable[[Folders, Observer], list[Tally]]


def steps_of(
    spine: Spine, areas: Sequence[IntervalArea]
) -> list[tuple[str, int, int | None, IntervalArea | None]]:
    """Name, size, and number of the geolevel or the area, of every step of a fit.

    Original geolevels come first, by their number of geounits, and then entities.
    """
    replaced = {area.family.name for area in areas if not area.is_entity}
    levels: list[tuple[str, int, int | None, IntervalArea | None]] = [
        (name, spine.n_geounits(number), number, None)
        for number, name in enumerate(spine.geolevels)
        if name not in replaced
    ]
    others = [(area.family.name, area.family.n_entities, None, area) for area in areas]
    levels += others[: len(replaced)]
    return sorted(levels, key=lambda step: step[1]) + others[len(replaced) :]


@dataclass(frozen=True, eq=False)
class FitTables:
    """One fit, estimated, with everything that its tables need.

    Attributes:
        job: What is asked.
        interval_fit: What is estimated together.
        fit: Its estimates.
        workers: Number of threads.
    """

    job: IntervalJob
    interval_fit: IntervalFit
    fit: TreeEstimate
    workers: int

    @cached_property
    def questions(self) -> Questions:
        """The answers of all tables, one table after the other: the same for all geolevels and areas."""
        return self.interval_fit.questions

    def steps(self) -> Iterator[WritingStep]:
        """The tables, geolevel by geolevel, and then of the areas."""
        for name, size, level, area in steps_of(self.job.release.spine, self.job.areas):
            if area is not None:
                yield WritingStep(name, size, None, partial(self._write_area, area))
            elif level is not None:
                yield WritingStep(name, size, level, partial(self._write_level, level))

    def level(self, number: int) -> "LevelTables":
        """The tables of a geolevel, which can be written file by file."""
        release = self.job.release
        geolevel = release.spine.geolevels[number]
        place = self.interval_fit.model.spine.level_index(geolevel)
        answers = LevelAnswers.of(self.fit, place, self.questions)
        # Published counts stand beside every interval, and are read once for all tables of the geolevel.
        return LevelTables(self, geolevel, self._counts(geolevel), answers)

    def published_of(self, family: EntityFamily) -> Integers | None:
        """Published answers of some areas, one query after the other; None of measurements alone."""
        counts = self._counts(self.job.release.spine.geolevels[-1])
        return None if counts is None else family_counts(counts, family, self.interval_fit.groups)

    def _counts(self, geolevel: str) -> PublicCounts | None:
        """The published counts of a geolevel; None of measurements alone."""
        release = self.job.release
        if release.is_alone:
            return None
        return read_histogram(release.root, geolevel, release.schema, release.spine)

    def _write_level(self, number: int, folders: Folders, observer: Observer) -> list[Tally]:
        """Write every table of a geolevel."""
        level, spine = self.level(number), self.job.release.spine
        codes = spine.geocodes[number].text
        tables = self.tables(folders, level.geolevel, is_entity=False, tabulated=True)
        for start, stop, answers in level.answers.stream(workers=self.workers):
            published = level.published(self.interval_fit.groups, start, stop)
            self._add(tables, len(codes), codes[start:stop], published, answers)
            observer.advanced(stop - start)
        tallies = [table.finish() for table in tables]
        # Read back as written, like every file of a release.
        if level.counts is not None:
            self._check(folders, level.counts, spine)
        return tallies

    def _write_area(self, area: IntervalArea, folders: Folders, observer: Observer) -> list[Tally]:
        """Write every table of an area that is not on the spine."""
        release, family = self.job.release, area.family
        spine = release.spine
        regions = [region_of(spine, family.members_of(entity)) for entity in range(family.n_entities)]
        answers = region_answers(self.fit, regions, self.questions, workers=self.workers)
        tables = self.tables(folders, family.name, is_entity=area.is_entity, tabulated=area.tabulated)
        self._add(tables, family.n_entities, pl.Series(family.codes), self.published_of(family), answers)
        observer.advanced(family.n_entities)
        tallies = [table.finish() for table in tables]
        counts = self._counts(spine.geolevels[-1]) if area.tabulated else None
        if counts is not None:
            self._check(folders, area_counts(counts, family, release.schema.size), area_spine(family))
        return tallies

    def tables(
        self, folders: Folders, area: str, *, is_entity: bool, tabulated: bool, first: int = 0
    ) -> list[IntervalTable]:
        """The tables of an area, empty; their files are numbered from `first`."""
        job = self.job
        tags = {**job.release.tags, "level": f"{job.level:g}", "covers": job.covers(self.interval_fit.model)}
        return [
            IntervalTable(
                folders.root,
                area,
                group,
                is_entity,
                tags,
                folders.staging if tabulated and group.name in job.tabulated else None,
                first,
            )
            for group in self.interval_fit.groups
        ]

    def add(
        self, table: IntervalTable, n_rows: int, codes: pl.Series, published: Integers | None, part: Answers
    ) -> None:
        """Add some of the `n_rows` geounits or entities of an area to a table."""
        # Bonferroni over all rows of the table, although they are written some at a time.
        together = n_rows * table.group.size if self.job.simultaneous else 1
        intervals = intervals_if_any(
            self.interval_fit.model, part, level=self.job.level, simultaneous=together
        )
        table.add(codes, published, part, intervals)

    def _check(self, folders: Folders, counts: PublicCounts, spine: Spine) -> None:
        """Read back the tables that got new columns and check them."""
        if folders.staging is not None:
            groups = [group for group in self.interval_fit.groups if group.name in self.job.tabulated]
            check_tables(folders.staging, counts, groups, spine, whole=True)

    def _add(
        self,
        tables: Sequence[IntervalTable],
        n_rows: int,
        codes: pl.Series,
        published: Integers | None,
        answers: Answers,
    ) -> None:
        """Add some of the `n_rows` geounits or entities of an area to its tables."""
        place = 0
        for table in tables:
            columns = slice(place, place + table.group.size)
            part = Answers(answers.estimates[:, columns], answers.variances[:, columns])
            self.add(table, n_rows, codes, None if published is None else published[:, columns], part)
            place = columns.stop


@dataclass(frozen=True, slots=True, eq=False)
class LevelTables:
    """The tables of a geolevel.

    Attributes:
        work: The fit.
        geolevel: Its name.
        counts: Published counts; None of measurements alone.
        answers: Estimates and variances.
    """

    work: FitTables
    geolevel: str
    counts: PublicCounts | None
    answers: LevelAnswers

    def published(self, groups: Sequence[QueryGroup], start: int, stop: int) -> Integers | None:
        """Published answers of some geounits, one query after the other; None of measurements alone."""
        if self.counts is None:
            return None
        rows = self.counts.rows(start, stop)
        return np.concatenate([group.apply(*rows, stop - start) for group in groups], axis=1)

    def write_file(self, folders: Folders, query: int, file: int) -> list[Tally]:
        """Write one file of a table, the same as all together would be.

        All questions are answered for its geounits, because sums of floats may depend on what is asked together.

        Args:
            folders: Where to write.
            query: Number of the query.
            file: Number of the file.
        """
        work = self.work
        codes = work.interval_fit.model.spine.geocodes[self.answers.level].text
        table = work.tables(folders, self.geolevel, is_entity=False, tabulated=True, first=file)[query]
        group, place = table.group, sum(group.size for group in work.interval_fit.groups[:query])
        # Only these rows, but all questions: floats are summed as in one process.
        rows = list(files_of_intervals(len(codes), self.answers.at_once, group.size))[file]
        for start, stop, answers in self.answers.stream(rows, workers=work.workers):
            columns = slice(place, place + group.size)
            part = Answers(answers.estimates[:, columns], answers.variances[:, columns])
            work.add(table, len(codes), codes[start:stop], self.published([group], start, stop), part)
        tally = table.finish()
        if table.staging is not None and self.counts is not None:
            check_table_part(table.staging, self.counts, group, codes, file, rows)
        return [tally]
