"""`tallyveil status`: how far a run has come, asked from another terminal."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyveil.cli.frame.arguments import AsJson
from tallyveil.cli.frame.screen import Screen, headed
from tallyveil.cli.frame.tables import show_marks
from tallyveil.cli.frame.terminal import say_json

if TYPE_CHECKING:
    from tallyveil.runs.status import LedgerStatus, RunStatus, StageUnderWay


def status(
    folder: Annotated[Path, typer.Argument(help="Folder of a run or of a programme.", metavar="FOLDER")],
    as_json: AsJson = False,
) -> None:
    """Show how far a run has come, while it works in another terminal or after it was interrupted.

    The command writes nothing and does not hold up the run. It shows the stage that the run is in, the stages that have
    ended, whether a process holds the folder, what the ledger shows, and whether the release is complete.
    """
    from tallyveil.api.exchange import status as look

    state = look(folder)
    # As plain data also for a folder that holds nothing, so that programs can ask any folder.
    if as_json:
        say_json(status_record(state))
    else:
        show_status(state)


_WHOLE = 10
"""From this rate on, no fractions of a unit are shown."""
_LONGEST = 200
"""Characters shown of a name. A damaged folder may hold longer ones."""

_UNHELD = {  # by the name of a `FolderState`
    "ABSENT": (
        "nothing: no run has begun to write here, so nothing is spent. A run that is still reading and checking its "
        "inputs looks like this"
    ),
    "STARTED": (
        "interrupted: no process works here. The command that began the run goes on with it, or says again why it "
        "ended, and spends nothing more"
    ),
    "SEALED": (
        "interrupted before its last steps. The command that began the run finishes it and spends nothing more"
    ),
    "KEYLESS": "a ledger without a key: this run cannot go on",
    "PROGRAMME": "no process works on this programme as a whole",
    "FOREIGN": "no folder of a run: other files are in it",
}


def status_record(run: "RunStatus") -> dict[str, Any]:
    """What `tallyveil status --json` prints."""
    stage, ledger = run.under_way, run.ledger
    return {
        "folder": str(run.path),
        "state": run.state.name.lower(),
        "complete": run.is_complete,
        "held": run.held,
        "process": run.process,
        "stage": None if stage is None else _stage_record(stage),
        "finished": [{"stage": ended.stage, "seconds": round(ended.seconds, 3)} for ended in run.finished],
        "ledger": {
            "found": ledger.state,
            "unit": ledger.unit,
            "declared": None if ledger.declared is None else str(ledger.declared),
            "spent": None if ledger.spent is None else str(ledger.spent),
        },
        "damage": run.damage,
        **({"protected": None, "warnings": []} if run.marks is None else run.marks.entry()),
        "releases": [{"release": name, **status_record(release)} for name, release in run.releases],
    }


def _stage_record(stage: "StageUnderWay") -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "done": stage.done,
        "total": stage.total,
        "seconds": round(stage.seconds, 3),
        "rate_per_second": None if stage.rate is None else float(f"{stage.rate:.4g}"),
        "seconds_left": None if stage.seconds_left is None else round(stage.seconds_left, 1),
    }


def show_status(run: "RunStatus") -> None:
    """Print the same for readers; for a programme, each of its releases after it."""
    screen = Screen()
    _show(screen, run, str(run.path))
    for name, release in run.releases:
        _show(screen, release, f"release {name}")


def _show(screen: Screen, run: "RunStatus", title: str) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _lines(run):
        table.add_row(name, text)
    # The end of a path tells folders apart, and its beginning rarely does.
    screen.print(headed(title[-_LONGEST:]))
    show_marks(screen, [] if run.marks is None else run.marks.lines())
    screen.print(table)


def _lines(run: "RunStatus") -> Iterator[tuple[str, str]]:
    from tallyveil.report.wording import duration

    yield "state", _state(run)
    if run.under_way is not None:
        yield ("stage" if run.held else "stopped in"), _stage(run.under_way, goes_on=bool(run.held))
    if run.finished:
        lines = (f"{ended.stage[:_LONGEST]} ({duration(ended.seconds)})" for ended in run.finished)
        yield "ended", "\n".join(lines)
    # These folders have no ledger of their own.
    if run.state.name not in ("PROGRAMME", "FOREIGN", "ABSENT"):
        yield "spent", _spent(run.ledger)
    yield "complete", _complete(run)


def _state(run: "RunStatus") -> str:
    process = "a process" if run.process is None else f"process {run.process}"
    finished = run.state.name == "FINISHED"
    if run.held:
        # A finished release may still be worked on: intervals are added under the same lock.
        work = "does its last steps, such as intervals" if finished else "works"
        return f"in progress: {process} holds the folder and {work}"
    if run.held is None:
        return (
            "it cannot be told whether a process holds the folder, because its private folder cannot be opened. Ask as "
            "the user who runs it"
        )
    if finished:
        return (
            "a finished release"
            if run.is_complete or run.damage is not None
            else "a finished release that lacks its last steps; the command that began the run does them"
        )
    return _UNHELD[run.state.name]


def _stage(stage: "StageUnderWay", *, goes_on: bool) -> str:
    from tallyveil.report.wording import duration

    text = f"{stage.stage[:_LONGEST]}: "
    if stage.total > 1:
        # At most all: a total can be an estimate.
        share = min(stage.done / stage.total, 1.0)
        text += f"{stage.done:,} of {stage.total:,} ({int(100 * share)} %), "
    text += f"{'for' if goes_on else 'after'} {duration(stage.seconds)}"
    if goes_on and stage.rate is not None:
        text += f", {stage.rate:,.0f} a second" if stage.rate >= _WHOLE else f", {stage.rate:.2g} a second"
    if goes_on and stage.seconds_left is not None:
        text += f"; about {duration(stage.seconds_left)} left in this stage at this rate, later stages not counted"
    return text


def _spent(ledger: "LedgerStatus") -> str:
    from tallyveil.accounting.numbers import exact_text

    if ledger.spent is None or ledger.declared is None:
        return (
            "nothing yet"
            if ledger.state == "absent"
            else "not known: the ledger is damaged or cannot be read"
        )
    declared = f"the declared {ledger.unit} = {exact_text(ledger.declared)}"
    # Exact fractions, so that equal means equal.
    if ledger.spent == ledger.declared:
        return f"all of {declared}"
    return f"{exact_text(ledger.spent) if ledger.spent else 'nothing yet'} of {declared}"


def _complete(run: "RunStatus") -> str:
    if run.damage is not None:
        return f"no: {run.damage}"
    return "yes" if run.is_complete else "no"
