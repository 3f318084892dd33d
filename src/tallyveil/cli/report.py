"""`tallyveil report`: write the report of a finished release again."""

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.arguments import Quiet
from tallyveil.cli.terminal import say


def report(
    release: Annotated[Path, typer.Argument(help="Folder of a finished release.", metavar="RUN")],
    quiet: Quiet = False,
) -> None:
    """Write report.html of any release again, from the published files alone."""
    from tallyveil.face.products import write_page

    page = write_page(release)
    if not quiet:
        say(str(page))
