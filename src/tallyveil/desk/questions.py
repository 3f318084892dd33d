"""The questions of the desk: the same steps on the page of `tallyveil desk` and at the terminal of `tallyveil init`."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Final

from tallyveil.accounting.numbers import at_most
from tallyveil.desk.areas import sources_of
from tallyveil.desk.budget import Choice
from tallyveil.desk.draft import (
    ABOVE_ROWS,
    BY_LEVELS,
    DECIMAL_WORDS,
    DELIMITER_WORDS,
    ENCODING_WORDS,
    LEFT_OUT,
    LISTS_ALL,
    NEIGHBOURS,
    RANGES,
    RELEASE_FILE,
    TITLES,
    Draft,
)
from tallyveil.desk.labels import LabelRow, asked_of
from tallyveil.desk.steps import (
    AnswerError,
    Faults,
    Field,
    Step,
    UnsaidError,
    cell_of,
    cells_of,
    plain,
    text_of,
    texts_of,
)
from tallyveil.plans.guess import guess_text, guess_words
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.read import TEXT_SUFFIXES, TextForm
from tallyveil.storage.text_forms import TableShape
from tallyveil.words.language import TAGS, Figure, Language, language_name


def step_of(draft: Draft, name: str) -> Step:
    """A step as it stands. What is wrong is among its problems."""
    return _STEPS[name](draft)


def view_of(draft: Draft) -> JsonObject:
    """Every step as plain data, for the page; later steps wait until the steps before them are done."""
    steps: list[JsonObject] = []
    for name in TITLES:
        step = step_of(draft, name)
        steps.append(step.to_mapping())
        if not step.is_done:
            break
    titles = [[name, draft.language.say(title)] for name, title in TITLES.items()]
    return {"steps": steps, "titles": titles, "folder": str(draft.folder)}


def _records(draft: Draft) -> Step:
    said, say, faults = draft.of("records"), draft.language.say, Faults()
    shown: list[str] = []
    form = TextForm(",")
    with faults.noted():
        if not text_of(said, "file"):
            raise UnsaidError(say("Name the file of the records."), code="bad-argument")
        shape = draft.shape()
        form = shape.form
        is_text = draft.records().suffix in TEXT_SUFFIXES
        shown = _shape_in_words(shape, draft.language, is_text=is_text)
    return Step(
        "records",
        say(TITLES["records"]),
        say(
            "The confidential table, with a row for each person, household or other unit. The desk reads the names of "
            "its columns, which of them hold numbers, and how the file is written. It shows no value."
        ),
        (
            Field("file", say("File of the records"), choices=plain(draft.files()), value=text_of(said, "file"),
                  help=say("A CSV or Parquet file, by its path from the folder of the desk."), settles=True),
            Field("delimiter", say("Between columns"), "choice", choices=_said(DELIMITER_WORDS, draft.language),
                  value=form.delimiter or ","),
            Field("encoding", say("Encoding"), "choice", choices=tuple(ENCODING_WORDS.items()), value=form.encoding),
            Field("decimal", say("Decimal sign"), "choice", choices=_said(DECIMAL_WORDS, draft.language),
                  value=form.decimal),
            Field("count", say("Column that says how many records a row stands for"), "choice",
                  choices=(("", say("– (each row is one record)")), *plain(draft.columns())),
                  value=draft.count_column()),
        ),
        tuple(shown),
        **faults.of(),
    )  # fmt: skip


def _said(words: dict[str, str], language: Language) -> tuple[tuple[str, str], ...]:
    return tuple((key, language.say(text)) for key, text in words.items())


def _shape_in_words(shape: TableShape, language: Language, *, is_text: bool) -> list[str]:
    say, form = language.say, shape.form
    columns = [
        say("{column} (numbers)", column=name) if name in shape.numbers else name for name in shape.columns
    ]
    written = say(
        "Found: {delimiter} between columns, {encoding} with a byte order mark, decimal {sign}."
        if shape.byte_order_mark
        else "Found: {delimiter} between columns, {encoding}, decimal {sign}.",
        delimiter=say(DELIMITER_WORDS[form.delimiter or ","]),
        encoding=ENCODING_WORDS[form.encoding],
        sign=say(DECIMAL_WORDS[form.decimal]),
    )
    listed = language.counted(
        len(columns),
        "{number} column: {columns}.",
        "{number} columns: {columns}.",
        columns=", ".join(columns),
    )
    return [*([written] if is_text else []), listed]


def _areas(draft: Draft) -> Step:
    said, say, faults = draft.of("areas"), draft.language.say, Faults()
    shown: list[str] = []
    of_file: tuple[str, ...] = ()
    with faults.noted():
        if text_of(said, "file"):
            of_file = draft.shape_of(draft.path(text_of(said, "file")), "areas").columns
        areas = draft.areas()
        faults.problems += areas.problems
        if not areas.problems:
            counts = [(areas.codes[level].n_unique(), level) for level in draft.areas_asked().levels]
            shown = [f"{draft.language.figure(Figure(f'{count:,}'))} × {level}" for count, level in counts]
            shown += areas.notes
    none = (("", say("– (none)")),)
    return Step(
        "areas",
        say(TITLES["areas"]),
        say(
            "A public table of the areas, also of those where nobody lives: if only areas with people were listed, the "
            "list itself would tell something. Larger areas are made of smaller ones."
        ),
        (
            Field("area", say("Column of the records with the code of the area"), "choice",
                  choices=(*none, *plain(draft.columns())), value=text_of(said, "area")),
            Field("file", say("File of the areas"), choices=plain(draft.files()), value=text_of(said, "file"),
                  settles=True),
            Field("rows", say("Its rows"), "choice", value=text_of(said, "rows"),
                  choices=(("", say("the smallest areas alone")),
                           (LISTS_ALL, say("all kinds of areas, smaller and larger"))),
                  help=say("National lists often give larger areas rows of their own, too.")),
            Field("code", say("Its column of codes"), "choice", choices=(*none, *plain(of_file)),
                  value=text_of(said, "code"), help=say("Codes may have different lengths.")),
            Field("name", say("Its column of names, for readers"), "choice", choices=(*none, *plain(of_file)),
                  value=text_of(said, "name"),
                  help=say("Columns such as name:fr beside a column name have the names in other languages.")),
            Field("finest", say("What the smallest areas are called"), value=text_of(said, "finest"),
                  help=say("Such as Municipality.")),
            Field("above", say("Larger areas, from the largest down"), "table", rows=plain(ABOVE_ROWS),
                  help=say("Without any, all areas together are one."),
                  columns=(
                      Field("name", say("What they are called")),
                      Field("source", say("Where their codes come from"), "choice",
                            choices=sources_of(of_file, draft.language)),
                  ),
                  value=cells_of(said, "above")),
        ),
        tuple(shown),
        **faults.of(),
    )  # fmt: skip


def _meaning(draft: Draft) -> Step:
    said, say, faults = draft.of("meaning"), draft.language.say, Faults()
    shown: list[str] = []
    value = cells_of(said, "columns")
    with faults.noted():
        coded = draft.codebook()
        for name in draft.columns():
            value[name] = {
                "kind": draft.kind_of(name, coded),
                "levels": cell_of(said, "columns", name, "levels"),
                "missing": cell_of(said, "columns", name, "missing"),
            }
        attributes, _ = draft.attributes()
        shown = [
            draft.language.counted(
                len(item.levels), "{column}: {number} value", "{column}: {number} values", column=item.name
            )
            for item in attributes
        ]
    others = (text_of(draft.of("areas"), "area"), draft.count_column())
    rows = [name for name in draft.columns() if name not in others]
    return Step(
        "meaning",
        say(TITLES["meaning"]),
        say(
            "The values that there can be come from a public codebook or from you, never from the records: which "
            "values occur in them is itself confidential."
        ),
        (
            Field("codebook", say("Codebook, if there is one"), choices=plain(draft.files()),
                  value=text_of(said, "codebook"), settles=True,
                  help=say("A public table with the columns attribute and level, and a row for each level.")),
            Field("columns", say("Columns of the records"), "table", rows=plain(rows), columns=(
                Field("kind", say("Released"), "choice", choices=(
                    (LEFT_OUT, say("left out")), (BY_LEVELS, say("by its values")),
                    (RANGES, say("by ranges of its numbers")))),
                Field("levels", say("Values or ranges"),
                      help=say("female; male – or 0-17; 18-64; 65+ – or 0:5:85 for 0-4, 5-9, …, 85+")),
                Field("missing", say("An empty value means"), help=say("Such as: not asked")),
            ), value=value),
        ),
        tuple(shown),
        **faults.of(),
    )  # fmt: skip


def _words(draft: Draft) -> Step:
    said, say, faults = draft.of("words"), draft.language.say, Faults()
    one, many = draft.unit()
    fields = [
        Field("title", say("Title of the release"), value=draft.title()),
        Field("unit", say("What one record stands for"), value=one),
        Field("units", say("Several of them"), value=many),
        Field("languages", say("Languages of readers"), value=text_of(said, "languages"), settles=True,
              choices=tuple((tag, language_name(tag)) for tag in TAGS),
              help=say("Such as de, fr: what readers see is then asked in each of them, and the first is shown without "
                       "a choice. Leave it empty if the names of the columns and their values are clear enough.")),
    ]  # fmt: skip
    with faults.noted():
        draft.require_words()
        if languages := draft.languages():
            rows = asked_of(draft.label_rows(), draft.attributes()[0])
            coded = draft.coded_labels()
            value = {
                row.key: {tag: cell_of(said, "labels", row.key, tag) for tag in languages} for row in rows
            }
            questions = tuple((row.key, _with_label(row, languages, coded, draft.language)) for row in rows)
            fields.append(
                Field("labels", say("What readers see"), "table", rows=questions,
                      columns=tuple(Field(tag, language_name(tag)) for tag in languages), value=value,
                      help=say("What you leave empty is shown by its name. A codebook may have the labels of its "
                               "levels in a column label, or label:fr for French."))
            )  # fmt: skip
        draft.labels()
    return Step(
        "words",
        say(TITLES["words"]),
        say("Reports, tables and maps use these words."),
        tuple(fields),
        **faults.of(),
    )


def _with_label(
    row: LabelRow, languages: Sequence[str], coded: Mapping[tuple[str, str], str], language: Language
) -> str:
    """The question for a label, with what the codebook has for it."""
    labels = [label for tag in languages if (label := coded.get((row.key, tag)))]
    if not labels:
        return row.question
    return language.say("{question} (codebook: {labels})", question=row.question, labels=", ".join(labels))


def _table_words(draft: Draft) -> dict[str, str]:
    """Every table that can be published, in words, with its number of counts; raises as `attributes`."""
    say = draft.language.say
    sizes = {item.name: len(item.levels) for item in draft.attributes()[0]}
    words = {}
    for table in draft.tables_offered():
        names = sizes if table == "detailed" else table.split("*")
        number = Figure(f"{prod(sizes.get(name, 1) for name in names):,}")
        if table == "total":
            words[table] = _table_name(table, draft.language)
        elif table == "detailed":
            words[table] = say("all of them together ({number} counts)", number=number)
        else:
            words[table] = say(
                "{table} ({number} counts)", table=_in_words(table, draft.language), number=number
            )
    return words


def _in_words(table: str, language: Language) -> str:
    first, *others = table.split("*")
    return (
        language.say("{what} by {dimensions}", what=first, dimensions=", ".join(others)) if others else first
    )


def _tables(draft: Draft) -> Step:
    say, faults = draft.language.say, Faults()
    words: dict[str, str] = {}
    levels: tuple[str, ...] = ()
    ticked: tuple[str, ...] = ()
    with faults.noted():
        words, levels = _table_words(draft), draft.areas_asked().levels
        ticked = draft.tables()
        if not any(draft.wishes_asked()):
            raise AnswerError(
                say("All that is ticked is known already. Tick a further table, or fewer known totals."),
                code="bad-argument",
            )
    exact = texts_of(draft.of("tables"), "exact")
    return Step(
        "tables",
        say(TITLES["tables"]),
        say("Every table is published for all areas of every kind. A table that is left out costs nothing."),
        (
            Field("tables", say("Tables"), "several", choices=tuple(words.items()), value=list(ticked)),
            Field("exact", say("Areas whose totals everybody knows already"), "several", choices=plain(levels),
                  value=[name for name in exact if name in levels],
                  help=say("They are published without noise, and nothing protects them.")),
            Field("neighbours", say("What nobody may find out"), "choice", choices=_said(NEIGHBOURS, draft.language),
                  value=draft.neighbours()),
        ),
        (),
        **faults.of(),
    )  # fmt: skip


def _exactness(draft: Draft) -> Step:
    said, say, faults = draft.of("exactness"), draft.language.say, Faults()
    tables: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    words: dict[str, str] = {}
    units = draft.unit()[1]
    with faults.noted():
        pairs, words = list(draft.wishes_asked()), _table_words(draft)
        units = draft.unit_words().many
        tables = tuple(dict.fromkeys(table for table, _ in pairs))
        levels = tuple(
            name for name in draft.areas_asked().levels if any(name == level for _, level in pairs)
        )
        draft.wishes()
    return Step(
        "exactness",
        say(TITLES["exactness"]),
        say(
            "For each table and kind of area: how far a published count may be from the true count, in {units}, in 95 "
            "of 100 cases. Leave empty what need not be exact. The smallest budget follows.",
            units=units,
        ),
        (
            Field("within", say("At most so far from the true count ({units})", units=units), "table",
                  rows=tuple((table, words[table]) for table in tables),
                  columns=tuple(Field(level, level) for level in levels), value=cells_of(said, "within")),
        ),
        (),
        **faults.of(),
    )  # fmt: skip


def cost_sentences(draft: Draft) -> tuple[str, ...]:
    """What each wish costs, the dearest first; raises as `Draft.smallest`."""
    return tuple(
        draft.language.say(
            "{table}, {geolevel}, at most {distance} from the true count: without this wish, {share} of the budget "
            "would be saved.",
            table=_table_name(wish.table, draft.language),
            geolevel=wish.geolevel,
            distance=Figure(at_most(wish.within, 2)),
            share=Figure(f"{100 * float(share):.0f} %"),
        )
        for wish, share in draft.costs()
    )


def _table_name(table: str, language: Language) -> str:
    names = {"total": language.say("the total"), "detailed": language.say("all of them together")}
    return names.get(table) or _in_words(table, language)


def _in_numbers(choice: Choice, language: Language) -> str:
    return language.say(
        "In numbers: ρ = {rho}, ε ≤ {epsilon}.",
        rho=Figure(at_most(choice.rho, 6)),
        epsilon=Figure(choice.epsilon),
    )


def _budget(draft: Draft) -> Step:
    language, say, faults = draft.language, draft.language.say, Faults()
    shown: list[str] = []
    extra: JsonObject = {}
    options: tuple[tuple[str, str], ...] = ()
    with faults.noted():
        _, choice = draft.chosen()
        plan, _, choices = draft.smallest()
        unit = draft.unit_words()
        options = tuple((str(item.factor), _choice_in_words(item, language)) for item in choices)
        shown = [
            guess_words(choice.right, plan.neighbours, unit, language),
            _in_numbers(choice, language),
        ]
        extra = {
            "choices": [
                {
                    "factor": str(item.factor),
                    "share": float(item.right),
                    "right": language.figure(guess_text(item.right)),
                    "meaning": guess_words(item.right, plan.neighbours, unit, language),
                    "numbers": _in_numbers(item, language),
                }
                for item in choices
            ],
            "wishes": [
                [_table_name(wish.table, language), wish.geolevel, float(wish.within)]
                for wish in draft.wishes()
            ],
            "units": unit.many,
        }
    return Step(
        "budget",
        say(TITLES["budget"]),
        say(
            "The smallest budget that meets your wishes. Larger errors need less of it, and protect everybody better. "
            "How much to spend is a decision of policy, and no program can make it."
        ),
        (
            Field("factor", say("Errors, compared with your wishes"), "choice", choices=options,
                  value=str(draft.chosen_factor())),
        ) if options else (),
        tuple(shown),
        extra=extra,
        **faults.of(),
    )  # fmt: skip


def _choice_in_words(choice: Choice, language: Language) -> str:
    """A choice of errors in words, for those who cannot see the picture."""
    bounds = {"right": guess_text(choice.right), "epsilon": Figure(choice.epsilon)}
    if choice.factor == 1:
        return language.say("as you wished: at most {right} right guesses, ε ≤ {epsilon}", **bounds)
    return language.say(
        "{factor} times as large: at most {right} right guesses, ε ≤ {epsilon}",
        factor=Figure(f"{float(choice.factor):g}"),
        **bounds,
    )


def _file(draft: Draft) -> Step:
    say, faults = draft.language.say, Faults()
    shown: list[str] = []
    extra: JsonObject = {}
    path = str(draft.path(RELEASE_FILE))
    with faults.noted():
        strategy, choice = draft.chosen()
        plan, _, _ = draft.smallest()
        text = draft.release(strategy)
        extra = {"text": text, "path": path}
        shown = [guess_words(choice.right, plan.neighbours, draft.unit_words(), draft.language)]
        if draft.is_written(text):
            shown += [say("{path} is written. To make the release:", path=path), draft.command()]
    return Step(
        "file",
        say(TITLES["file"]),
        say(
            "Everything that you said, in one commented file. Nothing is spent before the command below is run."
        ),
        (),
        tuple(shown),
        extra=extra,
        **faults.of(),
    )


_STEPS: Final[dict[str, Callable[[Draft], Step]]] = {
    "records": _records,
    "areas": _areas,
    "meaning": _meaning,
    "words": _words,
    "tables": _tables,
    "exactness": _exactness,
    "budget": _budget,
    "file": _file,
}
