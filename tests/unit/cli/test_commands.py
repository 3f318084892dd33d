"""What holds for every command: help that shows every word, flags of one meaning, plain text where it is asked for."""

import inspect
import os
import pty
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
import typer
from tests.samples import nightly
from typer.models import OptionInfo
from typer.testing import CliRunner

from tallyveil.cli.main import COMMANDS, app, loaded, main


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    for name in COMMANDS:
        part = loaded(name)
        if not isinstance(part, typer.Typer):
            yield (name,), part
            continue
        for command in part.registered_commands:
            yield (name, command.name or command.callback.__name__.replace("_", "-")), command.callback


FUNCTIONS = dict(commands())


def options(callback: Any) -> Iterator[tuple[list[str], Any, Any]]:
    """(flags, type, what typer knows) of every parameter."""
    hints = get_type_hints(callback, sys.modules[callback.__module__].__dict__, include_extras=True)
    for name in inspect.signature(callback).parameters:
        kind, info = get_args(hints[name])[:2]
        words = [str(word) for word in (info.default, *(info.param_decls or ()))]
        flags = [word for word in words if word.startswith("-")] or [f"--{name.replace('_', '-')}"]
        yield (flags if isinstance(info, OptionInfo) else []), kind, info


def helped(path: tuple[str, ...], width: int) -> str:
    return CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": str(width)}).output


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [80, nightly(120)])
@pytest.mark.parametrize("path", FUNCTIONS, ids=" ".join)
def test_help_shows_every_word_and_every_flag(path, width):
    shown = helped(path, width)
    assert max(map(len, shown.splitlines())) <= width
    callback = FUNCTIONS[path]
    for paragraph in inspect.getdoc(callback).split("\n\n"):
        # A line may end at a hyphen: no word is lost there.
        assert words(paragraph).replace(" ", "") in words(shown).replace(" ", "")
    for flags, _, info in options(callback):
        for flag in flags:
            assert re.search(rf"(?<![\w-]){flag}(?![\w-])", shown), flag
        said = words(info.help or "")
        assert said.replace(" ", "") in words(shown).replace(" ", "")
        for flag in re.findall(r"--[a-z0-9-]+", said):
            assert flag in shown, f"{flag} is broken across lines"


@pytest.mark.parametrize("group", [(), ("account",), ("spine",), ("safetab",), ("subspace",)])
def test_the_lists_of_commands_cut_no_sentence(group):
    shown = words(helped(group, 80)).replace(" ", "")
    for path, callback in FUNCTIONS.items():
        if path[:-1] == group:
            assert words(inspect.getdoc(callback).split("\n\n")[0]).replace(" ", "") in shown


def test_a_flag_means_one_thing():
    """Wherever a flag stands it takes the same kind of value."""
    kinds = defaultdict(set)
    for callback in FUNCTIONS.values():
        for flags, kind, _ in options(callback):
            kinds[" ".join(flags[:1])].add(
                str(next((k for k in get_args(kind) if k is not type(None)), kind))
            )
    kinds.pop("", None)
    assert {flag: found for flag, found in kinds.items() if len(found) > 1} == {}


def test_what_writes_files_can_be_quiet():
    """Every command that writes, but those whose answer is what they print."""
    told = {("plan",), ("safetab", "plan"), ("subspace", "diagnose")}
    answers = told | {("spine", "distance"), ("spine", "compare")}
    for path, callback in FUNCTIONS.items():
        flags = [flag for found, _, _ in options(callback) for flag in found]
        if "--out" in flags and path not in answers:
            assert "--quiet" in flags, path


def test_synth_is_quiet_when_told(tmp_path):
    told = CliRunner().invoke(app, ["synth", "--out", str(tmp_path / "a"), "--blocks", "20", "--quiet"])
    assert (told.exit_code, told.output) == (0, "")


@pytest.mark.parametrize(
    "arguments", [*map(nightly, (["plan", "RELEASE"], ["plan", "nowhere.toml"])), ["run"], ["--help"]]
)
def test_no_color_means_no_escape_codes(arguments, small_release):
    """On a terminal: elsewhere there are none anyway."""
    arguments = [str(small_release) if word == "RELEASE" else word for word in arguments]
    process, terminal = pty.fork()
    if process == 0:
        os.environ |= {"NO_COLOR": "1", "TERM": "xterm-256color"}
        command = "from tallyveil.cli.start import main; main()"
        os.execv(sys.executable, [sys.executable, "-c", command, *arguments])
    said = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other end was closed
            break
        if not piece:
            break
        said += piece
    os.waitpid(process, 0)
    os.close(terminal)
    assert said
    assert b"\x1b" not in said


def test_a_shell_can_complete_commands(monkeypatch, capsys):
    monkeypatch.setenv("_TALLYVEIL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "tallyveil est")
    monkeypatch.setenv("COMP_CWORD", "1")
    monkeypatch.setattr(sys, "argv", ["tallyveil"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.split() == ["estimate"]


def test_a_command_is_loaded_when_it_is_asked_for():
    program = """
import sys
from tallyveil.cli.main import main
sys.argv = ["tallyveil", "docs", "--help"]
try:
    main()
finally:
    print(sorted(m for m in sys.modules if m.startswith("tallyveil.cli.") and ".frame" not in m))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "['tallyveil.cli.docs', 'tallyveil.cli.main']"


def test_the_list_of_commands_says_what_each_command_says_of_itself():
    for name, (_, summary) in COMMANDS.items():
        part = loaded(name)
        said = part.info.help if isinstance(part, typer.Typer) else inspect.getdoc(part)
        assert words(said.partition("\n\n")[0]) == summary, name
