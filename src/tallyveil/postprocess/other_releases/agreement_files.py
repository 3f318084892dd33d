"""The counts that a release keeps in agreement with another one, written so that its folder alone says all.

Layout: `agreement/00.parquet` holds the first agreement of the plan, and so on. Its columns are `geocode`, `answer` and
`count`, at the finest geolevel. Answers at coarser geolevels are sums. An answer without a row is 0.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from tallyveil.errors import StoreError
from tallyveil.files.columns import enum_column, read_located
from tallyveil.geography.spine import Spine
from tallyveil.postprocess.other_releases.agreement import AgreedCounts, agreement_name, summed_to_root
from tallyveil.schema.counts import PublicCounts, compress_rows, row_ranges
from tallyveil.schema.nested_queries import representative_cells
from tallyveil.schema.schema import Schema
from tallyveil.storage.paths import inside
from tallyveil.storage.write import write_parquet_chunks

AGREEMENT = "agreement"


def agreement_path(root: Path, number: int) -> Path:
    """File of the plan's agreement with this number, counted from 0."""
    return inside(root, AGREEMENT, f"{number:02d}.parquet")


def write_agreement(
    root: Path, number: int, agreed: AgreedCounts, spine: Spine, metadata: Mapping[str, str]
) -> None:
    """Write the counts above zero at the finest geolevel.

    Args:
        root: Release folder.
        number: Place of the agreement in the plan.
        agreed: The counts.
        spine: The hierarchy.
        metadata: Tags of the file.
    Raises:
        StoreError: the file cannot be written.
    Privacy: the counts were published by the other release.
    """
    finest, labels = agreed.counts[-1], agreed.query.labels()
    geocodes = spine.geocodes[spine.finest].text

    def frames() -> Iterator[pl.DataFrame]:
        for start, stop in row_ranges(finest.offsets):
            rows, cells, persons = finest.rows(start, stop)
            yield pl.DataFrame(
                {
                    "geocode": geocodes.gather(start + rows),
                    "answer": enum_column("answer", labels, agreed.query.answers_of(cells)),
                    "count": persons,
                }
            )

    tags = {**metadata, "query": agreed.query.name, "geolevel": finest.geolevel}
    write_parquet_chunks(agreement_path(root, number), frames(), tags)


def read_agreed_counts(
    root: Path, number: int, item: Mapping[str, Any], schema: Schema, spine: Spine
) -> AgreedCounts:
    """Published agreement counts at every geolevel.

    Args:
        root: Release folder.
        number: Place of the agreement in the plan.
        item: The entry of `plan.json`.
        schema: The universe.
        spine: The hierarchy.
    Raises:
        StoreError: the file is missing, unreadable, or of another geography.
    """
    path = agreement_path(root, number)
    if not path.is_file():
        raise StoreError(
            f"{path} does not exist, so the counts that this release agrees with are unknown. Restore the file from a "
            "copy.",
            code="measurements-missing",
        )
    query = schema.query(item["query"])
    rows, answers, frame = read_located(path, query, spine, spine.finest, ["count"], AGREEMENT)
    cells = representative_cells(query, answers)
    found = compress_rows(spine.n_geounits(spine.finest), rows, cells, frame["count"].to_numpy())
    finest = PublicCounts(spine.geolevels[-1], *found)
    return AgreedCounts(agreement_name(item["name"]), query, summed_to_root(finest, spine, schema.size))
