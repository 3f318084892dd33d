"""Print how a spine changes the accuracy of every family and geolevel: a table, and warnings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    from tallyveil.geography.areas import AreaChange

AIMED = " *"


def show_changes(changes: "Sequence[AreaChange]", *, quiet: bool = False) -> None:
    """Print the mean standard deviation of totals for every family and geolevel, and the warnings.

    A warning names each family or geolevel that the spine makes less accurate.

    Args:
        changes: The change for each family and each geolevel.
        quiet: Print only the warnings.
    """
    from tallyveil.products.topdown.run.spine_changes import warnings_of

    if changes and not quiet:
        _show_table(changes)
    warn(warnings_of(changes))


def _show_table(changes: "Sequence[AreaChange]") -> None:
    from tallyveil.cli.show.number_table import show_table

    regrouped = any(change.aimed for change in changes)
    rows: list[list[Any]] = [
        [
            change.name + (AIMED if change.aimed else ""),
            change.areas,
            change.given.mean,
            *([change.steps.mean] if regrouped else []),
            change.made.mean,
            change.made.greatest,
        ]
        for change in changes
    ]
    before = ["geography", *(["steps"] if regrouped else [])]
    show_table(["st.dev. of totals", "areas", *before, "this spine", "its greatest"], rows, False)
    say(
        "Mean standard deviations of totals, with the same budget on every spine: on the geography as "
        "given, "
        + ("after the steps, with groups chosen by variance for what is marked *, " if regrouped else "")
        + "and on this spine."
    )


def warn(sentences: Sequence[str]) -> None:
    """Print warnings on standard error."""
    for sentence in sentences:
        say(f"warning: {sentence}", err=True)
