"""`tallyveil run` and `tallyveil measure`: make a release, or only its measurements, or resume an interrupted one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import (
    AsJson,
    Book,
    Executor,
    InsecureTestKey,
    Out,
    Quiet,
    ReleaseFilePath,
    TimingsFile,
    Workers,
    cluster_of,
)
from tallyveil.cli.frame.summary import finish_measurements, finish_release
from tallyveil.cli.frame.terminal import say
from tallyveil.cli.programme import finish_programme

if TYPE_CHECKING:
    pass


def run(
    release_file: ReleaseFilePath,
    out: Out,
    *,
    quiet: Quiet = False,
    as_json: AsJson = False,
    workers: Workers = None,
    executor: Executor = None,
    insecure_test_key: InsecureTestKey = None,
    book: Book = None,
    timings: TimingsFile = None,
) -> None:
    """Make a release from a table of records, or all releases of a programme.

    The command reads and checks every input, enters the spend into the ledger, and then measures and estimates geolevel
    by geolevel. After an interruption, the same command resumes the run. It gives the same release at no further cost.

    Given the file of a programme, the command does this with each of its releases, in folders of their own in FOLDER.
    """
    from tallyveil.api.making import run as run_release
    from tallyveil.api.planned import plan
    from tallyveil.api.products import is_programme
    from tallyveil.api.programme import run_programme
    from tallyveil.cli.frame.progress import observer_for

    # Before the observer is made: a wrong address must not leave a bar on the screen.
    cluster = cluster_of(executor)
    asked: dict[str, Any] = {
        "insecure_test_key": insecure_test_key,
        "book": book,
        "workers": workers,
        "cluster": cluster,
    }
    if is_programme(release_file):
        with observer_for(quiet, as_json, timings, out) as observer:
            programme = run_programme(release_file, out, observer=observer, **asked)
        finish_programme(programme, out, quiet, as_json)
        return
    planned = plan(release_file)
    with observer_for(quiet, as_json, timings, out) as observer:
        release = run_release(planned, out, observer=observer, **asked)
    finish_release(release, out, quiet, as_json)
    if not (quiet or as_json) and release.manifest.protected:
        from tallyveil.api.book import spending_in_words

        # What was spent on the same people, from the book or from the folders beside this one.
        if words := spending_in_words(planned, out, book):
            say(words)


def measure(
    release_file: ReleaseFilePath,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder of the measurements; new, empty, or an unfinished run."
        ),
    ],
    *,
    quiet: Quiet = False,
    as_json: AsJson = False,
    workers: Workers = None,
    executor: Executor = None,
    insecure_test_key: InsecureTestKey = None,
    book: Book = None,
    timings: TimingsFile = None,
) -> None:
    """Draw and publish the noisy measurements of a release, and stop there.

    The command spends what `tallyveil run` would spend. OUT then holds everything that `tallyveil estimate` needs to
    make the release on any machine, without the records and at no further cost.
    """
    from tallyveil.api.making import measure as draw
    from tallyveil.cli.frame.progress import observer_for

    cluster = cluster_of(executor)
    with observer_for(quiet, as_json, timings, out) as observer:
        finished = draw(
            release_file,
            out,
            insecure_test_key=insecure_test_key,
            book=book,
            observer=observer,
            workers=workers,
            cluster=cluster,
        )
    finish_measurements(finished, out, quiet, as_json)
