"""The areas of a release, from a public table that somebody has: codes of any length, parents by column or by prefix.

The table has a row for each of the smallest areas; or it is a public list of all kinds of areas, such as a national
gazetteer, in which larger areas have rows of their own. The desk writes the areas anew, as UTF-8 with a column of
codes for each geolevel, so that a release file needs no rule.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from scipy import sparse
from scipy.sparse import csgraph

from tallyveil.geography.areas import NAME_IN
from tallyveil.storage.read import TextForm, collect, require_levels, scan_table
from tallyveil.words.language import Language

EVERYTHING: Final = "everything"
"""Source of a geolevel that has one area: the whole of the country."""
COLUMN, FIRST, WITHOUT_LAST = "column:", "first:", "without:"
MOST_PROBLEMS: Final = 8
"""Problems of a table that are shown at a time; more would not be read."""
LONGEST_CUT: Final = 9
"""Longest prefix or ending of a code that is offered."""
FIRST_ROW: Final = 2
"""The row of the first area as a spreadsheet numbers it: the names of the columns are row 1."""
ROW: Final = "\x1frow"
"""Column of the rows' numbers, which no geolevel can be called."""


@dataclass(frozen=True, slots=True)
class LevelAbove:
    """A geolevel above the finest one.

    Attributes:
        name: Its name.
        source: Where its codes come from: `EVERYTHING`, a column, the first characters of the finest code, or all but
            the last ones. In a list of all kinds of areas, a column is looked up in the row of the area below.
    """

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class AreasAsked:
    """What is said of a table of areas.

    Attributes:
        path: The table.
        form: How it is written.
        code: Column of the codes.
        finest: Name of the finest geolevel.
        names: Column of the names, and columns of names in languages, by what the file of names calls them; empty for
            none.
        above: The geolevels above, from the root down.
        lists_all: Whether larger areas have rows of their own.
    """

    path: Path
    form: TextForm
    code: str
    finest: str
    names: tuple[tuple[str, str], ...]
    above: tuple[LevelAbove, ...]
    lists_all: bool = False

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of all geolevels, root first."""
        return (*(level.name for level in self.above), self.finest)


def name_columns(name: str, columns: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The columns of names, by what the file of names calls them: "name", and "name:fr" for a column `<name>:fr`."""
    if not name:
        return ()
    others = [(f"{NAME_IN}{other.rpartition(':')[2]}", other) for other in columns if _is_in(other, name)]
    return (("name", name), *others)


def _is_in(column: str, name: str) -> bool:
    start, _, language = column.rpartition(":")
    return start == name and bool(language)


def sources_of(columns: Sequence[str], language: Language) -> tuple[tuple[str, str], ...]:
    """The sources that can be chosen, with their words."""
    say = language.say
    cuts = range(1, LONGEST_CUT + 1)
    return (
        ("", say("– (not used)")),
        (EVERYTHING, say("one area: the whole country")),
        *((f"{COLUMN}{name}", say("the column {column}", column=name)) for name in columns),
        *((f"{FIRST}{n}", say("the first {number} characters of the code", number=n)) for n in cuts),
        *(
            (f"{WITHOUT_LAST}{n}", say("the code without its last {number} characters", number=n))
            for n in cuts
        ),
    )


@dataclass(frozen=True, slots=True)
class AreasRead:
    """The areas of a table.

    Attributes:
        codes: A column of codes for each geolevel, named by it, and `ROW`.
        names: Columns `geolevel`, `geocode`, `name` and names in languages; None without names.
        problems: What is wrong with the table, in the language of the desk.
        notes: What may be wrong with it.
    """

    codes: pl.DataFrame
    names: pl.DataFrame | None
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()


