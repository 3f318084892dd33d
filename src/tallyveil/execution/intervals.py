"""The job of `tallyveil intervals`: from a finished release to an interval beside every published count."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import sparse

import tallyveil
from tallyveil.errors import GeographyError, StoreError
from tallyveil.execution.interval_model import (
    FinishedRelease,
    open_release,
    published_invariants,
    release_model,
)
from tallyveil.execution.level import usable_cores
from tallyveil.execution.observer import Observer, SilentObserver
from tallyveil.execution.stopwatch import Stopwatch
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.entity_tables import entities_from_columns
from tallyveil.geography.spine import Spine
from tallyveil.intervals import (
    Answers,
    KeptRows,
    StoredRows,
    TreeEstimate,
    fit_tree,
    intervals_of,
    questions_of,
    region_answers,
    region_of,
    stream_answers,
    tree_covariance,
)
from tallyveil.intervals.interval import refuse_intervals, sentence_of
from tallyveil.release.histograms import read_histogram
from tallyveil.release.intervals import Compared, IntervalTable, finish_intervals, start_intervals
from tallyveil.storage.read import read_table, text_columns
from tallyveil.universe.counts import Int64Array, PublicCounts
from tallyveil.universe.query_group import QueryGroup

INTERVALS_FORMAT = 1
FINEST_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class IntervalsOutcome:
    """What was written.

    Attributes:
        manifest: Content of `intervals/manifest.json`.
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
    with_bounds: bool = True,
    observer: Observer | None = None,
    workers: int | None = None,
) -> IntervalsOutcome:
    """Write `intervals/` into the folder of a finished release, in the place of earlier ones.

    Args:
        root: Release folder, with all its measurements.
        tables: Queries, measured or not; None for those of the release's tables.
        entities: Table with a column `geocode` of finest geocodes and a column a family of entities; None for none.
        families: Columns of `entities` to read; None for every other column of text.
        level: Coverage of each interval.
        with_bounds: Whether the zeros of the release's public bounds are used.
        observer: Told of progress.
        workers: Threads; None for one a core. The files do not depend on it.
    Raises:
        StoreError: the release is not finished, lacks measurements or bounds, or cannot be written to.
        ConfigError: the level cannot be, or the noise allows no intervals.
        SchemaError, GeographyError, ConstraintError: queries, entities or zeros do not fit the release.
    Privacy: nothing is spent: everything follows from what is published.
    """
    release = open_release(root)
    _refuse_partial_measurements(release)
    told = observer or SilentObserver()
    watch, threads = Stopwatch(told), workers or usable_cores()
    groups = [release.schema.query(name) for name in dict.fromkeys(tables or release.plan["tables"])]
    found = [] if entities is None else entity_families(release.spine, entities, families)
    with watch.stage("covariances"):
        model = release_model(release, with_bounds=with_bounds)
        refuse_intervals(model, level)
        covariance = tree_covariance(model, workers=threads)
    with watch.stage("read and fit"):
        rows = KeptRows(StoredRows(root, model))
        fit = fit_tree(covariance, rows, published_invariants(release, model), workers=threads)
    work = _Work(release, fit, tuple(groups), level, threads, start_intervals(root))
    compared: list[Compared] = []
    for number, geolevel in enumerate(release.spine.geolevels):
        with watch.stage(f"intervals {geolevel}", release.spine.n_geounits(number)):
            compared += work.write_level(number, told)
    for family in found:
        with watch.stage(f"intervals {family.name}", family.n_entities):
            compared += work.write_family(family)
            told.advanced(family.n_entities)
    manifest = finish_intervals(
        root, work.folder, work.content(with_bounds=with_bounds), compared, work.readme(with_bounds)
    )
    return IntervalsOutcome(manifest, tuple((stage["stage"], stage["seconds"]) for stage in watch.stages))


def _refuse_partial_measurements(release: FinishedRelease) -> None:
    kept = release.plan["measurements"]
    if kept != "full":
        raise StoreError(
            f'{release.root} was made with measurements = "{kept}"; estimates and intervals need all noisy answers. '
            "They cannot be made afterwards, since the key of the noise is gone: make the next release with "
            'measurements = "full" under [outputs], which costs nothing beyond its own budget. Standard errors need no '
            "measurements: ask for those of a district with --district, or of a plan with `tallyveil plan --entities`.",
            code="measurements-missing",
        )


def read_entities(path: Path, families: Sequence[str] | None) -> pl.DataFrame:
    """The geocodes and families of an entity table; without families named, all its columns of text.

    Raises:
        StoreError, ConfigError: the file or a column is missing or unreadable.
    """
    names = text_columns(path, "entity") if families is None else families
    return read_table(path, ["geocode", *names], "entity")


