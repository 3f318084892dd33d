"""Covariances of estimates that are made from the root downwards, before counts are made non-negative integers.

Problem. A geounit's counts are estimated from its own measurements and from its parent's estimate. Nothing below the
geounit is used. Wanted are mean covariances over the geounits of a geolevel, or over the entities of a family.

Steps. Let P_l be the covariance from a geounit's own measurements at geolevel l. A family of n children is estimated by
own + (parent - sum of own) / n. A region is a weighted sum of geounits. Let c be its coefficients on the children of a
parent. The error of the region is then the sum of two parts: the parent's error times the mean of c, and the children's
own errors, each times its coefficient less this mean. The covariance of the region is the sum
over geolevels of s_l P_l, where s_l is the sum over parents of (sum of c^2 - (sum of c)^2 / n), and s_0 is the sum of
c^2 over the roots. These weights depend on the geography alone.

Stopping rule. One pass up the tree for each area, before any share is known.

Worked case. A root has two children, and one of them is asked about: c = (1, 0). At the children, s = 1 - 1/2 = 1/2; at
the root, c = 1/2 and s = 1/4. If all are measured with variance 1, the variance is 3/4. The least-squares estimate from
all measurements has the variance 2/3, because it also uses the children's measurements for the root.

Exact sums. Some answers may be exact for sums of siblings, such as for a State in two parts. A geolevel of these sums
(`geography.stated.with_sums`) then divides the family's step in two. The errors of the parts differ from the error of
their sum as before, with n for the parts of one sum. The sum of k parts has the error of k times its mean part, of
which the covariance is the part's P given the exact answers. So s of the geolevel of sums goes with that P, and counts
every sum as often as it has parts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.estimation.intervals.by_share.dual import Dual
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine


@dataclass(frozen=True, eq=False)
class TopDownEstimator:
    """Estimates from the root downwards.

    Attributes:
        weights: For each area, s_l of every geolevel, as a mean over the geounits or entities.
    """

    weights: Mapping[int | str, Floats]

    @property
    def n_matrices(self) -> int:
        """One for each geolevel."""
        return 1

    def means(self, information: list[Dual], areas: Iterable[int | str]) -> dict[int | str, Dual]:
        """The mean covariance of every area that is asked about.

        Args:
            information: Precision of one geounit of each geolevel, root first.
            areas: Positions of geolevels, and names of families.
        """
        covariances = [precision.inverse() for precision in information]
        # One matrix a geolevel, root first: the weights of an area are in the same order.
        stacked = Dual(
            np.concatenate([covariance.value for covariance in covariances]),
            np.concatenate([covariance.slope for covariance in covariances]),
        )
        return {area: stacked.scaled(self.weights[area]).total() for area in areas}


def top_down_of(
    spine: Spine, levels: Iterable[int], families: Iterable[EntityFamily], sums: Collection[int] = ()
) -> TopDownEstimator:
    """The estimates from the root downwards on a spine.

    Args:
        spine: The hierarchy.
        levels: Geolevels that are asked about.
        families: Families that are asked about, each with at least one finest geounit.
        sums: Geolevels of sums of siblings, where nothing is measured.
    """
    parts: list[Floats] = []  # how many measured parts each geounit counts for
    for level in range(spine.finest, -1, -1):
        whole = np.ones(spine.n_geounits(level))
        parts.insert(
            # A sum of siblings counts for its parts, as nothing is measured for itself.
            0,
            np.add.reduceat(parts[0], spine.child_offsets[level][:-1]) if level in sums else whole,
        )
    weights: dict[int | str, Floats] = {}
    for level in levels:
        n = spine.n_geounits(level)
        geounits = np.arange(n, dtype=np.int64)
        weights[level] = _weights(spine, parts, level, geounits, geounits) / n
    for family in families:
        sizes = np.diff(family.offsets)
        area = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
        summed = _weights(spine, parts, spine.finest, area, family.members)
        weights[family.name] = summed / int((sizes > 0).sum())
    return TopDownEstimator(weights)


def _weights(spine: Spine, parts: Sequence[Floats], level: int, area: Integers, geounit: Integers) -> Floats:
    """The sum of s_l over areas. Each is given by the geounits of one geolevel that it consists of."""
    weights = np.zeros(spine.n_levels)
    coefficient = np.ones(len(geounit))
    # Up the tree: coefficients of children become those of their parents, by the mean over siblings.
    for here in range(level, 0, -1):
        above, n_parts = spine.n_geounits(here - 1), parts[here][geounit]
        # Area and parent as one number, so that one pass treats all areas.
        keys, entry = np.unique(area * above + spine.parents(here)[geounit], return_inverse=True)
        children = np.add.reduceat(parts[here], spine.child_offsets[here - 1][:-1])[keys % above]
        summed = np.bincount(entry.reshape(-1), coefficient * n_parts, len(keys))
        # s_l of the module's docstring: squared coefficients less what the parent's sum takes over.
        weights[here] = float((coefficient**2 * n_parts).sum() - (summed**2 / children).sum())
        area, geounit, coefficient = keys // above, keys % above, summed / children
    weights[0] = float((coefficient**2 * parts[0][geounit]).sum())
    return weights
