"""Spend a budget: make a release from records, or only its measurements."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.api.arguments import AnyPath, Progress, Workers, book_of, checked, key_of
from tallyveil.api.clusters import Cluster
from tallyveil.api.measured import Measurements
from tallyveil.api.planned import Plan, ReleaseFile, plan
from tallyveil.api.released import Release, finished

if TYPE_CHECKING:
    from tallyveil.runs.product import Outcome


@checked
def run(
    release: ReleaseFile | Plan,
    out: AnyPath,
    *,
    workers: Workers | None = None,
    cluster: Cluster = None,
    insecure_test_key: str | None = None,
    book: AnyPath | None = None,
    observer: Progress | None = None,
) -> Release:
    """Make a release from a table of records, or resume an interrupted one.

    Every input is read and checked first. Then the spend is entered into the ledger, and the geolevels are measured and
    estimated. The same call after an interruption finishes the release. It spends nothing more.

    Args:
        release: Path of a release file (TOML), its content as nested mappings, or a plan.
        out: Folder of the release. It does not exist, is empty, or holds an unfinished run of the same release.
        workers: Number of threads, or of worker processes of a cluster; None for one per core. The release does not
            depend on it.
        cluster: The cluster that does the work, as `ClusterSettings`. "threads": threads of this machine. "ray": the
            cluster that the release file names, or else one of this machine alone. None: what the release file says.
            The release does not depend on it.
        insecure_test_key: Any text, for tests and examples. The noise then follows from the text, and the release
            protects nobody. None for a secret key from the operating system.
        book: The book of the register (`create_book`), into which the spend is entered first. None: the one that the
            release file or the environment variable TALLYVEIL_BOOK names, if any. A release with a test key is in no
            book.
        observer: Is told of progress; `Timings` keeps seconds and memory in a file.
    Returns:
        The finished release. Its `already_finished` says whether the folder held it before, so that nothing was done.
    Raises:
        TallyveilError: an input is wrong, or the folder cannot be used. Nothing is spent then.
    Privacy: spends the budget of the plan once, however often the run is interrupted and resumed.
    """
    from tallyveil.products.topdown.run.run import run_release

    outcome = _made(
        run_release,
        release,
        Path(out),
        workers=workers,
        cluster=cluster,
        insecure_test_key=insecure_test_key,
        book=book,
        observer=observer,
    )
    return finished(outcome)


@checked
def measure(
    release: ReleaseFile | Plan,
    out: AnyPath,
    *,
    workers: Workers | None = None,
    cluster: Cluster = None,
    insecure_test_key: str | None = None,
    book: AnyPath | None = None,
    observer: Progress | None = None,
) -> Measurements:
    """Draw and publish the noisy measurements of a release, and stop there.

    Args:
        release, workers, cluster, insecure_test_key, book, observer: As for `run`.
        out: Folder of the measurements. It does not exist, is empty, or holds an unfinished run of the same release.
    Returns:
        The measurements, from which `estimate` makes the release without the records.
    Raises:
        ConfigError: the plan does not write all measurements.
        TallyveilError: as `run`.
    Privacy: spends the budget of the plan once, as `run` does.
    """
    from tallyveil.products.topdown.run.run import measure_release

    outcome = _made(
        measure_release,
        release,
        Path(out),
        workers=workers,
        cluster=cluster,
        insecure_test_key=insecure_test_key,
        book=book,
        observer=observer,
    )
    return Measurements(outcome.path, outcome.manifest, already_finished=outcome.already_finished)


def _made(
    work: Callable[..., "Outcome"],
    release: ReleaseFile | Plan,
    out: Path,
    *,
    workers: int | None,
    cluster: Cluster,
    insecure_test_key: str | None,
    book: str | Path | None,
    observer: Progress | None,
) -> "Outcome":
    """What a run of a plan left behind."""
    from tallyveil.runs.executors import executors_of

    # The key before everything: a wrong one must not leave a folder that looks begun.
    key, planned = key_of(insecure_test_key), plan(release).content
    return work(
        planned,
        out,
        test_key=key,
        observer=observer,
        workers=workers,
        executors=executors_of(cluster, planned.cluster, workers, observer),
        book=book_of(book, planned.book),
    )
