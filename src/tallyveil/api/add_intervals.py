"""Put estimates and intervals beside the counts of a finished release."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.api.given import (
    flag_given,
    names_given,
    number_given,
    observer_given,
    path_given,
    where_given,
    workers_given,
)
from tallyveil.errors import ConfigError

if TYPE_CHECKING:
    from tallyveil.postprocess.intervals.job import IntervalsOutcome
    from tallyveil.runs.executors import Where
    from tallyveil.runs.observer import Observer


def add_intervals(
    release: Path,
    *,
    queries: Sequence[str] | None = None,
    entities: str | Path | None = None,
    families: Sequence[str] | None = None,
    level: float = 0.95,
    simultaneous: bool = False,
    with_bounds: bool = True,
    in_tables: bool = True,
    workers: int | None = None,
    cluster: "Where" = None,
    observer: "Observer | None" = None,
) -> "IntervalsOutcome":
    """Write `intervals/` into the folder of a release, add columns to its tables, and write its page again.

    Args:
        release: Folder of a finished release, with all its measurements.
        queries: Queries, measured or not; None for those of the release's tables.
        entities: Public table with a column `geocode` of finest geocodes and a column for each family of entities.
        families: Columns of `entities` to read; None for every other text column.
        level: Coverage of each interval.
        simultaneous: Whether all intervals of a table together have that coverage.
        with_bounds: Whether the zeros of the release's public bounds are used.
        in_tables: Whether the tables of the release get the same columns.
        workers: Number of threads; None for one per core.
        cluster: As for `run`; None for threads of this machine.
        observer: Is told of progress.
    Raises:
        ConfigError: queries or families are no lists of names, families are named without a table of entities, or the
            level or the number of threads is out of range.
        StoreError: the release is not finished, does not hold all its measurements, or cannot be written to.
        SchemaError, GeographyError, ConstraintError: queries, entities or zeros do not fit the release.
    Privacy: post-processing. It reads published files alone and spends nothing.
    """
    from tallyveil.postprocess.intervals.areas import read_entity_table
    from tallyveil.postprocess.intervals.job import make_intervals
    from tallyveil.products.topdown.page.release import write_report
    from tallyveil.runs.executors import executors_of
    from tallyveil.storage.claims import is_unfinished

    level, workers = number_given(level, "level"), workers_given(workers)
    queries, families = names_given(queries, "queries"), names_given(families, "families")
    simultaneous, told = flag_given(simultaneous, "simultaneous"), observer_given(observer)
    if families is not None and entities is None:
        raise ConfigError(
            "families names columns of a table of entities, which is not given. Give entities as well.",
            code="bad-argument",
        )
    table = None if entities is None else read_entity_table(path_given(entities, "entities"), families)
    # If the report cannot be made, this fails before anything else is written into the release.
    if not is_unfinished(release):
        write_report(release)
    outcome = make_intervals(
        release,
        tables=queries,
        entities=table,
        families=families,
        level=level,
        simultaneous=simultaneous,
        with_bounds=with_bounds,
        in_tables=in_tables,
        observer=told,
        workers=workers,
        executors=executors_of(where_given(cluster), None, workers, release),
    )
    write_report(release)
    return outcome
