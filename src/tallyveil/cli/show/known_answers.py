"""Print which known answers this machine gives."""

from collections.abc import Iterable

from rich import box
from rich.table import Table

from tallyveil.cli.frame.terminal import Screen
from tallyveil.selftest.answers import Answer


def show_answers(answers: Iterable[Answer]) -> None:
    """One line for each answer: what was computed, where the known answer is from, and whether it is the same."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("area", "what was computed", "known answer from", "result"):
        table.add_column(heading)
    for answer in answers:
        table.add_row(answer.area, answer.name, answer.source, "same" if answer.same else "DIFFERENT")
    Screen(width=110).print(table)
