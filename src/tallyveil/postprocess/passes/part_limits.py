"""Limits of the total of a part in every finest geounit, from published counts or counts of earlier passes."""

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.budget.outer_pass import OuterPass
from tallyveil.errors import ConstraintError, SolverError
from tallyveil.estimation.agreeing_limits import alone_limits, occupied_limits
from tallyveil.geography.spine import Spine
from tallyveil.plans.estimating import EstimationPlan
from tallyveil.plans.lifts import PartCells, possible_cells
from tallyveil.plans.outer import sources_of_groups
from tallyveil.postprocess.agreement import agreement_name
from tallyveil.postprocess.kept import Kept
from tallyveil.postprocess.passes.groups import FixedGroups, GroupCounts, groups_of_earlier_pass
from tallyveil.postprocess.residents import ResidentCounts, residents_name
from tallyveil.universe.counts import PublicCounts, sums_between
from tallyveil.universe.schema import Schema


def cells_of_part(schema: Schema, one: OuterPass, groups: FixedGroups) -> PartCells:
    """The cells of a lift pass in each of its groups; raises ConfigError where they do not fit the groups."""
    possible = possible_cells(schema, schema.query(one.cells))
    return PartCells.of(one, schema.query(str(one.part)), possible, groups.groups_of(possible), groups.size)


def part_limits(
    schema: Schema, one: OuterPass, groups: FixedGroups, cells: PartCells, kept: Kept
) -> tuple[Integers, Integers]:
    """Smallest and largest total of the part in every finest geounit.

    - With `total`, both limits are the count of the agreement.
    - With `residents`, the limits are those of `occupied_limits`.
    - With `company`, each record of the part's groups that does not belong to the part needs one of the company, and
      every record of the company must have such a record (`alone_limits`).
    - With `at_most`, the part has at most as many records as the query that this key names.

    Args:
        schema: The universe.
        one: The pass.
        groups: What is fixed before it.
        cells: Its cells in each group.
        kept: What is taken over from finished releases.
    """
    finest = groups.levels[-1]
    whole = _sums(finest, cells.part >= 0)
    if one.total is not None:
        total = _totals(one, kept)
        return total, total
    if one.residents is not None:
        residents = residents_of(one, kept)
        return occupied_limits(residents.people, residents.adults, whole)
    beside = schema.query(str(one.company or one.at_most))
    others = _sums(finest, (cells.rest >= 0) & (beside.answers_of(np.maximum(cells.rest, 0)) >= 0))
    if one.at_most is not None:
        return np.zeros_like(whole), np.minimum(whole, others)
    lower, upper = alone_limits(whole + others, whole)
    # Where nobody is in the part's groups, published counts may still have people beside them.
    return np.where(whole > 0, lower, 0), np.where(whole > 0, upper, 0)


def residents_of(one: OuterPass, kept: Kept) -> ResidentCounts:
    """The residents that a pass names."""
    return next(item for item in kept.residents if item.name == one.residents)


def refuse_totals(one: OuterPass, groups: FixedGroups, cells: PartCells, kept: Kept, spine: Spine) -> None:
    """Refuse totals above the number of records that may belong to the part, and residents where no record may.

    If no finest geounit is refused, every family of the pass has a solution (docs/proofs/agreement.md).

    Raises:
        ConstraintError: a finest geounit is refused.
    """
    room = _sums(groups.levels[-1], cells.part >= 0)
    if one.residents is not None:
        wrong = np.flatnonzero((residents_of(one, kept).people > 0) & (room == 0))
        if len(wrong):
            raise ConstraintError(
                f"{_place(spine, wrong)}: {residents_name(one.residents)} has people there, and no record can belong "
                "to "
                f"'{one.part}'. {len(wrong)} geounit(s) have such people. Publish the people with an upper bound of 0 "
                "where "
                "there are no units. Nothing was spent.",
                code="people-without-units",
            )
        return
    wrong = np.flatnonzero(_totals(one, kept) > room)
    if len(wrong):
        raise ConstraintError(
            f"{_place(spine, wrong)}: {agreement_name(str(one.total))} has more records of '{one.part}' than the other "
            f"exact counts allow. {len(wrong)} geounit(s) have too many. Make the two releases that fix these counts "
            "so "
            "that they agree: give the later one bounds from the earlier one. Nothing was spent.",
            code="constraints-conflict",
        )


def check_parts(plan: EstimationPlan, groups: FixedGroups, kept: Kept, finest: PublicCounts) -> list[str]:
    """Hold published counts to the limits of every lift pass.

    Args:
        plan: The release.
        groups: The groups of the first pass.
        kept: What is taken over from finished releases.
        finest: Published counts of the finest geolevel.
    Returns:
        The names of the checks; all have passed.
    Raises:
        SolverError: the counts break a limit; the release must not be published.
    """
    names = []
    cells = [plan.query(one.cells) for one in plan.outer]
    sources = sources_of_groups(cells)
    for number, one in enumerate(plan.outer):
        if one.part is None:
            continue
        if number:
            groups = groups_of_earlier_pass(cells[number], cells[sources[number]], [finest])
        parts = cells_of_part(plan.schema, one, groups)
        lower, upper = part_limits(plan.schema, one, groups, parts, kept)
        belongs = plan.query(one.part).answers_of(finest.cells) >= 0
        found = sums_between(finest.offsets, np.where(belongs, finest.counts, 0))
        (limit,) = one.limits.items()
        name = f"'{one.part}' keeps its limits ({' '.join(limit)}) in every {finest.geolevel}"
        if not bool(((lower <= found) & (found <= upper)).all()):
            raise SolverError(
                f"final check failed: {name}. Nothing must be published; please report this.",
                code="check-failed",
            )
        names.append(name)
    return names


def _place(spine: Spine, wrong: Integers) -> str:
    return f"{spine.geolevels[-1]} '{spine.geocodes[spine.finest][int(wrong[0])]}'"


def _totals(one: OuterPass, kept: Kept) -> Integers:
    found = next(item for item in kept.agreed if item.name == agreement_name(str(one.total)))
    finest = found.counts[-1]
    return sums_between(finest.offsets, finest.counts)  # all are of the part's one answer


def _sums(counts: GroupCounts, wanted: np.ndarray) -> Integers:
    """Records of each geounit in the wanted groups."""
    return sums_between(counts.offsets, np.where(wanted[counts.groups], counts.counts, 0))
