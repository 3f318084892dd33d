"""The one door through which true counts leave the wall without noise, for evaluation."""

from collections.abc import Mapping
from pathlib import Path

from tallyveil.accounting.events import NonPrivateEvent
from tallyveil.accounting.ledger import Ledger
from tallyveil.confidential.histogram import aggregate_all
from tallyveil.confidential.records import read_records
from tallyveil.geography.spine import Spine
from tallyveil.universe.counts import PublicCounts
from tallyveil.universe.schema import Schema


def declassify_truth(
    path: Path,
    *,
    geocode: str,
    count: str | None,
    columns: Mapping[str, str],
    schema: Schema,
    spine: Spine,
    ledger: Ledger,
    reason: str,
) -> tuple[PublicCounts, ...]:
    """Hand out the true counts of every geolevel, after writing so into the ledger.

    Args:
        path, geocode, count, columns, schema, spine: As in `read_records`.
        ledger: Ledger of the release; receives a non-private event before anything is returned.
        reason: Why, in words; stands in the ledger.
    Privacy: none. Whatever is computed from the result must be marked as not private.
    """
    finest = read_records(path, geocode=geocode, count=count, columns=columns, schema=schema, spine=spine)
    token = f"{ledger.run} declassify {len(ledger.entries)}"
    ledger.declassify(NonPrivateEvent(reason), description="true counts declassified", token=token)
    return tuple(
        PublicCounts(level.geolevel, level.offsets, level.cells, level.counts)
        for level in aggregate_all(finest, spine)
    )
