"""A draft of a release file: what somebody has said so far, what follows from it, and what is still wrong.

The steps are the same on the page of `tallyveil desk` and at the terminal of `tallyveil init`. Every answer is written
to the folder at once, also a wrong one, so that any step can be left and taken up again.

Privacy: of the records, the names of the columns are known here, whether they hold numbers, and how the file is
written. No later line of them is kept in a draft.
"""

import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from tallyveil.accounting.numbers import at_most
from tallyveil.budget.strategy import Strategy
from tallyveil.desk.areas import (
    EVERYTHING,
    AreasAsked,
    LevelAbove,
    area_files,
    column_of,
    read_areas,
    sources_of,
)
from tallyveil.desk.budget import FACTORS, Choice, Wish, choices_of, costs_of, scaled, smallest_strategy
from tallyveil.desk.kept import held_folder, read_kept, refuse_answers, write_kept
from tallyveil.desk.steps import Answers, Faults, Field, Step, UnsaidError, cell_of, plain, text_of, texts_of
from tallyveil.errors import ConfigError, StoreError, TallyveilError
from tallyveil.exact import fraction_of
from tallyveil.plans.from_toml.first_file import (
    FirstAttribute,
    FirstFile,
    ranges_of_bands,
    read_codebook,
    refuse_records,
    relative_to,
    release_text,
)
from tallyveil.plans.from_toml.load import plan_from_mapping
from tallyveil.plans.release import ReleasePlan
from tallyveil.products.topdown.run.inputs import read_spine
from tallyveil.schema.attribute import ranges_of
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.read import TEXT_SUFFIXES, TextForm
from tallyveil.storage.text_forms import TableShape, shape_of
from tallyveil.storage.write import file_digest, write_text

AREAS_FILE: Final = "desk-areas.csv"
NAMES_FILE: Final = "desk-names.csv"
RELEASE_FILE: Final = "release.toml"
TITLES: Final = {
    "records": "The records",
    "areas": "The areas",
    "meaning": "What the columns mean",
    "words": "Words for people",
    "tables": "What is published",
    "exactness": "How exact it must be",
    "budget": "What it means for one person",
    "file": "The release file",
}
"""The steps, in order, with what each is about."""
MOST_ABOVE: Final = 4
"""Geolevels above the finest one that are asked for. More are seldom published, and a release file takes them."""
BY_LEVELS, RANGES, LEFT_OUT = "levels", "ranges", "left out"
DELIMITER_WORDS: Final = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar"}
DECIMAL_WORDS: Final = {".": "point (1.5)", ",": "comma (1,5)"}
ENCODING_WORDS: Final = {
    "utf-8": "UTF-8",
    "iso-8859-1": "Latin-1 (ISO 8859-1)",
    "windows-1252": "Windows-1252",
}


