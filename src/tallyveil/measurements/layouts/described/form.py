"""What a description says of files: where they are, what their columns hold, and what their constraints mean."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Final, Literal

from pydantic import Field

from tallyveil.declared import ByName, Declared, Many, Name
from tallyveil.schema.names import PlainName

Sign = Literal["=", ">=", "<="]
EQUAL: Final[Sign] = "="
AT_LEAST: Final[Sign] = ">="
AT_MOST: Final[Sign] = "<="

ANSWERS: Final = "answers"
CONSTRAINTS: Final = "constraints"
TABLES: Final = (ANSWERS, CONSTRAINTS)

GEOLEVEL: Final = "geolevel"
QUERY: Final = "query"
_PLACES: Final = (GEOLEVEL, QUERY)


@dataclass(frozen=True)
class FilesTable(Declared):
    """[files]: where each table is, relative to the folder that is imported."""

    answers: Annotated[
        Name,
        Field(
            description="File or folder of the noisy answers. {geolevel} and {query} stand for a name, * for any text."
        ),
    ]
    constraints: Annotated[
        Name | None, Field(description="The same for exact counts and bounds, if there are any.")
    ] = None
    geography: Annotated[
        Name | None,
        Field(
            description="Table of the finest geounits, with a column of geocodes for each geolevel. Without it, a "
            "geocode begins with that of its parent."
        ),
    ] = None

    def __post_init__(self) -> None:
        for table in TABLES:
            pattern = self.pattern(table)
            if pattern is not None and any(part in {"", ".", ".."} for part in pattern.split("/")):
                raise ValueError(f"{table} leads out of the folder: names of folders and files are wanted")

    def pattern(self, table: str) -> str | None:
        """The place of a table; None if there is none."""
        return self.answers if table == ANSWERS else self.constraints


@dataclass(frozen=True)
class ColumnsTable(Declared):
    """[columns]: the name of each column that is read. All other columns are ignored."""

    geocode: Name = "geocode"
    query: Annotated[Name, Field(description="Only where no folder has the name of the query.")] = "query"
    geolevel: Annotated[Name, Field(description="Only where no folder has the name of the geolevel.")] = (
        "geolevel"
    )
    value: Name = "value"
    variance: Name = "variance"
    sign: Annotated[Name, Field(description="=, >= or <=; in the table of constraints.")] = "sign"
    labels: Annotated[
        ByName[Name], Field(description="Column of each attribute that has another name; in the long form.")
    ] = ()


@dataclass(frozen=True)
class AnswersTable(Declared):
    """[answers]: how noisy answers are written."""

    form: Annotated[
        Literal["list", "long"],
        Field(description="list: a row has all answers of a query in a geounit. long: a row has one answer."),
    ]
    order: Annotated[
        Many[Name],
        Field(
            description="Attributes in the order in which lists run, the last one fastest. Default: as in [schema]."
        ),
    ] = ()
    zeros: Annotated[
        Literal["present", "left out"],
        Field(description="Whether rows of the long form are left out where the noisy answer is 0."),
    ] = "present"
    variance: Annotated[
        Literal["parameter", "noise"],
        Field(
            description="What the variance is that of: the parameter of the discrete Gaussian law, or its noise, whose "
            "variance is smaller. They differ where they are below 2."
        ),
    ] = "parameter"
    names: Annotated[
        Name, Field(description="How a query is named: {query} stands for its factors, joined by *.")
    ] = "{query}"
    labels: Annotated[
        ByName[ByName[Name]],
        Field(
            description="For an attribute, what the files write for each of its labels that they write otherwise."
        ),
    ] = ()

    def __post_init__(self) -> None:
        if self.names.count(f"{{{QUERY}}}") != 1:
            raise ValueError("names has {query} not once")
        if self.form == "list" and (self.labels or self.zeros != "present"):
            raise ValueError("labels and zeros that are left out belong to the long form")
        if self.form == "long" and self.order:
            raise ValueError("order belongs to the form of lists")


@dataclass(frozen=True)
class ConstraintRows(Declared):
    """[[constraints]]: what rows of the table of constraints mean, and where they are used."""

    sign: Annotated[Sign, Field(description="Exact, a lower bound, or an upper bound.")]
    query: Annotated[Name | None, Field(description="The query whose counts are stated.")] = None
    zero: Annotated[
        Name | None,
        Field(description="The structural zero of the schema that the rows state, in place of a query."),
    ] = None
    geolevel: Annotated[
        Name | None,
        Field(description="Geolevel whose counts are used. Without it, the rows are known and not used."),
    ] = None
    name: Annotated[
        Name | None, Field(description="How the rows are named. Default: as the answers of the query.")
    ] = None
    bounds: Annotated[PlainName | None, Field(description="Name of bounds. Default: the query.")] = None
    missing: Annotated[
        Literal["refused", "zero", "unbounded"],
        Field(description="What an upper bound is where there is no row. Lower bounds are then 0."),
    ] = "refused"
    sums: Annotated[
        Many[Name],
        Field(description="Coarser geolevels, whose lower bounds are no larger than sums of these."),
    ] = ()

    def __post_init__(self) -> None:
        if (self.query is None) == (self.zero is None):
            raise ValueError("give either a query or a zero, and not both")
        if self.zero is not None and (self.geolevel is not None or self.sign != EQUAL):
            raise ValueError("a structural zero has the sign = and no geolevel")
        if self.missing != "refused" and self.sign == EQUAL:
            raise ValueError("exact counts have no default: every geounit has a row")

    @property
    def bounds_name(self) -> str:
        """Name of the bounds that the rows belong to."""
        return self.bounds or str(self.query)


@dataclass(frozen=True, kw_only=True, eq=False)
class Form:
    """What a description says of files.

    Attributes:
        name: Name of the layout.
        geolevels: All geolevels that there may be, root first.
        files, columns, answers: As the description has them.
        queries: What the files call a query, in any order of its factors, and its name, in the order of the strategy.
            Other queries have the names of their factors.
        constraints: The meaning of rows of the table of constraints.
        ignores_others: Whether other rows of that table are ignored, and not refused.
        tabulation: For geolevels of the tabulation geography, how many digits of a tabulation block name a geounit. The
            finest geocodes then end with the 16 digits of one.
        part: Whether the files may lack geolevels, queries and geounits, which are then unmeasured.
    """

    name: str
    geolevels: tuple[str, ...]
    files: FilesTable
    columns: ColumnsTable
    answers: AnswersTable
    queries: tuple[tuple[str, str], ...] = ()
    constraints: tuple[ConstraintRows, ...] = ()
    ignores_others: bool = False
    tabulation: tuple[tuple[str, int], ...] = ()
    part: bool = False

    @property
    def finest(self) -> str:
        """The finest geolevel that there may be."""
        return self.geolevels[-1]

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the files have."""
        return TABLES if self.files.constraints is not None else (ANSWERS,)

    def pattern(self, table: str) -> re.Pattern[str]:
        """Matches the path of every file of a table, and says which geolevel and query it is of."""
        place = self.files.pattern(table)
        assert place is not None
        text = re.escape(place).replace(r"\*", "[^/]*")
        for name in _PLACES:
            # A name that stands twice must be the same both times.
            text = text.replace(rf"\{{{name}\}}", f"(?P<{name}>[^/]+)", 1)
            text = text.replace(rf"\{{{name}\}}", f"(?P={name})")
        return re.compile(rf"{text}(/.*)?")

    def in_path(self, table: str, name: str) -> bool:
        """Whether paths say of which geolevel, or of which query, a file of a table is."""
        return f"{{{name}}}" in (self.files.pattern(table) or "")

    @cached_property
    def _by_factors(self) -> dict[frozenset[str], str]:
        """The query of each name that the description gives, whatever the order of its factors."""
        return {_factors(name): query for name, query in self.queries}

    def query_of(self, name: str) -> str | None:
        """The query that rows of this name answer, as far as the name says; None for a name of other rows."""
        before, after = self.answers.names.split(f"{{{QUERY}}}")
        if not (name.startswith(before) and name.endswith(after)) or len(name) <= len(before) + len(after):
            return None
        text = name[len(before) : len(name) - len(after)]
        return self._by_factors.get(_factors(text)) or "*".join(part.strip() for part in text.split("*"))


def _factors(name: str) -> frozenset[str]:
    return frozenset(part.strip() for part in name.split("*"))
