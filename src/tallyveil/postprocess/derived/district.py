"""Counts, exact standard errors and intervals of areas that users choose in a finished release.

An area is any set of finest geounits: a geounit or an entity that is asked for by its code or its name, a new
district, or the difference of two. Of a release, the measurements are not needed. Variances follow from the plan, the
geography and the public bounds, all of which are in the release folder. The estimate of an area is the sum of
the estimates of its finest geounits, which are in `intervals/`. Of measurements alone, estimates are made anew.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import GeographyError
from tallyveil.estimation.intervals.answers import Answers, region_answers, region_variances
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.interval import (
    NO_INTERVALS,
    IntervalKind,
    intervals_if_any,
    refuse_level,
    rounded_inward,
    sentence_of,
)
from tallyveil.estimation.intervals.model import TreeModel
from tallyveil.estimation.intervals.regions import Region, region_of
from tallyveil.exact import as_given
from tallyveil.files.geography import GEOGRAPHY
from tallyveil.files.histograms import histogram_path, read_histogram
from tallyveil.files.intervals import DECIMALS, known_queries, made_intervals, read_interval_answers
from tallyveil.files.manifest_files import MAIN_PRODUCT, require_unchanged, require_unchanged_files
from tallyveil.files.marks import marks_of, short_mark
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine, text_column
from tallyveil.geography.tables import entities_from_pairs
from tallyveil.measurements.names import FOLDER
from tallyveil.postprocess.constraint_files import BOUNDS, INVARIANTS
from tallyveil.postprocess.intervals.areas import family_counts
from tallyveil.postprocess.intervals.fits import fits_of
from tallyveil.postprocess.intervals.model import (
    FinishedRelease,
    named_queries,
    open_release,
)
from tallyveil.printable import is_one_line, short_name, tabulated
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.names import closest_hint
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.system import usable_cores

NOT_DETERMINED = "the measurements do not determine it, or not in every finest geounit"
"""Why a count has no estimate although its query has intervals."""


def area_family(spine: Spine, areas: Mapping[str, pl.Series]) -> EntityFamily:
    """Sets of finest geounits as the entities of one family.

    Args:
        spine: The spine of the release.
        areas: Finest geocodes of each set, by its name for messages. The entities are numbered in this order.
    Raises:
        GeographyError: a set is empty, or a geocode is unknown or twice in one set.
    """
    for name, geocodes in areas.items():
        if not len(geocodes):
            raise GeographyError(f"{name} has no geocodes, wanted one or more of finest geounits.")
    sizes = [len(geocodes) for geocodes in areas.values()]
    # All areas in one search; each by itself would be searched for a hundred times as long.
    rows = spine.locate(
        spine.finest, pl.concat([text_column(geocodes, name) for name, geocodes in areas.items()])
    )
    area = np.repeat(np.arange(len(sizes)), sizes)
    rows = rows[np.lexsort((rows, area))]
    if bool((rows < 0).any() or ((np.diff(rows) == 0) & (np.diff(area) == 0)).any()):
        _refuse_areas(spine, areas)
    offsets = np.cumsum([0, *sizes]).astype(np.int64)
    # Padded, so that texts sort as the numbers do.
    numbers = tuple(f"{number:010d}" for number in range(len(areas)))  # the codes of a family rise
    return EntityFamily("areas", numbers, offsets, rows, spine.n_geounits(spine.finest))


def _refuse_areas(spine: Spine, areas: Mapping[str, pl.Series]) -> None:
    """Refuse the first set with a geocode that is unknown or given twice, by its name; raises GeographyError."""
    for name, geocodes in areas.items():
        entities_from_pairs(spine, name, geocodes, pl.Series([name]).new_from_index(0, len(geocodes)))


NOISY = frozenset({FOLDER, INVARIANTS})
"""What estimates are made from: noisy answers, and exact counts."""


def bounds_choice(
    release: FinishedRelease, *, with_bounds: bool, besides: Collection[str] = frozenset()
) -> tuple[dict[str, Any] | None, bool]:
    """The manifest of `intervals/`, if the release has any, and whether zeros of public bounds are used.

    Args:
        release: The release.
        with_bounds: Whether they are used if there is no `intervals/`. Otherwise, the choice made there is used.
        besides: Further files and folders that will be read, and so must be those of the manifest.
    Raises:
        StoreError: the release lacks its bounds, or a file was changed.
    """
    interval_manifest = made_intervals(release.root, release.manifest.run)
    # The choice made for `intervals/` is kept, or standard errors would not belong to the estimates.
    if interval_manifest is not None:
        with_bounds = not interval_manifest["bounds_left_out"]
    places = {GEOGRAPHY, BOUNDS} if with_bounds else {GEOGRAPHY}
    require_unchanged_files(release.root, release.manifest, places | set(besides))
    return interval_manifest, with_bounds


def published_counts(
    release: FinishedRelease, family: EntityFamily, groups: Sequence[QueryGroup]
) -> Integers | None:
    """Published answers, one query after the other; shape (n_entities, answers); None without counts in the folder.

    Raises:
        StoreError: the file of the counts was changed.
    """
    counts = finest_counts(release)
    return None if counts is None else family_counts(counts, family, groups)


def finest_counts(release: FinishedRelease) -> PublicCounts | None:
    """The published counts of finest geounits; None without counts in the folder.

    Raises:
        StoreError: the file of the counts was changed.
    """
    if not counts_path(release).is_file():
        return None
    require_unchanged(release.root, release.manifest, counts_path(release))
    return read_histogram(release.root, release.spine.geolevels[-1], release.schema, release.spine)


def counts_path(release: FinishedRelease) -> Path:
    """The file of the published counts of finest geounits."""
    return histogram_path(release.root, release.spine.geolevels[-1])


def written_estimates(
    release: FinishedRelease, family: EntityFamily, group: QueryGroup, answers: Sequence[int] | None = None
) -> Floats | None:
    """Sums of the estimates of finest geounits.

    Args:
        release: The release.
        family: The sets.
        group: The query.
        answers: Answers that are wanted; the others stay NaN. None for all.
    Returns:
        Shape (n_entities, group.size), NaN where one of the estimates is not determined; None if no estimates of the
        query are written.
    """
    finest = release.spine.geolevels[-1]
    rows = read_interval_answers(release.root, finest, group)
    if rows is None:
        return None
    if answers is not None:
        rows = rows.filter(pl.col("answer").is_in(list(answers)))
    entity = np.repeat(np.arange(family.n_entities, dtype=np.int64), family.sizes)
    codes = release.spine.geocodes[-1].text.gather(family.members).cast(pl.String)
    # One row for each pair of area and finest geounit: a block in two areas counts in both.
    members = pl.LazyFrame({"geocode": codes.alias("geocode"), "entity": entity})
    sums = (
        rows.with_columns(pl.col("geocode").cast(pl.String))
        .join(members, on="geocode")
        .group_by("entity", "answer")
        .agg(pl.col("estimate").sum(), pl.col("estimate").null_count().alias("lacking"))
        # An area has an estimate only if each of its terms has one.
        .filter(pl.col("lacking") == 0)
        .collect()
    )
    estimates = np.full((family.n_entities, group.size), np.nan)
    estimates[sums["entity"].to_numpy(), sums["answer"].to_numpy()] = sums["estimate"].to_numpy()
    return np.round(estimates, DECIMALS)  # as exact as its terms, and the same whatever their order


def why_no_estimates(*, has_intervals: bool, written: bool, query: str) -> str | None:
    """Why a query has no estimates; None if it has estimates.

    Args:
        has_intervals: Whether the release has intervals.
        written: Whether the query has intervals.
        query: Name of the query.
    """
    if written:
        return None
    if not has_intervals:
        return (
            "they are sums of those in RUN/intervals, which `tallyveil intervals RUN` makes from full measurements; "
            "standard errors need neither"
        )
    return (
        f"RUN/intervals has no table of '{query}'; `tallyveil intervals RUN --tables` makes it from full measurements "
        "(name every query wanted: the new tables take the place of those there)"
    )


def finest_geocodes(hierarchies: Hierarchies, asked: str, geolevel: str | None) -> pl.Series:
    """Geocodes of the finest geounits of an area.

    Args:
        hierarchies: The spine of the release, and its areas off the spine.
        asked: Geocode of a geounit, name of an entity, or else a name in the release's table of names.
        geolevel: Its geolevel, or its family of entities; None if only one of these has it.
    Raises:
        GeographyError: no area has this code or name, or several have it.
    """
    members = area_members(hierarchies, asked, geolevel)
    return hierarchies.spine.geocodes[-1].text.gather(members).cast(pl.String).alias("geocode")


def area_members(hierarchies: Hierarchies, asked: str, geolevel: str | None) -> Integers:
    """Numbers of the finest geounits of an area, increasing; arguments and errors as for `finest_geocodes`."""
    return _members(hierarchies, *_only_area(hierarchies, asked, geolevel))


def areas_asked(hierarchies: Hierarchies, asked: str, geolevel: str | None = None) -> list[tuple[str, str]]:
    """Geolevel or family, and code, of every area with a code; of those with a name, if there is no such code.

    Args:
        hierarchies: The spine of the release, and its areas off the spine.
        asked: The code or the name.
        geolevel: The geolevel or the family; None for all.
    Raises:
        GeographyError: there is none.
    """
    if not isinstance(asked, str) or not is_one_line(asked):
        raise GeographyError(f"an area is {as_given(asked)}, wanted a geocode as text, such as '44007'.")
    spine = hierarchies.spine
    kinds = [
        spine.geolevels[level] for level in hierarchies.known_levels if spine.locate(level, [asked])[0] >= 0
    ]
    kinds += [area.name for area in (*hierarchies.replaced, *hierarchies.families) if asked in area.codes]
    areas = [(kind, asked) for kind in kinds] or _areas_named(hierarchies, asked)
    areas = [(kind, code) for kind, code in areas if geolevel in (None, kind)]
    if not areas:
        raise GeographyError(
            f"no geounit or entity of the release has the code or the name {asked!r}"
            f"{'' if geolevel is None else f' in {geolevel!r}'}. {_hint(hierarchies, asked)}"
        )
    return areas


def _only_area(hierarchies: Hierarchies, asked: str, geolevel: str | None) -> tuple[str, str]:
    areas = areas_asked(hierarchies, asked, geolevel)
    if len(areas) == 1:
        return areas[0]
    kinds, codes = [list(dict.fromkeys(column)) for column in zip(*areas, strict=True)]
    if codes == [asked]:
        raise GeographyError(
            f"{asked!r} is a code in {' and in '.join(kinds)}. Say which is meant: geolevel={kinds[0]!r}."
        )
    raise GeographyError(
        f"{len(areas):,} areas have the name {asked!r}: "
        f"{', '.join(f'{code} in {kind}' for kind, code in areas[:_SHOWN])}{', ...' * (len(areas) > _SHOWN)}. Give the "
        "code of the one that is meant, and its geolevel."
    )


_SHOWN = 5
"""Areas of one name that a message shows."""


def _areas_named(hierarchies: Hierarchies, name: str) -> list[tuple[str, str]]:
    if hierarchies.names is None:
        return []
    rows = hierarchies.names.filter(pl.col("name").cast(pl.String) == name).select("geolevel", "geocode")
    return [(str(kind), str(code)) for kind, code in rows.iter_rows()]


def _hint(hierarchies: Hierarchies, asked: str) -> str:
    wanted = "Give a geocode as text, such as '44007', and a geolevel or family of the release, or none."
    if hierarchies.names is None:
        return f"{wanted} The release has no names of areas."
    names = hierarchies.names["name"].cast(pl.String)
    near = names.filter(names.str.to_lowercase().str.starts_with(asked[:3].lower())).unique().sort().to_list()
    close = closest_hint(asked, near)
    return f"{close} {wanted}" if close.startswith("Did you mean") else wanted


def _members(hierarchies: Hierarchies, kind: str, code: str) -> Integers:
    """Rows of the finest geounits of one area."""
    spine = hierarchies.spine
    for level in hierarchies.known_levels:
        if spine.geolevels[level] == kind:
            (geounit,) = spine.locate(level, [code])
            begin, end = spine.finest_offsets(level)[geounit : geounit + 2]
            return np.arange(begin, end, dtype=np.int64)
    family = next(area for area in (*hierarchies.replaced, *hierarchies.families) if area.name == kind)
    return family.members_of(family.index(code))


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
        root: Release folder, of which nothing in `measurements/` is read; or a folder of measurements alone.
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
    release = open_release(root, kinds=MAIN_PRODUCT)
    (district,) = _answers(release, areas, [(0,) if minus is None else (0, 1)], wanted)
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
    release = open_release(root, kinds=MAIN_PRODUCT)
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
    alone = release.is_alone
    interval_manifest, with_bounds = bounds_choice(
        release, with_bounds=wanted.with_bounds, besides=NOISY if alone else ()
    )
    refuse_level(level)
    area_regions = [region_of(release.spine, family.members_of(place)) for place in range(family.n_entities)]
    # A difference is a region with weights 1 and -1, so its variance has the covariance in it.
    regions = [_less([area_regions[place] for place in places]) for places in asked]
    parts = []
    for fit in fits_of(release, groups, with_bounds=with_bounds):
        covariance, model = tree_covariance(fit.model, workers=threads), fit.model
        if alone:
            estimate = fit.estimate(release, covariance, workers=threads)
            parts.append(region_answers(estimate, regions, fit.questions, workers=threads))
        else:
            spread = region_variances(covariance, regions, fit.questions, workers=threads)
            parts.append(Answers(np.full_like(spread, np.nan), spread))
    values, variances = (
        np.concatenate(arrays, axis=1)
        for arrays in zip(*((part.estimates, part.variances) for part in parts), strict=True)
    )
    counts = published_counts(release, family, groups)
    reasons: list[str | None] = []
    start = 0
    for group in groups:
        # Those of a release are in its folder, so that all who ask get the numbers that were published.
        written = None if interval_manifest is None else written_estimates(release, family, group)
        if written is not None:
            sums = [_less([written[place] for place in places]) for places in asked]
            values[:, start : start + group.size] = sums
        has_intervals = interval_manifest is not None
        why = why_no_estimates(has_intervals=has_intervals, written=written is not None, query=group.name)
        reasons.append(None if alone else why)
        start += group.size
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
        for group, lacking in zip(groups, reasons, strict=True):
            span = slice(start, start + group.size)
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
                unpublished=_why_unpublished(release, alone=alone) if published is None else None,
                warnings=marks_of(release.manifest).warnings,
            )
        )
    return districts


def _why_unpublished(release: FinishedRelease, *, alone: bool) -> str:
    return "These are measurements alone." if alone else f"{counts_path(release)} is not there"


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
