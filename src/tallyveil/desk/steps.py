"""The parts of a step of the desk, which a page and a terminal show in the same words."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from tallyveil.errors import ConfigError, TallyveilError
from tallyveil.storage.json_files import JsonObject

Answers = Mapping[str, Any]
"""What somebody said in a step, by name of the field: a text, a list of texts, or texts by row and column."""


@dataclass(frozen=True, slots=True)
class Field:
    """A question.

    Attributes:
        name: Its key among the answers.
        label: The question, for people.
        kind: "text", "choice" of one, "several" of many, or "table" of texts or choices by row and column.
        help: What to know for an answer; "" if nothing.
        choices: Possible answers, each with its words; for texts they are suggestions.
        rows: Keys of the rows of a table, each with its words.
        columns: Fields of each row of a table.
        value: The answer so far, or what is suggested.
        settles: Whether other questions of the step follow from the answer.
    """

    name: str
    label: str
    kind: Literal["text", "choice", "several", "table"] = "text"
    help: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    columns: tuple["Field", ...] = ()
    value: Any = ""
    settles: bool = False

    def to_mapping(self) -> JsonObject:
        """Plain data for the page."""
        return {
            "name": self.name,
            "label": self.label,
            "kind": self.kind,
            "help": self.help,
            "choices": [list(choice) for choice in self.choices],
            "rows": [list(row) for row in self.rows],
            "columns": [column.to_mapping() for column in self.columns],
            "value": self.value,
            "settles": self.settles,
        }


@dataclass(frozen=True, slots=True)
class Step:
    """A step as it stands.

    Attributes:
        name: Its key.
        title: What it is about.
        why: Why it is asked, in a sentence or two.
        fields: Its questions.
        shown: What was found, in sentences.
        problems: What is wrong, each with what to do, in the language of the desk.
        errors: The same where the program has no other language than English for it.
        unsaid: What is not said yet.
        extra: What only the page shows, such as a picture.
    """

    name: str
    title: str
    why: str
    fields: tuple[Field, ...] = ()
    shown: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()
    extra: JsonObject = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether all is said, and nothing is wrong."""
        return not (self.problems or self.errors or self.unsaid)

    def to_mapping(self) -> JsonObject:
        """Plain data for the page."""
        return {
            "name": self.name,
            "title": self.title,
            "why": self.why,
            "fields": [item.to_mapping() for item in self.fields],
            "shown": list(self.shown),
            "problems": list(self.problems),
            "errors": list(self.errors),
            "unsaid": list(self.unsaid),
            "done": self.is_done,
            "extra": self.extra,
        }


class AnswerError(ConfigError):
    """An answer is wrong; the message is in the language of the desk."""


class UnsaidError(AnswerError):
    """Something is not said yet, which is no mistake before somebody goes on."""


@dataclass(slots=True)
class Faults:
    """What is wrong in a step, and what is not said yet, as `Step` has it."""

    problems: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    unsaid: list[str] = field(default_factory=list)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note the error that ends what is done within, and go on after it."""
        try:
            yield
        except UnsaidError as error:
            self.unsaid.append(str(error))
        except AnswerError as error:
            self.problems.append(str(error))
        except TallyveilError as error:
            self.errors.append(str(error))

    def of(self) -> dict[str, Any]:
        """All of them, for a step."""
        return {"problems": tuple(self.problems), "errors": tuple(self.errors), "unsaid": tuple(self.unsaid)}


def text_of(answers: Answers, name: str, default: str = "") -> str:
    """The text of an answer."""
    value = answers.get(name, default)
    return value.strip() if isinstance(value, str) else default


def texts_of(answers: Answers, name: str) -> tuple[str, ...]:
    """The texts that were chosen."""
    value = answers.get(name, ())
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list | tuple) else ()


def cell_of(answers: Answers, name: str, row: str, column: str, default: str = "") -> str:
    """The text in a cell of a table."""
    table = answers.get(name)
    cells = table.get(row) if isinstance(table, Mapping) else None
    value = cells.get(column, default) if isinstance(cells, Mapping) else default
    return value.strip() if isinstance(value, str) else default


def cells_of(answers: Answers, name: str) -> dict[str, dict[str, str]]:
    """The texts of a table, by row and column; what is no text in a table is left out."""
    table = answers.get(name)
    return {
        row: {column: text for column, text in cells.items() if isinstance(text, str)}
        for row, cells in (table.items() if isinstance(table, Mapping) else ())
        if isinstance(cells, Mapping)
    }


def plain(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Choices whose words are the names themselves."""
    return tuple((name, name) for name in names)
