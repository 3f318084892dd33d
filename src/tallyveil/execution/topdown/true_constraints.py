"""Constraints of a release whose values are true counts: invariants, and the check of public bounds on the records."""

from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.confidential.invariants import check_bounds, invariant_values
from tallyveil.geography.spine import Spine
from tallyveil.plan.constraints import Invariant
from tallyveil.plan.release import ReleasePlan
from tallyveil.postprocess.constraints import (
    ConstraintTable,
    bounds_table,
    refuse_conflicts,
    summed_upward,
)
from tallyveil.postprocess.invariant_files import invariant_name


def compile_constraints(
    plan: ReleasePlan, spine: Spine, histograms: tuple[ConfidentialHistogram, ...]
) -> tuple[ConstraintTable, ...]:
    """Invariants and public bounds of a plan, summed upward to every coarser geolevel.

    Raises:
        ConstraintError: the bounds table does not fit the geography or the query, or the records break it.
    """
    invariants = [_invariant_table(plan, invariant, spine, histograms) for invariant in plan.invariants]
    bounds = [bounds_table(plan, item, spine) for item in plan.bounds]
    tables = (*invariants, *bounds)
    # Conflicts among what is public come first: they can be told in full.
    refuse_conflicts(tables, spine, plan.schema)
    for table in bounds:
        level = len(table.lower) - 1
        check_bounds(histograms[level], table.query, table.lower[level], table.upper[level], table.name)
    return tables


def _invariant_table(
    plan: ReleasePlan, invariant: Invariant, spine: Spine, histograms: tuple[ConfidentialHistogram, ...]
) -> ConstraintTable:
    query = plan.query(invariant.query)
    finest = max(spine.level_index(geolevel) for geolevel in invariant.geolevels)
    values = summed_upward(invariant_values(histograms[finest], query), finest, spine)
    return ConstraintTable(invariant_name(invariant.query), query, values, values)
