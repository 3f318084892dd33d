"""`tallyveil report`: write the report of a finished release again."""

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.arguments import Quiet


def report(
    release: Annotated[Path, typer.Argument(help="Folder of a finished release.", metavar="RUN")],
    quiet: Quiet = False,
) -> None:
    """Write report.html again, from the published files alone."""
    from tallyveil.report import (
        is_households,
        is_safetab,
        write_households_report,
        write_report,
        write_safetab_report,
    )

    write = write_households_report if is_households(release) else write_report
    page = (write_safetab_report if is_safetab(release) else write)(release)
    if not quiet:
        typer.echo(str(page))
