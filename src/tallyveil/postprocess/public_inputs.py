"""The public inputs in a release folder, next to its measurements: plan, geography and constraints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tallyveil.errors import SolverError
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.plan.subspace_query import drawn_items
from tallyveil.postprocess.bounds_files import BOUNDS, read_bounds, write_bounds
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.invariant_files import INVARIANTS, read_invariant, write_invariant
from tallyveil.postprocess.lattice_measurements import drawn_constraint, read_drawn
from tallyveil.release.geography import GEOGRAPHY, read_geography, write_geography
from tallyveil.run.folder import PLAN
from tallyveil.run.product import Run
from tallyveil.storage.write import write_json
from tallyveil.universe.schema import Schema

PUBLIC_CHECK = "the geography and the constraints are read back as they were written"


def write_public_inputs(
    run: Run, plan: Mapping[str, Any], hierarchies: Hierarchies, constraints: Sequence[ConstraintTable]
) -> None:
    """Write the files that are needed, together with the measurements, to estimate the counts.

    Args:
        run: The run.
        plan: Content of `plan.json`.
        hierarchies: The spine and the areas off the spine.
        constraints: The plan's invariants, then its bounds, each in the order of the plan. Further ones are ignored.
    Raises:
        StoreError: a file cannot be written.
    """
    spine, root, tags = hierarchies.spine, run.path, run.tags
    first = len(plan["invariants"])
    bounds = constraints[first : first + len(plan["bounds"])]

    def write() -> None:
        write_json(root / PLAN, plan)
        write_geography(root, hierarchies, tags)
        for number, table in enumerate(constraints[:first]):
            write_invariant(root, number, table, spine, tags)
        for number, (stated, table) in enumerate(zip(plan["bounds"], bounds, strict=True)):
            write_bounds(root, number, stated, table, spine, tags)

    run.make([PLAN, GEOGRAPHY, BOUNDS, INVARIANTS], write)


def read_constraints(
    root: Path, plan: Mapping[str, Any], schema: Schema, spine: Spine
) -> tuple[ConstraintTable, ...]:
    """Read every constraint of a release from its folder: invariants, public bounds, then counts drawn on a lattice.

    Args:
        root: Release folder.
        plan: Content of its `plan.json`.
        schema: The universe.
        spine: The hierarchy.
    Raises:
        StoreError: a file is missing, unreadable, or of another geography.
    """
    invariants, bounds = enumerate(plan["invariants"]), enumerate(plan["bounds"])
    return (
        *(read_invariant(root, number, item, schema, spine) for number, item in invariants),
        *(read_bounds(root, number, item, schema, spine) for number, item in bounds),
        *(
            drawn_constraint(item, schema, spine, read_drawn(root, item, schema, spine))
            for item in drawn_items(plan)
        ),
    )


def check_public_inputs(
    root: Path, plan: Mapping[str, Any], schema: Schema, spine: Spine, constraints: Sequence[ConstraintTable]
) -> str:
    """Read geography and constraints back and compare them with what was written.

    Returns:
        The name of the check, for the manifest.
    Raises:
        SolverError: the files differ from what was written; the folder must not be published.
        StoreError: a file is missing or damaged.
    """
    found = read_geography(root)
    same = found.digest() == spine.digest() and [
        table.digest() for table in read_constraints(root, plan, schema, found)
    ] == [table.digest() for table in constraints]
    if not same:
        raise SolverError(
            f"final check failed: {PUBLIC_CHECK}. Nothing must be published; please report this.",
            code="check-failed",
        )
    return PUBLIC_CHECK
