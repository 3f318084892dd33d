"""The greatest precisions of measurements, over all groups of a spine, if geounits with one child are then bypassed.

Problem. After bypassing, a geounit with one child and this child have one measurement, with the budget of both and the
queries of the upper geolevel. Which geounits have one child depends on the groups: a group may have one finest geounit,
and a container (the geounit above the groups, such as a tract) may have one group. So bounds over all groups need
precisions that no choice of groups exceeds.

Steps. Which geounits above the groups are the only child of their parent does not depend on the groups. A container
whose finest geounits fit into one group may have this group alone. Then the budget of the group, and that of its finest
geounit if there is only one, goes to the container or, if the container is itself an only child, to the highest
geounit of this chain. Bounds count the group and its finest geounits with their own precisions. So the highest geounit
gets the precision that it has with the budgets from below, less these precisions, if that is more than its own. A
finest geounit that is alone in its group gets the precision of the group with the budget of both. docs/proofs/groups.md
shows that with these precisions no choice of groups has a smaller variance than the bounds.

Worked case. A tract of three blocks may have a single group. The tract then has the budget of both, with the queries of
tracts. Its precision in the bounds is the one with this budget, less the precision of the group, or the one without the
group's budget if this is more.
"""

from fractions import Fraction
from functools import cache

import numpy as np

from tallyveil.budget.spine.variance import SpineVariances, TotalMeasures, precision_of, spine_variances
from tallyveil.geography.distance_bounds import free_groups, lowest_groups
from tallyveil.geography.spine import Spine
from tallyveil.geography.steps import FanOutLimit


def greatest_precisions(
    measures: TotalMeasures, spine: Spine, limit: FanOutLimit
) -> tuple[SpineVariances, float]:
    """The precisions that bounds over all groups start from.

    Args:
        measures: What is measured, with a share for each geolevel of the spine.
        spine: The spine.
        limit: Largest number of finest geounits of a group of the geolevel just above.

    Returns:
        Variances on the spine with the precisions of Proposition 10 in docs/proofs/groups.md, and the precision of a
        finest geounit that is alone in its group.
    Raises:
        GeographyError: as `variance_bounds` does.
    """
    variances = measures.on(spine)
    geolevel = lowest_groups(spine)
    limits = free_groups(spine, geolevel, limit)[1]
    shares = dict(measures.strategy.geolevel_shares)
    of_group, of_finest = (shares[name] for name in spine.geolevels[-2:])

    @cache
    def precision(name: str, share: Fraction) -> float:
        return float(precision_of(measures.strategy, name, share, measures.summed))

    group, finest = precision(geolevel, of_group), precision(spine.geolevels[-1], of_finest)

    @cache
    def most(name: str, share: Fraction, moves: int) -> float:
        """Greatest precision if the budget of a group, and of its finest geounit, may be moved here."""
        # Each budget from below, and the precision with which the geounits that it comes from are counted anyway.
        budgets = [(Fraction(0), 0.0), (of_group, group), (of_group + of_finest, group + finest)]
        return max(precision(name, share + budget) - counted for budget, counted in budgets[: moves + 1])

    precisions = list(variances.precisions)
    level = spine.finest - 2
    sizes = np.diff(spine.finest_offsets(level))
    # From how many geolevels below the container budgets may come, and the budget of the chain so far.
    moves = (sizes <= limits).astype(np.int64) + (sizes == 1)
    chain_share = np.full(len(sizes), Fraction(0), dtype=object)
    while True:
        name = spine.geolevels[level]
        chain_share = chain_share + shares[name]
        greatest = np.array([most(name, *case) for case in zip(chain_share, moves.tolist(), strict=True)])
        is_chain = np.ones(1, dtype=np.bool_) if level == 0 else np.diff(spine.child_offsets[level - 1]) == 1
        if name not in measures.exact:
            bypassed = level > 0 and is_chain[spine.parents(level)]
            precisions[variances.spine.level_index(name)] = np.where(bypassed, 0, greatest)
        if level == 0:
            return spine_variances(variances.spine, precisions), precision(geolevel, of_group + of_finest)
        first = spine.child_offsets[level - 1][:-1]
        nothing = np.full(len(first), Fraction(0), dtype=object)
        chain_share, moves = (
            np.where(is_chain, chain_share[first], nothing),
            np.where(is_chain, moves[first], 0),
        )
        level -= 1
