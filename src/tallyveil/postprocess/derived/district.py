"""Counts, exact standard errors and intervals for a new district of a finished release, or for the difference of two.

The measurements are not needed. Variances follow from the plan, the geography and the public bounds, all of which are
in the release folder. The estimate of a district is the sum of the estimates of its finest geounits, which are in
`intervals/`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from tallyveil.estimation.intervals import (
    Answers,
    Region,
    TreeModel,
    region_of,
    region_variances,
    tree_covariance,
)
from tallyveil.estimation.intervals.interval import (
    NO_INTERVALS,
    IntervalKind,
    intervals_if_any,
    refuse_level,
    rounded_inward,
    sentence_of,
)
from tallyveil.files.intervals import known_queries
from tallyveil.files.marks import marks_of, short_mark
from tallyveil.geography.spine import Spine
from tallyveil.postprocess.derived.area_counts import (
    NOT_DETERMINED,
    area_family,
    bounds_choice,
    counts_path,
    published_counts,
    why_no_estimates,
    written_estimates,
)
from tallyveil.postprocess.intervals.fits import fits_of
from tallyveil.postprocess.intervals.model import FinishedRelease, named_queries, open_release
from tallyveil.printable import short_name, tabulated
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.system import usable_cores

_Part = TypeVar("_Part", Region, np.ndarray)

_MOST_SHOWN = 30
"""Number of answers that notebooks show."""


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
        warnings: What must be said wherever the release is shown.
    """

    n_finest: int
    n_minus: int | None
    answers: tuple[DistrictAnswer, ...]
    level: float
    covers: str | None
    unpublished: str | None
    warnings: tuple[str, ...]

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

    def __repr__(self) -> str:
        return f"<District: {self._what()}, {len(self.answers):,} answers{short_mark(self.warnings)}>"

    def _what(self) -> str:
        what = f"{self.n_finest:,} finest geounits"
        return what if self.n_minus is None else f"{what} minus {self.n_minus:,} others"

    def _repr_html_(self) -> str:
        shown, left_out = self.answers[:_MOST_SHOWN], len(self.answers) - _MOST_SHOWN
        more = f"{left_out:,} more answers are in to_frame()." if left_out > 0 else ""
        headings = (
            "counts of",
            "published",
            f"{100 * self.level:g} % interval",
            "estimate",
            "standard error",
        )
        lead = " ".join(said for said in (self.unpublished, self.covers, more) if said)
        title = f"District: {self._what()}{short_mark(self.warnings)}"
        return tabulated(title, headings, [answer.shown() for answer in shown], lead)


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
        StoreError: the folder holds no finished release, lacks its bounds, or has a changed file.
        GeographyError: a geocode is unknown or given twice.
        ConfigError: the level is out of range.
    """
    areas = {"district": geocodes} if minus is None else {"district": geocodes, "minus": minus}
    wanted = _Wanted(tables, level, simultaneous, with_bounds, workers or usable_cores())
    (district,) = _answers(open_release(root), areas, [(0,) if minus is None else (0, 1)], wanted)
    return district


def answers_by_district(
    root: Path,
    districts: Mapping[str, pl.Series],
    *,
    tables: Sequence[str] | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    with_bounds: bool = True,
    workers: int | None = None,
) -> dict[str | None, District]:
    """The same for each district of a plan, and for the finest geounits that are in none of them.

    Args:
        root, tables, level, with_bounds, workers: As in `district_answers`.
        districts: Finest geocodes of each district, by its name.
        simultaneous: Whether all intervals of all districts together have the coverage.
    Returns:
        The answers by the name of the district; by None, last, those of the finest geounits in no district, if there
        are any.
    Raises:
        StoreError, GeographyError, ConfigError: as in `district_answers`.
    """
    release = open_release(root)
    areas = {f"district {short_name(name)!r}": geocodes for name, geocodes in districts.items()}
    names: list[str | None] = list(districts)
    rest = unassigned_of(release.spine, districts)
    if len(rest):
        areas["the rest, which is in no district,"] = rest
        names.append(None)
    wanted = _Wanted(tables, level, simultaneous, with_bounds, workers or usable_cores())
    answers = _answers(release, areas, [(number,) for number in range(len(areas))], wanted)
    return dict(zip(names, answers, strict=True))


def unassigned_of(spine: Spine, districts: Mapping[str, pl.Series]) -> pl.Series:
    """Finest geocodes of a spine that are in none of some districts."""
    codes = pl.Series("geocode", spine.geocodes[-1].text).cast(pl.String)
    assigned = pl.concat([geocodes.cast(pl.String) for geocodes in districts.values()])
    return codes.filter(~codes.is_in(assigned.implode()))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is asked of each district, as in `district_answers`."""

    tables: Sequence[str] | None
    level: float
    simultaneous: bool
    with_bounds: bool
    workers: int


