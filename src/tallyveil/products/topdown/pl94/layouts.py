"""The tables P1 to P5 and H1 of the redistricting data, with the identifiers and labels of the Census Bureau.

A table is a tree of columns. A column without parts is a *leaf*: it counts records with one combination of levels, or
with several. Any other column is the sum of its parts. Columns are numbered in the order in which the Bureau prints
them: each column before its parts. A written table has one row for each area.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.schema.counts import PublicCounts, row_ranges
from tallyveil.schema.schema import Schema
from tallyveil.storage.read import scan_parquet
from tallyveil.storage.write import write_file, write_parquet_chunks

Levels: TypeAlias = tuple[str, ...]
"""One level of each attribute of a table, in the order of the table's attributes."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        identifier: The Bureau's name, such as "P0010003".
        label: The Bureau's label, such as "White alone".
        indent: 0 for the total, 1 for its parts, and so on.
        counts: The combinations of levels whose records it counts.
        parts: Positions in the table of the columns that it is the sum of; empty for a leaf.
    """

    identifier: str
    label: str
    indent: int
    counts: tuple[Levels, ...]
    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TableLayout:
    """One table.

    Attributes:
        name: The Bureau's number, such as "P1".
        title: The Bureau's title.
        universe: Who or what the table counts.
        attributes: The attributes of the schema that it needs.
        columns: Its columns, the total first.
    """

    name: str
    title: str
    universe: str
    attributes: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def identifiers(self) -> list[str]:
        """The names of its columns."""
        return [column.identifier for column in self.columns]


@dataclass(frozen=True, slots=True)
class TableLine:
    """A column before it has a number: a leaf with what it counts, or a sum of parts."""

    label: str
    counts: tuple[Levels, ...] = ()
    parts: tuple["TableLine", ...] = ()

    def all_counts(self) -> tuple[Levels, ...]:
        return self.counts or tuple(chain.from_iterable(part.all_counts() for part in self.parts))


RACES: Final = {
    "white": "White",
    "black": "Black or African American",
    "aian": "American Indian and Alaska Native",
    "asian": "Asian",
    "nhopi": "Native Hawaiian and Other Pacific Islander",
    "sor": "Some Other Race",
}
"""Names of the six races in the levels of attribute cenrace, and their labels."""

_NUMBERS: Final = ("one race", "two races", "three races", "four races", "five races", "six races")
_INSTITUTIONAL: Final = {
    "adult_correctional": "Correctional facilities for adults",
    "juvenile": "Juvenile facilities",
    "nursing": "Nursing facilities/Skilled-nursing facilities",
    "other_institutional": "Other institutional facilities",
}
_NONINSTITUTIONAL: Final = {
    "college": "College/University student housing",
    "military": "Military quarters",
    "other_noninstitutional": "Other noninstitutional facilities",
}
HOUSEHOLD: Final = "household"
"""The level of attribute hhgq that no column counts by itself."""


def _sets_of(size: int) -> list[tuple[str, ...]]:
    """All sets of so many races, in the Bureau's order."""
    return list(combinations(RACES, size))


def _all_sets() -> Iterator[str]:
    for size in range(1, len(RACES) + 1):
        yield from ("_".join(races) for races in _sets_of(size))


def _race_lines(before: Levels) -> tuple[TableLine, ...]:
    """The parts of a total by race; `before` holds the levels of the attributes before cenrace."""

    def sets(size: int) -> tuple[TableLine, ...]:
        # The Bureau lists races in a fixed order; `combinations` keeps the order of RACES.
        ending = " alone" if size == 1 else ""
        return tuple(
            TableLine("; ".join(RACES[race] for race in races) + ending, ((*before, "_".join(races)),))
            for races in _sets_of(size)
        )

    several = tuple(
        TableLine(f"Population of {_NUMBERS[size - 1]}:", parts=sets(size))
        for size in range(2, len(RACES) + 1)
    )
    return (
        TableLine("Population of one race:", parts=sets(1)),
        TableLine("Population of two or more races:", parts=several),
    )


