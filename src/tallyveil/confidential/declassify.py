"""The only way in which true counts leave the wall without noise, for evaluation.

A product that declassifies counts of its own enters them here first.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from tallyveil.accounting.events import NonPrivateEvent
from tallyveil.accounting.ledger.file import Ledger
from tallyveil.confidential.histogram import aggregate_all
from tallyveil.confidential.records import RecordUnits, read_records, read_units
from tallyveil.geography.spine import Spine
from tallyveil.plans.inputs import Households
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.schema import Schema
from tallyveil.storage.read import PLAIN, TextForm


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
    numbers: Collection[str] = (),
    missing: Mapping[str, str] | None = None,
    form: TextForm = PLAIN,
    household: Households | None = None,
) -> tuple[PublicCounts, ...]:
    """Return the true counts of every geolevel, after recording this in the ledger.

    Args:
        path, geocode, count, columns, schema, spine, numbers, missing, form, household: As in `read_records`.
        ledger: Ledger of the release. A non-private event is written to it before anything is returned.
        reason: The reason in words, for the ledger.
    Privacy: none. Everything computed from the result must be marked as not private.
    """
    finest = read_records(
        path,
        geocode=geocode,
        count=count,
        columns=columns,
        schema=schema,
        spine=spine,
        numbers=numbers,
        missing=missing,
        form=form,
        household=household,
    )
    # The event is on disk before the counts are handed out: a process that is killed in between has shown nothing.
    enter_declassified(ledger, reason)
    return tuple(
        PublicCounts(level.geolevel, level.offsets, level.cells, level.counts)
        for level in aggregate_all(finest, spine)
    )


def declassify_units(
    path: Path,
    *,
    geocode: str,
    unit: str,
    columns: Mapping[str, str],
    schema: Schema,
    spine: Spine,
    ledger: Ledger,
    reason: str,
    numbers: Collection[str] = (),
    missing: Mapping[str, str] | None = None,
    form: TextForm = PLAIN,
) -> RecordUnits:
    """Return the unit of every record, such as its household, after recording this in the ledger.

    Args:
        path, geocode, unit, columns, schema, spine, numbers, missing, form: As in `read_units`.
        ledger: Ledger of the release. A non-private event is written to it before anything is returned.
        reason: The reason in words, for the ledger.
    Privacy: none. Everything computed from the result must be marked as not private.
    """
    units = read_units(
        path,
        geocode=geocode,
        unit=unit,
        columns=columns,
        schema=schema,
        spine=spine,
        numbers=numbers,
        missing=missing,
        form=form,
    )
    enter_declassified(ledger, reason)
    return units


def enter_declassified(ledger: Ledger, reason: str) -> None:
    """Write a non-private event into the ledger of a release: the door that all true counts leave by.

    Args:
        ledger: Ledger of the release.
        reason: The reason in words.
    """
    # The number of entries makes every declassification a line of its own; a ledger enters a token only once.
    token = f"{ledger.run} declassify {len(ledger.entries)}"
    ledger.declassify(NonPrivateEvent(reason), description="true counts declassified", token=token)
