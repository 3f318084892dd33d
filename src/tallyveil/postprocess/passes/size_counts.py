"""How many households have each size in every geounit, as far as the fixed counts of a pass say it."""

from dataclasses import dataclass

import numpy as np

from tallyveil.errors import ConstraintError
from tallyveil.estimation.agreeing_limits import SizedHouseholds
from tallyveil.geography.spine import Spine
from tallyveil.plans.estimating import EstimationPlan
from tallyveil.plans.household_sizes import SizesOfGroups
from tallyveil.plans.outer import sources_of_groups
from tallyveil.postprocess.other_releases.residents import ResidentCounts, residents_name
from tallyveil.postprocess.passes.groups import FixedGroups, sums_of_groups
from tallyveil.schema.counts import sums_between
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
    plan: EstimationPlan, groups: FixedGroups, residents: tuple[ResidentCounts, ...], spine: Spine
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
