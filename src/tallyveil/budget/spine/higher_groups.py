"""Bounds on the standard deviations of areas that share groups of higher geounits, such as tracts.

Problem. Tract groups are chosen by heuristics. Wanted is a number that the weighted sum of the standard deviations of
some areas does not fall below with any other groups.

Steps. The variance of an area is the greatest value of (c'z)^2 / (z'Lz), over all numbers z of the finest geounits: c
is the area, and L the information of all measurements. The groups enter L alone. So each z gives a lower bound for
every choice of groups. Taken is the z that is best for the groups of a given spine: the covariance of each estimate
with that of the area. If V is the area's variance there and q the precision of a group, the standard deviation with
other groups is at least

    V / sqrt(V + q (S - S0)),

where S is the sum, over groups, of the square of the sum of z in the group, and S0 this sum on the given spine. These
functions of S are convex. Their weighted sum is at least its tangent, which is a sum over pairs of children in the same
group. Each child is in a group with at most m - 1 others. So the pairs of a child add at most its m - 1 largest numbers
above 0. Better points for the tangent are found by steps towards the S of these pairs (Frank-Wolfe). The bound holds at
each point, and the greatest is taken. docs/proofs/groups.md has the proofs.

Worked case. A root of unknown total has two children, each measured with precision 1, and an area holds both. Groups of
one have the precision q = 1. Then V = 2 x 1/2 = 1, z = 1/2 and 1/2, S0 = 1/4 + 1/4. In one group S = 1, and the bound
is 1 / sqrt(1 + 1/2) = 0.8165. With one group the variance is 1 / (1 + 1/2) = 2/3, and its root is the same number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Floats, Integers, Numbers
from tallyveil.budget.spine.variance import SpineVariances, entity_variances, inverse, spine_variances
from tallyveil.errors import BudgetError
from tallyveil.geography.distance_bounds import free_groups
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.steps import FanOutLimit, group_by_distance, together

_TANGENTS = 6
"""Tangents of which the best is taken. In three states, the sixth improved the bound by less than 0.1 %."""


@dataclass(frozen=True, slots=True, eq=False)
class HigherGroups:
    """What bounds over all groups of higher geounits are computed from.

    Attributes:
        variance: Variance of each entity on a spine with some groups; shape (n_entities,).
        covariances: Covariance of each entity's estimate with that of each child of the groups, on this spine; an array
            of shape (n_entities, n_children) for each container.
        squares: Sum over the groups of this spine of squared sums of covariances, for each entity.
        precision: Precision of the total of a group.
        limits: Largest number of children of a group, for each container.
    """

    variance: Floats
    covariances: tuple[Floats, ...]
    squares: Floats
    precision: float
    limits: Integers

    def alone(self) -> Floats:
        """Least standard deviation of each entity with any groups; shape (n_entities,)."""
        squares = np.zeros(len(self.variance))
        for covariances, limit in zip(self.covariances, self.limits.tolist(), strict=True):
            squares += _largest(covariances, limit) + _largest(-covariances, limit)
        return self._deviations(squares)

    def greatest(self) -> Floats:
        """A number that the bounds on the standard deviation of each entity nowhere exceed."""
        return self._deviations(np.zeros(len(self.variance)))

    def least_sum(self, weights: Floats) -> float:
        """A lower bound on the sum of weighted standard deviations, for every choice of groups."""
        point, bound = self.squares, -np.inf
        for number in range(_TANGENTS):
            slopes = weights * self._slopes(point)
            most, target = self._most(slopes)
            bound = max(bound, float(weights @ self._deviations(point) + slopes @ point) - most)
            point = point + 2 / (number + 2) * (target - point)
        return bound

    def _deviations(self, squares: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            deviations = self.variance / np.sqrt(self._information(squares))
        # An entity that is known exactly stays so.
        return np.where(self.variance > 0, deviations, 0.0)

    def _slopes(self, squares: Floats) -> Floats:
        """By how much the bound of each entity falls if its squares grow by 1."""
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = self.precision * self.variance / (2 * self._information(squares) ** 1.5)
        return np.where(self.variance > 0, slopes, 0.0)

    def _information(self, squares: Floats) -> Floats:
        # Below 0 by rounding alone.
        information: Floats = (self.variance + self.precision * (squares - self.squares)).clip(min=0)
        return information

    def _most(self, slopes: Floats) -> tuple[float, Floats]:
        """The most that weighted squares can sum to in any groups, and the squares of each entity where they do."""
        total, squares = 0.0, np.zeros(len(slopes))
        for covariances, limit in zip(self.covariances, self.limits.tolist(), strict=True):
            products = (covariances.T * slopes) @ covariances
            itself = np.diagonal(products).copy()
            np.fill_diagonal(products, -np.inf)
            others = np.argsort(-products, axis=1, kind="stable")[:, : limit - 1]
            together = np.zeros(products.shape)
            np.put_along_axis(together, others, np.take_along_axis(products, others, axis=1) > 0, axis=1)
            np.fill_diagonal(products, itself)
            np.fill_diagonal(together, 1.0)
            total += float((together * products).sum())
            squares += ((covariances @ together) * covariances).sum(axis=1)
        return total, squares


@dataclass(frozen=True, slots=True, eq=False)
class EntityTree:
    """What is known of some entities at the geounits of one geolevel, on a tree of measurements.

    Attributes:
        level: The geolevel.
        variance: Variance of each entity from all measurements; shape (n_entities,).
        slope: What an entity's part of a geounit gains when the geounit's total grows by one; shape (n_entities,
            n_geounits).
        below: Variance of the geounit's total from the measurements in its own subtree; the same shape, or one row for
            all entities.
    """

    level: int
    variance: Floats
    slope: Floats
    below: Floats


def higher_groups(
    variances: SpineVariances, tree: EntityTree, geolevel: str, limit: FanOutLimit
) -> HigherGroups:
    """Bounds over all groups of a geolevel, from entities on a spine with some groups.

    Args:
        variances: Variances on this spine.
        tree: The entities, at the geounits below the groups or further below.
        geolevel: Geolevel of the groups.
        limit: Largest number of children of a group.

    Raises:
        BudgetError: groups have different precisions, as after bypassing, or the measurements do not determine what
            lies below the groups.
        GeographyError: the geolevel cannot be one of groups, or a group breaks the limit.
    """
    spine = variances.spine
    children, limits = free_groups(spine, geolevel, limit)
    level = spine.level_index(geolevel)
    if not np.isfinite(tree.below).all():
        raise BudgetError(
            f"the measurements in and below {spine.geolevels[level + 1]} do not determine all totals, so that there is "
            f"no bound over the groups of {geolevel}. Measure a query that tells totals there, such as 'total'."
        )
    covariances = _covariances(variances, tree)
    for above in range(tree.level - 1, level, -1):
        covariances = np.add.reduceat(covariances, spine.child_offsets[above][:-1], axis=1)
    squares = (np.add.reduceat(covariances, spine.child_offsets[level][:-1], axis=1) ** 2).sum(axis=1)
    by_container = tuple(np.split(covariances, children[1:-1], axis=1))
    return HigherGroups(tree.variance, by_container, squares, only_precision(variances, level), limits)


def with_shared_groups(
    variances: SpineVariances, families: Sequence[EntityFamily], geolevel: str, limit: FanOutLimit
) -> tuple[SpineVariances, Integers | None]:
    """A spine with groups that entities share well, from which `higher_groups` has good bounds for all groups.

    The groups are those of the spine, or those that make the sum of the distances small, whichever have the smaller sum
    of standard deviations.

    Args:
        variances: Variances on a spine.
        families: Families of this spine, with entities.
        geolevel: Geolevel of the groups, not just above the finest geounits.
        limit: Largest number of children of a group.

    Returns:
        Variances on the spine with these groups, and the row on the given spine of each of its finest geounits; None if
        it is the given spine.

    Raises:
        BudgetError: groups have different precisions.
    """
    spine, level = variances.spine, variances.spine.level_index(geolevel)
    family, precision = together(families), only_precision(variances, level)
    grouped = group_by_distance(
        spine, [family], geolevel=geolevel, children=spine.geolevels[level + 1], limit=limit, measure="sum"
    )
    precisions = []
    for number in range(spine.n_levels):
        # Other geounits are the same as before, in another order.
        first = grouped.rows[grouped.spine.finest_offsets(number)[:-1]]
        same = variances.precisions[number][spine.ancestors(number)[first]]
        precisions.append(np.full(len(first), precision) if number == level else same)
    others = spine_variances(grouped.spine, precisions)
    before, after = (
        np.sqrt(entity_variances(each, on_spine)).sum()
        for each, on_spine in ((variances, family), (others, family.reordered(grouped.rows)))
    )
    return (others, grouped.rows) if after < before else (variances, None)


def _covariances(variances: SpineVariances, tree: EntityTree) -> Floats:
    """Covariance of each entity's estimate with that of each geounit of the tree's geolevel.

    The pass is that of Lemma 4 in docs/proofs/groups.md.
    """
    spine = variances.spine
    slopes, gains, below = [tree.slope], [], tree.below
    for level in range(tree.level - 1, -1, -1):
        starts = spine.child_offsets[level][:-1]
        total = np.add.reduceat(below, starts, axis=1)
        slopes.append(ratio(np.add.reduceat(below * slopes[-1], starts, axis=1), total))
        below = inverse(variances.precisions[level] + inverse(total))
        gains.append(ratio(below, total))
    relative = slopes.pop()
    above = relative
    for level in range(1, tree.level + 1):
        parent, slope = spine.parents(level), slopes.pop()
        relative = (relative * gains.pop())[:, parent] + slope - above[:, parent]
        above = slope
    covariances: Floats = relative * tree.below
    return covariances


def only_precision(variances: SpineVariances, level: int) -> float:
    """The precision of all geounits of a geolevel.

    Raises:
        BudgetError: they have different precisions.
    """
    precisions = variances.precisions[level]
    if bool(np.any(precisions != precisions[0])):
        raise BudgetError(
            f"geounits of {variances.spine.geolevels[level]} have different shares of the budget, as bypassing makes "
            "them. The bound holds for equal shares: build the spine with --no-bypass."
        )
    return float(precisions[0].real)


def ratio(part: Numbers, whole: Numbers) -> Numbers:
    """Part / whole; 0 where the whole is known exactly, since nothing is left to be divided."""
    quotient: Numbers = np.where(whole > 0, part / np.where(whole > 0, whole, 1), 0)
    return quotient


def _largest(covariances: Floats, limit: int) -> Floats:
    """Largest sum of squared sums of the numbers above 0 in groups of limited size: the largest numbers together."""
    ordered = -np.sort(-covariances.clip(min=0), axis=1)
    missing = -ordered.shape[1] % limit
    of_groups = np.pad(ordered, ((0, 0), (0, missing))).reshape(len(ordered), -1, limit).sum(axis=2)
    largest: Floats = (of_groups**2).sum(axis=1)
    return largest
