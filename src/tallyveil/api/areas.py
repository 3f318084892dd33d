"""Areas of a release from Python, their counts to be looked at together, and classes of reliability.

Classes of reliability are given to any table with estimates and standard errors.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import polars as pl

from tallyveil.api.arguments import (
    AnyPath,
    Flag,
    Name,
    Names,
    Number,
    Wanted,
    Workers,
    checked,
    is_table_or_text,
)
from tallyveil.api.opened import Opened
from tallyveil.errors import ConfigError, GeographyError
from tallyveil.exact import as_given, type_of
from tallyveil.files.intervals import known_queries
from tallyveil.files.marks import short_mark
from tallyveil.printable import present_columns
from tallyveil.schema.answer_columns import answer_of
from tallyveil.schema.names import as_named
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import schema_from_mapping

if TYPE_CHECKING:
    from tallyveil.postprocess.derived.district import District

Geocodes = Iterable[str] | pl.Series
"""Geocodes of finest geounits, which `series_of_geocodes` reads."""
TWO_RELEASES: Final = (
    "To compare two releases, ask both one question and subtract the answers: "
    "release.ask(...).minus(earlier.ask(...))."
)
"""What somebody is told who subtracts counts of one release from those of another."""


class Area:
    """A set of finest geounits of a release, such as a county or an electoral district.

    Made by `Release.area`, `Release.district` and `Release.districts`.

    Attributes:
        release: The release.
        geocodes: Geocodes of the finest geounits.
    """

    def __init__(self, release: Opened, geocodes: pl.Series) -> None:
        self.release = release
        self.geocodes = geocodes

    def count(self, query: str, labels: Mapping[str, str] | None = None) -> "Count":
        """One count of this area, for `Release.quantities`.

        Args:
            query: A query, measured or not.
            labels: The label of every attribute in the query, as in the columns of the tables; None for `total`.
        Returns:
            The count.
        Raises:
            SchemaError: there is no such query or label.
        """
        count = Count(self, query, dict(labels or {}))
        # Asked now, so that a wrong label is refused where it was written.
        answer_named(self.release, query, count.labels)
        return count

    @checked
    def estimate(
        self,
        queries: Names | None = None,
        *,
        minus: "Area | Geocodes | None" = None,
        level: Number = 0.95,
        simultaneous: Flag = False,
        with_bounds: Flag = True,
        workers: Workers | None = None,
    ) -> "District":
        """Published counts, unbiased estimates, exact standard errors and intervals of this area.

        Standard errors follow from the plan. Estimates of a release are sums of those in `intervals/`, which
        `add_intervals` makes; those of measurements alone are made of the noisy answers.

        Args:
            queries: Queries; None for those of the release's tables.
            minus: An area whose counts are subtracted, or geocodes of its finest geounits.
            level: Coverage of the intervals.
            simultaneous: Whether all intervals together have that coverage.
            with_bounds: Whether the zeros of the release's public bounds are used.
            workers: Number of threads; None for one per core.
        Returns:
            The answers; `to_frame()` makes a table of them. A query without intervals in the release has standard
            errors alone.
        Raises:
            GeographyError: a geocode is unknown or given twice.
            ConfigError: the level or the number of threads is out of range, or `minus` is of another release.
        """
        from tallyveil.postprocess.derived.district import district_answers

        return district_answers(
            self.release.path,
            self.geocodes,
            minus=None if minus is None else area_of(minus, self.release).geocodes,
            tables=queries,
            level=level,
            simultaneous=simultaneous,
            with_bounds=with_bounds,
            workers=workers,
        )

    def __repr__(self) -> str:
        mark = short_mark(self.release.warnings)
        return f"<Area of {len(self.geocodes):,} finest geounits of {self.release.path}{mark}>"


class DistrictPlan:
    """The districts of a plan. Made by `Release.districts`.

    Attributes:
        release: The release.
        column: Column of the file that names the districts.
        areas: The districts by name.
    """

    def __init__(self, release: Opened, column: str, areas: Mapping[str, Area]) -> None:
        self.release = release
        self.column = column
        self.areas = dict(areas)

    @checked
    def estimate(
        self,
        queries: Names | None = None,
        *,
        level: Number = 0.95,
        simultaneous: Flag = False,
        with_bounds: Flag = True,
        workers: Workers | None = None,
    ) -> pl.DataFrame:
        """Published counts, unbiased estimates, exact standard errors and intervals of every district.

        Args:
            queries, level, with_bounds, workers: As in `Area.estimate`.
            simultaneous: Whether all intervals of all districts together have the coverage.
        Returns:
            A row for each district and answer, with the columns `district`, `finest_geounits` and those of
            `District.to_frame`. The district is null in the rows of all finest geounits that are in no district.
        Raises:
            GeographyError: a geocode is unknown.
            ConfigError: the level or the number of threads is out of range.
        """
        from tallyveil.postprocess.derived.district import answers_by_district

        answers = answers_by_district(
            self.release.path,
            {name: area.geocodes for name, area in self.areas.items()},
            tables=queries,
            level=level,
            simultaneous=simultaneous,
            with_bounds=with_bounds,
            workers=workers,
        )
        # One table with the district in front, so that rows of all districts can be compared.
        return pl.concat(
            district.to_frame().select(
                pl.lit(name, pl.String).alias("district"),
                pl.lit(district.n_finest, pl.Int64).alias("finest_geounits"),
                pl.all(),
            )
            for name, district in answers.items()
        )

    def __repr__(self) -> str:
        mark = short_mark(self.release.warnings)
        return f"<{len(self.areas):,} districts by {self.column!r} of {self.release.path}{mark}>"


@dataclass(frozen=True, slots=True, eq=False)
class DistrictsOfFile:
    """Counts of what a file of districts lists; made by `districts_of_file`.

    Attributes:
        column: Column that names the districts; None if the file lists the finest geounits of one district.
        by_name: The counts of each district. The one district without a column has the name "". By None, last, stand
            those of the finest geounits in no district, if there are any.
    """

    column: str | None
    by_name: "dict[str | None, District]"


@checked
def districts_of_file(
    release: AnyPath,
    file: AnyPath,
    *,
    column: Name | None = None,
    minus: AnyPath | None = None,
    queries: Names | None = None,
    level: Number = 0.95,
    simultaneous: Flag = False,
    with_bounds: Flag = True,
    workers: Workers | None = None,
) -> DistrictsOfFile:
    """Counts of one district, of one minus another, or of all districts of a plan, whichever a file lists.

    Args:
        release: Folder of a finished release. Its ledger and its measurements are not read.
        file: The finest geounits of one district, or a district for each finest geounit.
        column: As for `Release.districts`.
        minus: File of one district whose counts are subtracted. Then `file` lists one district, too.
        queries, level, simultaneous, with_bounds, workers: As for `DistrictPlan.estimate`.
    Raises:
        TallyveilError: a file cannot be read, or lists a plan where one district is wanted; else as `Area.estimate`.
    """
    from tallyveil.geography.tables import read_districts
    from tallyveil.postprocess.derived.district import answers_by_district, district_answers

    flag, folder = "--district-column NAME", Path(release)
    asked: dict[str, Any] = {"tables": queries, "level": level, "simultaneous": simultaneous}
    asked |= {"with_bounds": with_bounds, "workers": workers}
    districts = read_districts(Path(file), column, flag)
    # Two plans cannot be subtracted; one district can.
    if districts.column is None or minus is not None:
        less = None if minus is None else read_districts(Path(minus), None, flag).only("--minus FILE")
        answers = district_answers(folder, districts.only("--district FILE"), minus=less, **asked)
        return DistrictsOfFile(None, {"": answers})
    return DistrictsOfFile(districts.column, answers_by_district(folder, districts.geocodes, **asked))


@dataclass(frozen=True, slots=True)
class Count:
    """One count of an area; made by `Area.count`.

    Attributes:
        area: The area.
        query: The query.
        labels: The label of every attribute in the query.
    """

    area: Area
    query: str
    labels: dict[str, str]


@checked
def query_named(release: Opened, query: Name) -> QueryGroup:
    """A query, by the name that the files of a release have for it.

    Raises:
        ConfigError: it is no text.
        SchemaError: there is no such query.
    """
    schema = schema_from_mapping(release.manifest.body["plan"]["schema"])
    known = known_queries(release.path, release.manifest)
    return schema.query(as_named(query, known))


def answer_named(release: Opened, query: str, labels: Mapping[str, str]) -> tuple[QueryGroup, int]:
    """A query, and the number of the answer that labels name.

    Raises:
        ConfigError, SchemaError: there is no such query or label.
    """
    group = query_named(release, query)
    return group, answer_of(group, labels)


def area_of(what: Area | Geocodes, release: Opened) -> Area:
    """An area of a release.

    Raises:
        GeographyError: it is no area and no list of geocodes.
        ConfigError: it is an area of another release.
    """
    # A release has geocodes too, and would be taken for an area of all its people.
    if isinstance(what, Opened):
        raise ConfigError(
            f"an area is the release in {what.path}, wanted a geounit, an entity or a district, such as "
            f"release.area('44007'). {TWO_RELEASES}",
            code="bad-argument",
        )
    area = what if isinstance(what, Area) else Area(release, series_of_geocodes(what))
    # By folder: two openings of one folder are one release.
    if area.release.path != release.path:
        raise ConfigError(
            f"an area is of {area.release.path}, but the counts are those of {release.path}. Give areas of one "
            f"release. {TWO_RELEASES}",
            code="bad-argument",
        )
    return area


def districts_by_name(plan: DistrictPlan, release: Opened) -> dict[str, pl.Series]:
    """Finest geocodes of the districts of a plan; raises ConfigError if it is a plan of another release."""
    return {name: area_of(area, release).geocodes for name, area in plan.areas.items()}


def counts_by_name(counts: object) -> dict[str, Count]:
    """Counts by name.

    Raises:
        ConfigError: there are none, or it is something else.
    """
    if not isinstance(counts, Mapping) or not counts:
        raise ConfigError(
            f"counts is {as_given(counts)}, wanted a mapping from names to counts, such as "
            '{"all": release.area("44007").count("total")}.',
            code="bad-argument",
        )
    # The names too: they become columns, and a number would become one without a word.
    for name, count in counts.items():
        if not isinstance(name, str) or not isinstance(count, Count):
            raise ConfigError(
                f"counts holds {type_of(count)} under {type_of(name)}, wanted names as text and counts as Area.count "
                "gives them.",
                code="bad-argument",
            )
    return dict(counts)


def series_of_geocodes(geocodes: object) -> pl.Series:
    """Geocodes of finest geounits as text.

    Raises:
        GeographyError: there are none, or they are not text (a number would have lost its leading zeros), or they are
            a single text, whose letters would be taken for geocodes.
    """
    if isinstance(geocodes, Mapping):
        raise GeographyError(
            "an area is a mapping, wanted a list of geocodes, such as ['44007']. Give the areas of a mapping one by "
            "one: {name: release.district(geocodes) for name, geocodes in areas.items()}."
        )
    if is_table_or_text(geocodes) or not isinstance(geocodes, Iterable):
        raise GeographyError(
            f"an area is {as_given(geocodes)}, wanted a list of geocodes, such as ['44007']."
        )
    codes = geocodes if isinstance(geocodes, pl.Series) else _series(list(geocodes))
    if not len(codes):
        raise GeographyError("an area has no geocodes, wanted one or more of finest geounits.")
    if codes.dtype not in (pl.String, pl.Categorical, pl.Enum):
        raise GeographyError(
            f"geocodes are text, got {codes.dtype.base_type()}. Read the column as text, since a number loses leading "
            "zeros."
        )
    return codes.cast(pl.String).alias("geocode")


def _series(geocodes: list[object]) -> pl.Series:
    if strange := [code for code in geocodes if not isinstance(code, str)]:
        raise GeographyError(
            f"geocodes are text, got {type_of(strange[0])}. Read the column as text, since a number loses "
            "leading zeros."
        )
    return pl.Series(geocodes, dtype=pl.String)


Thresholds = Annotated[Sequence[Number], Wanted("rising thresholds as numbers, such as (0.165, 0.333)")]
THRESHOLDS = (0.165, 0.333)
"""Greatest coefficients of variation of the first two classes, as Statistics Canada has them."""
CLASSES = ("acceptable", "marginal", "unacceptable")
WANTED = ("estimate", "standard_error")
ADDED = ("coefficient_of_variation", "reliability")


@checked
def reliability(
    frame: pl.DataFrame, *, thresholds: Thresholds = THRESHOLDS, classes: Sequence[str] = CLASSES
) -> pl.DataFrame:
    """A table of counts with the coefficient of variation of each estimate and its class of reliability.

    The coefficient of variation is the standard error divided by the estimate. The classes speak of the privacy noise
    only. They are for counts, and not for differences, which may be near 0.

    Args:
        frame: A table with the columns `estimate` and `standard_error`, such as those of `Release.table`,
            `Release.interval`, `District.to_frame` and `Quantities.to_frame`.
        thresholds: Greatest coefficient of variation of each class but the last. The default is the guideline of
            Statistics Canada for estimates from its surveys.
        classes: Names of the classes, the most reliable first: one more than thresholds.
    Returns:
        The table with two more columns, `coefficient_of_variation` and `reliability`. An estimate of zero or less has
        no coefficient and is in the last class, unless it is known exactly, with coefficient 0. Rows without an
        estimate have null in both columns.
    Raises:
        ConfigError: a column is missing or already there, or thresholds and classes do not fit each other.
    Source: Statistics Canada, Canadian Community Health Survey, user guide of the public use microdata file, section on
        guidelines for release: up to 16.5 % acceptable, up to 33.3 % marginal, above that unacceptable.
    """
    limits, names = list(thresholds), list(classes)
    _refuse_misfit(frame, limits, names)
    estimate, error = pl.col("estimate"), pl.col("standard_error")
    coefficient = pl.when(error == 0).then(0.0).when(estimate > 0).then(error / estimate)
    known = estimate.is_not_null() & error.is_not_null()
    reached = pl.lit(names[-1])
    for limit, name in zip(reversed(limits), reversed(names[:-1]), strict=True):
        reached = pl.when(pl.col(ADDED[0]) <= limit).then(pl.lit(name)).otherwise(reached)
    # In two steps, since the class is chosen by the coefficient as it stands in the table.
    beside = frame.with_columns(pl.when(known).then(coefficient).alias(ADDED[0]))
    return beside.with_columns(pl.when(known).then(reached).alias(ADDED[1]))


def _refuse_misfit(frame: pl.DataFrame, limits: Sequence[float], names: Sequence[str]) -> None:
    columns = frame.collect_schema().names()
    missing = [name for name in WANTED if name not in columns]
    there = [name for name in ADDED if name in columns]
    if missing or there:
        what = f"no column {missing[0]}" if missing else f"a column {there[0]} already"
        raise ConfigError(
            f"the table has {what}. {present_columns(columns, WANTED)} Give a table with estimates and standard "
            "errors, such as release.table(...) after release.add_intervals().",
            code="bad-argument",
        )
    rising = list(limits) == sorted(set(limits)) and min(limits, default=0) > 0
    if not rising or len(names) != len(limits) + 1:
        raise ConfigError(
            f"{len(limits)} thresholds and {len(names)} classes are given, wanted rising thresholds above 0 and one "
            "class more than thresholds, such as thresholds=(0.165, 0.333) with three classes.",
            code="bad-argument",
        )
