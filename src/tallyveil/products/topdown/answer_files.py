"""The answer to a question as a file: as a table, or as a data cube in a form that the websites of offices take.

A cube has a dimension for the areas and for each attribute or recode of the rows. Its first measure is the published
number. Rows without one, such as a share of nobody, have no observation.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import polars as pl

from tallyveil.errors import ConfigError
from tallyveil.files.cubes import xlsx
from tallyveil.files.cubes.cube import (
    COUNT,
    ESTIMATE,
    LOWER,
    STANDARD_ERROR,
    UPPER,
    Cube,
    Dimension,
    Measure,
    placed,
    status_of,
)
from tallyveil.files.cubes.edition import Edition
from tallyveil.files.cubes.publication import FORMS, Published, Wish, edition_of
from tallyveil.files.cubes.words import word
from tallyveil.files.finished import MANIFEST
from tallyveil.postprocess.derived.answer import ANSWER_ENDINGS, Answer, write_answer
from tallyveil.postprocess.derived.ask import AskedRelease
from tallyveil.postprocess.derived.asking import names_of_rows
from tallyveil.postprocess.derived.numbers import SHARE_DECIMALS
from tallyveil.postprocess.derived.question import Question, read_question, refused
from tallyveil.postprocess.intervals.model import FinishedRelease, open_release
from tallyveil.products.topdown.cubes import GEOCODE, LabelledRelease
from tallyveil.report.stated import stated_in
from tallyveil.storage.paths import inside
from tallyveil.storage.write import file_digest, write_file
from tallyveil.words.language import language_of

FORM_OF_ENDING: Final = {".json": "json-stat", ".px": "px", ".xlsx": "xlsx"}
"""The form of publication that a file with each ending has."""
ENDINGS: Final = (*ANSWER_ENDINGS, *FORM_OF_ENDING)
"""Endings of the files of an answer."""
_TOTAL: Final = "total"
_DECIMALS: Final = 6
"""Decimals of shares and indices that are shown; files hold all."""


def refuse_ending(ending: str, question: Question, *, compared: bool, drawn: bool) -> None:
    """Refuse the file of an answer that has no such form, before the answer is computed.

    Args:
        ending: One of `ENDINGS`.
        question: The question.
        compared: Whether the answer of another release is subtracted.
        drawn: Whether numbers are computed from draws, too.
    Raises:
        ConfigError: the answer has no such form, or the package that writes it is not installed.
    """
    if ending in ANSWER_ENDINGS:
        return
    if compared or drawn or (question.measure is not None and question.measure.is_quantile):
        raise _no_form(ending)
    if FORM_OF_ENDING[ending] == "xlsx":
        xlsx.require_package()


def refuse_rows(
    ending: str,
    asked: AskedRelease,
    question: str,
    districts: Mapping[str, pl.Series] | None = None,
    language: str | None = None,
) -> None:
    """Refuse the file of an answer whose rows its form cannot hold, before the answer is computed.

    Args:
        ending: One of `ENDINGS`, which `refuse_ending` has let through.
        asked: The release that is asked.
        question: The question in words.
        districts: As for `answer_question`.
        language: As for `write_answer_file`.
    Raises:
        ConfigError: the form cannot hold the codes or the number of the rows, the release has no published counts, or
            no labels in the language.
    """
    if ending in ANSWER_ENDINGS:
        return
    rows = asked.rows(read_question(question), districts)
    if rows is None:
        raise _no_form(ending)
    _edition(asked.release, partial(_outline, rows, question), ending, language)


def endings_of(answer: Answer) -> tuple[str, ...]:
    """The endings of the files that can hold an answer on this machine."""
    if not _is_cube(answer):
        return ANSWER_ENDINGS
    return tuple(ending for ending in ENDINGS if FORM_OF_ENDING.get(ending) != "xlsx" or xlsx.has_package())


def _is_cube(answer: Answer) -> bool:
    """Whether an answer has published numbers, and nothing that has no place beside them."""
    is_other = answer.is_of_levels or answer.is_difference or bool(answer.of_draws)
    return not is_other and "count" in answer.table.columns


def _no_form(ending: str) -> ConfigError:
    return refused(
        f"this answer cannot be written as {ending}, which holds the published numbers of one release. It has levels "
        "of an attribute, a difference of two releases, numbers from draws, or estimates without published counts. "
        "Write it as .csv or .parquet."
    )


def write_answer_file(
    answer: Answer, question: str, path: Path, root: Path, language: str | None = None
) -> None:
    """Write an answer to a file, in the form that its ending names.

    Args:
        answer: The answer.
        question: The question in words.
        path: The file, whose name ends in one of `ENDINGS`.
        root: Folder of the release that was asked.
        language: The language of labels that is shown first, or alone; None for the first of the release. CSV and
            Parquet keep names.
    Raises:
        ConfigError: the answer has no such form: it is of levels of an attribute, of the difference of two releases,
            from draws or of measurements without published counts; or the form cannot hold it, or the release has no
            labels in the language.
        StoreError: the file cannot be written.
    """
    if path.suffix in ANSWER_ENDINGS:
        write_answer(answer, question, path)
        return
    if not _is_cube(answer):
        raise _no_form(path.suffix)
    form = FORMS[FORM_OF_ENDING[path.suffix]]
    edition = _edition(open_release(root), partial(_cube, answer, question), path.suffix, language)
    with TemporaryDirectory(prefix="tallyveil-answer-") as folder:
        (file,) = form.write(Path(folder), edition)
        content = inside(Path(folder), *file.path.split("/")).read_bytes()

    def copy(temporary: Path) -> None:
        temporary.write_bytes(content)

    write_file(path, copy)


def _edition(
    release: FinishedRelease,
    cube_of: Callable[[LabelledRelease], Cube],
    ending: str,
    language: str | None,
) -> Edition:
    """What the form of an ending is given to write; raises ConfigError where it cannot hold it."""
    labelled = LabelledRelease.of(release.root, release.manifest, release.stated, release.hierarchies)
    published = Published(
        labelled.title(),
        (cube_of(labelled),),
        licence=release.stated.licence,
        citation=release.stated.citation,
    )
    digest, wish = file_digest(release.root / MANIFEST), Wish(language=language)
    edition = edition_of(release.root, release.manifest, published, digest, wish)
    FORMS[FORM_OF_ENDING[ending]].refuse(edition)
    return edition


def _outline(keys: pl.DataFrame, question: str, release: LabelledRelease) -> Cube:
    """The cube of an answer whose numbers are not computed yet.

    Args:
        keys: The columns that say what each row is.
        question: The question in words.
        release: The release.
    """
    dimensions = tuple(_dimension(column, question, release) for column in keys) or (_whole(release),)
    return Cube(
        geolevel="",
        table="answer",
        key=("answer",),
        titles=release.texts(lambda language, labels: question),
        unit=release.plan.schema.unit.many,
        units=release.texts(release.units),
        notes={},
        dimensions=dimensions,
        measures=(COUNT,),
        n_rows=max(keys.height, 1),
        read=lambda: iter(()),
    )


def _cube(answer: Answer, question: str, release: LabelledRelease) -> Cube:
    """The answer as a cube."""
    table = answer.table
    number = "count" if answer.is_counts else "published"
    measures: tuple[Measure, ...] = (COUNT, ESTIMATE, STANDARD_ERROR, LOWER, UPPER)
    if not answer.is_counts:
        measures = tuple(
            replace(item, decimals=_DECIMALS, scale=SHARE_DECIMALS, is_whole=False) for item in measures
        )
    outline = _outline(table.select(answer.keys), question, release)
    codes = {item.name: item.codes for item in outline.dimensions}
    rows = table.with_columns(pl.col(number).alias(COUNT.name)).filter(pl.col(COUNT.name).is_not_null())
    if not answer.keys:
        rows = rows.with_columns(pl.lit(_TOTAL).alias(_TOTAL))
    return replace(
        outline,
        units=outline.units if answer.is_counts else release.texts(lambda *_: question),
        notes={language: _notes(answer, language, release) for language in release.languages},
        measures=measures,
        n_rows=rows.height,
        read=partial(_read, rows, codes, measures),
    )


def _dimension(column: pl.Series, question: str, release: LabelledRelease) -> Dimension:
    """The areas or the groups that the rows of an answer are told apart by."""
    codes = column.unique(maintain_order=True)
    if column.name != GEOCODE:
        return release.levels(column.name, codes)
    _, kinds = names_of_rows(read_question(question), release.plan.schema, release.hierarchies)
    return release.areas(kinds[0] if kinds else None, codes)


def _whole(release: LabelledRelease) -> Dimension:
    codes = pl.Series([_TOTAL], dtype=pl.String)
    titles = release.texts(lambda language, _: word(language, _TOTAL))
    labels = {language: pl.Series([title], dtype=pl.String) for language, title in titles.items()}
    return Dimension(_TOTAL, _TOTAL, codes, titles, labels)


def _notes(answer: Answer, language: str, release: LabelledRelease) -> tuple[str, ...]:
    """What a reader must know of the numbers."""
    units = release.units(language, release.labels[language])
    covers = stated_in(language_of(language), answer.covers)
    # Shares and indices do not add up, and their estimates are not right on average.
    of_counts = ("consistent", "estimates") if answer.is_counts else ()
    return (
        word(language, "noise", units=units),
        *(word(language, sentence) for sentence in of_counts),
        covers,
    )


def _read(
    rows: pl.DataFrame, codes: dict[str, pl.Series], measures: tuple[Measure, ...]
) -> Iterator[pl.DataFrame]:
    in_order = placed(rows, codes)
    # Ends of intervals that are not finite are no numbers of these forms.
    numbers = [
        pl.when(pl.col(item.name).is_finite()).then(pl.col(item.name))
        if in_order.schema[item.name].is_float()
        else pl.col(item.name)
        for item in measures
    ]
    yield in_order.select("place", *numbers, status_of(pl.col(STANDARD_ERROR.name)))
