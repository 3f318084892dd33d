"""The `tallyveil` command.

A command is imported when it is asked for, and imports what it computes with when it runs, so that all of them start
quickly.
"""

import os
import sys
import threading
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import typer
import typer.main

from tallyveil.cli.frame.arguments import WholeHelp, require_utf8, typed
from tallyveil.cli.frame.terminal import compiled_libraries_silenced, say, say_error
from tallyveil.errors import StoreError, TallyveilError
from tallyveil.primitives import require_hashes
from tallyveil.printable import shown

COMMANDS: Final = {
    "demo": (
        "demo",
        "Make up a country of about 1,000 blocks and release it, with the 2020 redistricting settings and "
        "intervals.",
    ),
    "desk": ("desk", "Go from a register to a release file, step by step, in the browser of this machine."),
    "init": ("init", "Write a first release file, which plans and runs as it is."),
    "plan": (
        "plan",
        "Show what a release means for one person and how exact its tables will be, or what a programme will "
        "cost.",
    ),
    "run": ("run", "Make a release from a table of records, or all releases of a programme."),
    "status": (
        "status",
        "Show how far a run has come, while it works in another terminal or after it was interrupted.",
    ),
    "measure": ("run", "Draw and publish the noisy measurements of a release, and stop there."),
    "estimate": (
        "estimate",
        "Make a release from published measurements: histograms, tables, microdata and a report.",
    ),
    "copy": (
        "publish",
        "Copy a finished release from a folder to an object store (s3://BUCKET/NAME), or from there to a "
        "folder.",
    ),
    "report": ("publish", "Write report.html of any release again, from the published files alone."),
    "verify": ("verify", "Derive again what a release says of itself, and say what that proves."),
    "intervals": (
        "intervals",
        "Put an unbiased estimate, its standard error and an interval beside every published count.",
    ),
    "ask": (
        "ask",
        "Answer a question about any counts of RUN: published counts, estimates, standard errors and intervals.",
    ),
    "draws": (
        "draws",
        "Draw complete tables of RUN, for statistics that need more than published counts and intervals.",
    ),
    "explore": (
        "explore",
        "Make a site of a finished release, to look at in the browser: areas, tables, intervals.",
    ),
    "evaluate": ("evaluate", "Compare a release with the true counts. The results are NOT PRIVATE."),
    "compare": (
        "compare",
        "Compare methods of disclosure control on one input. The results are NOT PRIVATE.",
    ),
    "attack": (
        "attack",
        "Say what an outsider would claim of published numbers. With --truth the results are NOT PRIVATE.",
    ),
    "synth": (
        "synth",
        "Make up a population: records, geography, off-spine entities, facility bounds and a release file.",
    ),
    "study": ("study", "Recompute a paper's tables and figures, and write the paper's numbers beside ours."),
    "explain": ("docs", "Say what an error means, how to see it, and how to mend it."),
    "docs": (
        "docs",
        "Print the path of a page of the documentation, a Markdown file. The first page is index.",
    ),
    "warm-up": (
        "warm_up",
        "Compile the kernels of a release and of its intervals, and keep them on disk for later commands.",
    ),
    "selftest": (
        "selftest",
        "Check this installation: its cipher, hashes, noise and accounting, and a small release, against "
        "known answers.",
    ),
    "account": (
        "account",
        "Compute the exact privacy guarantee of noise, and the least noise for a stated guarantee.",
    ),
    "book": (
        "book",
        "Keep the book of a register: what all releases may cost together, and what they have cost.",
    ),
    "geography": ("geography", "Make geography and entity tables from public files."),
    "spine": ("spine", "Make a geographic spine, and compute how exact counts on it will be."),
    "safetab": (
        "safetab",
        "Tabulate detailed population groups; the detail of each group depends on a noisy count.",
    ),
    "subspace": ("subspace", "Release one table whose invariants stay exact."),
    "publish": ("publish", "Write the tables of finished releases in other forms."),
    "measurements": ("measurements", "Read and write noisy measurements in the layouts of others."),
}
"""Every command or group of commands, in the order of the help: its module in this folder, and the first sentences of
its help. They stand here too, so that the list of commands is printed without loading them all; a test compares them.
"""
SECONDS_OF_GIT: Final = 10.0
"""Time that git may take to name the commit. Half may be too short on a cold disk; twice keeps a user waiting."""


def loaded(name: str) -> Any:
    """A command as a function, or a group of commands as `typer.Typer`, from its module."""
    return getattr(import_module(f"tallyveil.cli.{COMMANDS[name][0]}"), name.replace("-", "_"))


