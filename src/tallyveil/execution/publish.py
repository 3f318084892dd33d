"""What a run writes once all counts are there: microdata, tables, and the manifest's sizes."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tallyveil.execution.plan import ReleasePlan
from tallyveil.geography.areas import Hierarchies
from tallyveil.measurements.store import write_answer_labels
from tallyveil.release.areas import tabulated
from tallyveil.release.histograms import write_microdata
from tallyveil.release.tables import table_size, write_table
from tallyveil.universe.counts import PublicCounts

Stage = Callable[[str, int, Callable[[], Iterable[int]]], None]
"""Does the work of a named stage of some size, unless it is done already."""


def publish(
    root: Path,
    plan: ReleasePlan,
    hierarchies: Hierarchies,
    counts: Sequence[PublicCounts],
    tags: dict[str, str],
    stage: Stage,
) -> None:
    """Write everything that follows from the counts.

    Args:
        root: Release folder.
        plan: The release.
        hierarchies: Its spine and the areas beside it.
        counts: Counts of every geolevel of the spine, root first.
        tags: Metadata of every file.
        stage: Runs a stage once.
    """
    spine = hierarchies.spine
    if plan.measurements != "none":
        measured = {name for level in spine.geolevels for name in plan.strategy.queries(level)}
        write_answer_labels(root, [plan.query(name) for name in sorted(measured)], tags)
    if plan.microdata:
        stage(
            "microdata",
            counts[-1].total,
            lambda: write_microdata(root, counts[-1], plan.schema, spine, tags),
        )
    groups = [plan.query(name) for name in plan.tables]
    published = tabulated(hierarchies, counts, plan.entities, plan.schema.size) if groups else ()
    rows = sum(table_size(level, group) for _, level in published for group in groups)
    stage(
        "tables",
        rows,
        lambda: (
            n
            for own, level in published
            for group in groups
            for n in write_table(root, level, group, own, tags)
        ),
    )


def published_sizes(counts: Sequence[PublicCounts]) -> dict[str, Any]:
    """Sizes of what is published."""
    return {
        "records": counts[-1].total,
        "geolevels": {
            level.geolevel: {
                "geounits": level.n_geounits,
                "empty_geounits": int((np.diff(level.offsets) == 0).sum()),
                "nonzero_cells": len(level.cells),
            }
            for level in counts
        },
    }
