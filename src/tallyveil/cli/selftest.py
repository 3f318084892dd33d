"""`tallyveil selftest`: compare what this installation computes with known answers."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tallyveil.cli.frame.arguments import AsJson, Quiet
from tallyveil.cli.frame.screen import Screen
from tallyveil.cli.frame.tables import plain_table
from tallyveil.cli.frame.terminal import say, say_json

if TYPE_CHECKING:
    from tallyveil.selftest.answers import KnownAnswer


def selftest(
    topdown: Annotated[
        bool,
        typer.Option(
            "--topdown",
            help="Make a TopDown release, too. Its first use compiles kernels, for about a minute.",
        ),
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Check this installation: its cipher, hashes, noise and accounting, and a small release, against known answers.

    The answers are the same on every platform. The command fails if one differs. Only compiled kernels stay on disk.
    """
    from tallyveil.errors import SolverError
    from tallyveil.files.manifest import library_versions
    from tallyveil.selftest.all_answers import known_answers

    answers = list(known_answers(topdown=topdown))
    wrong = [answer for answer in answers if not answer.same]
    if as_json:
        record = {
            "passed": not wrong,
            "versions": library_versions(),
            "answers": [asdict(known) for known in answers],
        }
        say_json(record, indent=2)
    elif not quiet:
        show_answers(answers)
    if wrong:
        raise SolverError(
            f"{len(wrong)} of {len(answers)} known answers are different on this machine. "
            + " ".join(
                f"{known.name} ({known.source}): got {known.got}, wanted {known.wanted}." for known in wrong
            )
            + " Publish nothing that was made here. Install again from a package whose checksums you have verified; if "
            "the answers still differ, report this with the output of `tallyveil selftest --json`.",
            code="selftest-failed",
        )
    if not (quiet or as_json):
        say(f"All {len(answers)} answers are the known ones.")


def show_answers(answers: "Iterable[KnownAnswer]") -> None:
    """One line for each answer: what was computed, where the known answer is from, and whether it is the same."""
    table = plain_table()
    for heading in ("area", "what was computed", "known answer from", "result"):
        table.add_column(heading)
    for answer in answers:
        table.add_row(answer.area, answer.name, answer.source, "same" if answer.same else "DIFFERENT")
    Screen(width=110).print(table)
