"""What could be measured on a spine whose groups are free, if geounits with one child are bypassed afterwards.

Problem. A geounit with one child and this child have one measurement, with the budget of both and the queries of the
upper geolevel. Which geounits have one child depends on the groups: a group may hold one finest geounit, and a
container one group. So bounds over all groups need precisions that hold for all of them.

Steps. Geounits above the groups that are the only child of their parent are the same for all groups. A container whose
children fit into one group may have this group alone. The budget of the group, and of its finest geounit if there is
only one, is then spent on the container, or on the geounits above of which it is the only descendant. Their precision
is the greatest that such a move can give, less what stays counted below. A finest geounit that is alone in its group
has the budget of both. docs/proofs/groups.md shows that no choice of the groups tells more.

Worked case. A tract of three blocks may have a single group. The tract then has the budget of both, with the queries of
tracts. If these tell totals better, the tract's precision is set to it, less that of the group.
"""

from fractions import Fraction
from functools import cache

import numpy as np

from tallyveil.budget.spine.variance import SpineVariances, TotalMeasures, precision_of, spine_variances
from tallyveil.geography.distance_bounds import lowest_limits
from tallyveil.geography.spine import Spine
from tallyveil.geography.steps import FanOutLimit


def most_told(
    measures: TotalMeasures, spine: Spine, geolevel: str, limit: FanOutLimit
) -> tuple[SpineVariances, float]:
    """Variances with precisions that no groups exceed, and the precision of a finest geounit alone in its group.

    Args:
        measures: What is measured, with a share for each geolevel of the spine.
        spine: The spine.
        geolevel: Geolevel of the groups, just above the finest.
        limit: Largest number of finest geounits of a group.

    Raises:
        GeographyError: as `variance_bounds` does.
    """
    variances = measures.on(spine)
    limits = lowest_limits(spine, geolevel, limit, "bounds on variances are")
    shares = dict(measures.strategy.geolevel_shares)
    of_group, of_finest = (shares[name] for name in spine.geolevels[-2:])

    @cache
    def precision(name: str, share: Fraction) -> float:
        return float(precision_of(measures.strategy, name, share, measures.summed))

    group, finest = precision(geolevel, of_group), precision(spine.geolevels[-1], of_finest)

    @cache
    def most(name: str, share: Fraction, moves: int) -> float:
        """Greatest precision if the budget of a group, and of its finest geounit, may be moved here."""
        moved = [(Fraction(0), 0.0), (of_group, group), (of_group + of_finest, group + finest)]
        return max(precision(name, share + budget) - counted for budget, counted in moved[: moves + 1])

    precisions = list(variances.precisions)
    level = spine.finest - 2
    sizes = np.diff(spine.finest_offsets(level))
    # How many geolevels' budgets may come from below, and what only children hold.
    moves = (sizes <= limits).astype(np.int64) + (sizes == 1)
    held = np.full(len(sizes), Fraction(0), dtype=object)
    while True:
        name = spine.geolevels[level]
        held = held + shares[name]
        told = np.array([most(name, *case) for case in zip(held, moves.tolist(), strict=True)])
        only = np.ones(1, dtype=np.bool_) if level == 0 else np.diff(spine.child_offsets[level - 1]) == 1
        if name not in measures.exact:
            bypassed = level > 0 and only[spine.parents(level)]
            precisions[variances.spine.level_index(name)] = np.where(bypassed, 0, told)
        if level == 0:
            return spine_variances(variances.spine, precisions), precision(geolevel, of_group + of_finest)
        first = spine.child_offsets[level - 1][:-1]
        nothing = np.full(len(first), Fraction(0), dtype=object)
        held, moves = np.where(only, held[first], nothing), np.where(only, moves[first], 0)
        level -= 1