def entity_families(spine: Spine, table: pl.DataFrame, families: Sequence[str] | None) -> list[EntityFamily]:
    """Families of entities from a table of finest geounits.

    Args:
        spine: The hierarchy.
        table: A column `geocode`, and one a family.
        families: Columns to read; None for every other column of text.
    Raises:
        GeographyError: the table does not fit the geography.
    """
    names = families or [
        name for name, kind in table.schema.items() if kind == pl.String and name != "geocode"
    ]
    for name in names:
        if not re.fullmatch(r"\w[\w. -]*", name):
            raise GeographyError(
                f"the entity table has a column '{name}', which cannot be the name of a folder. Name families "
                "with letters, digits, '_', '-', '.' and spaces.",
                code="entity-table",
            )
    columns = {name: table[name] for name in table.columns}
    return list(entities_from_columns(spine, columns, names))


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """One job: everything that its tables need."""

    release: FinishedRelease
    fit: TreeEstimate
    groups: tuple[QueryGroup, ...]
    level: float
    workers: int
    folder: Path

    def write_level(self, number: int, observer: Observer) -> list[Compared]:
        """Write every table of a geolevel."""
        release = self.release
        geolevel = release.spine.geolevels[number]
        counts = read_histogram(release.root, geolevel, release.schema, release.spine)
        codes = release.spine.geocodes[number].text
        tables = self._tables(geolevel, is_entity=False)
        questions = questions_of(self.fit.covariance.algebra, self.groups)
        for start, stop, answers in stream_answers(self.fit, number, questions, workers=self.workers):
            published = [group.apply(*counts.rows(start, stop), stop - start) for group in self.groups]
            self._add(tables, codes[start:stop], np.concatenate(published, axis=1), answers)
            observer.advanced(stop - start)
        return [table.finish() for table in tables]

    def write_family(self, family: EntityFamily) -> list[Compared]:
        """Write every table of a family of entities."""
        spine = self.release.spine
        counts = read_histogram(self.release.root, spine.geolevels[-1], self.release.schema, spine)
        regions = [region_of(spine, family.members_of(entity)) for entity in range(family.n_entities)]
        questions = questions_of(self.fit.covariance.algebra, self.groups)
        answers = region_answers(self.fit, regions, questions, workers=self.workers)
        tables = self._tables(family.name, is_entity=True)
        self._add(tables, pl.Series(family.codes), family_counts(counts, family, self.groups), answers)
        return [table.finish() for table in tables]

    def content(self, *, with_bounds: bool) -> dict[str, Any]:
        """What the manifest says besides tables and files."""
        bounds = [item["name"] for item in self.release.plan["bounds"]]
        return {
            "format": INTERVALS_FORMAT,
            "name": self.release.manifest["name"],
            "run": self.release.manifest["run"],
            "private": self.release.manifest["private"],
            "level": self.level,
            "kind": "unified",
            "covers": sentence_of(self.level),
            "bounds_used": bounds if with_bounds else [],
            "bounds_left_out": [] if with_bounds else bounds,
            "tallyveil": tallyveil.__version__,
        }

    def readme(self, with_bounds: bool) -> str:
        """For whoever opens the folder."""
        zeros = "Public zeros of the release's bounds were used."
        if not self.release.plan["bounds"]:
            zeros = "The release has no public bounds."
        elif not with_bounds:
            zeros = "Public bounds were left out, which widens the intervals."
        warning = (
            "" if self.release.manifest["private"] else "NOT PRIVATE: made with an insecure test key.\n\n"
        )
        return warning + _README.format(
            name=self.release.manifest["name"],
            percent=f"{100 * self.level:g}",
            covers=sentence_of(self.level),
            zeros=zeros,
        )

    def _tables(self, area: str, *, is_entity: bool) -> list[IntervalTable]:
        tags = {**self.release.tags, "level": f"{self.level:g}", "covers": sentence_of(self.level)}
        return [IntervalTable(self.folder, area, group, is_entity, tags) for group in self.groups]

    def _add(
        self, tables: Sequence[IntervalTable], codes: pl.Series, published: Int64Array, answers: Answers
    ) -> None:
        place = 0
        for table in tables:
            own = slice(place, place + table.group.size)
            part = Answers(answers.estimates[:, own], answers.variances[:, own])
            table.add(
                codes,
                published[:, own],
                part,
                intervals_of(self.fit.covariance.model, part, level=self.level),
            )
            place = own.stop


def family_counts(counts: PublicCounts, family: EntityFamily, groups: Sequence[QueryGroup]) -> Int64Array:
    """Published answers of every entity, the queries' one after the other; shape (n_entities, answers)."""
    ones = np.ones(len(family.members), np.int64)
    member = sparse.csr_matrix(
        (ones, family.members, family.offsets), shape=(family.n_entities, family.n_finest)
    )
    columns = member.tocsc()
    found = np.zeros((family.n_entities, sum(group.size for group in groups)), np.int64)
    for start in range(0, family.n_finest, FINEST_AT_ONCE):
        stop = min(start + FINEST_AT_ONCE, family.n_finest)
        answers = [group.apply(*counts.rows(start, stop), stop - start) for group in groups]
        found += columns[:, start:stop] @ np.concatenate(answers, axis=1)
    return found


_README = """Intervals of the release {name}

One row for every geounit (or entity) and answer, zeros included:
  published       the released count: whole, not negative, and for that slightly biased
  estimate        an unbiased estimate from all noisy measurements; may be negative or fractional
  standard_error  of the estimate, from the privacy noise alone, persons
  lower, upper    the {percent} % interval: whole numbers, both ends belong to it
Null means that the measurements do not determine the answer. Where the standard error is 0 the count is exact.

{covers}

{zeros}
For a sum of rows do not add up ends: estimates add up, ends and standard errors do not. Ask for the sum itself:
`tallyveil intervals RUN --district FILE`, or entities with --entities. Nothing here costs privacy-loss budget.
"""
