"""The public inputs in a release folder, next to its measurements: plan, geography and constraints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tallyveil.declared import read_written
from tallyveil.errors import SolverError
from tallyveil.files.geography import GEOGRAPHY, GEOMETRY, NAMES, read_hierarchies, write_geography
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.plans.subspace_query import SubspaceQuery
from tallyveil.postprocess.constraints.constraint_files import (
    AGREEMENT,
    BOUNDS,
    INVARIANTS,
    stated_constraints,
)
from tallyveil.postprocess.constraints.geolevels import ConstraintTable
from tallyveil.postprocess.families.lattice_measurements import drawn_constraint, read_drawn
from tallyveil.postprocess.other_releases.kept import TakenOver, read_kept
from tallyveil.postprocess.other_releases.residents import RESIDENTS
from tallyveil.runs.folder_state import PLAN
from tallyveil.runs.product import Run
from tallyveil.schema.schema import Schema
from tallyveil.storage.write import write_json

NOTHING: Final = TakenOver()
PUBLIC_CHECK = "the geography and the constraints are read back as they were written"


def write_public_inputs(
    run: Run,
    plan: Mapping[str, Any],
    hierarchies: Hierarchies,
    constraints: Sequence[ConstraintTable],
    taken_over: TakenOver = NOTHING,
) -> None:
    """Write the files that are needed, together with the measurements, to estimate the counts.

    Args:
        run: The run.
        plan: Content of `plan.json`.
        hierarchies: The spine and the areas off the spine.
        constraints: The plan's invariants, then its bounds, each in the order of the plan. Further ones are ignored.
        taken_over: What is taken over from finished releases.
    Raises:
        StoreError: a file cannot be written.
    """
    root, tags = run.path, run.tags

    def write() -> None:
        write_json(root / PLAN, plan)
        write_geography(root, hierarchies, tags)
        for item, table in zip(stated_constraints(plan, hierarchies), constraints, strict=False):
            item.write(root, table, tags)
        taken_over.write(root, hierarchies.spine, tags)

    # All places are named, also those that this plan leaves empty, so that files of an earlier attempt go.
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
    spine = hierarchies.spine
    # With outer passes, agreements fix groups of the first pass and are not constraints of families.
    agreed = () if "outer" in plan else read_kept(root, plan, schema, spine).agreed
    # The order is part of the interface: `write_public_inputs` and the drawn counts rely on it.
    return (
        *(item.read(root, schema, spine) for item in stated_constraints(plan, hierarchies)),
        *(counts.table() for counts in agreed),
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
    taken_over: TakenOver = NOTHING,
) -> str:
    """Read geography and constraints back and compare them with what was written.

    Returns:
        The name of the check, for the manifest.
    Raises:
        SolverError: the files differ from what was written; the folder must not be published.
        StoreError: a file is missing or damaged.
    """
    hierarchies = read_hierarchies(root)
    same = hierarchies.spine.digest() == spine.digest()
    # Digests are compared, not files: what matters is that reading gives back what was compiled.
    read = [table.digest() for table in read_constraints(root, plan, schema, hierarchies)]
    same = same and read == [table.digest() for table in constraints]
    same = same and read_kept(root, plan, schema, hierarchies.spine).digests() == taken_over.digests()
    if not same:
        raise SolverError(
            f"final check failed: {PUBLIC_CHECK}. Nothing must be published; please report this.",
            code="check-failed",
        )
    return PUBLIC_CHECK
