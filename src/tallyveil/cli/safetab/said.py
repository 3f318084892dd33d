"""What the commands of SafeTab give back, on the screen or as JSON: plans, errors and summaries of any layout."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.files.manifest import Manifest


def give_plan(
    record: dict[str, Any],
    out: Path | None,
    show: Callable[[dict[str, Any]], None],
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write a plan to a folder if there is one, and print it.

    Args:
        record: The plan.
        out: Folder of `safetab-plan.json`, or None.
        show: Prints the plan for readers.
        quiet: Whether nothing but JSON is printed.
        as_json: Whether JSON is printed instead.
    """
    from tallyveil.storage.outputs import own_folder
    from tallyveil.storage.write import write_json

    if out is not None:
        with own_folder(out, "safetab plan"):
            write_json(out / "safetab-plan.json", record)
    if as_json:
        say(json.dumps(record, indent=2))
    elif not quiet:
        show(record)


def give_validation(
    said: dict[str, Any], finished: Path | None, text: str, *, quiet: bool, as_json: bool
) -> None:
    """Print that inputs are valid, and how many checks the tables of a run have passed.

    Args:
        said: What JSON says; `output_checks_passed` is the number of checks.
        finished: Folder of a finished run, or None.
        text: What is said to readers.
        quiet: Whether nothing but JSON is printed.
        as_json: Whether JSON is printed instead.
    """
    if as_json:
        say(json.dumps(said))
    elif not quiet:
        say(text)
        if finished is not None:
            say(f"The tables in {finished} pass all {said['output_checks_passed']} checks.")


def give_errors(
    errors: "Mapping[str, pl.DataFrame]",
    page: Path,
    show: "Callable[[pl.DataFrame], None]",
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Print errors of a release, and the privacy parameters beside them.

    Args:
        errors: Tables by name. The first one is shown.
        page: The page with all of them.
        show: Prints the first table for readers.
        quiet: Whether nothing is printed.
        as_json: Whether JSON is printed.
    """
    if as_json:
        from tallyveil.files.evaluation.store import WARNING

        marked = {"protected": False, "warning": WARNING}
        say(json.dumps({**marked, **{name: frame.to_dicts() for name, frame in errors.items()}}))
    elif not quiet:
        from tallyveil.cli.show.parameters import show_parameters
        from tallyveil.files.evaluation.store import PARAMETERS

        show(next(iter(errors.values())))
        say("What this accuracy costs, for each level by itself and for all together:")
        show_parameters(errors[PARAMETERS].to_dicts())
        say(str(page))


def run_summary(manifest: "Manifest", out: Path, already_finished: bool) -> dict[str, Any]:
    """The summary of a run, for JSON."""
    from tallyveil.files.marks import marks_of

    return {
        "run": manifest.run,
        **marks_of(manifest).entry(),
        "sizes": manifest.body["sizes"],
        "privacy": manifest.privacy,
        "checks_passed": len(manifest.checks),
        "already_finished": already_finished,
        "out": str(out),
    }