@dataclass(slots=True)
class Draft:
    """What somebody has said so far in a folder.

    Attributes:
        folder: The folder, in which the draft and the release file are written.
        answers: The answers of each step.
        written: Digest of each file that the desk wrote last, by its name.
    """

    folder: Path
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    _known: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def opened(cls, folder: Path) -> "Draft":
        """The draft of a folder, or a new one.

        Raises:
            StoreError: there is no such folder, or its draft cannot be read.
        """
        return cls(folder, *read_kept(folder, TITLES))

    @classmethod
    @contextmanager
    def held(cls, folder: Path) -> Iterator["Draft"]:
        """The draft of a folder, in which no other desk keeps answers until the block ends.

        Raises:
            StoreError: as `opened`, or another desk is open in the folder.
        """
        # Before the lock, so that a wrong folder stays as it is; and within it, so that no answer comes in between.
        cls.opened(folder)
        with held_folder(folder):
            yield cls.opened(folder)

    def take(self, name: str, answers: Answers) -> None:
        """Note the answers of a step, right or wrong.

        Raises:
            ConfigError: there is no such step, or an answer is none that could be kept.
            StoreError: the folder cannot be written to.
        """
        if name not in TITLES:
            raise ConfigError(
                f"there is no step {name!r:.80}. Steps are {', '.join(TITLES)}.", code="bad-argument"
            )
        refuse_answers(answers)
        said = dict(answers)
        if name == "records" and said.get("file") != self.answers.get(name, {}).get("file"):
            # How another file is written must be found anew.
            for key in ("delimiter", "encoding", "decimal"):
                said.pop(key, None)
        if name == "meaning" and said.get("codebook") != self.answers.get(name, {}).get("codebook"):
            # What another codebook has is suggested anew, unless somebody has said what it means.
            said["columns"] = {
                column: cells
                for column, cells in _mapping(said.get("columns")).items()
                if isinstance(cells, Mapping) and cells.get("levels")
            }
        self.answers[name] = said
        self._save()

    def _save(self) -> None:
        write_kept(self.folder, self.answers, self.written)

    def step(self, name: str) -> Step:
        """A step as it stands. What is wrong is among its problems."""
        make: dict[str, Callable[[], Step]] = {
            "records": self._records,
            "areas": self._areas,
            "meaning": self._meaning,
            "words": self._words,
            "tables": self._tables,
            "exactness": self._exactness,
            "budget": self._budget,
            "file": self._file,
        }
        return make[name]()

    def _of(self, name: str) -> Answers:
        return self.answers.get(name, {})

    def _remembered(self, key: str, said: object, make: Callable[[], Any]) -> Any:
        """What follows from answers, computed once for the same answers."""
        if key not in self._known or self._known[key][0] != said:
            self._known[key] = (said, make())
        return self._known[key][1]

    def path(self, text: str) -> Path:
        """A file as it is named in the folder."""
        return self.folder / text

    def _files(self) -> tuple[tuple[str, str], ...]:
        """Tables in the folder, which are suggested; the desk's own are not."""
        own = {AREAS_FILE, NAMES_FILE}
        return plain(
            sorted(
                path.name
                for path in self.folder.iterdir()
                if path.suffix in (".parquet", *TEXT_SUFFIXES) and path.name not in own and path.is_file()
            )
        )

    def shape(self) -> TableShape:
        """The columns of the records; raises as `shape_of`."""
        said = self._of("records")
        path = self.path(text_of(said, "file"))
        form = None
        delimiter, encoding, decimal = (str(said.get(key)) for key in ("delimiter", "encoding", "decimal"))
        # Until all three are said, and by words that are known, they are found in the file.
        if delimiter in DELIMITER_WORDS and encoding in ENCODING_WORDS and decimal in DECIMAL_WORDS:
            form = TextForm(delimiter, encoding, decimal)
        return self._shape_of(path, "records", form)

    def _shape_of(self, path: Path, what: str, form: TextForm | None = None) -> TableShape:
        """What `shape_of` finds, looked for once as long as the file stays as it is."""
        state = path.stat() if path.is_file() else None
        key = (path, form, None if state is None else (state.st_mtime_ns, state.st_size))
        shape: TableShape = self._remembered(f"shape of the {what}", key, lambda: shape_of(path, what, form))
        return shape

    # Step by step.

    def _records(self) -> Step:
        said = self._of("records")
        shown: list[str] = []
        faults = Faults()
        form = TextForm(",")
        if not text_of(said, "file"):
            faults.unsaid.append("Name the file of the records.")
        else:
            try:
                shape = self.shape()
                form = shape.form
                shown = _shape_in_words(
                    shape, is_text=self.path(text_of(said, "file")).suffix in TEXT_SUFFIXES
                )
            except TallyveilError as error:
                faults.note(error)
        return Step(
            "records",
            TITLES["records"],
            "The confidential table, with a row for each person, household or other unit. The desk reads the names of "
            "its columns, which of them hold numbers, and how the file is written. It shows no value.",
            (
                Field("file", "File of the records", choices=self._files(), value=text_of(said, "file"),
                      help="A CSV or Parquet file, by its path from the folder of the desk."),
                Field("delimiter", "Between columns", "choice", choices=tuple(DELIMITER_WORDS.items()),
                      value=form.delimiter or ","),
                Field("encoding", "Encoding", "choice", choices=tuple(ENCODING_WORDS.items()), value=form.encoding),
                Field("decimal", "Decimal sign", "choice", choices=tuple(DECIMAL_WORDS.items()), value=form.decimal),
                Field("count", "Column that says how many records a row stands for", "choice",
                      choices=(("", "– (each row is one record)"), *plain(self._columns())), value=self.count_column()),
            ),
            tuple(shown),
            **faults.of(),
        )  # fmt: skip

    def count_column(self) -> str:
        """The column that says how many records a row stands for; "" where each row is one."""
        column = text_of(self._of("records"), "count")
        return column if column in self._columns() else ""

    def _columns(self) -> tuple[str, ...]:
        try:
            return self.shape().columns
        except TallyveilError:
            return ()

    def _areas_asked(self) -> AreasAsked:
        """What is said of the areas.

        Raises:
            ConfigError: something is not said.
            StoreError: the table cannot be read.
        """
        said = self._of("areas")
        for key, what in (
            ("area", "the column of the records that says where somebody lives"),
            ("file", "the file of the areas"),
            ("code", "the column of the codes"),
            ("finest", "what the smallest areas are called"),
        ):
            if not text_of(said, key):
                raise _unsaid(what)
        path = self.path(text_of(said, "file"))
        refuse_records(path, self.path(text_of(self._of("records"), "file")), "the file of the areas")
        above = tuple(
            LevelAbove(cell_of(said, "above", row, "name"), cell_of(said, "above", row, "source"))
            for row, _ in _ABOVE_ROWS
            if cell_of(said, "above", row, "source")
        )
        if not above:
            above = (LevelAbove("All", EVERYTHING),)
        names = [level.name for level in above] + [text_of(said, "finest")]
        if not all(names) or len(set(names)) < len(names):
            raise ConfigError("Give every kind of area a name of its own.", code="bad-argument")
        return AreasAsked(
            path,
            self._shape_of(path, "areas").form,
            text_of(said, "code"),
            text_of(said, "finest"),
            text_of(said, "name"),
            above,
        )

    def _areas(self) -> Step:
        said, columns = self._of("areas"), self._columns()
        faults = Faults()
        shown: list[str] = []
        of_file: tuple[str, ...] = ()
        try:
            if text_of(said, "file"):
                of_file = self._shape_of(self.path(text_of(said, "file")), "areas").columns
            asked = self._areas_asked()
            if text_of(said, "area") not in columns:
                raise _unsaid("the column of the records that says where somebody lives")
            table, wrong = read_areas(asked)
            faults.problems += wrong
            if not wrong:
                shown = [f"{table[level].n_unique():,} × {level}" for level in asked.levels]
                codes, names = area_files(table, asked, text_of(said, "area"))
                self._write(AREAS_FILE, codes.write_csv())
                if names is not None:
                    self._write(NAMES_FILE, names.write_csv())
        except TallyveilError as error:
            faults.note(error)
        none = (("", "– (none)"),)
        return Step(
            "areas",
            TITLES["areas"],
            "A public table with a row for each of the smallest areas, also those where nobody lives: if only areas "
            "with people were listed, the list itself would tell something. Larger areas are made of smaller ones.",
            (
                Field("area", "Column of the records with the code of the area", "choice",
                      choices=(*none, *plain(columns)), value=text_of(said, "area")),
                Field("file", "File of the areas", choices=self._files(), value=text_of(said, "file")),
                Field("code", "Its column of codes", "choice", choices=(*none, *plain(of_file)),
                      value=text_of(said, "code"), help="Codes may have different lengths."),
                Field("name", "Its column of names, for readers", "choice", choices=(*none, *plain(of_file)),
                      value=text_of(said, "name")),
                Field("finest", "What the smallest areas are called", value=text_of(said, "finest"),
                      help="Such as Municipality."),
                Field("above", "Larger areas, from the largest down", "table", rows=_ABOVE_ROWS,
                      help="Without any, all areas together are one.",
                      columns=(
                          Field("name", "What they are called"),
                          Field("source", "Where their codes come from", "choice", choices=sources_of(of_file)),
                      ),
                      value=said.get("above", {})),
            ),
            tuple(shown),
            **faults.of(),
        )  # fmt: skip

    def _codebook(self) -> dict[str, FirstAttribute]:
        """The attributes of the codebook; raises as `read_codebook`."""
        text = text_of(self._of("meaning"), "codebook")
        if not text:
            return {}
        path = self.path(text)
        refuse_records(path, self.path(text_of(self._of("records"), "file")), "the codebook")
        return {item.name: item for item in read_codebook(path, (), self._shape_of(path, "codebook").form)}

    def attributes(self) -> tuple[tuple[FirstAttribute, ...], tuple[tuple[str, str], ...]]:
        """The attributes, and the level of records without a value for those that have one.

        Raises:
            ConfigError, SchemaError, StoreError: something is not said, or is wrong.
        """
        said, coded, shape = self._of("meaning"), self._codebook(), self.shape()
        attributes, missing = [], []
        for name in self._columns():
            kind = self._kind_of(name, coded, shape)
            if kind == LEFT_OUT:
                continue
            levels = self._levels_of(name, kind, coded)
            gap = cell_of(said, "columns", name, "missing")
            if kind == RANGES:
                ranges_of(levels, name)
                if gap:
                    raise ConfigError(
                        f"{name}: a column of numbers has no level for records without a value. Leave it empty.",
                        code="bad-argument",
                    )
            if gap:
                levels = levels if gap in levels else (*levels, gap)
                missing.append((name, gap))
            attributes.append(FirstAttribute(name, levels, kind == RANGES))
        if not attributes:
            raise UnsaidError("Say of at least one column what its values mean.", code="bad-argument")
        return tuple(attributes), tuple(missing)

    def _kind_of(self, name: str, coded: Mapping[str, FirstAttribute], shape: TableShape) -> str:
        """Whether a column is released by levels, by ranges of its numbers, or not at all."""
        said = self._of("meaning")
        if name in (text_of(self._of("areas"), "area"), self.count_column()):
            return LEFT_OUT
        # What the codebook has is meant to be released, until somebody says otherwise.
        suggested = (
            LEFT_OUT if name not in coded else RANGES if _are_ranges(coded[name], shape) else BY_LEVELS
        )
        return cell_of(said, "columns", name, "kind", suggested)

    def _levels_of(self, name: str, kind: str, coded: Mapping[str, FirstAttribute]) -> tuple[str, ...]:
        text = cell_of(self._of("meaning"), "columns", name, "levels")
        if not text and name in coded:
            return coded[name].levels
        if not text:
            raise UnsaidError(
                f"{name}: say which {'ranges' if kind == RANGES else 'values'} there are. They are not taken from the "
                "records.",
                code="bad-argument",
            )
        if kind == RANGES and text.count(":") == 2:
            text = ranges_of_bands(text)
        parts = text.split(";") if ";" in text else text.split(",")
        return tuple(part.strip() for part in parts if part.strip())

    def _meaning(self) -> Step:
        said, faults, shown = self._of("meaning"), Faults(), []
        coded: dict[str, FirstAttribute] = {}
        value: dict[str, dict[str, str]] = {}
        try:
            coded = self._codebook()
            shape = self.shape()
            for name in self._columns():
                kind = self._kind_of(name, coded, shape)
                value[name] = {
                    "kind": kind,
                    "levels": cell_of(said, "columns", name, "levels")
                    or ("; ".join(coded[name].levels) if name in coded else ""),
                    "missing": cell_of(said, "columns", name, "missing"),
                }
            attributes, _ = self.attributes()
            shown = [f"{item.name}: {len(item.levels)} levels" for item in attributes]
        except TallyveilError as error:
            faults.note(error)
        others = (text_of(self._of("areas"), "area"), self.count_column())
        rows = [name for name in self._columns() if name not in others]
        return Step(
            "meaning",
            TITLES["meaning"],
            "The values that there can be come from a public codebook or from you, never from the records: which "
            "values occur in them is itself confidential.",
            (
                Field("codebook", "Codebook, if there is one", choices=self._files(), value=text_of(said, "codebook"),
                      help="A public table with the columns attribute and level, and a row for each level."),
                Field("columns", "Columns of the records", "table", rows=plain(rows), columns=(
                    Field("kind", "Released", "choice", choices=(
                        (LEFT_OUT, "left out"), (BY_LEVELS, "by its values"), (RANGES, "by ranges of its numbers"))),
                    Field("levels", "Values or ranges",
                          help="female; male – or 0-17; 18-64; 65+ – or 0:5:85 for 0-4, 5-9, …, 85+"),
                    Field("missing", "An empty value means", help="Such as: not asked"),
                ), value=value),
            ),
            tuple(shown),
            **faults.of(),
        )  # fmt: skip

    def _words(self) -> Step:
        said = self._of("words")
        return Step(
            "words",
            TITLES["words"],
            "Reports and tables speak in these words.",
            (
                Field("title", "Title of the release", value=text_of(said, "title") or self._title()),
                Field("unit", "What one record stands for", value=text_of(said, "unit") or "person"),
                Field("units", "Several of them", value=text_of(said, "units") or "people"),
            ),
        )

    def _title(self) -> str:
        return Path(text_of(self._of("records"), "file")).stem or "release"

    def _queries(self) -> tuple[tuple[str, str], ...]:
        """Tables that can be published, with their sizes."""
        attributes, _ = self.attributes()
        sizes = {item.name: len(item.levels) for item in attributes}
        names = [("total", "the total")]
        names += [(name, f"{name} ({size} counts)") for name, size in sizes.items()]
        if len(sizes) > 2:
            names += [
                (f"{one}*{other}", f"{one} by {other} ({sizes[one] * sizes[other]} counts)")
                for one, other in combinations(sizes, 2)
            ]
        cells = 1
        for size in sizes.values():
            cells *= size
        if len(sizes) > 1:
            names.append(("detailed", f"all of them together ({cells:,} counts)"))
        return tuple(names)

    def tables(self) -> tuple[str, ...]:
        """The tables to publish; raises as `attributes`, or if there is none."""
        known = [name for name, _ in self._queries()]
        said = self._of("tables")
        # Single attributes are what most people look for, and every further table costs something.
        suggested = tuple(name for name in known if "*" not in name and name != "detailed")
        ticked = texts_of(said, "tables") if "tables" in said else suggested
        tables = tuple(name for name in known if name in ticked)
        if not tables:
            raise UnsaidError("Tick at least one table.", code="bad-argument")
        return tables

    def exact_levels(self) -> tuple[str, ...]:
        """Geolevels whose totals are known exactly."""
        levels = self._areas_asked().levels
        return tuple(name for name in texts_of(self._of("tables"), "exact") if name in levels)

    def _tables(self) -> Step:
        faults = Faults()
        queries: tuple[tuple[str, str], ...] = ()
        levels: tuple[str, ...] = ()
        ticked: tuple[str, ...] = ()
        try:
            queries, levels = self._queries(), self._areas_asked().levels
            ticked = self.tables()
        except TallyveilError as error:
            faults.note(error)
        exact = texts_of(self._of("tables"), "exact")
        return Step(
            "tables",
            TITLES["tables"],
            "Every table is published for all areas of every kind. A table that is left out costs nothing.",
            (
                Field("tables", "Tables", "several", choices=tuple(queries), value=list(ticked)),
                Field("exact", "Areas whose totals everybody knows already", "several", choices=plain(levels),
                      value=[name for name in exact if name in levels],
                      help="They are published without noise, and nothing protects them."),
                Field("neighbours", "What nobody may find out", "choice", choices=tuple(_NEIGHBOURS.items()),
                      value=self.neighbours()),
            ),
            (),
            **faults.of(),
        )  # fmt: skip

    def neighbours(self) -> str:
        """The relation whose members nobody may tell apart."""
        said = text_of(self._of("tables"), "neighbours")
        return said if said in _NEIGHBOURS else "bounded"

    def _wishes_asked(self) -> Iterator[tuple[str, str]]:
        """Tables and geolevels whose accuracy can be wished for: all that are not exact."""
        exact, levels = self._known_totals(), self._areas_asked().levels
        for table in self.tables():
            for level in levels:
                if table != "total" or level not in exact:
                    yield table, level

    def _known_totals(self) -> tuple[str, ...]:
        """Geolevels whose totals are exact: those that were named, and all above them."""
        levels = self._areas_asked().levels
        return levels[: max((levels.index(name) + 1 for name in self.exact_levels()), default=0)]

    def wishes(self) -> tuple[Wish, ...]:
        """How exact tables must be; raises ConfigError if a number is none, or nothing is wished for."""
        said, wishes = self._of("exactness"), []
        for table, level in self._wishes_asked():
            text = cell_of(said, "within", table, level)
            if not text:
                continue
            within = fraction_of(text.replace(",", "."))
            if within is None or within <= 0:
                raise ConfigError(
                    f"{table} at {level}: {text!r:.40} is no number above 0. Give a number of {self.unit()[1]}, or "
                    "leave it empty.",
                    code="bad-argument",
                )
            wishes.append(Wish(table, level, within))
        if not wishes:
            raise UnsaidError("Say for at least one table how exact it must be.", code="bad-argument")
        return tuple(wishes)

    def unit(self) -> tuple[str, str]:
        """What one record stands for, and several of them."""
        said = self._of("words")
        return text_of(said, "unit") or "person", text_of(said, "units") or "people"

    def _exactness(self) -> Step:
        said, faults = self._of("exactness"), Faults()
        tables: tuple[str, ...] = ()
        levels: tuple[str, ...] = ()
        try:
            pairs = list(self._wishes_asked())
            tables = tuple(dict.fromkeys(table for table, _ in pairs))
            levels = tuple(
                name for name in self._areas_asked().levels if any(name == level for _, level in pairs)
            )
            self.wishes()
        except TallyveilError as error:
            faults.note(error)
        names = dict(self._queries()) if tables else {}
        return Step(
            "exactness",
            TITLES["exactness"],
            f"For each table and kind of area: within how many {self.unit()[1]} of the true count a published count "
            "should be, in 95 of 100 cases. Leave empty what need not be exact. The smallest budget follows.",
            (
                Field("within", f"Within so many {self.unit()[1]}", "table",
                      rows=tuple((table, names[table]) for table in tables),
                      columns=tuple(Field(level, level) for level in levels), value=said.get("within", {})),
            ),
            (),
            **faults.of(),
        )  # fmt: skip

    # What follows from the answers.

    def release(self, strategy: Strategy | None = None) -> str:
        """The text of the release file.

        Args:
            strategy: How the budget is divided; None for equal shares of a budget of 1, from which it is found.
        Raises:
            TallyveilError: something is not said, or is wrong.
        """
        asked, shape = self._areas_asked(), self.shape()
        attributes, missing = self.attributes()
        geocode = text_of(self._of("areas"), "area")
        one, many = self.unit()
        columns = column_of(asked, geocode)
        return release_text(
            FirstFile(
                name=text_of(self._of("words"), "title") or self._title(),
                records=relative_to(self.path(text_of(self._of("records"), "file")), self.folder),
                geocode=geocode,
                count=self.count_column() or None,
                geography=AREAS_FILE,
                geolevels=(
                    *((level.name, columns[level.name]) for level in asked.above),
                    (asked.finest, None),
                ),
                finest_length=0,
                attributes=attributes,
                unit=None if (one, many) == ("person", "people") else one,
                units=None if (one, many) == ("person", "people") else many,
                neighbours=self.neighbours(),
                budget=("rho", Fraction(1) if strategy is None else strategy.total),
                tables=self.tables(),
                form=shape.form,
                missing=missing,
                exact=self.exact_levels(),
                names=NAMES_FILE if asked.name else None,
                strategy=strategy,
                made_by="desk",
            )
        )

    def _planned(self, strategy: Strategy | None = None) -> ReleasePlan:
        return plan_from_mapping(tomllib.loads(self.release(strategy)), self.folder)

    def _to_divide(self) -> ReleasePlan:
        """A plan that measures every table at every geolevel, and all cells, with equal shares."""
        plan = self._planned()
        queries = tuple(dict.fromkeys([*self.tables(), "detailed"]))
        exact, shares = self._known_totals(), []
        for level in plan.geolevels:
            # Measuring what is published exactly would buy nothing.
            measured = [query for query in queries if query != "total" or level not in exact]
            parts = [(query, Fraction(1, len(measured))) for query in measured]
            shares.append((level, Fraction(1, len(plan.geolevels)), parts))
        return self._planned(plan.strategy.with_shares(shares))

    def smallest(self) -> tuple[ReleasePlan, Strategy, tuple[Choice, ...]]:
        """The smallest budget that meets all wishes, and what budgets around it mean for one person.

        Raises:
            TallyveilError: something is not said, or is wrong, or a wish cannot be met.
        """
        text = self.release()
        wishes = self.wishes()
        areas = self.path(AREAS_FILE).stat()
        said = (text, wishes, areas.st_mtime_ns, areas.st_size)

        def find() -> tuple[ReleasePlan, Strategy, tuple[Choice, ...]]:
            plan = self._to_divide()
            read_spine(plan.geography)
            strategy = smallest_strategy(plan, wishes)
            return plan, strategy, choices_of(plan, strategy)

        found: tuple[ReleasePlan, Strategy, tuple[Choice, ...]] = self._remembered("budget", said, find)
        return found

    def costs(self) -> tuple[str, ...]:
        """What each wish costs, in sentences, the dearest first; raises as `smallest`."""
        plan, strategy, _ = self.smallest()
        return tuple(
            f"{wish.table.replace('*', ' by ')} at {wish.geolevel} within {at_most(wish.within, 2)}: without this "
            f"wish, {100 * float(share):.0f} % of the budget would be saved."
            for wish, share in costs_of(plan, self.wishes(), strategy.total)
        )

    def chosen_factor(self) -> Fraction:
        """The errors that were chosen, as a multiple of those asked for."""
        text = text_of(self._of("budget"), "factor", "1")
        return next((factor for factor in FACTORS if str(factor) == text), Fraction(1))

    def chosen(self) -> tuple[Strategy, Choice]:
        """The budget that was chosen, and what it means; raises as `smallest`."""
        _, strategy, choices = self.smallest()
        factor = self.chosen_factor()
        return scaled(strategy, factor), next(choice for choice in choices if choice.factor == factor)

    def _budget(self) -> Step:
        faults = Faults()
        shown: list[str] = []
        extra: JsonObject = {}
        options: tuple[tuple[str, str], ...] = ()
        try:
            _, choice = self.chosen()
            _, _, choices = self.smallest()
            options = tuple((str(item.factor), _factor_in_words(item)) for item in choices)
            shown = [
                choice.meaning,
                f"In numbers: rho = {at_most(choice.rho, 6)}, epsilon <= {choice.epsilon}.",
            ]
            extra = {
                "choices": [item.to_mapping() for item in choices],
                "wishes": [[wish.table, wish.geolevel, float(wish.within)] for wish in self.wishes()],
                "unit": self.unit()[1],
            }
        except TallyveilError as error:
            faults.note(error)
        return Step(
            "budget",
            TITLES["budget"],
            "The smallest budget that meets your wishes. A larger error needs less of it, and protects everybody "
            "better. Policy decides.",
            (
                Field("factor", "Errors, compared with your wishes", "choice", choices=options,
                      value=str(self.chosen_factor())),
            ),
            tuple(shown),
            extra=extra,
            **faults.of(),
        )  # fmt: skip

    def _file(self) -> Step:
        faults = Faults()
        shown: list[str] = []
        extra: JsonObject = {}
        try:
            strategy, choice = self.chosen()
            extra = {"text": self.release(strategy), "path": str(self.path(RELEASE_FILE))}
            shown = [choice.meaning]
            if self.written.get(RELEASE_FILE) == _digest_of_text(extra["text"]):
                shown += [f"{self.path(RELEASE_FILE)} is written. To make the release:", self.command()]
        except TallyveilError as error:
            faults.note(error)
        return Step(
            "file",
            TITLES["file"],
            "Everything that you said, in one commented file. Nothing is spent before the command below is run.",
            (),
            tuple(shown),
            extra=extra,
            **faults.of(),
        )

    def command(self) -> str:
        """The command that makes the release."""
        return shlex.join(
            ["tallyveil", "run", str(self.path(RELEASE_FILE)), "--out", str(self.path("release"))]
        )

    def write(self) -> Path:
        """Write the release file.

        Raises:
            StoreError: another file than the one that the desk wrote is in its place.
            TallyveilError: as `chosen`.
        """
        text = self.release(self.chosen()[0])
        path = self.path(RELEASE_FILE)
        # What is refused here is never written.
        plan_from_mapping(tomllib.loads(text), self.folder)
        self._write(RELEASE_FILE, text)
        return path

    def _write(self, name: str, text: str) -> None:
        """Write a file of the desk; raises StoreError where something else is in its place."""
        path, new = self.path(name), _digest_of_text(text)
        old = file_digest(path) if path.is_file() else ""
        if old == new == self.written.get(name):
            return
        if (old or path.is_symlink() or path.exists()) and old not in (new, self.written.get(name)):
            raise StoreError(
                f"{path} was not written by the desk, or was changed since. Move it away, so that nothing is lost.",
                code="file-taken",
            )
        write_text(path, text)
        self.written[name] = new
        self._save()

    def to_mapping(self) -> JsonObject:
        """Every step as plain data, for the page; later steps wait until the steps before them are done."""
        steps: list[JsonObject] = []
        for name in TITLES:
            step = self.step(name)
            steps.append(step.to_mapping())
            if not step.is_done:
                break
        return {"steps": steps, "titles": list(map(list, TITLES.items())), "folder": str(self.folder)}


