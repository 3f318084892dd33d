"""The tables of a job of intervals: each fit is estimated, and its tables are written before the next fit begins."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.geography.areas import area_spine
from tallyveil.geography.spine import Spine
from tallyveil.intervals import (
    Answers,
    Questions,
    TreeEstimate,
    fit_tree,
    region_answers,
    region_of,
    stream_answers,
    tree_covariance,
)
from tallyveil.intervals.interval import covers_of_tables, intervals_if_any
from tallyveil.postprocess.interval_areas import Area, family_counts
from tallyveil.postprocess.interval_fits import IntervalFit
from tallyveil.postprocess.interval_model import FinishedRelease
from tallyveil.release.areas import area_counts
from tallyveil.release.checks import check_tables
from tallyveil.release.histograms import read_histogram
from tallyveil.release.interval_tables import start_tables
from tallyveil.release.intervals import Compared, IntervalTable, start_intervals
from tallyveil.runs.observer import Observer
from tallyveil.runs.stopwatch import Stopwatch
from tallyveil.storage.json_files import JsonObject
from tallyveil.universe.counts import PublicCounts
from tallyveil.universe.query_group import QueryGroup
from tallyveil.version import VERSION

INTERVALS_FORMAT = 2


@dataclass(frozen=True, slots=True, eq=False)
class WrittenTables:
    """The files of all tables.

    Attributes:
        work: The last fit.
        unfinished: Folder of the files.
        compared: One for each table, fit after fit.
        estimated_from: An entry of the manifest, if the tables are estimated one by one.
    """

    work: "IntervalWork"
    unfinished: Path
    compared: Sequence[Compared]
    estimated_from: Mapping[str, Any]

    def in_order(self, groups: Sequence[QueryGroup]) -> list[Compared]:
        """By area and then by query."""
        areas = list(dict.fromkeys(one.area for one in self.compared))
        queries = [group.name for group in groups]
        return sorted(self.compared, key=lambda one: (areas.index(one.area), queries.index(one.query)))


@dataclass(frozen=True, slots=True, eq=False)
class IntervalJob:
    """What is the same for all fits of a job."""

    release: FinishedRelease
    level: float
    simultaneous: bool
    workers: int
    in_tables: bool
    observer: Observer
    watch: Stopwatch

    def write(self, fits: Iterable[IntervalFit], areas: Sequence[Area]) -> WrittenTables:
        """Estimate every fit and write its tables."""
        root, compared, records = self.release.root, list[Compared](), list[JsonObject]()
        staging: Path | None = None
        unfinished: Path | None = None
        work: IntervalWork | None = None
        for own in fits:
            estimate = self._estimate(own)
            if unfinished is None:
                staging = start_tables(root) if self.in_tables else None
                unfinished = start_intervals(root)
            work = IntervalWork(
                self.release,
                estimate,
                own.groups,
                own.questions,
                self.level,
                self.simultaneous,
                self.workers,
                staging,
            )
            for name, size, write in work.steps(areas, self.observer):
                with self.watch.stage(own.stage(f"intervals {name}"), size):
                    compared += write()
            records += [] if own.merged is None else [own.to_mapping(self.release.strategy)]
        assert work is not None
        assert unfinished is not None
        return WrittenTables(work, unfinished, compared, {"estimated_from": records} if records else {})

    def _estimate(self, own: IntervalFit) -> TreeEstimate:
        with self.watch.stage(own.stage("covariances")):
            covariance = tree_covariance(own.model, workers=self.workers)
        with self.watch.stage(own.stage("read and fit")):
            rows, exact = own.rows(self.release), own.invariants(self.release)
            return fit_tree(covariance, rows, exact, workers=self.workers)


@dataclass(frozen=True, slots=True, eq=False)
class IntervalWork:
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
