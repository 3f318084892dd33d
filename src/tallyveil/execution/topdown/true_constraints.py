"""Constraints of a release whose values are true counts: invariants, and the check of public bounds on the records."""

from collections.abc import Sequence

from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.confidential.invariants import check_bounds, invariant_values
from tallyveil.geography.areas import Hierarchies
from tallyveil.plans.constraints import Invariant
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.constraints.conflicts import refuse_conflicts
from tallyveil.postprocess.constraints.constraint_files import invariant_name, stated_invariant
from tallyveil.postprocess.constraints.geolevels import ConstraintTable, constraint_table
from tallyveil.postprocess.other_releases.agreement import AgreedCounts
from tallyveil.universe.limits import narrow_limits


def compile_constraints(
    plan: ReleasePlan,
    hierarchies: Hierarchies,
    histograms: tuple[ConfidentialHistogram, ...],
    bounds: Sequence[ConstraintTable],
    agreed: Sequence[AgreedCounts] = (),
) -> tuple[ConstraintTable, ...]:
    """Invariants and public bounds of a plan, summed upward to every coarser geolevel.

    Args:
        plan: The release.
        hierarchies: Its spine.
        histograms: True counts of every geolevel.
        bounds: Its public bounds, as they were read.
        agreed: Counts of finished releases that are kept. Without outer passes they are tables like the others, after
            the bounds; outer passes have them apart, because they have too many answers for a table.
    Raises:
        ConstraintError: constraints contradict each other, or the records break the bounds.
    """
    invariants = [_invariant_table(plan, invariant, hierarchies, histograms) for invariant in plan.invariants]
    kept = () if plan.outer else (one.table() for one in agreed)
    tables = (*invariants, *bounds, *kept)
    # Conflicts among what is public come first: they can be told in full.
    refuse_conflicts(tables, hierarchies.spine, plan.schema)
    for table in bounds:
        level = len(table.lower) - 1
        limits = table.lower[level], table.upper[level]
        check_bounds(histograms[level], table.query, *limits, table.name, table.groups)
    return tables


def _invariant_table(
    plan: ReleasePlan,
    invariant: Invariant,
    hierarchies: Hierarchies,
    histograms: tuple[ConfidentialHistogram, ...],
) -> ConstraintTable:
    query = plan.query(invariant.query)
    stated = stated_invariant(hierarchies, invariant.query, invariant.geolevels)
    values = narrow_limits(invariant_values(histograms[stated.level], query, stated.groups))
    return constraint_table(
        invariant_name(invariant.query), query, (values, values), stated, hierarchies.spine
    )
