"""How `tallyveil plan` shows advice on improving a plan. No data is opened for it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallyveil.plans.release import ReleasePlan


def show_warnings(warnings: Sequence[str]) -> None:
    """Print what a plan allows and seldom means."""
    from tallyveil.cli.frame.terminal import Screen, headed

    console = Screen()
    for sentence in warnings:
        console.print()
        console.print(headed("warning", "  ", "bold yellow"), end="")
        console.print(sentence, soft_wrap=True, markup=False)


def show_advice(loaded: "ReleasePlan") -> None:
    """Print the advice that applies to this plan, and TOML tables that can replace those of the release file."""
    from tallyveil.cli.frame.terminal import Screen, headed
    from tallyveil.plans.record import advice_record

    record = advice_record(loaded)
    console = Screen()
    fixed, spine = record["fixed_by_invariants"], record["spine_advice"]
    said = [("shares", text) for text in (fixed["sentences"] if fixed is not None else [])]
    said += [("spine", spine)] if spine is not None else []
    for name, text in said:
        console.print()
        console.print(headed("note", f" ({name})  ", "bold yellow"), end="")
        console.print(text, soft_wrap=True)
    if fixed is not None and fixed["toml"] is not None:
        console.print()
        console.print(fixed["toml"], soft_wrap=True)
