"""The `tallyveil` command. Imports only what `--help` needs; each command imports its own work."""

import os
import sys
import threading
import traceback
from types import TracebackType
from typing import Any

import typer
import typer.main

from tallyveil.cli.account import account
from tallyveil.cli.demo import demo
from tallyveil.cli.estimate import estimate
from tallyveil.cli.evaluate import evaluate
from tallyveil.cli.explain import explain
from tallyveil.cli.intervals import intervals
from tallyveil.cli.measure import measure
from tallyveil.cli.plan import plan
from tallyveil.cli.report import report
from tallyveil.cli.run import run
from tallyveil.cli.safetab import safetab
from tallyveil.cli.spine import spine
from tallyveil.cli.study import study
from tallyveil.cli.subspace import subspace
from tallyveil.cli.synth import synth
from tallyveil.cli.terminal import compiled_libraries_silenced, say, say_error
from tallyveil.cli.whole_help import WholeHelp
from tallyveil.errors import TallyveilError
from tallyveil.printable import shown

app = typer.Typer(
    name="tallyveil",
    cls=WholeHelp,
    help="Publish hierarchical counts of people with differential privacy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: no bracket is taken for markup, no flag is cut, nothing is coloured
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (demo, plan, run, measure, estimate, report, intervals, evaluate, synth, study, explain):
    app.command()(command)
app.add_typer(account)
app.add_typer(spine)
app.add_typer(safetab)
app.add_typer(subspace)


def _version(value: bool) -> None:
    if value:
        from tallyveil import __version__

        say(f"tallyveil {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Publish hierarchical counts of people with differential privacy.

    Start with `tallyveil demo`, then `tallyveil plan release.toml` (what it costs and how exact it will be,
    before any data is opened) and `tallyveil run release.toml --out DIR`.
    """


_UsageMistake: type[Exception] = typer.BadParameter.__mro__[2]
"""The base of click's errors, wherever typer takes click from."""


def main() -> None:
    """Run the command line; errors raised on purpose become one screen of text and an exit code."""
    sys.excepthook = _unexpected
    threading.excepthook = lambda told: _unexpected(told.exc_type, told.exc_value, told.exc_traceback)
    if os.environ.get("NO_COLOR"):
        # The console takes it to forbid colours alone; a dumb terminal gets neither bold text nor moving bars.
        os.environ["TERM"] = "dumb"
    # Not `app()`: that would put typer's own hook in the place of the one that withholds messages.
    command = typer.main.get_command(app)
    with compiled_libraries_silenced():
        try:
            code = command(prog_name="tallyveil", standalone_mode=False)
        except _UsageMistake as error:
            code = _show_mistake(error)
        except TallyveilError as error:
            say_error(error.code, str(error))
            code = error.exit_code
        except typer.Abort:
            code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _show_mistake(error: Any) -> int:
    """Show a mistake in how the command was called, as typer does; what was typed is only text."""
    from typer.rich_utils import rich_format_error

    error.message = shown(error.message)
    rich_format_error(error)
    return int(error.exit_code)


def _unexpected(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Show where an unforeseen error arose, but not its message: that may quote a record."""
    place = "".join(traceback.format_tb(trace))
    say(
        f"{place}internal error: {kind.__name__}. Its message is withheld, for it may quote confidential values. "
        "Please report the lines above; if a run was under way, the same command resumes it.",
        err=True,
    )
