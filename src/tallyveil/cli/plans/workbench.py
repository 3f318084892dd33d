"""What `tallyveil plan --workbench` does: write the page, and open it in the browser if asked to."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.cli.finished.explore import Shown, give_site

if TYPE_CHECKING:
    from tallyveil.explore.workbench.estimates import Areas
    from tallyveil.plans.release import ReleasePlan


@dataclass(frozen=True, slots=True)
class WorkbenchWish:
    """What the flags ask for.

    Attributes:
        release_file: The release file.
        site: Folder of the page.
        compared: A second release file, or None.
        blocks: Number of finest geounits of a regular spine, or None.
        geography: Whether the public geography may be opened.
        entities: Table of entities, or None.
        families: Families of entities, or None.
        queries: Queries to show, or None.
    """

    release_file: Path
    site: Path
    compared: Path | None
    blocks: int | None
    geography: bool
    entities: Path | None
    families: list[str] | None
    queries: list[str] | None


def make_page(plan: "ReleasePlan", wish: WorkbenchWish, shown: Shown) -> None:
    """Write the workbench.

    Args:
        plan: The plan of the release file.
        wish: What the flags ask for.
        shown: How the result is shown.
    """
    from tallyveil.explore.workbench import make_workbench

    made = make_workbench(
        wish.release_file, wish.site, compared=wish.compared, areas=_areas(plan, wish), queries=wish.queries
    )
    lines = [
        f"{made.path} holds the workbench.",
        *([] if made.why is None else [f"It has no expected errors of estimates: {made.why}"]),
    ]
    give_site(made, lines, shown)


def _areas(plan: "ReleasePlan", wish: WorkbenchWish) -> "Areas":
    """The public geography and the entities, if the flags allow to open them."""
    from tallyveil.explore.workbench.estimates import Areas
    from tallyveil.postprocess.intervals.areas import entity_families, read_entity_table
    from tallyveil.products.topdown.run.inputs import read_hierarchies

    if not wish.geography and wish.families is None:
        return Areas(blocks=wish.blocks)
    made, names = read_hierarchies(plan), wish.families or []
    if wish.entities is None:
        return Areas(made, tuple(made.family(name) for name in names))
    return Areas(made, tuple(entity_families(made.spine, read_entity_table(wish.entities, names), names)))
