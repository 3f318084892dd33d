"""Residents of a release that is not made yet: do its bounds promise that nobody lives where there are no units?"""

from collections.abc import Sequence

import numpy as np

from tallyveil.arrays import Bools, Integers
from tallyveil.geography.spine import Spine
from tallyveil.plans.constraints import Residents
from tallyveil.plans.estimating import EstimationPlan
from tallyveil.postprocess.constraints.geolevels import GEOUNITS_AT_ONCE, ConstraintTable
from tallyveil.postprocess.other_releases.agreement import AgreedCounts
from tallyveil.postprocess.other_releases.residents import resident_levels
from tallyveil.postprocess.passes.exact_groups import covering_counts
from tallyveil.schema.schema import Schema


def geounits_without_part(
    plan: EstimationPlan,
    constraints: Sequence[ConstraintTable],
    agreed: Sequence[AgreedCounts],
    spine: Spine,
) -> Bools:
    """The finest geounits in which no record can belong to the part of the first pass.

    Args:
        plan: The release, whose first pass is a lift pass.
        constraints: Its invariants and bounds.
        agreed: Counts of finished releases that it keeps.
        spine: Its spine.
    Raises:
        ConstraintError: the exact counts do not count every record once.
    """
    records, _, chosen = covering_counts(plan, constraints, agreed, spine)
    inside = plan.query(str(plan.outer[0].part)).answers_of(records.cells) >= 0
    # True until counts show that a record of the part may be there.
    promised = np.ones(spine.n_geounits(spine.finest), dtype=np.bool_)
    for counts in chosen:
        finest = counts.counts[-1]
        answers = counts.query.answers_of(records.cells[inside])
        counted = np.isin(counts.query.answers_of(finest.cells), answers[answers >= 0]) & (finest.counts > 0)
        promised[np.repeat(np.arange(finest.n_geounits), np.diff(finest.offsets))[counted]] = False
    return promised


def geounits_without_people(
    item: Residents, schema: Schema, constraints: Sequence[ConstraintTable], spine: Spine
) -> Bools:
    """The finest geounits in which constraints of a release bar all people who live in units.

    Args:
        item: Who these people are.
        schema: The universe of the release.
        constraints: Its invariants and bounds.
        spine: Its spine.
    Raises:
        SchemaError: the schema has no such attribute or level.
    """
    cells = _cells_of(resident_levels(item, schema)[0], schema)
    promised = np.zeros(spine.n_geounits(spine.finest), dtype=np.bool_)
    for table in constraints:
        answers = table.query.answers_of(cells)
        # Bounds must reach the finest geounits and cover all these people, or they promise nothing.
        if table.of_geounits < spine.finest or bool((answers < 0).any()):
            continue
        wanted = np.unique(answers)
        for start in range(0, len(promised), GEOUNITS_AT_ONCE):
            _, upper = table.bounds_of(spine.finest, start, start + GEOUNITS_AT_ONCE)
            # An upper bound of 0 on every answer with such people promises that there are none.
            promised[start : start + len(upper)] |= (upper[:, wanted] == 0).all(axis=1)
    return promised


def _cells_of(levels: Sequence[Bools], schema: Schema) -> Integers:
    """All cells with allowed levels."""
    codes = np.meshgrid(*(np.flatnonzero(allowed) for allowed in levels), indexing="ij")
    return schema.encode(np.stack([code.reshape(-1) for code in codes], axis=1))
