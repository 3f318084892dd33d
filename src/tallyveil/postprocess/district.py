"""Counts, exact standard errors and intervals for a new district of a finished release, or for the difference of two.

The measurements are not needed. Variances follow from the plan, the geography and the public bounds, all of which are
in the release folder. The estimate of a district is the sum of the estimates of its finest geounits, which are in
`intervals/`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tallyveil.errors import StoreError
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.entity_tables import entities_from_pairs
from tallyveil.intervals import (
    Answers,
    TreeModel,
    questions_of,
    region_of,
    region_variances,
    tree_covariance,
)
from tallyveil.intervals.interval import (
    NO_INTERVALS,
    IntervalKind,
    intervals_if_any,
    refuse_level,
    rounded_inward,
    sentence_of,
)
from tallyveil.postprocess.interval_areas import family_counts
from tallyveil.postprocess.interval_model import FinishedRelease, open_release, release_model
from tallyveil.postprocess.level import usable_cores
from tallyveil.printable import tabulated
from tallyveil.release import manifest_shapes as shapes
from tallyveil.release.histograms import histogram_path, read_histogram
from tallyveil.release.intervals import (
    AGAIN,
    INTERVALS,
    INTERVALS_MANIFEST,
    read_interval_answers,
)
from tallyveil.storage.json_files import read_shaped
from tallyveil.universe.query_group import QueryGroup

_MOST_SHOWN = 30
"""Number of answers that notebooks show."""
_NOT_DETERMINED = "the measurements do not determine it, or not in every finest geounit"


@dataclass(frozen=True, slots=True)
class DistrictAnswer:
    """One count of a district.

    Attributes:
        query, answer: What is counted.
        published: Sum of the published counts; None where the folder does not hold them.
        standard_error: Standard error of the unbiased estimate; None if the measurements do not determine it.
        estimate: Unbiased estimate; None without `intervals/`, or if the measurements do not determine it.
        lower, upper: Ends of the interval; None without an estimate, or if the noise allows no interval.
        lacking: Why there is no estimate; None if there is one.
    """

    query: str
    answer: str
    published: int | None
    standard_error: float | None
    estimate: float | None
    lower: int | None
    upper: int | None
    lacking: str | None

    def to_mapping(self) -> dict[str, Any]:
        """Plain data."""
        return {name: getattr(self, name) for name in self.__slots__}

    def shown(self) -> tuple[str, ...]:
        """Texts for a row of a table: what is counted, published, interval, estimate, standard error."""
        interval = "–" if self.lower is None else f"{self.lower:,} to {_whole(self.upper)}"
        estimate = "–" if self.estimate is None else f"{self.estimate:,.1f}"
        error = "–" if self.standard_error is None else f"{self.standard_error:,.2f}"
        return (self.answer, _whole(self.published), interval, estimate, error)


def _whole(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


@dataclass(frozen=True, slots=True)
class District:
    """Counts of a district, or of one minus another.

    Attributes:
        n_finest: Number of its finest geounits.
        n_minus: Number of finest geounits of the subtracted district; None if no district is subtracted.
        answers: One for each answer of each query.
        level: Coverage of the intervals.
        covers: What the given intervals cover, or why the noise allows none; None without estimates.
        unpublished: Why there are no published counts; None if there are.
    """

    n_finest: int
    n_minus: int | None
    answers: tuple[DistrictAnswer, ...]
    level: float
    covers: str | None
    unpublished: str | None

    def to_frame(self) -> pl.DataFrame:
        """One row for each answer, with the attributes of `DistrictAnswer` as columns."""
        text, number, whole = pl.String(), pl.Float64(), pl.Int64()
        schema = {
            "query": text,
            "answer": text,
            "published": whole,
            "standard_error": number,
            "estimate": number,
        }
        schema |= {"lower": whole, "upper": whole, "lacking": text}
        return pl.DataFrame([line.to_mapping() for line in self.answers], schema=schema)

    def _repr_html_(self) -> str:
        shown, left_out = self.answers[:_MOST_SHOWN], len(self.answers) - _MOST_SHOWN
        what = f"{self.n_finest:,} finest geounits"
        if self.n_minus is not None:
            what = f"{what} minus {self.n_minus:,} others"
        more = f"{left_out:,} more answers are in to_frame()." if left_out > 0 else ""
        headings = (
            "counts of",
            "published",
            f"{100 * self.level:g} % interval",
            "estimate",
            "standard error",
        )
        lead = " ".join(said for said in (self.unpublished, self.covers, more) if said)
        return tabulated(f"District: {what}", headings, [one.shown() for one in shown], lead)


def district_answers(
    root: Path,
    geocodes: pl.Series,
    *,
    minus: pl.Series | None = None,
    tables: Sequence[str] | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    with_bounds: bool = True,
    workers: int | None = None,
) -> District:
    """Counts, standard errors and intervals of any set of finest geounits of a release.

    Args:
        root: Release folder. Nothing in `measurements/` is read.
        geocodes: Finest geocodes of the district, each once.
        minus: Finest geocodes of a district whose counts are subtracted. Intervals are then normal intervals.
        tables: Queries; None for those of the release's tables.
        level: Coverage of the intervals.
        simultaneous: Whether all intervals together have that coverage (Bonferroni).
        with_bounds: Whether zeros of public bounds are used. If `intervals/` exists, the choice made there is used.
        workers: Number of threads; None for one per core.
    Raises:
        StoreError: the folder holds no finished release, or lacks its bounds.
        GeographyError: a geocode is unknown or given twice.
        ConfigError: the level is out of range.
    """
    release = open_release(root)
    threads = workers or usable_cores()
    parts = [(1, _family(release, "district", geocodes))]
    if minus is not None:
        parts.append((-1, _family(release, "minus", minus)))
    groups = [release.schema.query(query) for query in dict.fromkeys(tables or release.plan["tables"])]
    made = _made_intervals(release)
    if made is not None:
        with_bounds = not made["bounds_left_out"]
    model = release_model(release, with_bounds=with_bounds)
    refuse_level(level)
    covariance = tree_covariance(model, workers=threads)
    regions = [region_of(release.spine, family.members) for _, family in parts]
    region = regions[0] if minus is None else regions[0] - regions[1]
    variances = region_variances(covariance, [region], questions_of(model.algebra, groups), workers=threads)
    published = _published(release, parts, groups)
    estimates = [None if made is None else _difference(release, parts, group) for group in groups]
    pairs = list(zip(groups, estimates, strict=True))
    values = np.concatenate([np.full(group.size, np.nan) if own is None else own for group, own in pairs])
    n_given = int((np.isfinite(values) & np.isfinite(variances[0])).sum())
    together = max(n_given, 1) if simultaneous else 1  # the number of intervals that are given
    asked = _Asked(model, "unified" if minus is None else "normal", level, together)
    answers: list[DistrictAnswer] = []
    place = 0
    for group, written in pairs:
        own = slice(place, place + group.size)
        lacking = _lacking(made is not None, written is not None, group.name)
        answers += _lines(
            asked,
            group,
            None if published is None else published[own],
            variances[0, own],
            values[own],
            lacking,
        )
        place = own.stop
    sizes = [len(family.members) for _, family in parts]
    return District(
        sizes[0],
        None if minus is None else sizes[1],
        tuple(answers),
        level,
        covers=None if n_given == 0 else sentence_of(level, together) if model.gaussian else NO_INTERVALS,
        unpublished=f"{_counts_path(release)} is not there" if published is None else None,
    )


def _lacking(made: bool, written: bool, query: str) -> str | None:
    """Why a query has no estimates; None if it has estimates."""
    if written:
        return None
    if not made:
        return (
            "they are sums of those in RUN/intervals, which `tallyveil intervals RUN` makes from full measurements; "
            "standard errors need neither"
        )
    return (
        f"RUN/intervals has no table of '{query}'; `tallyveil intervals RUN --tables` makes it from full measurements "
        "(name every query wanted: the new tables take the place of those there)"
    )


def _published(
    release: FinishedRelease, parts: Sequence[tuple[int, EntityFamily]], groups: Sequence[QueryGroup]
) -> np.ndarray | None:
    """Published answers of the first part minus those of the second; None if the counts are not in the folder."""
    if not _counts_path(release).is_file():
        return None
    counts = read_histogram(release.root, release.spine.geolevels[-1], release.schema, release.spine)
    found: np.ndarray = np.sum(
        [sign * family_counts(counts, family, groups)[0] for sign, family in parts], axis=0
    )
    return found


def _counts_path(release: FinishedRelease) -> Path:
    return histogram_path(release.root, release.spine.geolevels[-1])


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """The intervals that are asked for."""

    model: TreeModel
    kind: IntervalKind
    level: float
    together: int


def _family(release: FinishedRelease, name: str, geocodes: pl.Series) -> EntityFamily:
    return entities_from_pairs(
        release.spine, name, geocodes, pl.Series([name]).new_from_index(0, len(geocodes))
    )


def _made_intervals(release: FinishedRelease) -> dict[str, Any] | None:
    path = release.root / INTERVALS / INTERVALS_MANIFEST
    if not path.is_file():
        return None
    made: dict[str, Any] = read_shaped(path, shapes.INTERVALS, AGAIN)
    if made["run"] != release.manifest.run:
        raise StoreError(
            f"{path} belongs to run {made['run']}, but the release belongs to run {release.manifest.run}. Remove "
            "that folder and make the intervals again.",
            code="release-damaged",
        )
    return made


def _difference(
    release: FinishedRelease, parts: Sequence[tuple[int, EntityFamily]], group: QueryGroup
) -> np.ndarray | None:
    """Estimates of the first part minus those of the second; None if no estimates are written."""
    sums = [(sign, _estimates(release, family, group)) for sign, family in parts]
    found = [sign * estimates for sign, estimates in sums if estimates is not None]
    return np.sum(found, axis=0) if len(found) == len(parts) else None


def _estimates(release: FinishedRelease, family: EntityFamily, group: QueryGroup) -> np.ndarray | None:
    """Sums of the estimates of the finest geounits; NaN if one is not determined; None if no estimates are written."""
    finest = release.spine.geolevels[-1]
    rows = read_interval_answers(release.root, finest, group)
    if rows is None:
        return None
    codes = release.spine.geocodes[-1].text.gather(family.members)
    inside = rows.filter(pl.col("geocode").is_in(codes.implode()))
    sums = (
        inside.group_by("answer")
        .agg(pl.col("estimate").sum(), pl.col("estimate").null_count().alias("lacking"))
        .collect()
    )
    by_answer = {row["answer"]: row for row in sums.iter_rows(named=True)}
    rows_of = [by_answer[answer] for answer in range(group.size)]
    return np.array([row["estimate"] if row["lacking"] == 0 else math.nan for row in rows_of])


def _lines(
    asked: _Asked,
    group: QueryGroup,
    published: np.ndarray | None,
    variances: np.ndarray,
    values: np.ndarray,
    lacking: str | None,
) -> list[DistrictAnswer]:
    found = Answers(np.nan_to_num(values), variances)
    intervals = intervals_if_any(
        asked.model, found, level=asked.level, kind=asked.kind, simultaneous=asked.together
    )
    low, high = intervals.low, intervals.high
    if intervals.kind == "normal":  # a difference of counts is an integer as well
        low, high = rounded_inward(found.estimates, low, high, least=-np.inf)
    lines = []
    for number, label in enumerate(group.labels()):
        determined = bool(np.isfinite(variances[number]))
        estimated = determined and bool(np.isfinite(values[number]))
        given = estimated and bool(np.isfinite(low[number]))
        lines.append(
            DistrictAnswer(
                query=group.name,
                answer=label,
                published=None if published is None else int(published[number]),
                standard_error=round(math.sqrt(variances[number]), 6) if determined else None,
                estimate=round(float(values[number]), 6) if estimated else None,
                lower=int(low[number]) if given else None,
                upper=int(high[number]) if given else None,
                lacking=None if estimated else lacking or _NOT_DETERMINED,
            )
        )
    return lines
