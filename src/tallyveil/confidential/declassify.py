"""The only way in which true counts leave the wall without noise, for evaluation.

What is read is withheld until then, so that a job can read all of its files before the ledger says anything: a file
that is refused has shown nothing. A product that declassifies counts of its own enters them here first.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from tallyveil.accounting.events import NonPrivateEvent
from tallyveil.accounting.ledger.file import Ledger
from tallyveil.confidential.histogram import ConfidentialHistogram, aggregate_all, invariant_values
from tallyveil.confidential.records import RecordUnits, read_records, read_units
from tallyveil.errors import ConstraintError, SchemaError
from tallyveil.files.checks import Bounded
from tallyveil.geography.spine import Spine
from tallyveil.plans.inputs import Households
from tallyveil.schema.counts import PublicCounts, widen_limits
from tallyveil.schema.schema import Schema
from tallyveil.storage.read import PLAIN, TextForm

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, eq=False)
class Withheld(Generic[Value]):
    """True values that were read, and are handed out once the ledger says so.

    Attributes:
        reason: The reason in words, for the ledger.
    Privacy: confidential until `declassified`.
    """

    _value: Value = field(repr=False)
    reason: str

    def declassified(self, ledger: Ledger) -> Value:
        """The values, after a non-private event is written to the ledger of the release.

        Privacy: none. Everything computed from the result must be marked as not private.
        """
        # The event is on disk before the values are handed out: a process that is killed in between has shown nothing.
        enter_declassified(ledger, self.reason)
        return self._value


def read_truth(
    path: Path,
    *,
    geocode: str,
    count: str | None,
    columns: Mapping[str, str],
    schema: Schema,
    spine: Spine,
    reason: str,
    numbers: Collection[str] = (),
    missing: Mapping[str, str] | None = None,
    form: TextForm = PLAIN,
    household: Households | None = None,
    exact: Sequence[Bounded] = (),
) -> Withheld[tuple[PublicCounts, ...]]:
    """The true counts of every geolevel.

    Args:
        path, geocode, count, columns, schema, spine, numbers, missing, form, household: As in `read_records`.
        reason: The reason in words, for the ledger.
        exact: Invariants of the release that the counts are compared with, each with its published answers.
    Raises:
        SchemaError, GeographyError, ConfigError, StoreError: as in `read_records`; or the table has no record.
        ConstraintError: the records have other exact answers than the release, so that they are not its own. The
            message names queries and geolevels.
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
    if finest.total == 0:
        raise SchemaError(
            f"the records {path} have no record that counts, so that nothing can be compared with them. Give the file "
            "of the true records. Nothing was entered into the ledger.",
            code="no-records",
        )
    levels = aggregate_all(finest, spine)
    _require_published(levels, exact, path)
    counts = tuple(PublicCounts(level.geolevel, level.offsets, level.cells, level.counts) for level in levels)
    return Withheld(counts, reason)


def _require_published(levels: Sequence[ConfidentialHistogram], exact: Sequence[Bounded], path: Path) -> None:
    """Refuse records whose exact answers are not those that a release published; raises ConstraintError."""
    # At the finest geolevel of each invariant: what holds there holds for all sums of it.
    other = [
        f"'{item.query.name}' at {item.stated or levels[item.last_level].geolevel}"
        for item in exact
        if not np.array_equal(
            invariant_values(levels[item.last_level], item.query, item.groups), widen_limits(item.lower[-1])
        )
    ]
    if other:
        raise ConstraintError(
            f"the records {path} are not those that the release was made from: they have other answers where it "
            f"published exact ones ({', '.join(other)}). Give the records of this release, and not those of another "
            "year or place. Nothing was entered into the ledger.",
            code="truth-contradicts",
        )


def read_truth_of_units(
    path: Path,
    *,
    geocode: str,
    unit: str,
    columns: Mapping[str, str],
    schema: Schema,
    spine: Spine,
    reason: str,
    numbers: Collection[str] = (),
    missing: Mapping[str, str] | None = None,
    form: TextForm = PLAIN,
) -> Withheld[RecordUnits]:
    """The unit of every record, such as its household.

    Args:
        path, geocode, unit, columns, schema, spine, numbers, missing, form: As in `read_units`.
        reason: The reason in words, for the ledger.
    Raises:
        SchemaError, GeographyError, ConfigError, StoreError: as in `read_units`.
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
    return Withheld(units, reason)


def enter_declassified(ledger: Ledger, reason: str) -> None:
    """Write a non-private event into the ledger of a release: the door that all true counts leave by.

    Args:
        ledger: Ledger of the release.
        reason: The reason in words.
    """
    # The number of entries makes every declassification a line of its own; a ledger enters a token only once.
    token = f"{ledger.run} declassify {len(ledger.entries)}"
    ledger.declassify(NonPrivateEvent(reason), description="true counts declassified", token=token)
