"""The last look before a release is finished: the written files are read back and held to every promise."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tallyveil.errors import SolverError
from tallyveil.geography.spine import Spine
from tallyveil.release.histograms import MICRODATA, cells_of, read_histogram
from tallyveil.release.tables import table_folder
from tallyveil.universe.counts import Int64Array, PublicCounts, compress_rows
from tallyveil.universe.query_group import QueryGroup
from tallyveil.universe.schema import Schema

Bounded = tuple[str, QueryGroup, Sequence[Int64Array], Sequence[Int64Array]]


def check_release(
    root: Path,
    schema: Schema,
    spine: Spine,
    tables: Iterable[str],
    constraints: Iterable[Bounded],
    *,
    microdata: bool,
) -> list[dict[str, Any]]:
    """Read the published files back and verify them.

    Args:
        root: Release folder.
        schema: The universe.
        spine: The hierarchy.
        tables: Names of the published queries.
        constraints: (name, query, lower by geolevel, upper by geolevel) of every invariant and bound.
        microdata: Whether there are microdata to check.
    Returns:
        One record a check: its name and `passed`, always True.
    Raises:
        SolverError: a check failed; the release must not be published.
    """
    counts = [read_histogram(root, geolevel, schema, spine) for geolevel in spine.geolevels]
    done = [
        _check("no count is negative", all(bool((level.counts >= 0).all()) for level in counts)),
        _check(
            "no structural zero is filled", all(bool(schema.possible(level.cells).all()) for level in counts)
        ),
    ]
    for level in range(len(counts) - 1):
        name = f"every {spine.geolevels[level]} is the sum of its {spine.geolevels[level + 1]} geounits in every cell"
        done.append(_check(name, _adds_up(counts[level], counts[level + 1], spine, level)))
    for name, query, lower, upper in constraints:
        held = all(
            _within(level, query, low, high) for level, low, high in zip(counts, lower, upper, strict=False)
        )
        done.append(_check(f"{name} holds at {', '.join(spine.geolevels[: len(lower)])}", held))
    if microdata:
        held = _same(root, counts[-1], schema, spine)
        done.append(_check("microdata hold exactly the persons of the finest counts", held))
    for name in tables:
        held = all(_table_agrees(root, level, schema.query(name), spine) for level in counts)
        done.append(_check(f"table {name} agrees with the counts", held))
    return done


def _check(name: str, passed: bool) -> dict[str, Any]:
    if not passed:
        raise SolverError(
            f"final check failed: {name}. The release must not be published; keep the folder and report this.",
            code="check-failed",
        )
    return {"check": name, "passed": True}


def _adds_up(parent: PublicCounts, child: PublicCounts, spine: Spine, level: int) -> bool:
    owners = spine.parents(level + 1)[child.geounits]
    offsets, cells, counts = compress_rows(parent.n_geounits, owners, child.cells, child.counts)
    return (
        np.array_equal(offsets, parent.offsets)
        and np.array_equal(cells, parent.cells)
        and np.array_equal(counts, parent.counts)
    )


def _within(level: PublicCounts, query: QueryGroup, lower: Int64Array, upper: Int64Array) -> bool:
    answers = query.apply(level.geounits, level.cells, level.counts, level.n_geounits)
    return bool((answers >= lower).all() and (answers <= upper).all())


def _same(root: Path, finest: PublicCounts, schema: Schema, spine: Spine) -> bool:
    level = spine.finest
    names = ["geocode", *(attribute.name for attribute in schema.attributes)]
    persons = pl.scan_parquet(root / MICRODATA / "part-*.parquet").group_by(names).len().collect()
    rows = spine.locate(level, persons["geocode"].to_numpy())
    counts = persons["len"].to_numpy().astype(np.int64)
    offsets, cells, sums = compress_rows(finest.n_geounits, rows, cells_of(persons, schema), counts)
    return (
        np.array_equal(offsets, finest.offsets)
        and np.array_equal(cells, finest.cells)
        and np.array_equal(sums, finest.counts)
    )


def _table_agrees(root: Path, level: PublicCounts, query: QueryGroup, spine: Spine) -> bool:
    parts = sorted(table_folder(root, level.geolevel, query.name).glob("part-*.parquet"))
    row = 0
    geocodes = spine.geocodes[spine.level_index(level.geolevel)]
    for part in parts:
        frame = pl.read_parquet(part, columns=["geocode", "count"])
        n_geounits = frame.height // query.size
        expected = query.apply(*level.rows(row, row + n_geounits), n_geounits)
        codes = frame["geocode"].to_numpy()[:: query.size]
        if not np.array_equal(codes, geocodes[row : row + n_geounits]):
            return False
        if not np.array_equal(frame["count"].to_numpy(), expected.ravel()):
            return False
        row += n_geounits
    return row == level.n_geounits
