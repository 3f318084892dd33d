"""Expected error of every measurement, arranged for reading."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tallyveil.budget.expected import ExpectedError, expected_errors
from tallyveil.report.release_files import ReleaseFiles
from tallyveil.report.wording import geolevel_title, grouped, percent, query_title, rounded

CONFIDENCE = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A table of queries by geolevels.

    Attributes:
        geolevels: Column titles, root first.
        rows: Row title and one text a geolevel; None where the query is not measured.
    """

    geolevels: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """Everything known about one measurement before it is made, as text.

    Attributes:
        geolevel, query: What is measured; the query as its specification.
        budget_share: Its share of the whole budget.
        parameter: Exact parameter of the noise.
        variance, standard_deviation, margin: Of one measured count.
    """

    geolevel: str
    query: str
    budget_share: str
    parameter: str
    variance: str
    standard_deviation: str
    margin: str


def expected_of(files: ReleaseFiles) -> tuple[ExpectedError, ...]:
    """Expected errors of the release's measurements, with margins of 95 %."""
    return expected_errors(files.strategy, CONFIDENCE)


def margin_matrix(files: ReleaseFiles, expected: Sequence[ExpectedError]) -> Matrix:
    """95 % margins, queries by geolevels."""
    return _matrix(files, {(item.query, item.geolevel): f"± {grouped(item.margin)}" for item in expected})


def share_matrix(files: ReleaseFiles, expected: Sequence[ExpectedError]) -> Matrix:
    """Shares of the whole budget, queries by geolevels."""
    total = files.strategy.total
    shares = {(item.query, item.geolevel): percent(float(item.share / total)) for item in expected}
    return _matrix(files, shares)


def error_lines(files: ReleaseFiles, expected: Sequence[ExpectedError]) -> tuple[ErrorLine, ...]:
    """One line a measurement, with its exact parameter."""
    return tuple(
        ErrorLine(
            geolevel=geolevel_title(item.geolevel),
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
        tuple(geolevel_title(level) for level in files.geolevels),
        tuple(
            (query_title(query), tuple(texts.get((query, level)) for level in files.geolevels))
            for query in files.queries
        ),
    )