class _Loading(WholeHelp):
    """All commands. Each is loaded when it is asked for, so that none waits for others; their list loads none."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands."""
        return list(COMMANDS)

    def summaries(self, ctx: Any) -> list[tuple[str, str]]:
        """Each command with the first sentences of its help."""
        return [(name, summary) for name, (_, summary) in COMMANDS.items()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; None if there is none."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            command = loaded(cmd_name)
            if not isinstance(command, typer.Typer):
                command, function = typer.Typer(add_completion=False, rich_markup_mode=None), command
                command.command(cmd_name)(function)
            self.add_command(typer.main.get_command(command), cmd_name)
        return super().get_command(ctx, cmd_name)


app = typer.Typer(
    name="tallyveil",
    cls=_Loading,
    help="Publish hierarchical counts of people with differential privacy.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: brackets are not markup, flags are not shortened, nothing is coloured
    context_settings={"help_option_names": ["-h", "--help"]},
)


def commit() -> str | None:
    """The commit that the package was built from, or that of the checkout it lies in.

    A build writes its commit into the package. In a checkout git is asked; `+changes` then says that files were changed
    since the commit.

    Returns:
        The first 12 digits; None where neither the package nor git says it.
    """
    import subprocess
    from importlib import resources

    package = resources.files("tallyveil")
    built = package / "commit.txt"
    if built.is_file():
        return built.read_text(encoding="utf-8").strip()
    checkout = Path(str(package)).resolve().parents[1]
    if not (checkout / ".git").exists():  # a folder above may be a checkout of something else
        return None
    asked = [
        "git",
        "-C",
        str(checkout),
        "describe",
        "--always",
        "--exclude=*",
        "--abbrev=12",
        "--dirty=+changes",
    ]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=SECONDS_OF_GIT)
    except (OSError, subprocess.TimeoutExpired):  # there is no git, or it hangs
        return None
    return said.stdout.strip() or None


def _version(value: bool) -> None:
    if value:
        from tallyveil.version import VERSION

        built_from = commit()
        say(f"tallyveil {VERSION}" if built_from is None else f"tallyveil {VERSION} (commit {built_from})")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False,
        "--version",
        callback=_version,
        is_eager=True,
        help="Show the version and the commit, and exit.",
    ),
) -> None:
    """Publish hierarchical counts of people with differential privacy.

    Start with `tallyveil demo`. Then use `tallyveil plan release.toml`, which shows the cost and the accuracy before
    any data is opened, and `tallyveil run release.toml --out DIR`.
    """


_UsageMistake: type[Exception] = typer.BadParameter.__mro__[2]
"""The base class of click's errors. Versions of typer import click from different places, so it is found this way."""


def main() -> None:
    """Run the command line. An error that is raised on purpose becomes a message and an exit code."""
    # Also for threads: a traceback with a message could quote a record.
    sys.excepthook = _unexpected
    threading.excepthook = lambda failure: _unexpected(
        failure.exc_type, failure.exc_value, failure.exc_traceback
    )
    if os.environ.get("NO_COLOR"):
        # For rich, NO_COLOR only removes colours. A dumb terminal also gets no bold text and no moving bars.
        os.environ["TERM"] = "dumb"
    command = _command()
    # Compiled libraries write to the descriptor and not to Python's stream.
    with compiled_libraries_silenced():
        try:
            # Addresses are recognised before the parser makes paths of them, which drop one of two slashes.
            sys.argv[1:] = map(typed, sys.argv[1:])
            require_utf8(_working_folder())
            # Before anything depends on a hash.
            require_hashes()
            # Not standalone: click would print errors itself, with values of the command line as they are.
            code = command(prog_name="tallyveil", standalone_mode=False)
        except _UsageMistake as error:
            code = _show_mistake(error)
        except TallyveilError as error:
            say_error(error.code, str(error))
            code = error.exit_code
        # A path that the system refuses is a user's mistake, and no defect.
        except OSError as error:
            refused = _path_refused(error)
            say_error(refused.code, str(refused))
            code = refused.exit_code
        except typer.Abort:
            code = 1
    sys.exit(code if isinstance(code, int) else 0)


@cache
def _command() -> Any:
    """The whole command line. Calling `app()` would replace the hook that withholds messages by typer's own."""
    return typer.main.get_command(app)


def _path_refused(error: OSError) -> StoreError:
    """The error for a path that the system does not open or look at, such as one that is too long.

    Raises:
        OSError: the error is not about one path; nothing is known of what its message quotes.
    """
    # Its message may quote anything; only one about a path is known to be safe.
    if not isinstance(error.filename, str) or error.errno is None:
        raise error
    return StoreError(
        f"the system refuses the path {error.filename}: {os.strerror(error.errno)}. Correct the path, or the rights of "
        "the folders on it. If a run was under way, the same command resumes it then.",
        code="path-refused",
    )


def _working_folder() -> str:
    """The folder that the command was started in; empty if it was removed."""
    try:
        # The folder may have been removed under the shell's feet.
        return str(Path.cwd())
    except FileNotFoundError:
        return ""


def _show_mistake(error: Any) -> int:
    """Show a mistake in the arguments in typer's format. What the user typed is made safe to print."""
    from typer.rich_utils import rich_format_error

    # Arguments are anybody's text: control codes must not reach the terminal.
    error.message = shown(error.message)
    rich_format_error(error)
    return int(error.exit_code)


def _unexpected(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Show where an unexpected error was raised, but not its message, which may quote a record."""
    place = "".join(traceback.format_tb(trace))
    say(
        f"{place}internal error: {kind.__name__}. Its message is withheld, for it may quote confidential values. "
        "Please report the lines above; if a run was under way, the same command resumes it.",
        err=True,
    )
