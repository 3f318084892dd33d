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
from tallyveil.postprocess.other_releases.kept import Kept
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


def cells_of_part(schema: Schema, one: OuterPass, groups: FixedGroups) -> PartCells:
    """The cells of a lift pass in each of its groups; raises ConfigError where they do not fit the groups."""
    possible = possible_cells(schema, schema.query(one.cells))
    return PartCells.of(one, schema.query(str(one.part)), possible, groups.groups_of(possible), groups.size)


def part_limits(
    schema: Schema, one: OuterPass, groups: FixedGroups, cells: PartCells, kept: Kept, spine: Spine
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
        one: The pass.
        groups: What is fixed before it.
        cells: Its cells in each group.
        kept: What is taken over from finished releases.
        spine: The spine that is measured.
    """
    if one.sizes is not None:
        homes = FoundSizes.of(schema, schema.query(one.cells), groups, residents_of(one.sizes, kept))
        level = spine.geolevels.index(homes.geolevel)
        return PartLimits(level, *size_limits(homes.at(spine, level), homes.size))
    return PartLimits(spine.finest, *_finest_limits(schema, one, groups, cells, kept))


def _finest_limits(
    schema: Schema, one: OuterPass, groups: FixedGroups, cells: PartCells, kept: Kept
) -> tuple[Integers, Integers]:
    """Limits in the finest geounits; the arguments are those of `part_limits`."""
    finest = groups.levels[-1]
    whole = sums_of_groups(finest, cells.part >= 0)
    if one.total is not None:
        total = _totals(one, kept)
        return total, total
    if one.residents is not None:
        residents = residents_of(one.residents, kept)
        return occupied_limits(residents.people, residents.adults, whole)
    beside = schema.query(str(one.company or one.at_most))
    others = sums_of_groups(finest, (cells.rest >= 0) & (beside.answers_of(np.maximum(cells.rest, 0)) >= 0))
    if one.at_most is not None:
        return np.zeros_like(whole), np.minimum(whole, others)
    lower, upper = alone_limits(whole + others, whole)
    # Where nobody is in the part's groups, published counts may still have people beside them.
    return np.where(whole > 0, lower, 0), np.where(whole > 0, upper, 0)


def others_beside(schema: Schema, one: OuterPass, groups: FixedGroups, cells: PartCells) -> Integers:
    """The records of every finest geounit that `company` or `at_most` names. For the arguments see `part_limits`."""
    beside = schema.query(str(one.company or one.at_most))
    inside = (cells.rest >= 0) & (beside.answers_of(np.maximum(cells.rest, 0)) >= 0)
    return sums_of_groups(groups.levels[-1], inside)


def residents_of(name: str, kept: Kept) -> ResidentCounts:
    """The residents of a name."""
    return next(item for item in kept.residents if item.name == name)


def refuse_totals(one: OuterPass, groups: FixedGroups, cells: PartCells, kept: Kept, spine: Spine) -> None:
    """Refuse totals above the number of records that may belong to the part, and residents where no record may.

    If no finest geounit is refused, every family of the pass has a solution (docs/proofs/agreement.md).

    Raises:
        ConstraintError: a finest geounit is refused.
    """
    room = sums_of_groups(groups.levels[-1], cells.part >= 0)
    if one.residents is not None:
        wrong = np.flatnonzero((residents_of(one.residents, kept).people > 0) & (room == 0))
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


def check_parts(
    plan: EstimationPlan, groups: FixedGroups, kept: Kept, finest: PublicCounts, spine: Spine
) -> list[str]:
    """Hold published counts to the limits of every lift pass.

    Args:
        plan: The release.
        groups: The groups of the first pass.
        kept: What is taken over from finished releases.
        finest: Published counts of the finest geolevel.
        spine: The spine that is measured.
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
        limits = part_limits(plan.schema, one, groups, parts, kept, spine)
        belongs = plan.query(one.part).answers_of(finest.cells) >= 0
        found = sums_between(finest.offsets, np.where(belongs, finest.counts, 0))
        found = sums_between(spine.finest_offsets(limits.level), found)
        (limit,) = one.limits.items()
        name = f"'{one.part}' keeps its limits ({' '.join(limit)}) in every {spine.geolevels[limits.level]}"
        if not bool(((limits.lower <= found) & (found <= limits.upper)).all()):
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
