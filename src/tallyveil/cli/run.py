"""`tallyveil run`: make a release, or resume an interrupted one."""

from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.cli.arguments import AsJson, InsecureTestKey, Out, Quiet, ReleaseFilePath, Workers
from tallyveil.cli.show.finished import finish_release

if TYPE_CHECKING:
    from tallyveil.plans.release import ReleasePlan


def run(
    release_file: ReleaseFilePath,
    out: Out,
    quiet: Quiet = False,
    as_json: AsJson = False,
    workers: Workers = None,
    insecure_test_key: InsecureTestKey = None,
) -> None:
    """Make a release from a table of records.

    The command reads and checks every input, enters the spend into the ledger, and then measures and estimates geolevel
    by geolevel. After an interruption, the same command resumes the run. It gives the same release at no further cost.
    """
    from tallyveil.cli.products import require_input
    from tallyveil.config.load import load_plan
    from tallyveil.release.kinds import ReleaseKind

    require_input(release_file, ReleaseKind.TOPDOWN)
    make_release(load_plan(release_file), out, quiet, as_json, insecure_test_key, workers)


def make_release(
    plan: "ReleasePlan",
    out: Path,
    quiet: bool,
    as_json: bool,
    insecure_test_key: str | None = None,
    workers: int | None = None,
) -> None:
    """Run a plan and show its progress, write the report, and print the summary."""
    from tallyveil.cli.progress import observer_for
    from tallyveil.execution.topdown.run import run_release
    from tallyveil.noise.key import insecure_key

    key = insecure_key(insecure_test_key) if insecure_test_key is not None else None
    with observer_for(quiet, as_json) as observer:
        outcome = run_release(plan, out, test_key=key, observer=observer, workers=workers)
    finish_release(outcome, quiet, as_json)
