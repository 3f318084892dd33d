"""Refuse a disk that is too small for a release, before anything is spent."""

import shutil
from pathlib import Path

from tallyveil.errors import StoreError
from tallyveil.geography.spine import Spine
from tallyveil.plans.release import ReleasePlan
from tallyveil.plans.resources import predict
from tallyveil.plans.sizes import sizes_of_spine


def refuse_small_disk(plan: ReleasePlan, spine: Spine, out: Path) -> None:
    """Refuse a disk that is too small for the release.

    The needed space is predicted from the plan and the geography alone, with forty people for each finest geounit.

    Raises:
        StoreError: the free space is less than the predicted size of the release.
    """
    # Predicted for the folder as it will be, with intervals and microdata if the plan asks for them.
    wanted = predict(plan, sizes_of_spine(spine)).disk
    free = free_disk(out)
    if free < wanted:
        raise StoreError(
            f"the disk on which {out} would be written has {free >> 20} MiB free, and this release needs about "
            f"{wanted >> 20} MiB. Free some space, or choose another disk with --out. Nothing was spent.",
            code="disk-full",
        )


def free_disk(out: Path) -> int:
    """Free bytes on the disk of a folder that exists or will be made."""
    # The folder need not exist; its nearest parent that does is on the same disk.
    folder = next(parent for parent in (out, *out.absolute().parents) if parent.exists())
    return shutil.disk_usage(folder).free
