"""Text of strangers on the terminal: no command, no markup, no crash."""

import json
import math
import os
import subprocess
import sys
import threading
from fractions import Fraction

import pytest
from rich.table import Table

from tallyveil.cli.frame.progress import BarObserver, JsonObserver
from tallyveil.cli.frame.screen import Screen, headed
from tallyveil.cli.frame.terminal import say, say_json
from tallyveil.cli.main import main

HOSTILE = [
    "[/x]",
    "[bold]x",
    "[link=http://evil]x[/link]",
    "\x1b]0;pwn\x07",
    "\x1b[31mred",
    "\u202eevil",
    ":smile:",
]


def obeyed(text: str) -> bool:
    return any(c in text for c in "\x07\x9b\u202e") or "\x1b]" in text or "\x1b[31m" in text


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_only_text_wherever_they_are_printed(capsys, name):
    screen = Screen(force_terminal=True, width=200)
    table = Table(title=f"Release {name}", caption=name)
    table.add_column(name)
    table.add_row(name)
    screen.print(table)
    screen.print(name)
    screen.print(headed(name, f": {name}"))
    say(name)
    said = capsys.readouterr().out
    assert not obeyed(said)
    if name.startswith(("[", ":")):
        assert said.count(name) >= 7


def test_a_path_that_is_no_utf_8_is_refused_before_anything_is_written(tmp_path):
    out = os.fsencode(tmp_path) + b"/caf\xe9"
    program = [sys.executable, "-c", "from tallyveil.cli.main import main; main()", "demo", "--out", out]
    found = subprocess.run(program, capture_output=True, text=True, check=False)
    assert found.returncode == 8
    assert "error [path-not-text]" in found.stderr
    assert "\\udce9" in found.stderr
    assert not any(tmp_path.iterdir())


def test_a_path_that_the_system_refuses_is_named(command):
    """Python's own checks of a path raise an error for one that is too long, or that lies in a closed folder."""
    for words in (["plan"], ["account", "total"], ["geography", "import", "--out", "out", "--grf"]):
        said = command(*words, "x" * 300, code=8)
        assert "path-refused" in said
        assert "File name too long" in " ".join(said.split())


def test_an_error_of_the_system_without_a_path_is_not_quoted(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tallyveil", "plan", "release.toml"])

    def fails(*_: object) -> None:
        raise OSError(5, "the value of a record")

    monkeypatch.setattr("tallyveil.api.planned.require_input", fails)
    with pytest.raises(OSError, match="record"):
        main()
    assert "record" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("name", HOSTILE)
def test_stages_and_warnings_are_only_text(capsys, name):
    for observer in (BarObserver(), JsonObserver()):
        if isinstance(observer, BarObserver):
            observer.__enter__()
        observer.stage_started(f"measure {name}", 2)
        observer.warned(f"family {name} grew worse")
        observer.advanced(2)
        observer.stage_finished(f"measure {name}", 0.5)
        if isinstance(observer, BarObserver):
            observer.__exit__(None, None, None)
    said = capsys.readouterr()
    assert not obeyed(said.out + said.err)


@pytest.mark.parametrize("name", ["\x1b[31mred", "\u202eevil", "[/x]", "caf\udce9"])
def test_errors_show_paths_as_text(capsys, monkeypatch, tmp_path, name):
    monkeypatch.setattr(sys, "argv", ["tallyveil", "plan", str(tmp_path / name)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 8
    said = capsys.readouterr().err
    assert ("path-not-text" if "\udce9" in name else "input-missing") in said
    assert not obeyed(said)


@pytest.mark.parametrize(
    "arguments", [["--no\x1b[31msuch"], ["plan", "a", "\x1b[31mb"], ["run", "a", "--wor\u202ekers"]]
)
def test_mistakes_in_the_command_are_text(capsys, monkeypatch, arguments):
    monkeypatch.setattr(sys, "argv", ["tallyveil", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert not obeyed(capsys.readouterr().err)


SCRIPT = """
import os, sys, threading
import tallyveil.cli.main as command

def work(*_, **__):
    os.write(2, b"panicked at record 77161")
    os.write(2, b"still 77161") if len(sys.argv) > 2 else None
    print("said by Python", file=sys.stderr)
    {end}

command.typer.main.get_command = lambda app: work
command.main()
"""


@pytest.mark.parametrize("end", ["pass", "raise ValueError('record 77161')"])
def test_a_compiled_library_that_writes_its_own_errors_is_not_heard(end):
    said = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(end=end)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "77161" not in said.stdout + said.stderr
    assert "said by Python" in said.stderr
    if "ValueError" in end:
        assert "internal error: ValueError" in said.stderr
        assert said.returncode == 1


def test_an_unforeseen_error_of_a_thread_does_not_show_its_message(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tallyveil", "--version"])
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with pytest.raises(SystemExit):
        main()

    def fail() -> None:
        raise ValueError("the count was " + str(77160 + 1))

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    said = capsys.readouterr().err
    assert "internal error: ValueError" in said
    assert "77161" not in said


def test_a_narrow_terminal_cuts_no_number(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "20")
    table = Table("variance", "margin")
    table.add_row("6,000,000.00", "±4,801.00")
    Screen().print(table)
    said = capsys.readouterr().out
    assert "6,000,000.00" in said
    assert "±4,801.00" in said


def test_json_has_no_infinities(capsys):
    record = {
        "bounds": [math.inf, -math.inf],
        "none": math.nan,
        "half": Fraction(1, 2),
        "nested": ({"a": 1},),
    }
    say_json(record)
    said = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert said == {"bounds": ["Infinity", "-Infinity"], "none": "NaN", "half": 0.5, "nested": [{"a": 1}]}
    assert float(said["bounds"][0]) == math.inf
