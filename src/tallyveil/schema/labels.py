"""Words for people: what a release, its unit, attributes, levels, geolevels and tables are called in a language.

Labels are shown; nothing is found by them. Names stay what files, queries and programs use, and what has no label is
shown by its name.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from tallyveil.declared import ByName, Declared, Text, left_out, validated
from tallyveil.errors import SchemaError
from tallyveil.printable import short_name
from tallyveil.schema.names import LONGEST_NAME, MOST_CHARACTERS, closest_hint, is_noun
from tallyveil.storage.json_files import toml_key


def _shown(value: str) -> str:
    bad = [character for character in value if unicodedata.category(character) in _INVISIBLE]
    if bad or value != value.strip():
        raise ValueError(
            "a label is shown on one line of a page or a table: wanted text without spaces around it and without "
            "control codes or invisible characters"
        )
    return value


# Controls, formats, surrogates, private use, unassigned, separators of lines and paragraphs. U+00AD, the soft hyphen,
# is a format: labels come without it, because tables of text would keep it.
_INVISIBLE: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")

Label = Annotated[Text, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_shown)]
"""Text for readers, on one line. Unlike a name it may hold a slash, because no file is called by it."""


def _noun(forms: "Forms") -> "Forms":
    if not (is_noun(forms.one) and is_noun(forms.other)):
        raise ValueError(
            f"a unit stands within sentences: wanted letters, spaces, hyphens and apostrophes, at most "
            f"{MOST_CHARACTERS} characters, in both forms"
        )
    return forms


@dataclass(frozen=True, slots=True)
class Forms(Declared):
    """A noun: its form after the number 1, and its form after other numbers and for the kind as a whole."""

    one: Annotated[Label, Field(description='The singular, such as "household".')]
    other: Annotated[Label, Field(description='The plural, such as "households".')]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels(Declared):
    """The labels of a release in one language. What is not labelled is shown by its name."""

    title: Annotated[Label | None, left_out(None), Field(description="What the release is called.")] = None
    unit: Annotated[
        Annotated[Forms, AfterValidator(_noun)] | None,
        left_out(None),
        Field(description="What one record is, in the singular and the plural."),
    ] = None
    attributes: Annotated[
        ByName[Label], left_out(()), Field(description="What attributes and recodes are called.")
    ] = ()
    levels: Annotated[
        ByName[ByName[Label]],
        left_out(()),
        Field(description="What the levels of an attribute, or the groups of a recode, are called."),
    ] = ()
    geolevels: Annotated[
        ByName[Forms],
        left_out(()),
        Field(description="What an area of a geolevel or of a family of entities is called."),
    ] = ()
    tables: Annotated[
        ByName[Label], left_out(()), Field(description="Titles of published tables, by their query.")
    ] = ()

    def attribute(self, name: str) -> str:
        """What an attribute or a recode is called."""
        return dict(self.attributes).get(name, name)

    def level(self, attribute: str, level: str) -> str:
        """What a level of an attribute, or a group of a recode, is called."""
        return dict(dict(self.levels).get(attribute, ())).get(level, level)

    def geolevel(self, name: str) -> Forms:
        """What an area of a geolevel, or of a family of entities, is called."""
        return dict(self.geolevels).get(name) or Forms(name, name)

    def table(self, query: str) -> str | None:
        """The title of a table; None where it has none of its own."""
        return dict(self.tables).get(query)

    def tables_of_labels(self) -> dict[tuple[str, ...], dict[str, str]]:
        """What is called how, by the path of each table of names; of nouns, the singular."""
        levels: dict[tuple[str, ...], dict[str, str]] = {
            ("levels", name): dict(given) for name, given in self.levels
        }
        nouns = {name: forms.one for name, forms in self.geolevels}
        flat = {"attributes": dict(self.attributes), "geolevels": nouns, "tables": dict(self.tables)}
        return {**{(name,): given for name, given in flat.items() if given}, **levels}

    def whole(self) -> dict[str, str]:
        """What the release and its unit are called, of the unit both forms."""
        title = {} if self.title is None else {"title": self.title}
        return title if self.unit is None else {**title, "unit": self.unit.one, "units": self.unit.other}

    def labelled(self) -> frozenset[tuple[str, ...]]:
        """Everything that has a label, each as the path of its key in the table of a language."""
        keys = {(name,) for name in ("title", "unit") if getattr(self, name) is not None}
        given = self.tables_of_labels().items()
        return frozenset(keys | {(*table, name) for table, names in given for name in names})


NO_LABELS: Final = Labels()
"""Every name is shown as it is."""

# Languages become part of the names of files, so that only one way to write each is taken.
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?")


def is_language(tag: str) -> bool:
    """Whether a text is a tag of a language as a release writes it."""
    return _LANGUAGE.fullmatch(tag) is not None


def _by_language(labels: tuple[tuple[str, Labels], ...]) -> tuple[tuple[str, Labels], ...]:
    for language, _ in labels:
        if not is_language(language):
            # The key is not shown: in a mapping from Python it may be data.
            raise ValueError(
                "a key of this table is no tag of a language: wanted two or three small letters, such as de, and after "
                "them at most a script and a country, such as sr-Latn or fr-CA"
            )
    return labels


LabelsByLanguage = Annotated[ByName[Labels], AfterValidator(_by_language)]
"""The labels of a release in each of its languages. The first language is the one that is shown without a choice."""


def read_labels(stated: Mapping[str, Any]) -> LabelsByLanguage:
    """The labels that a plan states; raises MisfitError where they are none that a run writes."""
    return validated(LabelsByLanguage, stated)


def require_labels_fit(labels: LabelsByLanguage, known: Mapping[tuple[str, ...], Iterable[str]]) -> None:
    """Refuse labels of what does not exist, labels that could not be told apart, and labels that a language lacks.

    Args:
        labels: By language.
        known: The names that may be labelled, by the path of their table in the table of a language.
    Raises:
        SchemaError: a key is unknown; two things of one table would be called the same; a language lacks a label.
    """
    names = {table: tuple(listed) for table, listed in known.items()}
    for language, words in labels:
        for table, given in words.tables_of_labels().items():
            where = f"[{'.'.join(('labels', language, *map(toml_key, table)))}]"
            # First the attributes themselves, because the levels of an unknown one are not known.
            options = names[table[:1]] if table not in names else names[table]
            for name in given if table in names else table[1:]:
                if name not in options:
                    raise SchemaError(
                        f"{where} labels {short_name(name)!r}, which the release does not have. "
                        f"{closest_hint(name, options)}",
                        code="labels",
                    )
            _refuse_alike(where, given, options)
    _refuse_lacking(labels)


def _refuse_alike(where: str, given: Mapping[str, str], options: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in options:
        label = given.get(name, name)
        other = seen.setdefault(label, name)
        if other != name:
            raise SchemaError(
                f"{where} calls both {short_name(other)!r} and {short_name(name)!r} {label!r}, so that readers could "
                "not tell them apart. Give each a label of its own.",
                code="labels",
            )


def _refuse_lacking(labels: LabelsByLanguage) -> None:
    everything = frozenset[tuple[str, ...]]().union(*(words.labelled() for _, words in labels))
    for language, words in labels:
        lacking = sorted(everything - words.labelled())
        if lacking:
            others = ", ".join(name for name, other in labels if lacking[0] in other.labelled())
            raise SchemaError(
                f"[labels.{language}] has no label of {'.'.join(map(toml_key, lacking[0]))}, which [labels] has in "
                f"{others}{f' (and lacks {len(lacking) - 1} more)' if len(lacking) > 1 else ''}. What is labelled in "
                "one language is labelled in each: add the label, or take it out of the others.",
                code="labels",
            )