_NEIGHBOURS: Final = {
    "bounded": "what the record of anybody says (that it is among the records is no secret)",
    "unbounded": "whether anybody's record is among the records at all",
}
"""What is protected, in words, by the relation of the release file."""
_ABOVE_ROWS: Final = tuple((str(number), str(number)) for number in range(1, MOST_ABOVE + 1))


def _unsaid(what: str) -> UnsaidError:
    return UnsaidError(f"Say {what}.", code="bad-argument")


def _shape_in_words(shape: TableShape, *, is_text: bool) -> list[str]:
    columns = ", ".join(f"{name} (numbers)" if name in shape.numbers else name for name in shape.columns)
    form = shape.form
    written = [
        f"Found: {DELIMITER_WORDS[form.delimiter or ',']} between columns, {ENCODING_WORDS[form.encoding]}"
        f"{' with a byte order mark' if shape.byte_order_mark else ''}, decimal {DECIMAL_WORDS[form.decimal]}."
    ]
    return [*(written if is_text else []), f"{len(shape.columns)} columns: {columns}."]


def _are_ranges(attribute: FirstAttribute, shape: TableShape) -> bool:
    """Whether an attribute of the codebook has ranges, and its column numbers."""
    try:
        ranges_of(attribute.levels, attribute.name)
    except TallyveilError:
        return False
    return attribute.name in shape.numbers


def _factor_in_words(choice: Choice) -> str:
    """A choice of errors in words, for those who cannot see the picture."""
    errors = "as you wished" if choice.factor == 1 else f"{float(choice.factor):g} times as large"
    return f"{errors}: at most {choice.right} right guesses, epsilon <= {choice.epsilon}"


def _digest_of_text(text: str) -> str:
    return sha256(text.encode("utf-8")).hexdigest()


def _mapping(value: object) -> Mapping[str, Any]:
    """An answer that should be a mapping; an empty one in the place of anything else."""
    return value if isinstance(value, Mapping) else {}
