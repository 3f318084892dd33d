"""A disk too small for a release is refused before anything is spent."""

import shutil
from pathlib import Path

from tallyveil.errors import StoreError
from tallyveil.geography.spine import Spine
from tallyveil.plan.release import ReleasePlan
from tallyveil.plan.resources import predict, sizes_of_spine


def refuse_small_disk(plan: ReleasePlan, spine: Spine, out: Path) -> None:
    """Refuse a disk too small for the release before anything is spent.

    The estimate uses only the plan and the geography, with a usual population of forty people a finest geounit.

    Raises:
        StoreError: less is free than the release is expected to take.
    """
    wanted = predict(plan, sizes_of_spine(spine)).disk
    free = free_disk(out)
    if free < wanted:
        raise StoreError(
            f"the disk that is to hold {out} has {free >> 20} MiB free; this release wants about {wanted >> 20} MiB. "
            "Free some space, or choose another disk with --out. Nothing was spent.",
            code="disk-full",
        )


def free_disk(out: Path) -> int:
    """Bytes free where a folder is, or will be."""
    folder = next(parent for parent in (out, *out.absolute().parents) if parent.exists())
    return shutil.disk_usage(folder).free
