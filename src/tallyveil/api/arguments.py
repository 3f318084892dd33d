"""The types of what people give from Python, and `checked`, which reads the arguments of a public function by them.

A type says what it takes, as pydantic reads it, and what a message wants instead (`Wanted`). Where Python would take
something else for an argument of this type, the type refuses it: a text for a list of names, a number for a name.
A message shows numbers and texts of one line, and of everything else only the type, since it may be a table of records.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, wraps
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Final, ParamSpec, TypeVar, cast, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)

from tallyveil.errors import ConfigError, StoreError
from tallyveil.exact import as_given, type_of
from tallyveil.noise.key import insecure_key
from tallyveil.printable import has_bytes, is_one_line
from tallyveil.runs.observer import Observer
from tallyveil.storage.addresses import addressed, is_object

P = ParamSpec("P")
R = TypeVar("R")

MOST_WORKERS: Final = 1024
"""Largest number of threads, above the cores of any machine known to us. A system refuses too many of them only when
they start, which is after the spend. Twice as many would still start on a usual Linux; nobody gains from them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a message wants in the place of something that a type does not take."""

    text: str


def is_table_or_text(value: object) -> bool:
    """Whether something gives its letters, keys or columns one after another, which nobody means as a list."""
    return isinstance(value, str | bytes | Mapping) or hasattr(type(value), "columns")


def _list_of_names(names: object) -> list[object]:
    if is_table_or_text(names) or not isinstance(names, Iterable):
        raise ValueError("not a list of names")
    return list(names)


def _single_line(name: str) -> str:
    if not is_one_line(name):
        raise ValueError("a name of several lines")
    return name


def _path(path: object, info: ValidationInfo) -> Path:
    """The path of a text, or the address of an object (`tallyveil.storage.addresses`)."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ValueError("no path")
    if isinstance(path, str) and not is_one_line(text):  # it may be the content of a file; a Path is none
        raise ValueError("no path")
    if has_bytes(text):
        raise StoreError(
            f"{info.context} is {as_given(text)}, which has bytes that are no UTF-8 text. Rename the file or the "
            "folder.",
            code="path-not-text",
        )
    place = addressed(text)
    try:
        # Looked at before anything is read or spent: a name of 300 letters, for example, is refused here.
        fixed(place).exists()
    except OSError as error:
        raise StoreError(
            f"{info.context} is {as_given(text)}, a path that the system refuses: {os.strerror(error.errno or 0)}. "
            "Correct it, or the rights of the folders on it.",
            code="path-refused",
        ) from None
    return place


def _observer(observer: object) -> Observer:
    # Without a method of observers, the run would end when the method is called, which is after the spend.
    if not isinstance(observer, Observer):
        raise ValueError("no observer")
    return observer


def _exact(number: object, info: ValidationInfo) -> Fraction:
    from tallyveil.budget.strategy import parse_fraction  # whose room loads all accounting

    return parse_fraction(number, str(info.context))


