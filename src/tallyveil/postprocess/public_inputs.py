"""The public inputs in a release folder, next to its measurements: plan, geography and constraints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tallyveil.declared import read_written
from tallyveil.errors import SolverError
from tallyveil.files.geography import GEOGRAPHY, NAMES, read_hierarchies, write_geography
from tallyveil.files.geometry import GEOMETRY
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.plans.subspace_query import SubspaceQuery
from tallyveil.postprocess.constraints.bounds_files import BOUNDS, read_bounds, stated_bounds, write_bounds
from tallyveil.postprocess.constraints.geolevels import ConstraintTable
from tallyveil.postprocess.constraints.invariant_files import (
    INVARIANTS,
    read_invariant,
    stated_invariant,
    write_invariant,
)
from tallyveil.postprocess.families.lattice_measurements import drawn_constraint, read_drawn
from tallyveil.postprocess.other_releases.agreement_files import AGREEMENT
from tallyveil.postprocess.other_releases.kept import Kept, read_kept
from tallyveil.postprocess.other_releases.residents import RESIDENTS
from tallyveil.runs.folder_state import PLAN
from tallyveil.runs.product import Run
from tallyveil.schema.schema import Schema
from tallyveil.storage.write import write_json

NOTHING: Final = Kept()
PUBLIC_CHECK = "the geography and the constraints are read back as they were written"


def write_public_inputs(
    run: Run,
    plan: Mapping[str, Any],
    hierarchies: Hierarchies,
    constraints: Sequence[ConstraintTable],
    kept: Kept = NOTHING,
) -> None:
    """Write the files that are needed, together with the measurements, to estimate the counts.

    Args:
        run: The run.
        plan: Content of `plan.json`.
        hierarchies: The spine and the areas off the spine.
        constraints: The plan's invariants, then its bounds, each in the order of the plan. Further ones are ignored.
        kept: What is taken over from finished releases.
    Raises:
        StoreError: a file cannot be written.
    """
    root, tags = run.path, run.tags
    first = len(plan["invariants"])
    bounds = constraints[first : first + len(plan["bounds"])]

    def write() -> None:
        write_json(root / PLAN, plan)
        write_geography(root, hierarchies, tags)
        for number, (item, table) in enumerate(zip(plan["invariants"], constraints[:first], strict=True)):
            stated = stated_invariant(hierarchies, item["query"], item["geolevels"])
            write_invariant(root, number, table, stated, tags)
        for number, (item, table) in enumerate(zip(plan["bounds"], bounds, strict=True)):
            write_bounds(root, number, item, table, stated_bounds(hierarchies, item), tags)

        kept.write(root, hierarchies.spine, tags)

    run.make([PLAN, GEOGRAPHY, NAMES, GEOMETRY, BOUNDS, INVARIANTS, AGREEMENT, RESIDENTS], write)


def read_constraints(
    root: Path, plan: Mapping[str, Any], schema: Schema, hierarchies: Hierarchies
) -> tuple[ConstraintTable, ...]:
    """Read every constraint of a release from its folder, in the order in which it was compiled.

    These are invariants, public bounds, agreements (unless the plan has outer passes), and counts drawn on a lattice.

    Args:
        root: Release folder.
        plan: Content of its `plan.json`.
        schema: The universe.
        hierarchies: The spine that is measured, and the areas beside it.
    Raises:
        StoreError: a file is missing, unreadable, or of another geography.
    """
    invariants, bounds, spine = enumerate(plan["invariants"]), enumerate(plan["bounds"]), hierarchies.spine
    return (
        *(read_invariant(root, number, item, schema, hierarchies) for number, item in invariants),
        *(read_bounds(root, number, item, schema, hierarchies) for number, item in bounds),
        *(() if "outer" in plan else (one.table() for one in read_kept(root, plan, schema, spine).agreed)),
        *(
            drawn_constraint(item, schema, spine, read_drawn(root, item, schema, spine))
            for item in (read_written(SubspaceQuery, stated) for stated in plan.get("subspace", ()))
        ),
    )


def check_public_inputs(
    root: Path,
    plan: Mapping[str, Any],
    schema: Schema,
    spine: Spine,
    constraints: Sequence[ConstraintTable],
    kept: Kept = NOTHING,
) -> str:
    """Read geography and constraints back and compare them with what was written.

    Returns:
        The name of the check, for the manifest.
    Raises:
        SolverError: the files differ from what was written; the folder must not be published.
        StoreError: a file is missing or damaged.
    """
    found = read_hierarchies(root)
    same = found.spine.digest() == spine.digest()
    read = [one.digest() for one in read_constraints(root, plan, schema, found)]
    same = same and read == [one.digest() for one in constraints]
    same = same and read_kept(root, plan, schema, found.spine).digests() == kept.digests()
    if not same:
        raise SolverError(
            f"final check failed: {PUBLIC_CHECK}. Nothing must be published; please report this.",
            code="check-failed",
        )
    return PUBLIC_CHECK
