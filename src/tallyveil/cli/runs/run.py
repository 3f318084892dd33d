"""`tallyveil run`: make a release, or resume an interrupted one."""

from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.cli.frame.arguments import (
    AsJson,
    Executor,
    InsecureTestKey,
    Out,
    Quiet,
    ReleaseFilePath,
    Workers,
    cluster_of,
)
from tallyveil.cli.runs.programme import make_programme
from tallyveil.cli.show.finished import finish_release

if TYPE_CHECKING:
    from tallyveil.api.planned import Plan
    from tallyveil.runs.executors import Where


def run(
    release_file: ReleaseFilePath,
    out: Out,
    quiet: Quiet = False,
    as_json: AsJson = False,
    workers: Workers = None,
    executor: Executor = None,
    insecure_test_key: InsecureTestKey = None,
) -> None:
    """Make a release from a table of records, or all releases of a programme.

    The command reads and checks every input, enters the spend into the ledger, and then measures and estimates geolevel
    by geolevel. After an interruption, the same command resumes the run. It gives the same release at no further cost.

    Given the file of a programme, the command does this with each of its releases, in folders of their own in FOLDER.
    """
    from tallyveil.api.products import is_programme

    make = make_programme if is_programme(release_file) else make_release
    cluster = cluster_of(executor)
    make(release_file, out, quiet, as_json, insecure_test_key, workers, cluster)


def make_release(
    release: "Path | Plan",
    out: Path,
    quiet: bool,
    as_json: bool,
    insecure_test_key: str | None = None,
    workers: int | None = None,
    cluster: "Where" = None,
) -> None:
    """Make a release and show its progress, write the report, and print the summary."""
    from tallyveil.api.making import run as make
    from tallyveil.cli.frame.progress import observer_for

    with observer_for(quiet, as_json) as observer:
        made = make(
            release,
            out,
            insecure_test_key=insecure_test_key,
            observer=observer,
            workers=workers,
            cluster=cluster,
        )
    finish_release(made, out, quiet, as_json)
