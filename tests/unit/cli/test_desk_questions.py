"""`tallyveil init` at a terminal asks the steps of the desk, and writes the same file."""

import sys

import pytest
import typer
from tests.registers import CANARY, write_register

from tallyveil.cli import questions
from tallyveil.desk.draft import Draft
from tallyveil.desk.steps import Field
from tallyveil.errors import BudgetError, TallyveilError
from tallyveil.words.language import ENGLISH, TAGS, language_name

ANSWERS = {
    "File of the records": "persons.csv",
    "Column of the records with the code of the area": "3",
    "File of the areas": "municipalities.csv",
    "Its column of codes": "code",
    "Its column of names, for readers": "name",
    "What the smallest areas are called": "Municipality",
    "1: What they are called": "Country",
    "1: Where their codes come from": "everything",
    "Codebook, if there is one": "codebook.csv",
    "age: Released": "ranges",
    "age: Values or ranges": "0-17; 18+",
    "marital status: An empty value means": "not asked",
    "the total: Municipality": "10",
}


@pytest.fixture
def typed(tmp_path, monkeypatch):
    """Somebody at a terminal, who gives these answers and keeps everything else."""
    write_register(tmp_path, 500)
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []

    def prompt(text: str, **_: object) -> str:
        label = text.rpartition(" [")[0]
        asked.append(label)
        return ANSWERS.get(label, "")

    monkeypatch.setattr(typer, "prompt", prompt)
    return asked


def test_it_writes_the_file_of_the_desk(typed, tmp_path, monkeypatch, command):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    said = command("init")
    text = (tmp_path / "release.toml").read_text(encoding="utf-8")
    assert text == Draft.opened(tmp_path).release(Draft.opened(tmp_path).chosen()[0])
    assert "of their guesses are right" in said
    assert "tallyveil run" in said
    assert CANARY not in said + text
    assert typed[0] == "File of the records"


def test_a_wrong_number_is_asked_again(typed, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(ANSWERS, "the total: Municipality", "many")
    draft = Draft.opened(tmp_path)

    def prompt(text: str, **_: object) -> str:
        label = text.rpartition(" [")[0]
        if label == "the total: Municipality":
            return "20" if "many" in text else "many"
        return ANSWERS.get(label, "")

    monkeypatch.setattr(typer, "prompt", prompt)
    questions.ask_steps(draft)
    assert "“many” is no number above 0" in capsys.readouterr().err
    assert (tmp_path / "release.toml").is_file()


def test_what_no_answer_mends_ends_the_questions(typed, tmp_path, monkeypatch):
    """A step without questions, such as the budget of wishes that cannot be met, is not asked for ever."""
    draft = Draft.opened(tmp_path)

    def refused(_: Draft) -> None:
        raise BudgetError("the wishes cannot be met. Wish for less.")

    monkeypatch.setattr(Draft, "chosen", refused)
    with pytest.raises(TallyveilError, match="Correct the step"):
        questions.ask_steps(draft)


def test_numbers_of_a_list_and_names_of_languages_are_understood(monkeypatch):
    said = iter(["9", "1, x", "2,1"])
    monkeypatch.setattr(typer, "prompt", lambda *_, **__: next(said))
    several = Field("tables", "Tables", "several", choices=(("a", "A"), ("b", "B")), value=[])
    assert questions._ask(several, ENGLISH) == ["a", "b"]
    monkeypatch.setattr(typer, "prompt", lambda *_, **__: "2, Français; it")
    languages = Field("languages", "", choices=tuple((tag, language_name(tag)) for tag in TAGS))
    assert questions._ask(languages, ENGLISH) == "de, fr, it"


def test_it_asks_in_the_language_of_the_terminal():
    said = [
        {"LANG": "de_CH.UTF-8"},
        {"LC_ALL": "fr_FR", "LANG": "de_DE"},
        {"LC_ALL": "", "LANG": "C.UTF-8"},
        {"LANG": "de.UTF-8"},
        {},
    ]
    assert [questions.spoken_language(variables).tag for variables in said] == [
        "de",
        "fr",
        "en",
        "de",
        "en",
    ]
