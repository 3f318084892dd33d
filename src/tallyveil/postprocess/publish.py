"""Write the files that follow from the estimated counts: microdata, tables, and the sizes for the manifest."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tallyveil.files.data_package import DATA_PACKAGE, data_package
from tallyveil.files.histograms import MICRODATA, n_record_pieces, tabulated, write_microdata
from tallyveil.files.marks import release_marks
from tallyveil.files.tables import TABLES, n_table_parts, table_size, write_table
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.measurements.store import ANSWER_LABELS, write_answer_labels
from tallyveil.plans.estimating import EstimationPlan
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.runs.executor import Chunks
from tallyveil.runs.product import Run
from tallyveil.schema.counts import PublicCounts
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.write import write_json

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
    folders = ChunkFolders(run.path, tags=run.tags)

    def done(chunks: Chunks[int], numbers: Sequence[int]) -> Iterator[int]:
        return (finished for _, finished in run.executor.completed(chunks, numbers))

    if plan.microdata:
        chunks, n_parts = microdata_chunks(folders, plan, hierarchies.spine, counts[-1])
        stage(MICRODATA, MICRODATA, counts[-1].total, lambda: done(chunks, range(n_parts)))
    tables, n_tables, rows = table_chunks(folders, plan, hierarchies, counts)
    stage(TABLES, TABLES, rows, lambda: done(tables, range(n_tables)))


def microdata_chunks(
    folders: ChunkFolders, plan: EstimationPlan, spine: Spine, finest: PublicCounts
) -> tuple[Chunks[int], int]:
    """The writing of microdata as chunks, one for each file, and their number."""

    def write(part: int) -> int:
        root, tags = folders.root(part), folders.tags
        return sum(write_microdata(root, finest, plan.schema, spine, tags, [part]))

    # Polars writes with all threads by itself; more parts at once would only need more memory.
    # Several threads of polars write a part, so one part at a time is enough.
    return folders.chunks({"work": MICRODATA}, int, write, is_threaded=True), n_record_pieces(finest)


def table_chunks(
    folders: ChunkFolders, plan: EstimationPlan, hierarchies: Hierarchies, counts: Sequence[PublicCounts]
) -> tuple[Chunks[int], int, int]:
    """The writing of tables as chunks, one for each file; their number, and the rows of all tables."""
    groups = [plan.query(name) for name in plan.tables]
    # Areas off the spine are sums over finest geounits, made once for all tables.
    published = tabulated(hierarchies, counts, plan.entities, plan.schema.size) if groups else ()
    files = [
        (area, level, group, part)
        for area, level in published
        for group in groups
        for part in range(n_table_parts(level, group))
    ]

    def write(number: int) -> int:
        area, level, group, part = files[number]
        return sum(write_table(folders.root(number), level, group, area, folders.tags, [part]))

    rows = sum(table_size(level, group) for _, level in published for group in groups)
    return folders.chunks({"work": TABLES}, int, write, is_threaded=True), len(files), rows


def write_package(run: Run, plan: JsonObject) -> None:
    """Write `datapackage.json`, which describes all files that the run has written.

    Args:
        run: The run, with all its files.
        plan: Content of `plan.json`.
    """
    warnings = release_marks(protected=run.secrets.protected)

    def write() -> None:
        content = data_package(run.path, plan, run.run_id, warnings, run.listed())
        write_json(run.path / DATA_PACKAGE, content)

    # Every process makes it again, because it lists the files that all stages have written.
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
