"""`tallyveil estimate`: a release from published measurements, without the records."""

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.cli.frame.arguments import (
    AsJson,
    Executor,
    MeasurementsFolder,
    Quiet,
    TimingsFile,
    Workers,
    cluster_of,
)
from tallyveil.cli.frame.summary import finish_release


def estimate(
    measurements: MeasurementsFolder,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder of the release; new, empty, or an unfinished estimate."
        ),
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
    *,
    quiet: Quiet = False,
    as_json: AsJson = False,
    workers: Workers = None,
    executor: Executor = None,
    timings: TimingsFile = None,
) -> None:
    """Make a release from published measurements: histograms, tables, microdata and a report.

    The command reads public files alone and spends nothing. With the settings of the measurements, the counts are those
    that `tallyveil run` would have published. After an interruption, the same command resumes the work.
    """
    from tallyveil.api.estimating import estimate as make
    from tallyveil.cli.frame.progress import observer_for

    cluster = cluster_of(executor)
    with observer_for(quiet, as_json, timings, out) as observer:
        release = make(
            measurements, out, estimation=estimation, observer=observer, workers=workers, cluster=cluster
        )
    finish_release(release, out, quiet, as_json)
