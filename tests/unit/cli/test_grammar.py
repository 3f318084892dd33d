"""One grammar for all commands: which flags each has, and that a flag of one name means one thing."""

from collections import defaultdict
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pytest
import typer
from typer.models import OptionInfo

from tallyveil.cli.main import COMMANDS, loaded

ONLY_PRINTS = {
    **dict.fromkeys(
        [
            f"account {name}"
            for name in (
                "epsilon",
                "delta",
                "profile",
                "tradeoff",
                "calibrate",
                "group",
                "reduction",
                "savings",
                "secrets",
                "products",
                "total",
            )
        ],
        "Its answer is all that it is for; --plot draws the answer besides.",
    ),
    "spine fit": "It writes nothing.",
    "book show": "It writes nothing.",
    "status": "It writes nothing.",
    "docs": "It writes nothing.",
    "explain": "It writes nothing.",
}
"""Commands without `--quiet`, and why."""


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its words, with its function."""
    for name in COMMANDS:
        part = loaded(name)
        if not isinstance(part, typer.Typer):
            yield name, part
            continue
        for command in part.registered_commands:
            word = command.name or command.callback.__name__.replace("_", "-")
            yield f"{name} {word}", command.callback


def options(function: Any) -> Iterator[tuple[str, Any, OptionInfo]]:
    """The long name, type and description of every flag of a command."""
    for name, hint in get_type_hints(function, include_extras=True).items():
        if get_origin(hint) is Annotated and isinstance(hint.__metadata__[0], OptionInfo):
            found = hint.__metadata__[0]
            # With `Annotated`, typer keeps the first name where a default would be.
            flag = found.default if isinstance(found.default, str) else f"--{name}"
            yield flag, _given(hint.__origin__), found


def _given(hint: Any) -> Any:
    """The type of a value, whether or not it must be given."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = [one for one in get_args(hint) if one is not type(None)]
    return hint


FUNCTIONS = dict(commands())


def test_all_commands_are_looked_at():
    assert len(FUNCTIONS) > 40
    assert {"run", "spine build", "account epsilon", "measurements import", "publish csv"} <= FUNCTIONS.keys()


@pytest.mark.parametrize(("flag", "lacking"), [("--json", {}), ("--quiet", ONLY_PRINTS)])
def test_every_command_has_the_flag(flag, lacking):
    without = {
        name for name, function in FUNCTIONS.items() if flag not in {one for one, _, _ in options(function)}
    }
    assert without == set(lacking)


def test_a_flag_means_one_thing():
    """One type, one metavar, and help that begins with the same sentence."""
    meanings = defaultdict(lambda: defaultdict(list))
    for name, function in FUNCTIONS.items():
        for flag, hint, described in options(function):
            if flag != "--out":
                first = str(described.help).partition(". ")[0].rstrip(".")
                meanings[flag][hint, described.metavar, first].append(name)
    assert not {flag: dict(found) for flag, found in meanings.items() if len(found) > 1}


def test_out_names_what_is_written():
    for name, function in FUNCTIONS.items():
        for flag, _, described in options(function):
            if flag == "--out":
                assert described.metavar in ("FOLDER", "FILE"), name
                assert described.help.startswith(described.metavar.capitalize()), name
                assert not described.help.startswith(("Folder of a run", "Folder of the finished run")), name


def test_every_flag_is_spelled_alike():
    for function in FUNCTIONS.values():
        for flag, _, described in options(function):
            assert flag == flag.lower()
            assert "_" not in flag
            assert str(described.help).endswith(".")
