"""Checks before a release spends: the output folder must be usable, and the machine must be large enough."""

from collections.abc import Iterator
from pathlib import Path

from tallyveil.errors import StoreError
from tallyveil.files.intervals import INTERVALS
from tallyveil.files.tables import table_name
from tallyveil.geography.spine import Spine
from tallyveil.measurements.names import drawn_name
from tallyveil.plans.machine import machine_memory
from tallyveil.plans.release import ReleasePlan
from tallyveil.plans.resources import free_disk, predict, refuse_small_disk, sizes_of_spine
from tallyveil.runs.folder import FolderState, folder_state
from tallyveil.storage.outputs import refuse_inputs, refuse_output_inside
from tallyveil.storage.paths import refuse_long_paths
from tallyveil.storage.write import TEMPORARY_SUFFIX


def refuse_folder(plan: ReleasePlan, out: Path) -> None:
    """Refuse a release folder in which an input lies, which lies in the folder of a release that the plan agrees with,
    or whose path leaves no room for the files of the release.

    Raises:
        StoreError: the folder cannot be used for one of these reasons.
    """
    refuse_inputs(out, inputs_of(plan))
    for root in _other_releases(plan):
        refuse_output_inside(out, root)
    refuse_long_paths(out, _longest(plan), TEMPORARY_SUFFIX)


def inputs_of(plan: ReleasePlan) -> list[Path]:
    """Every file that a release reads, except the release file."""
    paths = [plan.records.path, plan.geography.path, *(item.path for item in plan.bounds)]
    paths += _other_releases(plan)
    geography = plan.geography
    paths += [path for path in (geography.names, geography.geometry) if path is not None]
    if plan.spine is not None:
        paths += [path for _, path in plan.spine.overlapping]
        paths += [] if plan.spine.entities is None else [plan.spine.entities]
    return paths


def _other_releases(plan: ReleasePlan) -> list[Path]:
    """Folders of the finished releases that a release agrees with, or whose counts of people limit its own."""
    paths = [item.path for item in plan.agreement] + [item.path for item in plan.residents]
    return [path for path in paths if path is not None]


def refuse_many_people(plan: ReleasePlan, spine: Spine, out: Path, people: int) -> None:
    """Refuse a release whose number of records makes it too large for the disk or the memory.

    A release that has begun is not refused.

    Args:
        plan: The release.
        spine: The spine.
        out: Folder of the release.
        people: Number of records. Confidential: no message contains it or a size that depends on it.
    Raises:
        StoreError: the disk or the memory of this machine is too small.
    Privacy: whoever runs the release learns one bit: whether the number of records is too large for this machine.
    """
    # A run that has begun may have spent. To refuse it now would lose what was paid for.
    if folder_state(out) is not FolderState.ABSENT:
        return
    # The usual number of records was compared with this machine before the records were opened, with a warning only.
    usual = predict(plan, sizes_of_spine(spine))
    refuse_small_disk(usual, out)
    wanted = predict(plan, sizes_of_spine(spine, people))
    if wanted.disk > free_disk(out):
        raise StoreError(
            f"the disk on which {out} would be written has too little free space for a release of this many records. "
            "Free some space, choose another disk with --out, or leave microdata out. Nothing was spent.",
            code="disk-full",
        )
    # So this refuses only what the number of records adds: one bit, and no size, which would tell the number.
    if wanted.memory > max(machine_memory(), usual.memory):
        raise StoreError(
            "this process may use too little memory for a release of this many records. Use a machine with more "
            "memory, raise its limit, or release parts of the population one by one. Nothing was spent.",
            code="memory-small",
        )


def _longest(plan: ReleasePlan) -> Iterator[str]:
    """The files of a release with the longest relative paths: of its intervals, and of its measurements."""
    spine = plan.spine
    families = () if spine is None else (*spine.families, *(name for name, _ in spine.overlapping))
    queries = {*plan.tables, *(name for level in plan.geolevels for name in plan.strategy.queries(level))}
    # A few candidates instead of all files: the longest name is of an area and a query that are both in these lists.
    for area in (*plan.geography.geolevels, *plan.geolevels, *families):
        for query in queries:
            yield f"{table_name(area, query, INTERVALS + TEMPORARY_SUFFIX)}/part-00000.parquet"
            yield drawn_name(area, query)
