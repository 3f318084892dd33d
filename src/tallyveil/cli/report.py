"""`tallyveil report`: write the report of a finished release again."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    release: Annotated[Path, typer.Argument(help="Folder of a finished release.", metavar="RUN")],
) -> None:
    """Write report.html again, from the published files alone."""
    from tallyveil.report import write_households_report, write_report, write_safetab_report
    from tallyveil.run.finished import RELEASE, finished_manifest, kind_of

    writers = {
        RELEASE: write_report,
        "safetab": write_safetab_report,
        "safetab-households": write_households_report,
    }
    kind = kind_of(finished_manifest(release, *writers))
    typer.echo(str(writers[kind](release)))
