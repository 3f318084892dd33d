"""The steps of the desk as questions at the terminal, for `tallyveil init`."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from tallyveil.cli.frame.arguments import require_utf8
from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    from tallyveil.desk.draft import Draft
    from tallyveil.desk.steps import Field, Step
    from tallyveil.words.language import Language

KEEP, NOTHING = "", "-"
"""What keeps an answer, and what removes it."""


def spoken_language(environment: Mapping[str, str]) -> "Language":
    """The language of a terminal, by the variables that all programs read: the first that is set counts."""
    from tallyveil.words.language import language_of

    named = (environment.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return language_of(re.split("[_.@]", next(filter(None, named), ""))[0])


def ask_steps(draft: "Draft") -> None:
    """Ask every step until nothing is wrong in it, and write the release file. Every answer is kept in the folder.

    Raises:
        TallyveilError: the folder cannot be written to, the release file is there already, or a step cannot be done
            before another one is corrected.
    """
    from tallyveil.desk.draft import TITLES
    from tallyveil.desk.questions import step_of
    from tallyveil.desk.steps import AnswerError

    language = draft.language
    say(
        language.say(
            "Return keeps what stands in brackets, and - removes it. Ctrl-C leaves; the same command goes on."
        ),
        err=True,
    )
    for name in list(TITLES)[:-1]:
        _show(step_of(draft, name))
        while True:
            # Questions may follow from the answer before, so that each is noted at once.
            number = 0
            while number < len(fields := step_of(draft, name).fields):
                answers = {item.name: item.value for item in fields}
                draft.take(name, {**answers, fields[number].name: _ask(fields[number], language)})
                number += 1
            step = step_of(draft, name)
            for sentence in (*step.shown, *step.problems, *step.errors, *step.unsaid):
                say(sentence, err=True)
            if step.is_done:
                break
            if not any(
                item.rows if item.kind == "table" else item.choices or item.kind == "text"
                for item in step.fields
            ):
                raise AnswerError(
                    language.say("Correct the step that this names: the same command asks again."),
                    code="bad-argument",
                )
    path = draft.write()
    for sentence in step_of(draft, "file").shown:
        say(sentence)
    say(language.say("Next: {command}", command=f"tallyveil plan {path}"))


def _show(step: "Step") -> None:
    for line in ("", step.title, step.why):
        say(line, err=True)


def _ask(question: "Field", language: "Language") -> Any:
    """The answer to a question."""
    match question.kind:
        case "several":
            return _several(question, language)
        case "table":
            return _table(question, language)
        case _:
            return _single(question, question.label, question.value, language)


def _single(question: "Field", label: str, value: str, language: "Language") -> str:
    """A text, or one of several choices, by its number or its value."""
    if question.help:
        say(question.help, err=True)
    if question.choices:
        for number, (_, words) in enumerate(question.choices, start=1):
            say(f"  {number}  {words}", err=True)
    by_number = {str(number): key for number, (key, _) in enumerate(question.choices, start=1)}
    text = _typed(label, value)
    if question.name == "languages":
        by_words = {words.casefold(): key for key, words in question.choices}
        parts = [part.strip() for part in re.split("[,;]", text)]
        return ", ".join(by_number.get(part, by_words.get(part.casefold(), part)) for part in parts if part)
    if question.kind == "text":
        return by_number.get(text, text)
    # An answer whose file cannot be read at the moment stays, as its choices come back with the file.
    while text not in by_number and text not in dict(question.choices) and text != value:
        say(language.say("Give a number from 1 to {number}.", number=len(by_number)), err=True)
        text = _typed(label, value)
    return by_number.get(text, text)


def _typed(label: str, value: str) -> str:
    said = str(typer.prompt(f"{label} [{value}]", default=KEEP, show_default=False, err=True)).strip()
    text = require_utf8(said)
    return value if text == KEEP else "" if text == NOTHING else text


def _several(question: "Field", language: "Language") -> list[str]:
    """Some of the choices, by their numbers."""
    if question.help:
        say(question.help, err=True)
    for number, (_, words) in enumerate(question.choices, start=1):
        say(f"  {number}  {words}", err=True)
    keys = [key for key, _ in question.choices]
    before = ",".join(str(keys.index(key) + 1) for key in question.value if key in keys)
    label = language.say("{question}: numbers, with commas between", question=question.label)
    known = {str(number) for number in range(1, len(keys) + 1)}
    while not (numbers := {part.strip() for part in _typed(label, before).split(",")} - {""}) <= known:
        say(language.say("Give a number from 1 to {number}.", number=len(keys)), err=True)
    return [key for number, key in enumerate(keys, start=1) if str(number) in numbers]


def _table(question: "Field", language: "Language") -> dict[str, dict[str, str]]:
    """The cells of a table, row by row. A row of several columns whose first is empty is not asked further."""
    say(question.label, err=True)
    if question.help:
        say(question.help, err=True)
    before: Mapping[str, Mapping[str, str]] = question.value
    table: dict[str, dict[str, str]] = {}
    for row, words in question.rows:
        cells: dict[str, str] = {}
        for column in question.columns:
            cells[column.name] = _single(
                column, f"{words}: {column.label}", before.get(row, {}).get(column.name, ""), language
            )
            if question.name == "above" and not cells["name"]:
                break
        table[row] = cells
        if question.name == "above" and not cells["name"]:
            break
    return table