def _origin_lines(before: Levels) -> tuple[TableLine, ...]:
    """The parts of a total by Hispanic origin, and by race where the origin is not Hispanic."""
    return (
        TableLine("Hispanic or Latino", tuple((*before, "hispanic", races) for races in _all_sets())),
        TableLine("Not Hispanic or Latino:", parts=_race_lines((*before, "not_hispanic"))),
    )


def _leaves(labels: dict[str, str]) -> tuple[TableLine, ...]:
    return tuple(TableLine(label, ((level,),)) for level, label in labels.items())


_QUARTERS: Final = (
    TableLine("Institutionalized population:", parts=_leaves(_INSTITUTIONAL)),
    TableLine("Noninstitutionalized population:", parts=_leaves(_NONINSTITUTIONAL)),
)
_OCCUPANCY: Final = _leaves({"occupied": "Occupied", "vacant": "Vacant"})


def columns_of(prefix: str, line: TableLine, first: int = 0, indent: int = 0) -> list[Column]:
    """The columns of a line and of its parts.

    Args:
        prefix: What identifiers begin with.
        line: The line.
        first: Its position in the table.
        indent: How far it is indented.
    """
    below: list[Column] = []
    places = []
    for part in line.parts:
        # Depth first: a column stands before its parts, and the parts of one part before the next part.
        places.append(first + 1 + len(below))
        below += columns_of(prefix, part, places[-1], indent + 1)
    column = Column(f"{prefix}{first + 1:04d}", line.label, indent, line.all_counts(), tuple(places))
    return [column, *below]


def _layout(
    name: str, title: str, universe: str, attributes: Levels, parts: tuple[TableLine, ...]
) -> TableLayout:
    prefix = f"{name[0]}{int(name[1:]):03d}"
    columns = columns_of(prefix, TableLine("Total:", parts=parts))
    return TableLayout(name, title, universe, attributes, tuple(columns))


_ADULTS: Final = ("18_plus",)
_BY_ORIGIN: Final = "Hispanic or Latino, and Not Hispanic or Latino by Race"
_OF_ADULTS: Final = " for the Population 18 Years and Over"

PERSON_TABLES: Final = (
    _layout("P1", "Race", "Total population", ("cenrace",), _race_lines(())),
    _layout("P2", _BY_ORIGIN, "Total population", ("hispanic", "cenrace"), _origin_lines(())),
    _layout(
        "P3",
        f"Race{_OF_ADULTS}",
        "Total population 18 years and over",
        ("votingage", "cenrace"),
        _race_lines(_ADULTS),
    ),
    _layout(
        "P4",
        f"{_BY_ORIGIN}{_OF_ADULTS}",
        "Total population 18 years and over",
        ("votingage", "hispanic", "cenrace"),
        _origin_lines(_ADULTS),
    ),
    _layout(
        "P5",
        "Group Quarters Population by Major Group Quarters Type",
        "Population in group quarters",
        ("hhgq",),
        _QUARTERS,
    ),
)
"""The tables of persons."""

UNIT_TABLES: Final = (_layout("H1", "Occupancy Status", "Housing units", ("h1",), _OCCUPANCY),)
"""The table of housing units."""


def label_rows(layouts: tuple[TableLayout, ...]) -> pl.DataFrame:
    """One row for each column of each table: table, title, universe, column, position, indent, label, path.

    The path is the label with those of all columns above it, such as "Total: > Population of one race: > White alone".
    """
    rows = []
    for layout in layouts:
        above: list[str] = []
        for position, column in enumerate(layout.columns, start=1):
            above = [*above[: column.indent], column.label]
            about = (layout.name, layout.title, layout.universe)
            rows.append((*about, column.identifier, position, column.indent, column.label, " > ".join(above)))
    names = ["table", "title", "universe", "column", "position", "indent", "label", "path"]
    return pl.DataFrame(rows, schema=names, orient="row")


