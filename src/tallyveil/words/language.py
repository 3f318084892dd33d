"""Say a sentence, and write a number, in the language of the reader.

Sentences stand in the code in English, where they are said. `de.json` and `fr.json` have for each the same in their
language; a test holds them to the sentences of the code. Values stand in a sentence as `{name}`. The pages' JavaScript
reads the same files.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeVar

from markupsafe import Markup

Written = TypeVar("Written", bound=str)


class Figure(str):
    """A number as English writes it, such as "1,052.5 %". It is written anew in the language in which it is said."""

    __slots__ = ()


class MarkedFigure(Markup):
    """The same with markup, such as 3.1 × 10<sup>−9</sup>."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Language:
    """A language of pages.

    Attributes:
        tag: As HTML has it, such as "de".
        name: What it calls itself.
        sentences: Its sentences, by the English ones.
        thousands: What stands between groups of three digits.
        decimal: The decimal sign.
        singular: Whole numbers that are followed by the singular.
    """

    tag: str
    name: str
    sentences: Mapping[str, str]
    thousands: str
    decimal: str
    singular: frozenset[int]

    def say(self, sentence: str, /, **values: Any) -> str:
        """A sentence of the code in this language.

        Args:
            sentence: In English, as the files of the other languages have it.
            **values: What stands in the place of each `{name}`.
        """
        said = self.sentences.get(sentence, sentence)
        return said.format(**{name: self.figure(value) for name, value in values.items()}) if values else said

    def counted(self, number: int, one: str, other: str, /, **values: Any) -> str:
        """One of two sentences, by the number that stands in them as `{number}`; for the rest as `say`."""
        return self.say(one if number in self.singular else other, number=Figure(f"{number:,}"), **values)

    def stated(self, sentence: str, forms: Iterable[str]) -> str | None:
        """A sentence that a release states in English, in this language; None if it can only be quoted.

        Args:
            sentence: As the release states it, with its values.
            forms: Sentences of the code that a release may state, with `{name}` in the places of values.
        """
        if self.tag == ENGLISH.tag:
            return sentence
        if sentence in self.sentences:
            return self.sentences[sentence]
        for form in forms:
            if match := _pattern(form).fullmatch(sentence):
                # A value may be a word of the code itself, such as the name of a relation.
                values = {name: self.sentences.get(value, value) for name, value in match.groupdict().items()}
                return self.say(form, **values)
        return None

    def figure(self, value: Any) -> Any:
        """A number as this language writes it; every other value as it is."""
        return self._figure(value) if isinstance(value, Figure | MarkedFigure) else value

    def _figure(self, value: Written) -> Written:
        # In one pass, so that no sign is exchanged twice. Markup has neither sign in its tags.
        signs = {ord(","): self.thousands, ord("."): self.decimal}
        return type(value)(str(value).translate(signs))


ENGLISH: Final = Language("en", "English", {}, ",", ".", frozenset({1}))

# French has a narrow space between thousands, and the singular after 0, too.
_OTHERS: Final = {
    "de": ("Deutsch", ".", ",", frozenset({1})),
    "fr": ("Français", "\N{NARROW NO-BREAK SPACE}", ",", frozenset({0, 1})),
}

TAGS: Final = (ENGLISH.tag, *_OTHERS)
"""The languages that come with the product."""


@cache
def language_of(tag: str | None) -> Language:
    """The language in which pages for readers of a language are written: their own, or English.

    Args:
        tag: As in the labels of a release, such as "de-AT"; None for English.
    """
    base = ENGLISH.tag if tag is None else tag.partition("-")[0]
    if base not in _OTHERS:
        return ENGLISH
    name, thousands, decimal, singular = _OTHERS[base]
    return Language(base, name, sentences_of(base), thousands, decimal, singular)


def language_name(tag: str) -> str:
    """What readers choose a language by: what it calls itself, with the tag where that says more, such as "de-AT".

    Args:
        tag: As in the labels of a release; where the product does not know its language, it is its name.
    """
    language = language_of(tag)
    if tag.partition("-")[0] != language.tag:
        return tag
    return language.name if tag == language.tag else f"{language.name} ({tag})"


def sentences_of(tag: str) -> dict[str, str]:
    """The file of a language: what each English sentence is there."""
    text = (files(__package__) / f"{tag}.json").read_text(encoding="utf-8")
    sentences: dict[str, str] = json.loads(text)
    return sentences


@cache
def _pattern(form: str) -> re.Pattern[str]:
    # re.escape leaves names as they are, and puts a backslash before each brace.
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(form)))


def phrase(sentence: str) -> str:
    """A sentence that is said elsewhere: written where it belongs, and translated like the others."""
    return sentence
