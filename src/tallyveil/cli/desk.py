"""`tallyveil desk`: from a register to a release file, in the browser of this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.explore import open_until_interrupted
from tallyveil.cli.frame.arguments import AsJson, Quiet
from tallyveil.cli.frame.terminal import say_json


def desk(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder of the records and of what the desk writes. Default: the current folder.",
            metavar="FOLDER",
        ),
    ] = Path(),
    *,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address, and open no browser.")
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Go from a register to a release file, step by step, in the browser of this machine.

    The page is served to this machine alone, under an address with a secret, and loads nothing from elsewhere. It shows
    the names of the records' columns and how their file is written, and no value. Every answer is kept in FOLDER, so
    that any step can be left and taken up again. Ctrl-C, or closing the terminal, ends it. `tallyveil init` asks the
    same steps in the terminal.
    """
    aside = quiet or as_json
    open_until_interrupted(_served(folder, as_json=as_json), aside=aside, with_browser=not no_browser)


@contextmanager
def _served(folder: Path, *, as_json: bool) -> Iterator[str]:
    """Serve the desk, and print its address for programs if they ask for it."""
    from tallyveil.desk.page import served_desk

    with served_desk(folder) as address:
        if as_json:
            say_json({"address": address})
        yield address
