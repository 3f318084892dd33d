"""Limits of the total of a part, from published counts or counts of earlier passes."""

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.budget.outer_pass import OuterPass
from tallyveil.errors import ConstraintError, SolverError
from tallyveil.estimation.agreeing_limits import alone_limits, occupied_limits, size_limits
from tallyveil.geography.spine import Spine
from tallyveil.plans.estimating import EstimationPlan
from tallyveil.plans.outer import sources_of_groups
from tallyveil.plans.part_cells import PartCells, possible_cells
from tallyveil.postprocess.other_releases.agreement import agreement_name
from tallyveil.postprocess.other_releases.kept import TakenOver
from tallyveil.postprocess.other_releases.residents import ResidentCounts, residents_name
from tallyveil.postprocess.passes.groups import FixedGroups, groups_of_earlier_pass, sums_of_groups
from tallyveil.postprocess.passes.size_counts import FoundSizes
from tallyveil.schema.counts import PublicCounts, sums_between
from tallyveil.schema.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class PartLimits:
    """Limits of the total of a part in every geounit of a geolevel.

    Below this geolevel, the part has no other limits than the counts of its groups.

    Attributes:
        level: Number of the geolevel, 0 for the root.
        lower: Smallest total in each geounit, shape (G,).
        upper: Largest total.
    """

    level: int
    lower: Integers
    upper: Integers


def cells_of_part(schema: Schema, outer: OuterPass, groups: FixedGroups) -> PartCells:
    """The cells of a lift pass in each of its groups; raises ConfigError where they do not fit the groups."""
    possible = possible_cells(schema, schema.query(outer.cells))
    return PartCells.of(
        outer, schema.query(str(outer.part)), possible, groups.groups_of(possible), groups.size
    )


def part_limits(
    schema: Schema,
    outer: OuterPass,
    groups: FixedGroups,
    cells: PartCells,
    taken_over: TakenOver,
    spine: Spine,
) -> PartLimits:
    """Smallest and largest total of the part.

    With `sizes`, the limits are those of `size_limits` at the geolevel that the residents name. With every other key,
    they hold in every finest geounit:

    - With `total`, both limits are the count of the agreement.
    - With `residents`, the limits are those of `occupied_limits`.
    - With `company`, each record of the part's groups that does not belong to the part needs one of the company, and
      every record of the company must have such a record (`alone_limits`).
    - With `at_most`, the part has at most as many records as the query that this key names.

    Args:
        schema: The universe.
        outer: The pass.
        groups: What is fixed before it.
        cells: Its cells in each group.
        taken_over: What is taken over from finished releases.
        spine: The spine that is measured.
    """
    if outer.sizes is not None:
        homes = FoundSizes.of(
            schema, schema.query(outer.cells), groups, residents_of(outer.sizes, taken_over)
        )
        level = spine.geolevels.index(homes.geolevel)
        return PartLimits(level, *size_limits(homes.at(spine, level), homes.size))
    return PartLimits(spine.finest, *_finest_limits(schema, outer, groups, cells, taken_over))


def _finest_limits(
    schema: Schema, outer: OuterPass, groups: FixedGroups, cells: PartCells, taken_over: TakenOver
) -> tuple[Integers, Integers]:
    """Limits in the finest geounits; the arguments are those of `part_limits`."""
    finest = groups.levels[-1]
    whole = sums_of_groups(finest, cells.part >= 0)
    if outer.total is not None:
        total = _totals(outer, taken_over)
        return total, total
    if outer.residents is not None:
        residents = residents_of(outer.residents, taken_over)
        return occupied_limits(residents.people, residents.adults, whole)
    beside = schema.query(str(outer.company or outer.at_most))
    # -1 stands for no cell; it is replaced by cell 0 only to look it up, and masked by the first condition.
    others = sums_of_groups(finest, (cells.rest >= 0) & (beside.answers_of(np.maximum(cells.rest, 0)) >= 0))
    if outer.at_most is not None:
        return np.zeros_like(whole), np.minimum(whole, others)
    lower, upper = alone_limits(whole + others, whole)
    # Where nobody is in the part's groups, published counts may still have people beside them.
    return np.where(whole > 0, lower, 0), np.where(whole > 0, upper, 0)


