"""A draft of a release file: what somebody has said so far, and what follows from it.

Every answer is written to the folder at once, also a wrong one, so that any step can be left and taken up again. The
module `questions` has the questions that are answered here.

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
from pathlib import Path
from typing import Any, Final

from tallyveil.budget.strategy import Strategy
from tallyveil.desk.areas import (
    COLUMN,
    EVERYTHING,
    AreasAsked,
    AreasRead,
    LevelAbove,
    area_files,
    column_of,
    name_columns,
    read_areas,
    sources_of,
)
from tallyveil.desk.budget import (
    FACTORS,
    LEAST_WITHIN,
    Choice,
    Wish,
    choices_of,
    costs_of,
    scaled,
    smallest_strategy,
)
from tallyveil.desk.kept import held_folder, read_kept, refuse_answers, write_kept
from tallyveil.desk.labels import (
    LabelRow,
    Named,
    labels_in_codebook,
    labels_of,
    languages_in,
    require_labels,
    rows_of,
)
from tallyveil.desk.steps import AnswerError, Answers, UnsaidError, cell_of, cells_of, text_of, texts_of
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
from tallyveil.schema.attribute import Attribute, ranges_of
from tallyveil.schema.labels import is_language
from tallyveil.schema.names import check_areas, check_name
from tallyveil.schema.schema import Unit
from tallyveil.storage.read import TEXT_SUFFIXES, TextForm, input_stamp, is_pattern
from tallyveil.storage.text_forms import TableShape, shape_of
from tallyveil.storage.write import file_digest, write_text
from tallyveil.words.language import ENGLISH, Figure, Language, phrase

AREAS_FILE: Final = "desk-areas.csv"
NAMES_FILE: Final = "desk-names.csv"
RELEASE_FILE: Final = "release.toml"
TITLES: Final = {
    "records": phrase("The records"),
    "areas": phrase("The areas"),
    "meaning": phrase("What the columns mean"),
    "words": phrase("Words for people"),
    "tables": phrase("What is published"),
    "exactness": phrase("How exact it must be"),
    "budget": phrase("What it means for one person"),
    "file": phrase("The release file"),
}
"""The steps, in order, with what each is about."""
ABOVE_ROWS: Final = ("1", "2", "3", "4")
"""Geolevels above the finest one that are asked for. More are seldom published, and a release file takes them."""
BY_LEVELS, RANGES, LEFT_OUT = "levels", "ranges", "left out"
LISTS_ALL: Final = "all"
"""The answer that larger areas have rows of their own."""
DELIMITER_WORDS: Final = {
    ",": phrase("comma"),
    ";": phrase("semicolon"),
    "\t": phrase("tab"),
    "|": phrase("vertical bar"),
}
DECIMAL_WORDS: Final = {".": phrase("point (1.5)"), ",": phrase("comma (1,5)")}
ENCODING_WORDS: Final = {
    "utf-8": "UTF-8",
    "iso-8859-1": "Latin-1 (ISO 8859-1)",
    "windows-1252": "Windows-1252",
}
NEIGHBOURS: Final = {
    "bounded": phrase("what the record of anybody says (that it is among the records is no secret)"),
    "unbounded": phrase("whether anybody’s record is among the records at all"),
}
"""What is protected, in words, by the relation of the release file."""
_MERGED: Final = {"meaning": "columns", "words": "labels", "exactness": "within"}
"""Tables of steps whose rows or columns depend on other answers."""
PERSON: Final = (phrase("person"), phrase("people"))
"""What one record stands for until somebody says otherwise, and several of them."""


@dataclass(slots=True)
class Draft:
    """What somebody has said so far in a folder.

    Attributes:
        folder: The folder, in which the draft and the release file are written.
        answers: The answers of each step.
        written: Digest of each file that the desk wrote last, by its name.
        language: In which the desk speaks.
    """

    folder: Path
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    language: Language = ENGLISH
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
        if name == "records" and said.get("file") != self.of(name).get("file"):
            # How another file is written must be found anew.
            for key in ("delimiter", "encoding", "decimal"):
                said.pop(key, None)
        if name in _MERGED:
            # A table has the rows and languages of the moment; other cells stay, and come back with these.
            table = _MERGED[name]
            before, now = cells_of(self.of(name), table), cells_of(said, table)
            said[table] = {
                row: {**before.get(row, {}), **now.get(row, {})} for row in dict.fromkeys((*before, *now))
            }
        if name == "meaning" and said.get("codebook") != self.of(name).get("codebook"):
            # What another codebook has is suggested anew, unless somebody has said what it means.
            coded = self._coded_before()
            said["columns"] = {
                column: {
                    key: text
                    for key, text in cells.items()
                    if key != "kind" or cells.get("levels") or text != self._suggested_kind(column, coded)
                }
                for column, cells in said["columns"].items()
            }
        self.answers[name] = said
        write_kept(self.folder, self.answers, self.written)

    def _coded_before(self) -> dict[str, FirstAttribute]:
        """The codebook of the answers so far; empty if it cannot be read, as nothing was suggested from it then."""
        try:
            return self.codebook()
        except TallyveilError:
            return {}

    def of(self, name: str) -> Answers:
        """The answers of a step."""
        return self.answers.get(name, {})

    def _remembered(self, key: str, said: object, make: Callable[[], Any]) -> Any:
        """What follows from answers, computed once for the same answers."""
        if key not in self._known or self._known[key][0] != said:
            self._known[key] = (said, make())
        return self._known[key][1]

    def path(self, text: str) -> Path:
        """A file as it is named in the folder."""
        return self.folder / text

    def files(self) -> tuple[str, ...]:
        """Tables in the folder, which are suggested; the desk's own are not."""
        written_files = {AREAS_FILE, NAMES_FILE}
        return tuple(
            sorted(
                path.name
                for path in self.folder.iterdir()
                if path.suffix in (".parquet", *TEXT_SUFFIXES)
                and path.name not in written_files
                and path.is_file()
            )
        )

    # The records.

    def records(self) -> Path:
        """The file of the records."""
        return self.path(text_of(self.of("records"), "file"))

    def shape(self) -> TableShape:
        """The columns of the records; raises as `shape_of`."""
        said = self.of("records")
        form = None
        delimiter, encoding, decimal = (str(said.get(key)) for key in ("delimiter", "encoding", "decimal"))
        # Until all three are said, and by words that are known, they are found in the file.
        if delimiter in DELIMITER_WORDS and encoding in ENCODING_WORDS and decimal in DECIMAL_WORDS:
            form = TextForm(delimiter, encoding, decimal)
        return self.shape_of(self.records(), "records", form)

    def shape_of(self, path: Path, what: str, form: TextForm | None = None) -> TableShape:
        """What `shape_of` finds, looked for once as long as the file stays as it is."""
        key = (path, form, input_stamp(path, what) if path.is_file() else None)
        shape: TableShape = self._remembered(f"shape of the {what}", key, lambda: shape_of(path, what, form))
        return shape

    def columns(self) -> tuple[str, ...]:
        """The columns of the records; none while they cannot be read."""
        try:
            return self.shape().columns
        except TallyveilError:
            return ()

    def count_column(self) -> str:
        """The column that says how many records a row stands for; "" where each row is one."""
        column = text_of(self.of("records"), "count")
        return column if column in self.columns() else ""

    # The areas.

    def areas_asked(self) -> AreasAsked:
        """What is said of the areas.

        Raises:
            ConfigError, SchemaError: something is not said, or is wrong.
            StoreError: the table cannot be read.
        """
        said, say = self.of("areas"), self.language.say
        for key, what in (
            ("area", say("Choose the column of the records that says where somebody lives.")),
            ("file", say("Name the file of the areas.")),
            ("code", say("Choose the column of the codes.")),
            ("finest", say("Say what the smallest areas are called.")),
        ):
            if not text_of(said, key):
                raise UnsaidError(what, code="bad-argument")
        if text_of(said, "area") not in self.columns():
            raise UnsaidError(
                say("Choose the column of the records that says where somebody lives."), code="bad-argument"
            )
        path = self.path(text_of(said, "file"))
        refuse_records(path, self.records(), "the file of the areas")
        above = tuple(
            LevelAbove(cell_of(said, "above", row, "name"), cell_of(said, "above", row, "source"))
            for row in ABOVE_ROWS
            if cell_of(said, "above", row, "source")
        )
        if not above:
            above = (LevelAbove("All", EVERYTHING),)
        names = [*(level.name for level in above), text_of(said, "finest")]
        if not all(names) or len(set(names)) < len(names):
            raise AnswerError(say("Give every kind of area a name of its own."), code="bad-argument")
        shape = self.shape_of(path, "areas")
        sources = dict(sources_of(shape.columns, self.language))
        for level in above:
            if level.source not in sources:
                raise AnswerError(
                    say("{name}: choose where the codes of these areas come from.", name=level.name),
                    code="bad-argument",
                )
        check_areas(names)
        columns = [text_of(said, "code"), text_of(said, "name"), *(level.source for level in above)]
        for name in (*names, *(column.removeprefix(COLUMN) for column in columns)):
            if is_pattern(name):
                raise AnswerError(
                    say("“{name}” cannot be the name of a column or of areas. Rename it.", name=name),
                    code="bad-argument",
                )
        return AreasAsked(
            path,
            shape.form,
            text_of(said, "code"),
            text_of(said, "finest"),
            name_columns(text_of(said, "name"), shape.columns),
            above,
            text_of(said, "rows") == LISTS_ALL,
        )

    def areas(self) -> AreasRead:
        """The areas; they are written to the desk's own files if nothing is wrong with them.

        Raises:
            ConfigError, StoreError: as `areas_asked` and `read_areas`, or a file of the desk cannot be written.
        """
        asked = self.areas_asked()
        said = (asked, input_stamp(asked.path, "areas"), self.language.tag)
        areas: AreasRead = self._remembered(
            "content of the areas", said, lambda: read_areas(asked, self.language)
        )
        if not areas.problems:
            codes, names = area_files(areas, asked, text_of(self.of("areas"), "area"))
            self._write(AREAS_FILE, codes.write_csv())
            if names is not None:
                self._write(NAMES_FILE, names.write_csv())
        return areas

    # What the columns mean.

    def codebook(self) -> dict[str, FirstAttribute]:
        """The attributes of the codebook; raises as `read_codebook`."""
        if not text_of(self.of("meaning"), "codebook"):
            return {}
        path, form = self._codebook()
        attributes: dict[str, FirstAttribute] = self._remembered(
            "codebook",
            (path, form, input_stamp(path, "the codebook")),
            lambda: {item.name: item for item in read_codebook(path, (), form)},
        )
        return attributes

    def _codebook(self) -> tuple[Path, TextForm]:
        path = self.path(text_of(self.of("meaning"), "codebook"))
        refuse_records(path, self.records(), "the codebook")
        return path, self.shape_of(path, "codebook").form

    def attributes(self) -> tuple[tuple[FirstAttribute, ...], tuple[tuple[str, str], ...]]:
        """The attributes, and the level of records without a value for those that have one.

        Raises:
            ConfigError, SchemaError, StoreError: something is not said, or is wrong.
        """
        say, coded = self.language.say, self.codebook()
        attributes, missing = [], []
        for name in self.columns():
            kind = self.kind_of(name, coded)
            if kind == LEFT_OUT:
                continue
            levels = self._levels_of(name, kind, coded)
            gap = cell_of(self.of("meaning"), "columns", name, "missing")
            if kind == RANGES:
                ranges_of(levels, name)
                if gap:
                    raise AnswerError(
                        say(
                            "{column}: a column of numbers has no level for records without a value. Leave it empty.",
                            column=name,
                        ),
                        code="bad-argument",
                    )
            if gap:
                levels = levels if gap in levels else (*levels, gap)
                missing.append((name, gap))
            # What a plan would refuse is said here.
            Attribute(name, levels)
            attributes.append(FirstAttribute(name, levels, kind == RANGES))
        if not attributes:
            raise UnsaidError(say("Say of at least one column what its values mean."), code="bad-argument")
        return tuple(attributes), tuple(missing)

    def kind_of(self, name: str, coded: Mapping[str, FirstAttribute]) -> str:
        """Whether a column is released by levels, by ranges of its numbers, or not at all."""
        if name in (text_of(self.of("areas"), "area"), self.count_column()):
            return LEFT_OUT
        return cell_of(self.of("meaning"), "columns", name, "kind") or self._suggested_kind(name, coded)

    def _suggested_kind(self, name: str, coded: Mapping[str, FirstAttribute]) -> str:
        """What the codebook has is meant to be released, until somebody says otherwise."""
        if name not in coded:
            return LEFT_OUT
        return RANGES if _are_ranges(coded[name], self.shape()) else BY_LEVELS

    def _levels_of(self, name: str, kind: str, coded: Mapping[str, FirstAttribute]) -> tuple[str, ...]:
        say, text = self.language.say, cell_of(self.of("meaning"), "columns", name, "levels")
        if not text and name in coded:
            return coded[name].levels
        if not text:
            raise UnsaidError(
                say(
                    "{column}: say which ranges of numbers there are. They are not taken from the records.",
                    column=name,
                )
                if kind == RANGES
                else say(
                    "{column}: say which values there are. They are not taken from the records.", column=name
                ),
                code="bad-argument",
            )
        if kind == RANGES and text.count(":") == 2:
            text = ranges_of_bands(text)
        parts = text.split(";") if ";" in text else text.split(",")
        return tuple(part.strip() for part in parts if part.strip())

    # Words for people.

    def title(self) -> str:
        """What the release is called."""
        records = Path(text_of(self.of("records"), "file"))
        return text_of(self.of("words"), "title") or records.stem or "release"

    def require_words(self) -> None:
        """Refuse words that a plan would refuse.

        Raises:
            ConfigError, SchemaError: the title is no name, the unit no noun, or a language has no such tag.
        """
        check_name(self.title(), "release")
        Unit(*self.unit())
        for tag in self.languages():
            if not is_language(tag):
                raise AnswerError(
                    self.language.say(
                        "“{tag}” is no tag of a language. Wanted two or three small letters, such as de, and after "
                        "them at most a country, such as fr-CA.",
                        tag=tag[:40],
                    ),
                    code="bad-argument",
                )

    def unit(self) -> tuple[str, str]:
        """What one record stands for, and several of them, as the release file names them."""
        said, (one, many) = self.of("words"), PERSON
        return text_of(said, "unit") or one, text_of(said, "units") or many

    def unit_words(self) -> Unit:
        """The same in the language of the desk, where it is known."""
        tag = self.language.tag
        label = self.labels().get(tag, {}).get("unit") if tag in self.languages() else None
        if label:
            return Unit(label["one"], label["other"])
        one, many = self.unit()
        return Unit(*map(self.language.say, PERSON)) if (one, many) == PERSON else Unit(one, many)

    def languages(self) -> tuple[str, ...]:
        """The languages of the labels."""
        return languages_in(text_of(self.of("words"), "languages"))

    def named(self) -> Named:
        """What labels are asked for; raises as `attributes` and `areas_asked`."""
        return Named(self.title(), self.unit(), self.areas_asked().levels, self.attributes()[0])

    def label_rows(self) -> tuple[LabelRow, ...]:
        """Everything that may have a label; raises as `named`."""
        return tuple(rows_of(self.named(), self.language))

    def coded_labels(self) -> dict[tuple[str, str], str]:
        """The labels of the codebook, by row and language; raises as `labels_in_codebook`."""
        if not text_of(self.of("meaning"), "codebook"):
            return {}
        path, form = self._codebook()
        return labels_in_codebook(path, self.shape_of(path, "codebook").columns, form, self.languages())

    def labels(self) -> dict[str, dict[str, Any]]:
        """The labels by language; empty without a language.

        Raises:
            TallyveilError: something is not said, or is wrong.
        """
        if not self.languages():
            return {}
        labels = labels_of(
            self.label_rows(), self.of("words"), self.languages(), self.coded_labels(), self.language
        )
        require_labels(labels, self.named())
        return labels

    # What is published, and how exactly.

    def tables_offered(self) -> tuple[str, ...]:
        """Tables that can be published; raises as `attributes`."""
        names = [attribute.name for attribute in self.attributes()[0]]
        pairs = [f"{one}*{other}" for place, one in enumerate(names) for other in names[place + 1 :]]
        return (
            "total",
            *names,
            *(pairs if len(names) > 2 else ()),
            *(("detailed",) if len(names) > 1 else ()),
        )

    def tables(self) -> tuple[str, ...]:
        """The tables to publish; raises as `attributes`, or if there is none."""
        offered, said = self.tables_offered(), self.of("tables")
        # Single attributes are what most people look for, and every further table costs something.
        suggested = tuple(name for name in offered if "*" not in name and name != "detailed")
        ticked = texts_of(said, "tables") if "tables" in said else suggested
        tables = tuple(name for name in offered if name in ticked)
        if not tables:
            raise UnsaidError(self.language.say("Tick at least one table."), code="bad-argument")
        return tables

    def exact_levels(self) -> tuple[str, ...]:
        """Geolevels whose totals are said to be known exactly."""
        levels = self.areas_asked().levels
        return tuple(name for name in texts_of(self.of("tables"), "exact") if name in levels)

    def _known_totals(self) -> tuple[str, ...]:
        """Geolevels whose totals are exact: those that were named, and all above them."""
        levels = self.areas_asked().levels
        return levels[: max((levels.index(name) + 1 for name in self.exact_levels()), default=0)]

    def neighbours(self) -> str:
        """The relation whose members nobody may tell apart."""
        said = text_of(self.of("tables"), "neighbours")
        return said if said in NEIGHBOURS else "bounded"

    def wishes_asked(self) -> Iterator[tuple[str, str]]:
        """Tables and geolevels whose accuracy can be wished for: all that are not exact."""
        exact, levels = self._known_totals(), self.areas_asked().levels
        for table in self.tables():
            for level in levels:
                if table != "total" or level not in exact:
                    yield table, level

    def wishes(self) -> tuple[Wish, ...]:
        """How exact tables must be; raises ConfigError if a number is none or too small, or nothing is wished for."""
        said, say, wishes = self.of("exactness"), self.language.say, []
        for table, level in self.wishes_asked():
            text = cell_of(said, "within", table, level)
            if not text:
                continue
            within = fraction_of(text.replace(",", "."))
            if within is None or within <= 0:
                raise AnswerError(
                    say(
                        "{table}, {geolevel}: “{text}” is no number above 0. Give a number, or leave it empty.",
                        table=table,
                        geolevel=level,
                        text=text[:40],
                    ),
                    code="bad-argument",
                )
            if within < LEAST_WITHIN:
                raise AnswerError(
                    say(
                        "{table}, {geolevel}: “{text}” leaves no room for noise. Give at least {least} ({units}), or "
                        "leave it empty.",
                        table=table,
                        geolevel=level,
                        text=text[:40],
                        least=Figure(f"{float(LEAST_WITHIN):g}"),
                        units=self.unit_words().many,
                    ),
                    code="bad-argument",
                )
            wishes.append(Wish(table, level, within))
        if not wishes:
            raise UnsaidError(say("Say for at least one table how exact it must be."), code="bad-argument")
        return tuple(wishes)

    # What follows from the answers.

    def release(self, strategy: Strategy | None = None) -> str:
        """The text of the release file.

        Args:
            strategy: How the budget is divided; None for equal shares of a budget of 1, from which it is found.
        Raises:
            TallyveilError: something is not said, or is wrong.
        """
        asked = self.areas_asked()
        attributes, missing = self.attributes()
        geocode = text_of(self.of("areas"), "area")
        one, many = self.unit()
        columns = column_of(asked, geocode)
        return release_text(
            FirstFile(
                name=self.title(),
                records=relative_to(self.records(), self.folder),
                geocode=geocode,
                count=self.count_column() or None,
                geography=AREAS_FILE,
                geolevels=(
                    *((level.name, columns[level.name]) for level in asked.above),
                    (asked.finest, None),
                ),
                finest_length=0,
                attributes=attributes,
                unit=None if (one, many) == PERSON else one,
                units=None if (one, many) == PERSON else many,
                neighbours=self.neighbours(),
                budget=("rho", Fraction(1) if strategy is None else strategy.total),
                tables=self.tables(),
                form=self.shape().form,
                missing=missing,
                exact=self.exact_levels(),
                names=NAMES_FILE if asked.names else None,
                strategy=strategy,
                labels=self.labels(),
                made_by="desk",
            )
        )

    def _planned(self, strategy: Strategy | None = None) -> ReleasePlan:
        return plan_from_mapping(tomllib.loads(self.release(strategy)), self.folder)

    def _to_divide(self) -> ReleasePlan:
        """A plan that measures every table at every geolevel, and all cells, with equal shares."""
        plan = self._planned()
        # With one attribute, its table has all cells.
        queries = tuple(dict.fromkeys([*self.tables(), self.tables_offered()[-1]]))
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
        # The desk's own file of the areas must be that of the answers.
        if problems := self.areas().problems:
            raise AnswerError(problems[0], code="bad-argument")
        text = self.release()
        wishes = self.wishes()
        said = (text, wishes, input_stamp(self.path(AREAS_FILE), "areas"))

        def find() -> tuple[ReleasePlan, Strategy, tuple[Choice, ...]]:
            plan = self._to_divide()
            read_spine(plan.geography)
            strategy = smallest_strategy(plan, wishes)
            return plan, strategy, choices_of(plan, strategy)

        proposal: tuple[ReleasePlan, Strategy, tuple[Choice, ...]] = self._remembered("budget", said, find)
        return proposal

    def costs(self) -> tuple[tuple[Wish, Fraction], ...]:
        """What each wish costs, as `costs_of`; raises as `smallest`."""
        plan, strategy, _ = self.smallest()
        return costs_of(plan, self.wishes(), strategy.total)

    def chosen_factor(self) -> Fraction:
        """The errors that were chosen, as a multiple of those asked for."""
        text = text_of(self.of("budget"), "factor", "1")
        return next((factor for factor in FACTORS if str(factor) == text), Fraction(1))

    def chosen(self) -> tuple[Strategy, Choice]:
        """The budget that was chosen, and what it means; raises as `smallest`.

        If there can be no such budget, it is the smallest one that meets all wishes.
        """
        _, strategy, choices = self.smallest()
        by_factor = {choice.factor: choice for choice in choices}
        choice = by_factor.get(self.chosen_factor(), by_factor[Fraction(1)])
        return scaled(strategy, choice.factor), choice

    def command(self) -> str:
        """The command that makes the release."""
        return shlex.join(
            ["tallyveil", "run", str(self.path(RELEASE_FILE)), "--out", str(self.path("release"))]
        )

    def is_written(self, text: str) -> bool:
        """Whether this text is the release file that the desk wrote last."""
        return self.written.get(RELEASE_FILE) == _digest_of_text(text)

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
        write_kept(self.folder, self.answers, self.written)


def _are_ranges(attribute: FirstAttribute, shape: TableShape) -> bool:
    """Whether an attribute of the codebook has ranges, and its column numbers."""
    try:
        ranges_of(attribute.levels, attribute.name)
    except TallyveilError:
        return False
    return attribute.name in shape.numbers


def _digest_of_text(text: str) -> str:
    return sha256(text.encode("utf-8")).hexdigest()