def read_areas(asked: AreasAsked, language: Language) -> AreasRead:
    """The areas of a table, and what is wrong with them.

    Raises:
        ConfigError: a column is missing or occurs twice.
        SchemaError: a column holds lists, structures, bytes or durations.
        StoreError: the table cannot be read.
    """
    parents = [level.source.removeprefix(COLUMN) for level in asked.above if level.source.startswith(COLUMN)]
    wanted = list(dict.fromkeys([asked.code, *(column for _, column in asked.names), *parents]))
    frame = scan_table(asked.path, wanted, "areas", form=asked.form)
    require_levels(frame, wanted, asked.path, "areas")
    table = collect(frame, asked.path, "areas")
    table = table.select(pl.all().cast(pl.String).str.strip_chars()).with_row_index(ROW, offset=FIRST_ROW)
    problems = _Problems(asked, language, table[asked.code])
    if asked.lists_all:
        # A code that stands twice would have two rows to look its parent up in.
        problems.of_list(table)
        if not problems.said:
            problems.of_circles(table)
        codes = table.head(0) if problems.said else _climbed(table, asked)
    else:
        code = pl.col(asked.code)
        sources = [_source(level.source, code).alias(level.name) for level in asked.above]
        codes = table.select(*sources, code.alias(asked.finest), ROW)
    if not problems.said:
        problems.of_codes(codes)
    names = None
    if asked.names and not problems.said:
        above = [level.name for level in asked.above if asked.lists_all and level.source != EVERYTHING]
        levels = (*above, asked.finest)
        names = pl.concat(_names(table, codes[level].unique(), level, asked) for level in levels)
    notes = () if asked.lists_all or problems.said else tuple(_notes(table, asked, language))
    return AreasRead(codes, names, tuple(problems.said[:MOST_PROBLEMS]), notes)


def _source(source: str, code: pl.Expr) -> pl.Expr:
    if source == EVERYTHING:
        return pl.lit("0")
    if source.startswith(FIRST):
        return code.str.head(int(source.removeprefix(FIRST)))
    if source.startswith(WITHOUT_LAST):
        return code.str.head(-int(source.removeprefix(WITHOUT_LAST)))
    return pl.col(source.removeprefix(COLUMN))


def _notes(table: pl.DataFrame, asked: AreasAsked, language: Language) -> Iterator[str]:
    """What to ask where larger areas seem to stand among the smallest ones.

    It is a question, because codes of two kinds of areas may be alike: both may be numbers from 1.
    """
    for level in asked.above:
        if level.source.startswith(COLUMN):
            parents = table.filter(pl.col(level.source.removeprefix(COLUMN)) != pl.col(asked.code))
            if parents[level.source.removeprefix(COLUMN)].is_in(table[asked.code].implode()).any():
                yield language.say(
                    "Some codes of {level} are codes of rows of {file}, too. If larger areas have rows of their own, "
                    "say so for its rows.",
                    level=level.name,
                    file=asked.path.name,
                )


def _above(table: pl.DataFrame, asked: AreasAsked) -> pl.DataFrame:
    """Every code of a list of all kinds of areas with each other code that is above it; columns `code` and `parent`."""
    code = pl.col(asked.code)
    sources = [_source(level.source, code) for level in asked.above if level.source != EVERYTHING]
    pairs = [table.select(code.alias("code"), source.alias("parent")) for source in sources]
    none = pl.DataFrame(schema={"code": pl.String, "parent": pl.String})
    return pl.concat([none, *pairs]).filter(pl.col("parent") != pl.col("code"))


def _climbed(table: pl.DataFrame, asked: AreasAsked) -> pl.DataFrame:
    """The codes of a list of all kinds of areas: those of its smallest areas, and of the areas above each."""
    code = pl.col(asked.code)
    # The smallest areas are those that no other row has above it.
    smallest = table.filter(~code.is_in(_above(table, asked)["parent"].implode()))
    codes = smallest.select(code.alias(asked.finest), ROW)
    below = asked.finest
    for level in reversed(asked.above):
        if level.source.startswith(COLUMN):
            up = table.select(code.alias(below), _source(level.source, code).alias(level.name))
            codes = codes.join(up, on=below, how="left", maintain_order="left")
        else:
            codes = codes.with_columns(_source(level.source, pl.col(asked.finest)).alias(level.name))
        # The whole of the country has no row to look anything up in.
        below = below if level.source == EVERYTHING else level.name
    return codes.select(*asked.levels, ROW)


