"""`tallyveil status`: how far a run has come, asked from another terminal."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from tallyveil.accounting.exact import exact_text
from tallyveil.cli.frame.arguments import AsJson
from tallyveil.cli.frame.terminal import Screen, headed, say
from tallyveil.release.marks import NOT_PRIVATE
from tallyveil.report.wording import duration
from tallyveil.runs.folder_state import FolderState
from tallyveil.runs.status import LedgerStatus, RunStatus, StageUnderWay


def status(
    folder: Annotated[Path, typer.Argument(help="Folder of a run or of a programme.", metavar="FOLDER")],
    as_json: AsJson = False,
) -> None:
    """Show how far a run has come, while it works in another terminal or after it was interrupted.

    The command writes nothing and does not hold up the run. It shows the stage that the run is in, the stages that have
    ended, whether a process holds the folder, what the ledger shows, and whether the release is complete.
    """
    from tallyveil.runs.status import run_status

    found = run_status(folder)
    if as_json:
        say(json.dumps(status_record(found)))
    else:
        show_status(found)


_WHOLE = 10
"""From this rate on, no fractions of a unit are shown."""
_LONGEST = 200
"""Characters shown of a name. A damaged folder may hold longer ones."""

_UNHELD = {
    FolderState.ABSENT: (
        "nothing: no run has begun to write here, so nothing is spent. A run that is still reading and checking its "
        "inputs looks like this"
    ),
    FolderState.STARTED: (
        "interrupted: no process works here. The command that began the run goes on with it and spends nothing more"
    ),
    FolderState.SEALED: (
        "interrupted before its last steps. The command that began the run finishes it and spends nothing more"
    ),
    FolderState.KEYLESS: "a ledger without a key: this run cannot go on",
    FolderState.PROGRAMME: "no process works on this programme as a whole",
    FolderState.FOREIGN: "no folder of a run: other files are in it",
}


def status_record(found: RunStatus) -> dict[str, Any]:
    """What `tallyveil status --json` prints."""
    stage, ledger = found.under_way, found.ledger
    return {
        "folder": str(found.path),
        "state": found.state.name.lower(),
        "complete": found.is_complete,
        "held": found.held,
        "process": found.process,
        "stage": None if stage is None else _stage_record(stage),
        "finished": [{"stage": one.stage, "seconds": round(one.seconds, 3)} for one in found.finished],
        "ledger": {
            "found": ledger.found,
            "unit": ledger.unit,
            "declared": None if ledger.declared is None else str(ledger.declared),
            "spent": None if ledger.spent is None else str(ledger.spent),
        },
        "damage": found.damage,
        **({"protected": None, "warnings": []} if found.marks is None else found.marks.entry()),
        "releases": [{"release": name, **status_record(one)} for name, one in found.releases],
    }


def _stage_record(stage: StageUnderWay) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "done": stage.done,
        "total": stage.total,
        "seconds": round(stage.seconds, 3),
        "rate_per_second": None if stage.rate is None else float(f"{stage.rate:.4g}"),
        "seconds_left": None if stage.seconds_left is None else round(stage.seconds_left, 1),
    }


def show_status(found: RunStatus) -> None:
    """Print the same for readers; for a programme, each of its releases after it."""
    screen = Screen()
    _show(screen, found, str(found.path))
    for name, release in found.releases:
        _show(screen, release, f"release {name}")


def _show(screen: Screen, found: RunStatus, title: str) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _lines(found):
        table.add_row(name, text)
    screen.print(headed(title[-_LONGEST:]))
    for line in [] if found.marks is None else found.marks.lines():
        screen.print(headed(NOT_PRIVATE, line.removeprefix(NOT_PRIVATE), "bold red"))
    screen.print(table)


def _lines(found: RunStatus) -> Iterator[tuple[str, str]]:
    yield "state", _state(found)
    if found.under_way is not None:
        yield ("stage" if found.held else "stopped in"), _stage(found.under_way, goes_on=bool(found.held))
    if found.finished:
        ended = (f"{one.stage[:_LONGEST]} ({duration(one.seconds)})" for one in found.finished)
        yield "ended", "\n".join(ended)
    if found.state not in (FolderState.PROGRAMME, FolderState.FOREIGN, FolderState.ABSENT):
        yield "spent", _spent(found.ledger)
    yield "complete", _complete(found)


def _state(found: RunStatus) -> str:
    process = "a process" if found.process is None else f"process {found.process}"
    finished = found.state is FolderState.FINISHED
    if found.held:
        work = "does its last steps, such as intervals" if finished else "works"
        return f"in progress: {process} holds the folder and {work}"
    if found.held is None:
        return (
            "it cannot be told whether a process holds the folder, because its private folder cannot be opened. Ask as "
            "the user who runs it"
        )
    if finished:
        return (
            "a finished release"
            if found.is_complete or found.damage is not None
            else "a finished release that lacks its last steps; the command that began the run does them"
        )
    return _UNHELD[found.state]


def _stage(stage: StageUnderWay, *, goes_on: bool) -> str:
    text = f"{stage.stage[:_LONGEST]}: "
    if stage.total > 1:
        share = min(stage.done / stage.total, 1.0)
        text += f"{stage.done:,} of {stage.total:,} ({int(100 * share)} %), "
    text += f"{'for' if goes_on else 'after'} {duration(stage.seconds)}"
    if goes_on and stage.rate is not None:
        text += f", {stage.rate:,.0f} a second" if stage.rate >= _WHOLE else f", {stage.rate:.2g} a second"
    if goes_on and stage.seconds_left is not None:
        text += f"; about {duration(stage.seconds_left)} left in this stage at this rate, later stages not counted"
    return text


def _spent(ledger: LedgerStatus) -> str:
    if ledger.spent is None or ledger.declared is None:
        return (
            "nothing yet"
            if ledger.found == "absent"
            else "not known: the ledger is damaged or cannot be read"
        )
    declared = f"the declared {ledger.unit} = {exact_text(ledger.declared)}"
    if ledger.spent == ledger.declared:
        return f"all of {declared}"
    return f"{exact_text(ledger.spent) if ledger.spent else 'nothing yet'} of {declared}"


def _complete(found: RunStatus) -> str:
    if found.damage is not None:
        return f"no: {found.damage}"
    return "yes" if found.is_complete else "no"
