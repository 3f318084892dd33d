"""Limits of the total of a part, from published counts or earlier passes, and what divides it among places.

As far as the fixed counts of a pass say how many households have each size in every geounit, this gives
limits too. Where the counts of a part are not divided in proportion to the fixed counts of the groups, they
are divided so:

- Occupied units are divided in proportion to the adults among the residents.
- Households of a size are divided in proportion to the people who are left if every household whose size is
  not known is as small as it can be.
- With the prior "company", householders who live alone are divided in proportion to n * n / (n + m), for n
  householders and m other members of a finest geounit. A household then has (n + m) / n people on average.
  Suppose that each size is less frequent than the size below by the same factor. Then a household has one
  person with probability n / (n + m).
"""

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.outer_pass import OuterPass
from tallyveil.errors import ConstraintError, SolverError
from tallyveil.estimation.leaf_lift import SizedHouseholds, alone_limits, occupied_limits, size_limits
from tallyveil.geography.spine import Spine
from tallyveil.plans.lifts import PartCells, SizesOfGroups, possible_cells
from tallyveil.plans.outer import sources_of_groups
from tallyveil.plans.release import StatedPlan
from tallyveil.postprocess.constraint_files import TakenOver
from tallyveil.postprocess.other_releases import ResidentCounts, agreement_name, residents_name
from tallyveil.postprocess.passes.groups import FixedGroups, groups_of_earlier_pass, sums_of_groups
from tallyveil.schema.counts import PublicCounts, sums_between
from tallyveil.schema.nested_queries import common_groups
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class FoundSizes:
    """The households of every finest geounit before a pass finds those of a size.

    Attributes:
        finest: The households, by finest geounit.
        size: The largest size that is not known, which the pass finds; 0 if all are known.
        geolevel: Geolevel of the geounits in which sizes add up to the people.
    """

    finest: SizedHouseholds
    size: int
    geolevel: str

    @classmethod
    def of(
        cls, schema: Schema, cells: QueryGroup, groups: FixedGroups, residents: ResidentCounts
    ) -> "FoundSizes":
        """The households in the groups of a pass.

        Args:
            schema: The universe.
            cells: The cells of the pass.
            groups: What is fixed before it.
            residents: The people who live in households.
        Raises:
            ConfigError: kinds of households can have different sizes, and the groups do not tell them apart.
        """
        sizes = schema.query(str(residents.households))
        of_groups = SizesOfGroups.of(schema, sizes, cells, groups.queries)
        counts = groups.levels[-1]
        known = [sums_of_groups(counts, of_groups.size == size) for size in range(1, sizes.size + 1)]
        # Of groups with several possible sizes, which the pass is to find.
        unknown = sums_of_groups(counts, of_groups.size < 0)
        homes = SizedHouseholds(residents.people, np.stack(known, axis=1), unknown, of_groups.smallest)
        return cls(homes, of_groups.largest, str(residents.geolevel))

    def at(self, spine: Spine, level: int) -> SizedHouseholds:
        """The households of every geounit of a geolevel."""
        offsets, homes = spine.finest_offsets(level), self.finest
        people, known, unknown = (
            # Sums over finest geounits; a coarser geounit has the households of all its blocks.
            sums_between(offsets, counts)
            for counts in (homes.people, homes.known, homes.unknown)
        )
        return SizedHouseholds(people, known, unknown, homes.smallest)


def refuse_impossible_sizes(
    plan: StatedPlan, groups: FixedGroups, residents: tuple[ResidentCounts, ...], spine: Spine
) -> None:
    """Refuse people to whom no sizes of households can add up.

    If no geounit is refused, every pass for sizes has a solution (docs/proofs/agreement.md).

    Args:
        plan: The release, with outer passes.
        groups: The groups of the first pass.
        residents: The residents of the release.
        spine: The spine that is measured.
    Raises:
        ConstraintError: a geounit is refused, or the exact counts do not say how many households have a size that is
            known before sizes are found.
        ConfigError: kinds of households can have different sizes, and the exact counts do not tell them apart.
    """
    number = next((number for number, outer in enumerate(plan.outer) if outer.sizes is not None), None)
    if number is None:
        return
    cells = [plan.query(outer.cells) for outer in plan.outer]
    living = next(resident for resident in residents if resident.name == plan.outer[number].sizes)
    homes = FoundSizes.of(plan.schema, cells[0], groups, living)
    sizes = plan.query(str(living.households))
    known = common_groups(cells[number], cells[sources_of_groups(cells)[number]])
    # What is checked before the spend must be what the pass starts from.
    if homes.finest.smallest != SizesOfGroups.of(plan.schema, sizes, cells[number], [known]).smallest:
        raise ConstraintError(
            f"{residents_name(living.name)}: sizes of households from {homes.finest.smallest} up are not known "
            f"before the "
            "first pass, but passes before those with 'sizes' tell some of them apart. So nobody can say before the "
            "spend whether sizes can add up. Fix these numbers by an [[agreement]] or by [[invariants]].",
            code="passes-groups",
        )
    level = spine.geolevels.index(homes.geolevel)
    wrong = np.flatnonzero(~homes.at(spine, level).possible())
    if len(wrong):
        raise ConstraintError(
            f"{homes.geolevel} '{spine.geocodes[level][int(wrong[0])]}': no sizes of households can add up to the "
            f"people of {residents_name(living.name)}. There are {len(wrong)} such geounit(s): people without a "
            f"household "
            "of several, or too few people for their households. Publish the people so that they agree with the "
            "households: 'company' in a pass of that release does this. Nothing was spent.",
            code="constraints-conflict",
        )


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
    plan: StatedPlan, groups: FixedGroups, taken_over: TakenOver, finest: PublicCounts, spine: Spine
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


def part_weights(
    schema: Schema, outer: OuterPass, groups: FixedGroups, cells: PartCells, taken_over: TakenOver
) -> Floats | None:
    """The weight of every finest geounit; None where fixed counts decide.

    Args:
        schema: The universe.
        outer: The lift pass.
        groups: What is fixed before it.
        cells: Its cells in each group.
        taken_over: What is taken over from finished releases.
    """
    if outer.residents is not None:
        return residents_of(outer.residents, taken_over).adults.astype(np.float64)
    if outer.sizes is not None:
        homes = FoundSizes.of(
            schema, schema.query(outer.cells), groups, residents_of(outer.sizes, taken_over)
        ).finest
        # Below zero where published numbers contradict each other a little; a weight must not be.
        return np.maximum(homes.left, 0).astype(np.float64)
    if outer.prior == "company":
        weights = sums_of_groups(groups.levels[-1], cells.part >= 0)
        everything = weights + others_beside(schema, outer, groups, cells)
        # At least 1 in the divisor: where nobody is, the weight is 0 and not undefined.
        expected: Floats = weights * weights / np.maximum(everything, 1)
        return expected
    return None
