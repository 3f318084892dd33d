"""`tallyveil status`: how far a run has come, asked from another terminal."""

import json
from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.frame.arguments import AsJson
from tallyveil.cli.frame.terminal import say


def status(
    folder: Annotated[Path, typer.Argument(help="Folder of a run or of a programme.", metavar="FOLDER")],
    as_json: AsJson = False,
) -> None:
    """Show how far a run has come, while it works in another terminal or after it was interrupted.

    The command writes nothing and does not hold up the run. It shows the stage that the run is in, the stages that have
    ended, whether a process holds the folder, what the ledger shows, and whether the release is complete.
    """
    from tallyveil.cli.show.status import show_status, status_record
    from tallyveil.runs.status import run_status

    found = run_status(folder)
    if as_json:
        say(json.dumps(status_record(found)))
    else:
        show_status(found)
