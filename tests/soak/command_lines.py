"""Arguments of every command: valid ones with a change, and wild ones drawn from the commands' own parameters."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import typer
from hypothesis import strategies as st
from mutations import NAMES, NUMBERS
from typer.models import OptionInfo

from tallyveil.cli.main import COMMANDS, loaded

PATHS = (
    "out", "new/er/out", "release.toml", "rec.csv", "geo.csv", "nowhere", ".", "..", "", "-", "rel[1]", "rel*", "a b",
    "{x}", "[bold]x[/bold]", "\x1b[31mx", "x" * 300, "/dev/null", "/dev/full", "link", "loop", "out\n", "~", "\u202ex",
    "%s", "@ARENA@/ABS/x", "../../x", "s3://bucket/out", "s3://me:word@bucket/a.csv", "s3://b", "file:///dev/null",
    "S3://bucket/a//b.parquet", "file://host/x",
)  # fmt: skip
SIZES = {"--blocks", "--people", "--states", "--figure", "--table"}
"""Flags that decide how long a command may take: they get small sizes, or impossible ones."""
ALWAYS = {"demo": "--blocks", "study": "--figure"}
"""Commands that take minutes without a size."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a command: its flag, or None where it is an argument, and the type of its value."""

    flag: str | None
    kind: type
    required: bool


def commands() -> Iterator[tuple[tuple[str, ...], list[Parameter]]]:
    """Every command's path and parameters."""
    for name in COMMANDS:
        part = loaded(name)
        if not isinstance(part, typer.Typer):
            yield (name,), list(_parameters(part))
            continue
        for command in part.registered_commands:
            assert command.callback is not None
            word = command.name or command.callback.__name__.replace("_", "-")
            yield (name, word), list(_parameters(command.callback))


def _parameters(callback: Callable[..., Any]) -> Iterator[Parameter]:
    hints = get_type_hints(callback, vars(importlib.import_module(callback.__module__)), include_extras=True)
    for parameter in inspect.signature(callback).parameters.values():
        kind, info = get_args(hints[parameter.name])[:2]
        kind = next(
            (one for one in get_args(kind) if one is not NoneType), kind
        )  # of an optional value, or a list
        kind = next(iter(get_args(kind)), kind)
        kind = kind if isinstance(kind, type) else str  # one of several words
        flag = f"--{parameter.name.replace('_', '-')}"
        words = map(
            str, (info.default, *(info.param_decls or ()))
        )  # typer keeps the first flag as the default
        declared = next((word for word in words if word.startswith("--")), flag)
        is_option = isinstance(info, OptionInfo)
        yield Parameter(declared if is_option else None, kind, parameter.default is parameter.empty)


PATHS = tuple(commands())


@st.composite
def wild(draw: Callable[[Any], Any]) -> tuple[str, ...]:
    """Arguments of some command, each parameter hostile, sensible or left out."""
    path, parameters = draw(st.sampled_from(PATHS))
    arguments: list[str] = []
    for parameter in parameters:
        always = ALWAYS.get(path[0]) == parameter.flag
        wanted = parameter.required or draw(st.integers(0, 4)) == 0
        if not always and (not wanted or draw(st.integers(0, 30)) == 0):
            continue
        if parameter.flag is not None:
            arguments.append(parameter.flag)
        if parameter.kind is not bool:
            arguments.append(draw(_value(parameter)))
    return (*path, *arguments)


def _value(parameter: Parameter) -> Any:
    kind = parameter.kind
    if issubclass(kind, Enum):
        return st.sampled_from([*(item.value for item in kind), "x", ""])
    if issubclass(kind, Path):
        return st.sampled_from(PATHS)
    if parameter.flag in SIZES:
        return st.sampled_from(("0", "-1", "5", "x", "1e3", "9" * 30, ""))
    if issubclass(kind, int | float):
        return st.sampled_from(("0", "-1", "1", "2", "50", "0.95", "x", "nan", "1e400", "9" * 30))
    return st.one_of(
        st.sampled_from(NAMES), st.sampled_from(NUMBERS), st.sampled_from(("1e-10", "3:2", "total"))
    )


@st.composite
def changed(draw: Callable[[Any], Any], arguments: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Valid arguments with one change."""
    words = list(arguments)
    at = draw(st.integers(1, len(words) - 1))
    action = draw(st.sampled_from(("value", "value", "out", "twice")))
    if action == "out" and "--out" in words[:-1]:
        words[words.index("--out") + 1] = draw(st.sampled_from(PATHS))
    elif action == "twice":
        words.insert(at, words[at])
    else:
        words[at] = draw(st.one_of(st.sampled_from(PATHS), st.sampled_from(NAMES), st.sampled_from(NUMBERS)))
    return tuple(words), f"{action} at {at}"


@st.composite
def accounts(draw: Callable[[Any], Any]) -> tuple[str, ...]:
    """Noise described in flags, from the small to the absurd."""
    command = draw(st.sampled_from(("epsilon", "delta", "profile", "tradeoff", "calibrate")))
    number = st.one_of(
        st.sampled_from(NUMBERS), st.fractions(0, 1000).map(str), st.floats(0, 1e6).map(str),
        st.floats(1e-40, 1e-3).map(str), st.integers(1, 300).map(str),
    )  # fmt: skip
    count = st.one_of(st.sampled_from(NUMBERS), st.integers(1, 3000).map(str))
    flags: list[str] = []
    for flag in ("--gaussian", "--laplace"):
        for _ in range(draw(st.sampled_from((0, 1, 1, 2)))):
            parts = [draw(number), *([draw(count)] if draw(st.booleans()) else [])]
            flags += [
                flag,
                ":".join([*parts, *([draw(count)] if len(parts) > 1 and draw(st.booleans()) else [])]),
            ]
    if command in ("epsilon", "calibrate"):
        flags += ["--delta", draw(number)]
    if command in ("delta", "calibrate"):
        flags += ["--epsilon", draw(number)]
    if draw(st.booleans()):
        flags += ["--neighbours", draw(st.sampled_from(("bounded", "unbounded", "both", "")))]
    return ("account", command, *flags)