def _names(table: pl.DataFrame, codes: pl.Series, level: str, asked: AreasAsked) -> pl.DataFrame:
    """The names of the areas of a geolevel, as a release file takes them."""
    name = dict(asked.names)["name"]
    return table.filter(
        pl.col(asked.code).is_in(codes.implode()) & pl.col(name).is_not_null() & (pl.col(name) != "")
    ).select(
        pl.lit(level).alias("geolevel"),
        pl.col(asked.code).alias("geocode"),
        *(pl.col(column).alias(key) for key, column in asked.names),
    )


class _Problems:
    """What is wrong with a table of areas, each with its row and with what to do."""

    def __init__(self, asked: AreasAsked, language: Language, rows: pl.Series) -> None:
        self._asked, self._language, self._file = asked, language, asked.path.name
        self._rows = rows
        self.said: list[str] = []

    def of_list(self, rows: pl.DataFrame) -> None:
        """Codes of a list of all kinds of areas that are lacking or stand in several rows."""
        code = pl.col(self._asked.code)
        self.said += [
            self._language.say(
                "Row {row} of {file} has no code. Complete it, or take the row out.", row=row, file=self._file
            )
            for row in rows.filter(code.is_null() | (code == ""))[ROW]
        ]
        self._twice(rows, self._asked.code)

    def of_circles(self, rows: pl.DataFrame) -> None:
        """Areas of a list of all kinds that lie in each other, with no smallest area in any of them."""
        above = _above(rows, self._asked).filter(pl.col("parent") != "")
        code = pl.col(self._asked.code)
        # Area by area from the smallest up; an area is reached unless whatever lies in it goes round.
        numbers = pl.concat([rows[self._asked.code], above["parent"]]).unique().sort()
        smallest = rows.filter(~code.is_in(above["parent"].implode()))[self._asked.code]
        start = len(numbers)
        begins = np.concatenate(
            [np.full(len(smallest), start), numbers.search_sorted(above["code"]).to_numpy()]
        )
        ends = np.concatenate(
            [numbers.search_sorted(codes).to_numpy() for codes in (smallest, above["parent"])]
        )
        steps = sparse.csr_matrix(
            (np.ones(len(begins), np.int8), (begins, ends)), shape=(start + 1, start + 1)
        )
        reached = csgraph.breadth_first_order(steps, start, return_predecessors=False)
        lost = rows.filter(~code.is_in(numbers.gather(reached[reached < start]).implode()))
        if lost.height:
            self.said.append(
                self._language.say(
                    "Rows {rows} of {file} are areas that lie in each other, with no smallest area in them: {areas}. "
                    "Correct what is above one of them.",
                    rows=self._listed(lost[ROW].to_list()),
                    file=self._file,
                    areas=", ".join(lost[self._asked.code][:MOST_PROBLEMS]),
                )
            )

    def of_codes(self, codes: pl.DataFrame) -> None:
        """Codes that are lacking, stand twice, or belong to two larger areas."""
        say, levels = self._language.say, self._asked.levels
        if codes.is_empty():
            self.said.append(
                say(
                    "{file} has no row. Give every area a row of its own, also those where nobody lives.",
                    file=self._file,
                )
            )
            return
        if self._asked.lists_all:
            self._of_two_kinds(codes)
        if self.said:
            return
        for level in levels:
            self._lacking(codes, level)
        if self._asked.lists_all and not self.said:
            self._without_row(codes)
        if self.said:
            return
        self._twice(codes, self._asked.finest)
        for parent, level in pairwise(levels[:-1]):
            self._in_two(codes, parent, level)

    def _twice(self, rows: pl.DataFrame, column: str) -> None:
        """Codes that stand in several rows."""
        several = rows.filter(pl.col(column).is_duplicated()).group_by(column, maintain_order=True).agg(ROW)
        self.said += [
            self._language.say(
                "Rows {rows} of {file} have the same code. Keep one of them.",
                rows=self._listed(numbers),
                file=self._file,
            )
            for numbers in several[ROW]
        ]

    def _lacking(self, codes: pl.DataFrame, level: str) -> None:
        empty = codes.filter(pl.col(level).is_null() | (pl.col(level) == ""))
        self.said += [
            self._language.say(
                "Row {row} of {file} has no code of its {level}. Complete it, or choose another source.",
                row=row,
                file=self._file,
                level=level,
            )
            for row in empty[ROW]
        ]

    def _of_two_kinds(self, codes: pl.DataFrame) -> None:
        """Areas that are at two geolevels, because larger areas are lacking, have none in them, or go round."""
        sources = {level.name: level.source for level in self._asked.above}
        kinds = pl.concat(
            codes.select(pl.lit(level).alias("kind"), pl.col(level).alias("code"), ROW)
            for level in self._asked.levels
            if sources.get(level) != EVERYTHING
        )
        several = (
            kinds.filter(pl.col("code") != "")
            .group_by("code", maintain_order=True)
            .agg(pl.col("kind").unique(maintain_order=True), pl.col(ROW).last())
            .filter(pl.col("kind").list.len() > 1)
        )
        self.said += [
            self._language.say(
                "Row {row} of {file} needs one area to be both a {parent} and a {level}. Correct what is above it, or "
                "take the row out.",
                row=row,
                file=self._file,
                parent=levels[0],
                level=levels[-1],
            )
            for levels, row in several.select("kind", ROW).iter_rows()
        ]

    def _without_row(self, codes: pl.DataFrame) -> None:
        """Larger areas that a column names, and that have no row of their own."""
        for level in self._asked.above:
            if not level.source.startswith(COLUMN):
                continue
            unknown = codes.filter(~pl.col(level.name).is_in(self._rows.implode()))
            self.said += [
                self._language.say(
                    "Row {row} of {file} is in a {level} that has no row. Add a row for it, or correct its code.",
                    row=row,
                    file=self._file,
                    level=level.name,
                )
                for row in unknown.unique(level.name, keep="first", maintain_order=True)[ROW]
            ]

    def _in_two(self, codes: pl.DataFrame, parent: str, level: str) -> None:
        parents = pl.col(parent)
        first = codes.group_by(level, maintain_order=True).agg(
            pl.col(ROW).first(), pl.col(ROW).filter(parents != parents.first()).first().alias("other")
        )
        self.said += [
            self._language.say(
                "Rows {rows} of {file} put one {level} into two areas of {parent}. Correct one of them.",
                rows=self._listed(numbers),
                file=self._file,
                level=level,
                parent=parent,
            )
            for numbers in first.drop_nulls().select(ROW, "other").iter_rows()
        ]

    def _listed(self, rows: Sequence[int]) -> str:
        first, *others = [str(row) for row in rows[:3]]
        return self._language.say(
            "{first} and {last}", first=", ".join([first, *others[:-1]]), last=others[-1]
        )


def area_files(areas: AreasRead, asked: AreasAsked, geocode: str) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """The tables that the desk writes: the areas, whose finest codes are in the column `geocode`, and their names."""
    columns = column_of(asked, geocode)
    return areas.codes.select(pl.col(level).alias(columns[level]) for level in asked.levels), areas.names


def column_of(asked: AreasAsked, geocode: str) -> dict[str, str]:
    """The column of each geolevel in the file that the desk writes."""
    above: Callable[[str], str] = lambda name: name if name != geocode else f"{name} (geolevel)"  # noqa: E731
    return {**{level.name: above(level.name) for level in asked.above}, asked.finest: geocode}
