"""A disk too small for a release is refused before anything is spent."""

import shutil
from pathlib import Path

from tallyveil.errors import StoreError
from tallyveil.execution.plan import ReleasePlan
from tallyveil.geography.spine import Spine


def refuse_small_disk(plan: ReleasePlan, spine: Spine, out: Path) -> None:
    """Refuse a disk too small for the release before anything is spent.

    The estimate uses only the plan and the geography: about two bytes a noisy value, one a table row, and
    room for histograms and microdata of a usual population of forty people a finest geounit.
    """
    values = rows = 0
    table_answers = sum(plan.query(name).size for name in plan.tables)
    for level, geolevel in enumerate(spine.geolevels):
        n_geounits = spine.n_geounits(level)
        values += n_geounits * sum(plan.query(name).size for name in plan.strategy.queries(geolevel))
        rows += n_geounits * table_answers
    wanted = 2 * values + rows + 400 * spine.n_geounits(spine.finest) + (8 << 20)
    folder = next(parent for parent in (out, *out.absolute().parents) if parent.exists())
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise StoreError(
            f"the disk holding {folder} has {free >> 20} MiB free; this release wants about {wanted >> 20} MiB. "
            "Free some space, or choose another disk with --out. Nothing was spent.",
            code="disk-full",
        )
