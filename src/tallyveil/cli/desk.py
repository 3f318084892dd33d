"""`tallyveil desk`: from a register to a release file, in the browser of this machine."""

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.explore import open_until_interrupted


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
) -> None:
    """Go from a register to a release file, step by step, in the browser of this machine.

    The page is served to this machine alone, under an address with a secret, and loads nothing from elsewhere. It shows
    the names of the records' columns and how their file is written, and no value. Every answer is kept in FOLDER, so
    that any step can be left and taken up again. Ctrl-C, or closing the terminal, ends it. `tallyveil init` asks
    the same steps in the terminal.
    """
    from tallyveil.desk.page import served_desk

    open_until_interrupted(served_desk(folder), aside=False, with_browser=not no_browser)