AnyPath = Annotated[str | Path, PlainValidator(_path), Wanted("a path, as text or as a Path")]
"""A path as text or as a Path. `checked` hands on a Path; one with bytes that are no UTF-8, which neither Parquet nor
JSON can hold, is refused, and so is one that the system refuses, such as a name that is too long."""
Paths = Annotated[Sequence[AnyPath], Wanted("a list of paths")]
Name = Annotated[str, Field(strict=True), AfterValidator(_single_line), Wanted("a name as text")]
"""The name of a geolevel, a query or a column."""
Text = Annotated[str, Field(strict=True), AfterValidator(_single_line), Wanted("a text of one line")]
"""A text with a meaning of its own, such as the name of a preset or an exact number."""
Names = Annotated[
    Sequence[Name], BeforeValidator(_list_of_names), Wanted("a list of names, such as ['total']")
]
"""Names, each as text. `checked` hands on a list."""
Workers = Annotated[
    int,
    Field(strict=True, ge=1, le=MOST_WORKERS),
    Wanted(f"1 to {MOST_WORKERS:,} threads, or nothing for one for each core"),
]
"""Number of threads or of worker processes."""
Flag = Annotated[bool, Field(strict=True), Wanted("True or False")]
"""A truth value. Any text, also "no", would be taken for yes."""
WholeNumber = Annotated[int, Field(strict=True), Wanted("a whole number")]
Number = Annotated[float, Field(strict=True), Wanted("a number, such as 0.95")]
Exact = Annotated[str | Fraction, PlainValidator(_exact), Wanted("an exact number as text, such as '1e-10'")]
"""An exact number. `checked` hands on a Fraction."""
Progress = Annotated[
    Observer,
    PlainValidator(_observer),
    Wanted(
        "an observer with the methods stage_started, advanced, stage_finished and warned; this one lacks a method of "
        "observers"
    ),
]
"""What is told of progress."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Read the arguments of a function by the types of this module that its annotations name.

    Raises:
        ConfigError: an argument is of another type (code bad-argument), or its type refuses the value, with a code of
            its own. The function was not called.
        StoreError: the system refuses a path. The function was not called.
    """
    places = signature(function)

    @cache
    def readers() -> list[tuple[str, TypeAdapter[Any], str]]:
        # Readers are made at the first call, so that imports stay quick. Annotations that are text are of other types
        # and are not checked: a module of this room must never postpone its annotations (`from __future__`).
        return [
            (name, TypeAdapter(parameter.annotation), wanted)
            for name, parameter in places.parameters.items()
            if (wanted := next(_wanted(parameter.annotation), None)) is not None
        ]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = places.bind(*args, **kwargs)
        for name, reader, wanted in readers():
            if name in bound.arguments:
                bound.arguments[name] = _read(reader, bound.arguments[name], name, wanted)
        return function(*bound.args, **bound.kwargs)

    return call


def as_path(path: object, name: str) -> Path:
    """A path, where an argument of this name may also be something else; raises ConfigError and StoreError."""
    return cast(Path, _read(TypeAdapter(AnyPath), path, name, next(_wanted(AnyPath))))


def _wanted(annotation: object) -> Iterator[str]:
    """What the types of an annotation want, the outermost first."""
    if isinstance(annotation, str):
        return
    yield from (item.text for item in getattr(annotation, "__metadata__", ()) if isinstance(item, Wanted))
    for part in get_args(annotation):
        yield from _wanted(part)


def _read(reader: "TypeAdapter[Any]", value: object, name: str, wanted: str) -> Any:
    try:
        return reader.validate_python(value, context=name)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        # An item of a list may be a value of a record.
        what = f"holds {type_of(first['input'])}" if first["loc"] else f"is {as_given(value)}"
    # Raised here, so that no error that quotes the argument stays with this one.
    raise ConfigError(f"{name} {what}, wanted {wanted}.", code="bad-argument")


def key_of(insecure_test_key: str | None) -> bytes | None:
    """The key that follows from the text of a test key; None for a secret one from the operating system.

    Raises:
        ConfigError: it is no text, or a text with bytes that are no UTF-8.
    """
    return None if insecure_test_key is None else insecure_key(insecure_test_key)


BOOK_VARIABLE: Final = "TALLYVEIL_BOOK"
"""The environment variable in which an office names the book of its register."""


def book_of(given: str | Path | None, *stated: Path | None) -> Path | None:
    """The book into which a run enters what it spends; None for none.

    Args:
        given: What the caller names.
        stated: What release files name.
    Raises:
        ConfigError: the caller, the release files and the environment name different books.
    """
    from tallyveil.storage.paths import real

    named = [Path(path) for path in (given, *stated, os.environ.get(BOOK_VARIABLE) or None) if path]
    # Two books would each show a part of what was spent.
    if len({real(path) for path in named}) > 1:
        raise ConfigError(
            f"several books are named for one run: {', '.join(str(path) for path in dict.fromkeys(named))}. A spend is "
            f"entered into one book. The book is named by --book, by [book] in a release file, and by the environment "
            f"variable {BOOK_VARIABLE}: name the same file, or leave the others out.",
            code="book-unsuited",
        )
    return named[0] if named else None


def fixed(path: str | Path) -> Path:
    """The path from the root, which leads to the same place when the current folder changes; or an address as it is.

    Raises:
        StoreError: the path starts from the current folder, and that was removed.
    """
    path = Path(path)
    try:
        return path if is_object(path) else path.absolute()
    except FileNotFoundError:
        raise StoreError(
            f"{path} starts from the current folder, which was removed. Change to a folder that exists.",
            code="path-refused",
        ) from None
