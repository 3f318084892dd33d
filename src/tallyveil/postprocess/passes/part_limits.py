"""Limits of the total of a part in every finest geounit, from what is published or fixed before the pass."""

from collections.abc import Sequence

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.budget.outer_pass import OuterPass
from tallyveil.errors import ConstraintError
from tallyveil.estimation.agreeing_limits import alone_limits
from tallyveil.geography.spine import Spine
from tallyveil.plans.lifts import PartCells, possible_cells
from tallyveil.postprocess.agreement import AgreedCounts, agreement_name
from tallyveil.postprocess.passes.groups import FixedGroups, GroupCounts
from tallyveil.universe.schema import Schema


def cells_of_part(schema: Schema, one: OuterPass, groups: FixedGroups) -> PartCells:
    """The cells of a lift pass in each of its groups; raises ConfigError where they do not fit the groups."""
    possible = possible_cells(schema, schema.query(one.cells))
    return PartCells.of(one, schema.query(str(one.part)), possible, groups.groups_of(possible), groups.size)


def part_limits(
    schema: Schema, one: OuterPass, groups: FixedGroups, cells: PartCells, agreed: Sequence[AgreedCounts]
) -> tuple[Integers, Integers]:
    """Smallest and largest total of the part in every finest geounit.

    A total is that of the agreement. With company, each record of the part's groups that does not belong to the part
    needs one of the company, and all of the company must find a place (`alone_limits`).

    Args:
        schema: The universe.
        one: The pass.
        groups: What is fixed before it.
        cells: Its cells in each group.
        agreed: Counts of finished releases that are kept.
    """
    if one.company is None:
        total = _totals(one, agreed)
        return total, total
    finest, company = groups.levels[-1], schema.query(one.company)
    whole = _sums(finest, cells.part >= 0)
    others = _sums(finest, (cells.rest >= 0) & (company.answers_of(np.maximum(cells.rest, 0)) >= 0))
    lower, upper = alone_limits(whole + others, whole)
    # Where nobody is in the part's groups, published counts may still have people beside them.
    return np.where(whole > 0, lower, 0), np.where(whole > 0, upper, 0)


def refuse_large_totals(
    one: OuterPass, groups: FixedGroups, cells: PartCells, agreed: Sequence[AgreedCounts], spine: Spine
) -> None:
    """Refuse totals above the number of records that may belong to the part, in any finest geounit.

    If there is none, every family of the pass has a solution (docs/proofs/agreement.md).

    Raises:
        ConstraintError: there is one.
    """
    wrong = np.flatnonzero(_totals(one, agreed) > _sums(groups.levels[-1], cells.part >= 0))
    if len(wrong):
        raise ConstraintError(
            f"{spine.geolevels[-1]} '{spine.geocodes[spine.finest][int(wrong[0])]}': {agreement_name(str(one.total))} "
            f"has more records of '{one.part}' than the other exact counts allow; so it is in {len(wrong)} geounit(s). "
            "Make both releases so that they agree: the second one with bounds from the first. Nothing was spent.",
            code="constraints-conflict",
        )


def _totals(one: OuterPass, agreed: Sequence[AgreedCounts]) -> Integers:
    found = next(item for item in agreed if item.name == agreement_name(str(one.total)))
    finest = found.counts[-1]
    # All counts are of the part's one answer.
    sums = np.concatenate([[0], np.cumsum(finest.counts, dtype=np.int64)])
    total: Integers = sums[finest.offsets[1:]] - sums[finest.offsets[:-1]]
    return total


def _sums(counts: GroupCounts, wanted: np.ndarray) -> Integers:
    """Records of each geounit in the wanted groups."""
    rows = np.repeat(np.arange(len(counts.offsets) - 1), np.diff(counts.offsets))
    inside = wanted[counts.groups]
    found = np.zeros(len(counts.offsets) - 1, dtype=np.int64)
    np.add.at(found, rows[inside], counts.counts[inside].astype(np.int64))
    return found
