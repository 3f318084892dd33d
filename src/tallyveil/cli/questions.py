"""The steps of the desk as questions at the terminal, for `tallyveil init`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from tallyveil.cli.frame.arguments import require_utf8
from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    from tallyveil.desk.draft import Draft
    from tallyveil.desk.steps import Field, Step

KEEP, NOTHING = "", "-"
"""What keeps an answer, and what removes it."""


def ask_steps(draft: "Draft") -> None:
    """Ask every step until nothing is wrong in it, and write the release file. Every answer is kept in the folder.

    Raises:
        TallyveilError: the folder cannot be written to, or the release file is there already.
    """
    from tallyveil.desk.draft import TITLES

    say(
        "Return keeps what stands in brackets, and - removes it. Ctrl-C leaves; the same command goes on.",
        err=True,
    )
    for name in list(TITLES)[:-1]:
        step = draft.step(name)
        _show(step)
        while True:
            # Choices may follow from the answer before, so that each is noted at once.
            for number in range(len(step.fields)):
                question = draft.step(name).fields[number]
                answers = {item.name: item.value for item in draft.step(name).fields}
                draft.take(name, {**answers, question.name: _ask(question)})
            step = draft.step(name)
            for sentence in (*step.shown, *step.problems, *step.unsaid):
                say(sentence, err=True)
            if step.is_done:
                break
    path = draft.write()
    for sentence in draft.step("file").shown:
        say(sentence)
    say(f"Next: tallyveil plan {path}")


def _show(step: "Step") -> None:
    for line in ("", step.title, step.why):
        say(line, err=True)


def _ask(question: "Field") -> Any:
    """The answer to a question."""
    match question.kind:
        case "several":
            return _several(question)
        case "table":
            return _table(question)
        case _:
            return _single(question, question.label, question.value)


def _single(question: "Field", label: str, value: str) -> str:
    """A text, or one of several choices, by its number or its value."""
    if question.help:
        say(question.help, err=True)
    if question.choices:
        for number, (_, words) in enumerate(question.choices, start=1):
            say(f"  {number}  {words}", err=True)
    by_number = {str(number): key for number, (key, _) in enumerate(question.choices, start=1)}
    text = _typed(label, value)
    if question.kind == "text":
        return by_number.get(text, text)
    while text not in by_number and text not in dict(question.choices):
        say(f"Give a number from 1 to {len(by_number)}.", err=True)
        text = _typed(label, value)
    return by_number.get(text, text)


def _typed(label: str, value: str) -> str:
    said = str(typer.prompt(f"{label} [{value}]", default=KEEP, show_default=False, err=True)).strip()
    text = require_utf8(said)
    return value if text == KEEP else "" if text == NOTHING else text


def _several(question: "Field") -> list[str]:
    """Some of the choices, by their numbers."""
    if question.help:
        say(question.help, err=True)
    for number, (_, words) in enumerate(question.choices, start=1):
        say(f"  {number}  {words}", err=True)
    keys = [key for key, _ in question.choices]
    before = ",".join(str(keys.index(key) + 1) for key in question.value if key in keys)
    text = _typed(f"{question.label}: numbers, with commas between", before)
    numbers = [part.strip() for part in text.split(",")]
    return [key for number, key in enumerate(keys, start=1) if str(number) in numbers]


def _table(question: "Field") -> dict[str, dict[str, str]]:
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
                column, f"{words}: {column.label}", before.get(row, {}).get(column.name, "")
            )
            if not cells[column.name] and column.name == "name":
                break
        table[row] = cells
        if "name" in cells and not cells["name"]:
            break
    return table
