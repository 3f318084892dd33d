"""`tallyveil estimate`: a release from published measurements, without the records."""

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.arguments import AsJson, Quiet, Workers
from tallyveil.cli.show.finished import finish_release


def estimate(
    measurements: Annotated[
        Path,
        typer.Argument(
            help="Folder of `tallyveil measure`, or of a finished release with all measurements.",
            metavar="MEASUREMENTS",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the release; new, empty, or an unfinished estimate.")
    ],
    estimation: Annotated[
        Path | None,
        typer.Option(
            "--estimation",
            metavar="FILE",
            help="TOML file with the table [estimation] of a release file, to use instead of the one that the "
            "measurements were planned with.",
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    workers: Workers = None,
) -> None:
    """Make a release from published measurements: histograms, tables, microdata and a report.

    The command reads public files alone and spends nothing. With the settings of the measurements, the counts are those
    that `tallyveil run` would have published. After an interruption, the same command resumes the work.
    """
    from tallyveil.cli.progress import observer_for
    from tallyveil.config.load import load_estimation
    from tallyveil.postprocess.estimate import estimate_release
    from tallyveil.postprocess.measured import open_measurements

    opened = open_measurements(measurements)
    levels = None if estimation is None else load_estimation(estimation, opened.plan)
    with observer_for(quiet, as_json) as observer:
        outcome = estimate_release(opened, out, levels, observer=observer, workers=workers)
    finish_release(outcome, quiet, as_json)
