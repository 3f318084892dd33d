"""The areas of a release, from a public table that somebody has: codes of any length, parents by column or by prefix.

The desk writes them anew, as UTF-8 with a column of codes for each geolevel, so that a release file needs no rule.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.storage.read import TextForm, collect, scan_table

EVERYTHING: Final = "everything"
"""Source of a geolevel that has one area: the whole of the country."""
COLUMN, FIRST, WITHOUT_LAST = "column:", "first:", "without:"
MOST_PROBLEMS: Final = 8
"""Problems of a table that are shown at a time; more would not be read."""
LONGEST_CUT: Final = 9
"""Longest prefix or ending of a code that is offered."""


@dataclass(frozen=True, slots=True)
class LevelAbove:
    """A geolevel above the finest one.

    Attributes:
        name: Its name.
        source: Where its codes come from: `EVERYTHING`, a column, the first characters of the finest code, or all but
            the last ones.
    """

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class AreasAsked:
    """What is said of a table of areas.

    Attributes:
        path: The table.
        form: How it is written.
        code: Column of the finest codes.
        finest: Name of the finest geolevel.
        name: Column of their names; "" for none.
        above: The geolevels above, from the root down.
    """

    path: Path
    form: TextForm
    code: str
    finest: str
    name: str
    above: tuple[LevelAbove, ...]

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of all geolevels, root first."""
        return (*(level.name for level in self.above), self.finest)


def sources_of(columns: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The sources that can be chosen, with their words."""
    cuts = range(1, LONGEST_CUT + 1)
    return (
        ("", "– (not used)"),
        (EVERYTHING, "one area: the whole of it"),
        *((f"{COLUMN}{name}", f"the column {name}") for name in columns),
        *((f"{FIRST}{n}", f"the first {n} characters of the code") for n in cuts),
        *((f"{WITHOUT_LAST}{n}", f"the code without its last {n} characters") for n in cuts),
    )


def read_areas(asked: AreasAsked) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The areas: a column of codes for each geolevel, named by it, and a column of names; and what is wrong with them.

    Raises:
        ConfigError: a column is missing or occurs twice.
        StoreError: the table cannot be read.
    """
    named = [asked.name] if asked.name else []
    columns = [level.source.removeprefix(COLUMN) for level in asked.above if level.source.startswith(COLUMN)]
    wanted = list(dict.fromkeys([asked.code, *named, *columns]))
    table = collect(scan_table(asked.path, wanted, "areas", form=asked.form), asked.path, "areas")
    table = table.select(pl.all().cast(pl.String).str.strip_chars())
    code = pl.col(asked.code)
    areas = table.select(
        *(_source(level, code).alias(level.name) for level in asked.above),
        code.alias(asked.finest),
        (pl.col(asked.name) if asked.name else pl.lit(None, dtype=pl.String)).alias(NAME),
    )
    return areas, tuple(_problems(areas, asked)[:MOST_PROBLEMS])


NAME: Final = "\x1fname"
"""Column of the names, which no geolevel can be called."""


def _source(level: LevelAbove, code: pl.Expr) -> pl.Expr:
    if level.source == EVERYTHING:
        return pl.lit("0")
    if level.source.startswith(FIRST):
        return code.str.head(int(level.source.removeprefix(FIRST)))
    if level.source.startswith(WITHOUT_LAST):
        return code.str.head(-int(level.source.removeprefix(WITHOUT_LAST)))
    return pl.col(level.source.removeprefix(COLUMN))


def _problems(areas: pl.DataFrame, asked: AreasAsked) -> list[str]:
    if areas.is_empty():
        return [
            f"{asked.path.name} has no row. Give every area a row of its own, also those where nobody lives."
        ]
    problems = []
    for level in asked.levels:
        empty = areas[level].is_null() | (areas[level] == "")
        problems += [
            f"Row {row} of {asked.path.name} has no code of its {level}. Complete it, or choose another source."
            for row in _rows(empty.fill_null(value=True))
        ]
    if problems:
        return problems
    rows = areas.with_row_index("row", offset=FIRST_ROW)
    for place, level in enumerate(asked.levels):
        parent = asked.levels[place - 1] if place else None
        if level == asked.finest:
            twice = rows.filter(pl.col(level).is_duplicated()).group_by(level, maintain_order=True).agg("row")
            problems += [
                f"Rows {_listed(found)} of {asked.path.name} have the same code. Keep one of them."
                for found in twice["row"]
            ]
        elif parent is not None:
            several = (
                rows.group_by(level, maintain_order=True)
                .agg(
                    pl.col("row").first(),
                    pl.col(parent).n_unique().alias("n"),
                    pl.col(parent),
                    pl.col("row").alias("rows"),
                )
                .filter(pl.col("n") > 1)
            )
            problems += [
                f"Rows {_listed([row, _other(parents, found)])} of {asked.path.name} put one {level} into two of "
                f"{parent}. Correct one of them."
                for row, parents, found in several.select("row", parent, "rows").iter_rows()
            ]
    return problems


FIRST_ROW: Final = 2
"""The row of the first area as a spreadsheet numbers it: the names of the columns are row 1."""


def _rows(wrong: pl.Series) -> list[int]:
    return [place + FIRST_ROW for place in wrong.arg_true()]


def _other(parents: Sequence[str], rows: Sequence[int]) -> int:
    return next(row for parent, row in zip(parents, rows, strict=True) if parent != parents[0])


def _listed(rows: Sequence[int]) -> str:
    shown = [str(row) for row in rows[:3]]
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def area_files(
    areas: pl.DataFrame, asked: AreasAsked, geocode: str
) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """The tables that the desk writes: the areas, whose finest codes are in the column `geocode`, and their names."""
    columns = column_of(asked, geocode)
    codes = areas.select(pl.col(level).alias(columns[level]) for level in asked.levels)
    if not asked.name:
        return codes, None
    names = areas.select(
        pl.lit(asked.finest).alias("geolevel"),
        pl.col(asked.finest).alias("geocode"),
        pl.col(NAME).alias("name"),
    ).filter(pl.col("name").is_not_null() & (pl.col("name") != ""))
    return codes, names


def column_of(asked: AreasAsked, geocode: str) -> dict[str, str]:
    """The column of each geolevel in the file that the desk writes."""
    above: Callable[[str], str] = lambda name: name if name != geocode else f"{name} (geolevel)"  # noqa: E731
    return {**{level.name: above(level.name) for level in asked.above}, asked.finest: geocode}