ANSWERS_AT_ONCE = 1 << 22
"""Number of answers that are in memory at a time."""


def table_frames(
    counts: PublicCounts, codes: pl.Series, layout: TableLayout, schema: Schema
) -> Iterator[pl.DataFrame]:
    """The rows of a table, in pieces: geolevel, geocode, and one column of whole numbers for each of its columns.

    Args:
        counts: Counts of all areas of a kind.
        codes: The code of each area.
        layout: The table.
        schema: The universe of the counts.
    """
    group = schema.query("*".join(layout.attributes))
    answers_of = _answers_of(layout, schema)
    # At least one area at a time, however many answers the query has.
    step = max(ANSWERS_AT_ONCE // group.size, 1)
    # One piece even without areas, so that the file has its columns.
    for start in range(0, max(counts.n_geounits, 1), step):
        stop = min(start + step, counts.n_geounits)
        answers = group.apply(*counts.rows(start, stop), stop - start)
        yield pl.DataFrame(
            [
                pl.Series("geolevel", [counts.geolevel], dtype=pl.String).new_from_index(0, stop - start),
                codes.slice(start, stop - start).alias("geocode"),
                *(
                    pl.Series(column.identifier, answers[:, answers_of[position]].sum(axis=1))
                    for position, column in enumerate(layout.columns)
                ),
            ]
        )


def _answers_of(layout: TableLayout, schema: Schema) -> list[Integers]:
    """For each column of a table, the answers of its query that it is the sum of."""
    group = schema.query("*".join(layout.attributes))
    answers = []
    for column in layout.columns:
        words = list(zip(*column.counts, strict=True))
        labels = dict(zip(layout.attributes, words, strict=True))
        answers.append(group.answers_from_labels(labels, len(column.counts)))
    return answers


def write_rows(path: Path, frames: Iterator[pl.DataFrame], tags: Mapping[str, str], *, csv: bool) -> None:
    """Write a Parquet file from frames in order and, if asked for, the same rows as a CSV file beside it.

    The CSV file has a header line, commas between fields, and quotation marks where a text needs them.
    """
    write_parquet_chunks(path, frames, tags)
    if csv:
        write_file(path.with_suffix(".csv"), lambda temporary: scan_parquet(path).sink_csv(temporary))


def column_matrix(layout: TableLayout, schema: Schema) -> Integers:
    """Which cells of the schema each column of a table counts: 1 or 0, shape (n_columns, n_cells).

    It is read off the levels of every cell, and so does not use the query that the table is made with.
    """
    axes = [schema.attribute_names.index(name) for name in layout.attributes]
    words = [schema.attributes[axis].levels for axis in axes]
    codes = schema.decode(np.arange(schema.size, dtype=np.int64))[:, axes]
    columns_of: dict[tuple[str, ...], list[int]] = {}
    for position, column in enumerate(layout.columns):
        for levels in column.counts:
            columns_of.setdefault(levels, []).append(position)
    matrix = np.zeros((len(layout.columns), schema.size), dtype=np.int64)
    for cell, code in enumerate(codes):
        levels = tuple(names[place] for names, place in zip(words, code, strict=True))
        matrix[columns_of.get(levels, []), cell] = 1
    return matrix


def area_totals(counts: PublicCounts, counted: Integers) -> Integers:
    """Records of each area, weighted by cell.

    Args:
        counts: Counts of all areas of a kind.
        counted: How often a record of each cell is counted: 1 for each counts the records; shape (n_cells,).
    """
    totals = np.zeros(counts.n_geounits, dtype=np.int64)
    for start, stop in row_ranges(counts.offsets):
        rows, cells, records = counts.rows(start, stop)
        np.add.at(totals, start + rows, counted[cells] * records)
    return totals
