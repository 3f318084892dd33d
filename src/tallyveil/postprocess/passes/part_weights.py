"""What the counts of a part are divided among places in proportion to, where it is not the fixed counts of the groups.

- Occupied units are divided in proportion to the adults among the residents.
- Households of a size are divided in proportion to the people who are left if every household whose size is not known
  is as small as it can be.
- With the prior "company", householders who live alone are divided in proportion to n * n / (n + m), for n householders
  and m other members of a finest geounit. A household then has (n + m) / n people on average. Suppose that each size is
  less frequent than the size below by the same factor. Then a household has one person with probability n / (n + m).
"""

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.budget.outer_pass import OuterPass
from tallyveil.plans.part_cells import PartCells
from tallyveil.postprocess.other_releases.kept import TakenOver
from tallyveil.postprocess.passes.groups import FixedGroups, sums_of_groups
from tallyveil.postprocess.passes.part_limits import others_beside, residents_of
from tallyveil.postprocess.passes.size_counts import FoundSizes
from tallyveil.schema.schema import Schema


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
