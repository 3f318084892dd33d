"""Every row of a published table: one for each answer of each geounit or entity, whatever its files hold.

A table without intervals may leave counts of zero out; they are put back. A table that an earlier version gave
intervals may have left them out, too, and with them their estimates; then the same rows are read from `intervals/`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError, StoreError
from tallyveil.files.geography import GEOGRAPHY, read_hierarchies
from tallyveil.files.intervals import BESIDE, INTERVALS, unchanged_parts
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import require_unchanged
from tallyveil.files.tables import INCLUDED, ROWS_PER_PART, table_folder, table_name
from tallyveil.geography.geocodes import geocodes_of
from tallyveil.geography.spine import Spine
from tallyveil.schema.answer_columns import answer_expression, label_columns
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.paths import inside
from tallyveil.storage.published import published_columns, published_tags
from tallyveil.storage.read import collect, scan_parquet


def table_files(root: Path, manifest: Manifest, area: str, query: str) -> list[Path]:
    """The files of a table, in order, after a check that they are those that the manifest lists.

    Args:
        root: Release folder.
        manifest: Of the release.
        area: A geolevel, or a family of entities.
        query: Name of the query.
    Raises:
        ConfigError: the release has no such table.
        StoreError: a file is missing or was changed.
    """
    folder = table_name(area, query) + "/"
    # Sorted: the names of parts are numbers of equal width, so that this is the order of their rows.
    parts = [inside(root, *name.split("/")) for name in sorted(manifest.digests) if name.startswith(folder)]
    if not parts:
        raise ConfigError(
            f"{root} has no table of {query!r} for {area!r}. Name a geolevel or family, and a query, of the folder "
            "`tables`.",
            code="no-table",
        )
    for part in parts:
        require_unchanged(root, manifest, part)
    return parts


def whole_table(root: Path, manifest: Manifest, area: str, group: QueryGroup) -> Iterator[pl.DataFrame]:
    """All rows of a table, part by part, in order of area and answer.

    Args:
        root: Release folder.
        manifest: Of the release.
        area: A geolevel, or a family of entities.
        group: The query.
    Yields:
        Frames with the columns of the table.
    Raises:
        ConfigError: the release has no such table.
        StoreError: a file is missing or was changed; or the files leave out rows with estimates, and `intervals/` has
            others.
    """
    parts = table_files(root, manifest, area, group.name)
    tags = published_tags(parts[0])
    if tags.get("tallyveil.zeros") == INCLUDED:
        return _read(parts)
    if "tallyveil.level" in tags:
        return _read(_interval_files(root, area, group.name, tags))
    return _restored(root, manifest, parts, area, group)


def listed_rows(root: Path, manifest: Manifest, area: str, query: str) -> Iterator[pl.DataFrame]:
    """The rows of a table with a count above 0, part by part. Arguments and errors are those of `table_files`."""
    return (frame.filter(pl.col("count") > 0) for frame in _read(table_files(root, manifest, area, query)))


def _read(parts: Sequence[Path]) -> Iterator[pl.DataFrame]:
    for part in parts:
        yield collect(scan_parquet(part), part, "table")


def _interval_files(root: Path, area: str, query: str, tags: dict[str, str]) -> list[Path]:
    """The files of `intervals/` that hold all rows of a table with these tags."""
    parts = unchanged_parts(root, sorted(table_folder(root, area, query, INTERVALS).glob("part-*.parquet")))
    # Intervals of another level or kind of coverage would be other estimates than those of the table.
    about = ("tallyveil.level", "tallyveil.covers")
    if parts and all(published_tags(parts[0]).get(name) == tags.get(name) for name in about):
        return parts
    raise StoreError(
        f"the table of {query!r} for {area!r} in {root} has estimates, but an earlier version of Tallyveil left out "
        f"its rows with a published count of 0, and {INTERVALS}/ does not hold the same estimates for all rows. Sums "
        "of the estimates that are there would be too high. Make the intervals again with `tallyveil intervals`, which "
        "writes all rows and spends nothing. Or ask for the rows that are there: zeros=False in Python, and "
        "`tallyveil publish csv --no-zeros`.",
        code="intervals-missing",
    )


def _restored(
    root: Path, manifest: Manifest, parts: Sequence[Path], area: str, group: QueryGroup
) -> Iterator[pl.DataFrame]:
    """The rows of files that leave counts of zero out, with these counts."""
    # The areas come from this file: a changed one would bring wrong zeros for wrong areas.
    require_unchanged(root, manifest, root / GEOGRAPHY)
    codes = read_hierarchies(root).codes_of(area)
    areas = Spine((area,), (geocodes_of(codes, area),), ())
    beside = [name for name in BESIDE if name in published_columns(parts[0])]
    # So many areas that a frame is as large as a file of a table without zeros.
    step = max(1, ROWS_PER_PART // group.size)
    begin = 0
    for number, part in enumerate(parts):
        rows, answers, persons = _located(part, areas, group)
        # A part ends at its last listed area; areas after it have zeros only and come with the next part.
        end = len(codes) if number + 1 == len(parts) else int(rows.max(initial=begin - 1)) + 1
        # A negative answer would wrap around as an index, and count in the wrong row.
        if len(rows) and (rows.min() < begin or answers.min() < 0):
            raise StoreError(
                f"{part} has a row that is no answer of its query, or of an area that the release does not have or "
                "that an earlier part has. Restore the file from a copy of the release.",
                code="release-damaged",
            )
        for start in range(begin, end, step):
            here = np.arange(start, min(start + step, end))
            # Rows are in order of area, so the range of areas is one slice.
            rows_here = slice(*np.searchsorted(rows, [start, start + len(here)]))
            counts = np.zeros((len(here), group.size), dtype=np.int64)
            counts[rows[rows_here] - start, answers[rows_here]] = persons[rows_here]
            columns = [
                codes.gather(np.repeat(here, group.size)).alias("geocode"),
                *label_columns(group, np.tile(np.arange(group.size), len(here))),
                pl.Series("count", counts.ravel()),
            ]
            yield pl.DataFrame(columns).with_columns(
                pl.lit(None, dtype=BESIDE[name]).alias(name) for name in beside
            )
        begin = end


def _located(part: Path, areas: Spine, group: QueryGroup) -> tuple[Integers, Integers, Integers]:
    """Area, answer (-1: none) and count of every row of a file."""
    wanted = scan_parquet(part).select("geocode", answer_expression(group), "count")
    frame = collect(wanted, part, "table")
    answers = frame["answer"].fill_null(-1).to_numpy()
    return areas.locate(0, frame["geocode"]), answers, frame["count"].to_numpy()