def _answers(
    release: FinishedRelease,
    areas: Mapping[str, pl.Series],
    asked: Sequence[tuple[int, ...]],
    wanted: _Wanted,
) -> list[District]:
    """Answers of areas, or of the first minus the second.

    Args:
        release: The release.
        areas: Finest geocodes of each area, by its name for messages.
        asked: For each district, the number of its area, and of the area that is subtracted, if there is one.
        wanted: What is asked of each.
    """
    level, threads = wanted.level, wanted.workers
    family = area_family(release.spine, areas)
    # Names of queries that intervals are written for are taken, whatever the order of their factors.
    groups = named_queries(release, wanted.tables, known_queries(release.root, release.manifest))
    interval_manifest, with_bounds = bounds_choice(release, with_bounds=wanted.with_bounds)
    refuse_level(level)
    area_regions = [region_of(release.spine, family.members_of(place)) for place in range(family.n_entities)]
    # A difference is a region with weights 1 and -1, so its variance has the covariance in it.
    regions = [_less([area_regions[place] for place in places]) for places in asked]
    parts = []
    for fit in fits_of(release, groups, with_bounds=with_bounds):
        covariance, model = tree_covariance(fit.model, workers=threads), fit.model
        parts.append(region_variances(covariance, regions, fit.questions, workers=threads))
    variances = np.concatenate(parts, axis=1)
    counts = published_counts(release, family, groups)
    written = [
        None if interval_manifest is None else written_estimates(release, family, group) for group in groups
    ]
    values = np.concatenate(
        [
            np.full((len(asked), group.size), np.nan)
            if sums is None
            else np.stack([_less([sums[place] for place in places]) for places in asked])
            for group, sums in zip(groups, written, strict=True)
        ],
        axis=1,
    )
    values = np.where(
        variances == 0, np.rint(values), values
    )  # what is exact is whole, and its terms are rounded
    n_given = int((np.isfinite(values) & np.isfinite(variances)).sum())
    # Bonferroni over the intervals that are really given; those without an estimate need none of the error.
    together = max(n_given, 1) if wanted.simultaneous else 1  # the number of intervals that are given
    # A difference of two counts can be negative, so the unified interval of a count does not apply.
    kind: IntervalKind = "normal" if any(len(places) > 1 for places in asked) else "unified"
    asking, sizes = _Asked(model, kind, level, together), family.sizes.tolist()
    districts = []
    for row, places in enumerate(asked):
        published = None if counts is None else _less([counts[place] for place in places])
        answers: list[DistrictAnswer] = []
        start = 0
        for group, sums in zip(groups, written, strict=True):
            span = slice(start, start + group.size)
            lacking = why_no_estimates(
                has_intervals=interval_manifest is not None, written=sums is not None, query=group.name
            )
            answers += _lines(
                asking,
                group,
                None if published is None else published[span],
                variances[row, span],
                values[row, span],
                lacking,
            )
            start = span.stop
        given = np.isfinite(values[row]) & np.isfinite(variances[row])
        districts.append(
            District(
                sizes[places[0]],
                sizes[places[1]] if len(places) > 1 else None,
                tuple(answers),
                level,
                covers=None
                if not given.any()
                else sentence_of(level, together)
                if model.gaussian
                else NO_INTERVALS,
                unpublished=f"{counts_path(release)} is not there" if published is None else None,
                warnings=marks_of(release.manifest).warnings,
            )
        )
    return districts


def _less(parts: Sequence[_Part]) -> _Part:
    """The first, or the first minus the second."""
    return parts[0] if len(parts) == 1 else parts[0] - parts[1]


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """The intervals that are asked for."""

    model: TreeModel
    kind: IntervalKind
    level: float
    together: int


def _lines(
    asked: _Asked,
    group: QueryGroup,
    published: np.ndarray | None,
    variances: np.ndarray,
    values: np.ndarray,
    lacking: str | None,
) -> list[DistrictAnswer]:
    answers = Answers(np.nan_to_num(values), variances)
    intervals = intervals_if_any(
        asked.model, answers, level=asked.level, kind=asked.kind, simultaneous=asked.together
    )
    low, high = intervals.low, intervals.high
    if intervals.kind == "normal":  # a difference of counts is an integer as well
        low, high = rounded_inward(answers.estimates, low, high, least=-np.inf)
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
                lacking=None if estimated else lacking or NOT_DETERMINED,
            )
        )
    return lines
