"""Words for people: what is asked for labels in each language, and the labels of the release file that follow.

What somebody leaves empty is shown by its name, also where another language has a label for it. Levels may also have
their labels in the codebook.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from tallyveil.declared import MisfitError
from tallyveil.desk.steps import Answers, UnsaidError, cell_of
from tallyveil.errors import ConfigError
from tallyveil.plans.from_toml.first_file import FirstAttribute
from tallyveil.printable import shown
from tallyveil.schema.labels import read_labels, require_labels_fit
from tallyveil.storage.json_files import toml_key
from tallyveil.storage.read import TextForm, collect, require_levels, scan_table
from tallyveil.words.language import Language

LABEL: Final = "label"
"""Column of a codebook with the labels of its levels in the first language; `label:fr` has those in French."""
MOST_LEVELS: Final = 50
"""Levels of an attribute whose labels are asked for one by one. Labels of more are taken from a codebook alone."""
ONE, OTHER = "one", "other"


@dataclass(frozen=True, slots=True)
class Named:
    """The names of a release that labels are asked for.

    Attributes:
        title: The release.
        unit: What one record stands for, and several of them.
        geolevels: From the root down.
        attributes: The attributes.
    """

    title: str
    unit: tuple[str, str]
    geolevels: tuple[str, ...]
    attributes: tuple[FirstAttribute, ...]


@dataclass(frozen=True, slots=True)
class LabelRow:
    """Something that is called by a name, and may have a label.

    Attributes:
        path: Its place in the table of a language.
        name: What it is called without a label.
        question: What is asked, in the language of the desk.
        is_form: Whether it is one of the two forms of a noun.
    """

    path: tuple[str, ...]
    name: str
    question: str
    is_form: bool = False

    @property
    def key(self) -> str:
        """The key of the row among the answers: no two paths share one."""
        return ".".join(map(toml_key, self.path))


def languages_in(text: str) -> tuple[str, ...]:
    """The languages of an answer such as "de, fr"."""
    return tuple(dict.fromkeys(part.strip() for part in text.replace(";", ",").split(",") if part.strip()))


def rows_of(named: Named, language: Language) -> Iterator[LabelRow]:
    """Everything that may have a label, with the questions for it."""
    say = language.say
    yield LabelRow(("title",), named.title, say("Title: {name}", name=named.title))
    yield from _noun(("unit",), named.unit, say)
    for name in named.geolevels:
        yield from _noun(("geolevels", name), (name, name), say)
    for attribute in named.attributes:
        yield LabelRow(
            ("attributes", attribute.name), attribute.name, say("Column {name}", name=attribute.name)
        )
        for level in attribute.levels:
            question = say("{attribute}: {level}", attribute=attribute.name, level=level)
            yield LabelRow(("levels", attribute.name, level), level, question)


def _noun(path: tuple[str, ...], names: tuple[str, str], say: Callable[..., str]) -> Iterator[LabelRow]:
    yield LabelRow((*path, ONE), names[0], say("One {noun}", noun=names[0]), is_form=True)
    yield LabelRow((*path, OTHER), names[1], say("Several: {noun}", noun=names[1]), is_form=True)


def asked_of(rows: Sequence[LabelRow], attributes: Sequence[FirstAttribute]) -> tuple[LabelRow, ...]:
    """The rows that are asked for one by one."""
    many = {attribute.name for attribute in attributes if len(attribute.levels) > MOST_LEVELS}
    return tuple(row for row in rows if row.path[0] != "levels" or row.path[1] not in many)


def labels_in_codebook(
    path: Path, columns: Sequence[str], form: TextForm, languages: Sequence[str]
) -> dict[tuple[str, str], str]:
    """The labels of a codebook, by the key of their row and by language.

    Args:
        path: The codebook.
        columns: Its columns.
        form: How it is written.
        languages: The languages of the release, of which the first has the column `LABEL`.
    Raises:
        ConfigError, SchemaError, StoreError: as `scan_table` and `require_levels`.
    """
    of_language = {f"{LABEL}:{language}": language for language in languages}
    if languages and f"{LABEL}:{languages[0]}" not in columns:
        of_language[LABEL] = languages[0]
    present = [column for column in of_language if column in columns]
    if not present:
        return {}
    wanted = ["attribute", "level", *present]
    frame = scan_table(path, wanted, "codebook", form=form)
    require_levels(frame, wanted, path, "codebook")
    table = collect(frame, path, "codebook").cast(pl.String)
    labels = {}
    for attribute, level, *words in table.select(wanted).iter_rows():
        key = LabelRow(("levels", attribute, level), level, "").key
        for column, label in zip(present, words, strict=True):
            labels[key, of_language[column]] = (label or "").strip()
    return labels


def labels_of(
    rows: Sequence[LabelRow],
    said: Answers,
    languages: Sequence[str],
    coded: Mapping[tuple[str, str], str],
    language: Language,
) -> dict[str, dict[str, Any]]:
    """The labels of the release file, by language.

    Args:
        rows: As `rows_of`.
        said: What somebody typed, in the table "labels", by row and language.
        languages: Of the release.
        coded: As `labels_in_codebook`; what was typed goes before it.
        language: In which the desk speaks.
    Raises:
        UnsaidError: a noun has one form alone.
    """
    labels: dict[str, dict[str, Any]] = {tag: {} for tag in languages}
    # A noun is one thing with two rows: its forms.
    things: dict[tuple[str, ...], list[tuple[LabelRow, list[str]]]] = {}
    for row in rows:
        texts = [cell_of(said, "labels", row.key, tag) or coded.get((row.key, tag), "") for tag in languages]
        things.setdefault(row.path[:-1] if row.is_form else row.path, []).append((row, texts))
    for forms in things.values():
        if not any(text for _, texts in forms for text in texts):
            continue
        for place, tag in enumerate(languages):
            given = [texts[place] for _, texts in forms]
            if any(given) and not all(given):
                raise UnsaidError(
                    language.say(
                        "{name} in the language {language}: give both words, for one and for several.",
                        name=forms[0][0].name,
                        language=tag,
                    ),
                    code="bad-argument",
                )
            for (row, _), text in zip(forms, given, strict=True):
                table = labels[tag]
                for part in row.path[:-1]:
                    table = table.setdefault(part, {})
                table[row.path[-1]] = text or row.name
    return labels


def require_labels(labels: Mapping[str, Mapping[str, Any]], named: Named) -> None:
    """Refuse labels that a plan would refuse.

    Raises:
        ConfigError: a text is no label, or a language is none.
        SchemaError: two things would be called the same.
    """
    try:
        read = read_labels(labels)
    except MisfitError as error:
        raise ConfigError(
            f"the label of {shown(error.place)} cannot be taken: {error.wanted}. Type another one.",
            code="labels",
        ) from None
    names = tuple(attribute.name for attribute in named.attributes)
    known: dict[tuple[str, ...], Sequence[str]] = {
        ("attributes",): names,
        ("geolevels",): named.geolevels,
        ("tables",): (),
        ("levels",): names,
        **{("levels", attribute.name): attribute.levels for attribute in named.attributes},
    }
    require_labels_fit(read, known)
