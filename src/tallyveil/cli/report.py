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
    """Write report.html again, using only the published files."""
    from tallyveil.release.kinds import ReleaseKind
    from tallyveil.release.manifest_files import read_manifest
    from tallyveil.report import write_households_report, write_report, write_safetab_report

    writers = {
        ReleaseKind.TOPDOWN: write_report,
        ReleaseKind.SAFETAB: write_safetab_report,
        ReleaseKind.HOUSEHOLDS: write_households_report,
    }
    page = writers[read_manifest(release, *writers).kind](release)
    if not quiet:
        say(str(page))