def others_beside(schema: Schema, outer: OuterPass, groups: FixedGroups, cells: PartCells) -> Integers:
    """The records of every finest geounit that `company` or `at_most` names. For the arguments see `part_limits`."""
    beside = schema.query(str(outer.company or outer.at_most))
    inside = (cells.rest >= 0) & (beside.answers_of(np.maximum(cells.rest, 0)) >= 0)
    return sums_of_groups(groups.levels[-1], inside)


def residents_of(name: str, taken_over: TakenOver) -> ResidentCounts:
    """The residents of a name."""
    return next(item for item in taken_over.residents if item.name == name)


def refuse_totals(
    outer: OuterPass, groups: FixedGroups, cells: PartCells, taken_over: TakenOver, spine: Spine
) -> None:
    """Refuse totals above the number of records that may belong to the part, and residents where no record may.

    If no finest geounit is refused, every family of the pass has a solution (docs/proofs/agreement.md).

    Raises:
        ConstraintError: a finest geounit is refused.
    """
    room = sums_of_groups(groups.levels[-1], cells.part >= 0)
    if outer.residents is not None:
        wrong = np.flatnonzero((residents_of(outer.residents, taken_over).people > 0) & (room == 0))
        if len(wrong):
            raise ConstraintError(
                f"{_place(spine, wrong)}: {residents_name(outer.residents)} has people there, and no record can belong "
                "to "
                f"'{outer.part}'. {len(wrong)} geounit(s) have such people. Publish the people with an upper bound of "
                f"0 "
                "where "
                "there are no units. Nothing was spent.",
                code="people-without-units",
            )
        return
    wrong = np.flatnonzero(_totals(outer, taken_over) > room)
    if len(wrong):
        raise ConstraintError(
            f"{_place(spine, wrong)}: {agreement_name(str(outer.total))} has more records of '{outer.part}' than "
            f"the other "
            f"exact counts allow. {len(wrong)} geounit(s) have too many. Make the two releases that fix these counts "
            "so "
            "that they agree: give the later one bounds from the earlier one. Nothing was spent.",
            code="constraints-conflict",
        )


def check_parts(
    plan: EstimationPlan, groups: FixedGroups, taken_over: TakenOver, finest: PublicCounts, spine: Spine
) -> list[str]:
    """Hold published counts to the limits of every lift pass.

    Args:
        plan: The release.
        groups: The groups of the first pass.
        taken_over: What is taken over from finished releases.
        finest: Published counts of the finest geolevel.
        spine: The spine that is measured.
    Returns:
        The names of the checks; all have passed.
    Raises:
        SolverError: the counts break a limit; the release must not be published.
    """
    names = []
    cells = [plan.query(outer.cells) for outer in plan.outer]
    sources = sources_of_groups(cells)
    for number, outer in enumerate(plan.outer):
        if outer.part is None:
            continue
        if number:
            # From the published counts alone, as any reader of the release can check it.
            groups = groups_of_earlier_pass(cells[number], cells[sources[number]], [finest])
        parts = cells_of_part(plan.schema, outer, groups)
        limits = part_limits(plan.schema, outer, groups, parts, taken_over, spine)
        belongs = plan.query(outer.part).answers_of(finest.cells) >= 0
        totals = sums_between(finest.offsets, np.where(belongs, finest.counts, 0))
        # Sums of finest geounits for limits that hold at a coarser geolevel.
        totals = sums_between(spine.finest_offsets(limits.level), totals)
        (limit,) = outer.limits.items()
        name = f"'{outer.part}' keeps its limits ({' '.join(limit)}) in every {spine.geolevels[limits.level]}"
        if not bool(((limits.lower <= totals) & (totals <= limits.upper)).all()):
            raise SolverError(
                f"final check failed: {name}. Nothing must be published; please report this.",
                code="check-failed",
            )
        names.append(name)
    return names


def _place(spine: Spine, wrong: Integers) -> str:
    return f"{spine.geolevels[-1]} '{spine.geocodes[spine.finest][int(wrong[0])]}'"


def _totals(outer: OuterPass, taken_over: TakenOver) -> Integers:
    agreed = next(item for item in taken_over.agreed if item.name == agreement_name(str(outer.total)))
    finest = agreed.counts[-1]
    return sums_between(finest.offsets, finest.counts)  # all are of the part's one answer
