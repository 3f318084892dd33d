"""Every sentence that a page says is there in each language, and nothing else; numbers are written as it "
"writes them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment, nodes

from tallyveil.words.language import ENGLISH, TAGS, Figure, language_name, language_of, sentences_of

SOURCE = Path(__file__).parents[3] / "src" / "tallyveil"
SAYING = {"say", "phrase", "counted"}
PLACES = re.compile(r"\{[a-z_]*\}")


def _texts(node: ast.expr | None) -> Iterator[str]:
    """The sentences of an argument: one, or one of two."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=other):
            yield from _texts(body)
            yield from _texts(other)


def _said_in_python() -> Iterator[str]:
    for path in SOURCE.rglob("*.py"):
        if "words.language" not in (text := path.read_text(encoding="utf-8")) and "titles.say" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args) if name in SAYING:
                    for argument in args:
                        yield from _texts(argument)
                case ast.Call(func=ast.Name(id="map"), args=[ast.Name(id="phrase"), ast.Tuple(elts=items)]):
                    for item in items:
                        yield from _texts(item)


def _said_in_templates() -> Iterator[str]:
    environment = Environment(autoescape=True)
    for path in SOURCE.rglob("*.j2"):
        for call in environment.parse(path.read_text(encoding="utf-8")).find_all(nodes.Call):
            if isinstance(call.node, nodes.Name) and call.node.name == "say":
                (sentence,) = call.args
                assert isinstance(sentence, nodes.Const), f"{path}: a sentence is no literal"
                yield sentence.value


LITERAL = r'"(?:[^"\\]|\\.)*"'
SAID_IN_PAGES = re.compile(rf"\b(?:say|phrase)\(\s*({LITERAL}(?:\s*\+\s*{LITERAL})*)")


def _said_in_pages() -> Iterator[str]:
    for path in (SOURCE / "explore" / "app").rglob("*.js"):
        for match in SAID_IN_PAGES.finditer(path.read_text(encoding="utf-8")):
            yield "".join(ast.literal_eval(part) for part in re.findall(LITERAL, match[1]))


@pytest.fixture(scope="module")
def said() -> set[str]:
    """Every sentence. The sources are read by the worker that runs a test with it, and by no other."""
    return {*_said_in_python(), *_said_in_templates(), *_said_in_pages()}


@pytest.mark.parametrize("tag", [tag for tag in TAGS if tag != ENGLISH.tag])
def test_every_sentence_has_each_language(said, tag):
    sentences = sentences_of(tag)
    assert len(said) > 200
    assert sorted(said - sentences.keys()) == [], "not translated"
    assert sorted(sentences.keys() - said) == [], "said nowhere"
    for sentence, translation in sentences.items():
        assert translation.strip(), sentence
        # The same values stand in both, and the same markup.
        assert set(PLACES.findall(translation)) == set(PLACES.findall(sentence)), sentence
        assert sorted(re.findall(r"</?[a-z]+", translation)) == sorted(re.findall(r"</?[a-z]+", sentence)), (
            sentence
        )


def test_sentences_and_numbers_are_said_in_the_language():
    number = Figure("1,234.5 %")
    assert ENGLISH.say("{number} of 100", number=number) == "1,234.5 % of 100"
    assert language_of("de-AT").say("{number} of 100", number=number) == "1.234,5 % von 100"
    assert language_of("fr").figure(number) == "1\N{NARROW NO-BREAK SPACE}234,5 %"
    # What is no number is left as it is, also where it looks like one.
    assert language_of("de").figure("1,234.5") == "1,234.5"
    assert language_of("it") is ENGLISH
    assert language_of(None) is ENGLISH


def test_nouns_follow_the_number():
    said = [language_of(tag).counted(0, "{number} geounit", "{number} geounits") for tag in TAGS]
    assert said == ["0 geounits", "0 Gebietseinheiten", "0 unité"]


def test_two_languages_never_have_one_name():
    tags = ["de", "de-AT", "it", "it-CH", "en", "en-GB"]
    names = ["Deutsch", "Deutsch (de-AT)", "it", "it-CH", "English", "English (en-GB)"]
    assert list(map(language_name, tags)) == names
