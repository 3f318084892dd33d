"""The exact answers of a release's invariants, written so that counts can be estimated from its folder alone.

Layout: `invariants/00.parquet` holds the first invariant of the plan, and so on. Its columns are `geocode`, `answer`
and `count`, at the finest geolevel of the invariant. Answers at coarser geolevels are sums. An answer without a row
is 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tallyveil.errors import StoreError
from tallyveil.files.columns import enum_column, read_located
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.stated import StatedGeounits, stated_geounits
from tallyveil.postprocess.constraints.geolevels import (
    GEOUNITS_AT_ONCE,
    ConstraintTable,
    constraint_table,
    filled,
)
from tallyveil.schema.schema import Schema
from tallyveil.storage.paths import inside
from tallyveil.storage.write import write_parquet_chunks

INVARIANTS = "invariants"


def invariant_name(query: str) -> str:
    """Name of an invariant's constraint in checks and errors."""
    return f"invariant {query}"


def stated_invariant(hierarchies: Hierarchies, query: str, geolevels: Sequence[str]) -> StatedGeounits:
    """Where an invariant's geounits are on the spine, at the finest of its geolevels; the others follow from it."""
    found = [stated_geounits(hierarchies, name, f"the invariant on '{query}'") for name in geolevels]
    return max(found, key=lambda stated: (stated.level, stated.n_geounits))


def invariant_path(root: Path, number: int) -> Path:
    """File of the plan's invariant with this number, counted from 0."""
    return inside(root, INVARIANTS, f"{number:02d}.parquet")


def write_invariant(
    root: Path, number: int, table: ConstraintTable, stated: StatedGeounits, metadata: Mapping[str, str]
) -> None:
    """Write the answers above zero at the finest geolevel of an invariant.

    Args:
        root: Release folder.
        number: Place of the invariant in the plan.
        table: The compiled invariant.
        stated: The geounits that it is stated for at its finest geolevel, see `stated_invariant`.
        metadata: Tags of the file.
    Raises:
        StoreError: the file cannot be written.
    Privacy: these are true counts, published because the plan declares them invariant; the ledger names them. The
        counts of the release agree with them, so a table of the same query holds the same numbers.
    """
    level = len(table.lower) - 1
    labels = table.query.labels()

    def frames() -> Iterator[pl.DataFrame]:
        for start in range(0, stated.n_geounits, GEOUNITS_AT_ONCE):
            exact, _ = table.bounds_of(level, start, start + GEOUNITS_AT_ONCE)
            rows, answers = np.nonzero(exact)
            yield pl.DataFrame(
                {
                    "geocode": stated.areas.geocodes[stated.place].text.gather(start + rows),
                    "answer": enum_column("answer", labels, answers),
                    "count": exact[rows, answers],
                }
            )

    tags = {**metadata, "query": table.query.name, "geolevel": stated.geolevel}
    write_parquet_chunks(invariant_path(root, number), frames(), tags)


def read_invariant(
    root: Path, number: int, invariant: Mapping[str, Any], schema: Schema, hierarchies: Hierarchies
) -> ConstraintTable:
    """Read a published invariant at every geolevel.

    Args:
        root: Release folder.
        number: Place of the invariant in the plan.
        invariant: The entry of `plan.json`.
        schema: The universe.
        hierarchies: The spine that is measured, and the areas beside it.
    Raises:
        StoreError: the file is missing, unreadable, or of another geography.
    """
    path = invariant_path(root, number)
    if not path.is_file():
        raise StoreError(
            f"{path} does not exist, so the exact answers that the counts must keep are unknown. Restore the file "
            "from a copy.",
            code="measurements-missing",
        )
    query = schema.query(invariant["query"])
    stated = stated_invariant(hierarchies, invariant["query"], invariant["geolevels"])
    rows, answers, frame = read_located(path, query, stated.areas, stated.place, ["count"], "invariant")
    exact = filled(stated.n_geounits, query, rows, answers, frame["count"].to_numpy(), 0)
    return constraint_table(invariant_name(query.name), query, (exact, exact), stated, hierarchies.spine)
