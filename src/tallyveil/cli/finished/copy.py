"""`tallyveil copy`: a finished release to an object store, or from there."""

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.frame.arguments import AsJson, Quiet, give

MOST_NAMES = 20
"""How many names of files are printed that were not copied."""


def copy(
    source: Annotated[
        Path, typer.Argument(help="Folder or address of a finished release.", metavar="RELEASE")
    ],
    target: Annotated[
        Path, typer.Argument(help="Address such as s3://BUCKET/NAME, or folder, of the copy.", metavar="COPY")
    ],
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Copy a finished release from a folder to an object store (s3://BUCKET/NAME), or from there to a folder.

    Every file of the copy is read back and held to its SHA-256, and the manifest is written last. After an
    interruption, the same command goes on. Credentials come from the environment.
    """
    from tallyveil.cli.frame.progress import observer_for
    from tallyveil.files.marks import marks_of
    from tallyveil.postprocess.exchange.copying import copy_release
    from tallyveil.storage.addresses import shown_path

    with observer_for(quiet, as_json) as observer:
        made = copy_release(source, target, observer)
    place, others = shown_path(target), len(made.left_out) - MOST_NAMES
    marks = marks_of(made.manifest)
    record = {
        "run": made.manifest.run,
        **marks.entry(),
        "copy": place,
        "files": made.files,
        "bytes": made.bytes,
        "already_there": made.kept,
        "left_out": list(made.left_out),
    }
    lines = [
        *marks.lines(),
        f"{place} holds the release of run {made.manifest.run}: {made.files:,} files, {made.bytes / 1e6:,.1f} MB, each "
        f"with its SHA-256 ({made.kept:,} were there already).",
        *(f"left out: {name}" for name in made.left_out[:MOST_NAMES]),
        *([] if others <= 0 else [f"left out: {others:,} more"]),
    ]
    give(record, lines, quiet=quiet, as_json=as_json)
