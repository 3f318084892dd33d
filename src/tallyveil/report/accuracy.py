"""The expected error of every measurement, as text for the tables of the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tallyveil.budget.strategy import ExpectedError, expected_errors
from tallyveil.report.release_files import ReleaseFiles
from tallyveil.report.wording import grouped, name_title, percent, rounded

CONFIDENCE = Fraction(95, 100)
"""Coverage of the margins on the page. 95 % is what readers of official statistics expect; another value would
need other words in the templates."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A table of queries by geolevels.

    Attributes:
        geolevels: Column titles, root first.
        rows: Title of each row, and one text for each geolevel; None if the query is not measured there.
    """

    geolevels: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """What the plan says about one measurement, as text.

    Attributes:
        geolevel: Title of the geolevel.
        query: Specification of the query.
        budget_share: The measurement's share of the whole budget.
        parameter: Exact parameter of the noise.
        variance, standard_deviation, margin: Of the noise of one measured count.
    """

    geolevel: str
    query: str
    budget_share: str
    parameter: str
    variance: str
    standard_deviation: str
    margin: str


def expected_of(files: ReleaseFiles) -> tuple[ExpectedError, ...]:
    """Expected errors of the release's measurements, with 95 % margins."""
    return expected_errors(files.strategy, CONFIDENCE)


def margin_matrix(files: ReleaseFiles, expected: Sequence[ExpectedError]) -> Matrix:
    """A table of 95 % margins: queries in rows, geolevels in columns."""
    # A query that a geolevel does not measure stays None and gets a dash.
    return _matrix(files, {(item.query, item.geolevel): f"± {grouped(item.margin)}" for item in expected})


def share_matrix(files: ReleaseFiles, expected: Sequence[ExpectedError]) -> Matrix:
    """A table of shares of the whole budget: queries in rows, geolevels in columns."""
    total = files.strategy.total
    # Shares are exact fractions; a float is made only for the percentage.
    shares = {(item.query, item.geolevel): percent(float(item.share / total)) for item in expected}
    return _matrix(files, shares)


def error_lines(files: ReleaseFiles, expected: Sequence[ExpectedError]) -> tuple[ErrorLine, ...]:
    """One line for each measurement, with the exact parameter of its noise."""
    return tuple(
        ErrorLine(
            geolevel=name_title(item.geolevel),
            query=item.query,
            budget_share=percent(float(item.share / files.strategy.total)),
            parameter=str(item.parameter),
            variance=rounded(item.variance, 4),
            standard_deviation=rounded(item.standard_deviation),
            margin=f"± {grouped(item.margin)}",
        )
        for item in expected
    )


def _matrix(files: ReleaseFiles, texts: dict[tuple[str, str], str]) -> Matrix:
    return Matrix(
        tuple(name_title(level) for level in files.geolevels),
        tuple(
            (files.titles.query(query), tuple(texts.get((query, level)) for level in files.geolevels))
            for query in files.queries
        ),
    )
