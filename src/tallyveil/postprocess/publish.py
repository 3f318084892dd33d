"""Write the files that follow from the estimated counts: microdata, tables, and the sizes for the manifest."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.measurements.store import ANSWER_LABELS, write_answer_labels
from tallyveil.plans.estimating import EstimationPlan
from tallyveil.release.areas import tabulated
from tallyveil.release.data_package import DATA_PACKAGE, data_package
from tallyveil.release.histograms import MICRODATA, write_microdata
from tallyveil.release.manifest import TEST_KEY_WARNING
from tallyveil.release.tables import TABLES, table_size, write_table
from tallyveil.runs.product import Run
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import write_json
from tallyveil.universe.counts import PublicCounts

Stage = Callable[[str, str, int, Callable[[], Iterable[int]]], None]
"""A function that runs a named stage, which writes one folder and has a size, unless it is finished already."""


def publish(
    run: Run,
    plan: EstimationPlan,
    hierarchies: Hierarchies,
    counts: Sequence[PublicCounts],
    stage: Stage,
) -> None:
    """Write everything that follows from the counts.

    Args:
        run: The run.
        plan: What is published.
        hierarchies: Its spine and the areas off the spine.
        counts: Counts of every geolevel of the spine, root first.
        stage: Function that runs a stage once.
    """
    spine, root, tags = hierarchies.spine, run.path, run.tags
    if plan.microdata:
        stage(
            "microdata",
            MICRODATA,
            counts[-1].total,
            lambda: write_microdata(root, counts[-1], plan.schema, spine, tags),
        )
    tables = [plan.query(name) for name in plan.tables]
    published = tabulated(hierarchies, counts, plan.entities, plan.schema.size) if tables else ()
    rows = sum(table_size(level, group) for _, level in published for group in tables)
    stage(
        "tables",
        TABLES,
        rows,
        lambda: (
            n
            for own, level in published
            for group in tables
            for n in write_table(root, level, group, own, tags)
        ),
    )


def write_package(run: Run, plan: JsonObject) -> None:
    """Write `datapackage.json`, which describes all files that the run has written.

    Args:
        run: The run, with all its files.
        plan: Content of `plan.json`.
    """
    warnings = () if run.secrets.protected else (TEST_KEY_WARNING,)

    def write() -> None:
        content = data_package(run.path, plan, run.run_id, warnings, run.listed())
        write_json(run.path / DATA_PACKAGE, content)

    run.make([DATA_PACKAGE], write)


def write_labels(run: Run, plan: EstimationPlan, spine: Spine) -> None:
    """Write the labels of all answers that are measured at any geolevel, next to the measurements."""
    measured = {name for level in spine.geolevels for name in plan.strategy.queries(level)}
    groups = [plan.query(name) for name in sorted(measured)]
    run.make([ANSWER_LABELS], lambda: write_answer_labels(run.path, groups, run.tags))


def published_sizes(counts: Sequence[PublicCounts]) -> dict[str, Any]:
    """Sizes of the published files."""
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
