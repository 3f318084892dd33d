"""Opening the inputs of a plan: the public geography first, then the records behind the wall."""

from tallyveil.confidential.histogram import ConfidentialHistogram, aggregate_all
from tallyveil.confidential.records import read_records
from tallyveil.execution.plan import GeographyInput, ReleasePlan
from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.spine import Spine
from tallyveil.storage.read import collect, require_text, scan_table


def read_spine(geography: GeographyInput) -> Spine:
    """The hierarchy described by a plan's geography table.

    Raises:
        GeographyError: the table is no tree, or repeats or lacks geocodes.
        StoreError, ConfigError: the file or a column is missing or unreadable.
    """
    columns = [*(geography.parent_columns or ()), geography.geocode]
    frame = scan_table(geography.path, columns, "geography")
    for column in dict.fromkeys(columns):
        require_text(frame, column, geography.path, "geography")
    table = collect(frame, geography.path, "geography")
    if geography.prefix_lengths is not None:
        return spine_from_prefixes(table[geography.geocode], geography.geolevels, geography.prefix_lengths)
    by_level = dict(zip(geography.geolevels, columns, strict=True))
    return spine_from_columns(
        {level: table[column] for level, column in by_level.items()}, geography.geolevels
    )


def read_histograms(plan: ReleasePlan, spine: Spine) -> tuple[ConfidentialHistogram, ...]:
    """True counts of every geolevel, root first; raises as `read_records` does. Confidential."""
    records = plan.records
    finest = read_records(
        records.path,
        geocode=records.geocode,
        count=records.count,
        columns=dict(records.columns),
        schema=plan.schema,
        spine=spine,
    )
    return aggregate_all(finest, spine)
