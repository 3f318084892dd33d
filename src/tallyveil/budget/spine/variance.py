"""How accurately a spine answers a query: variances, precisions and measures of its geounits, entities and other areas.

Problem. Every geounit's answer is the sum of its children's answers. Each geounit may have one measurement with known
precision (1 / variance). Wanted is the variance of the best linear unbiased estimate of every geounit and entity.

Steps. A pass up the tree computes `below`, the variance from the measurements in a geounit's own subtree: precisions
add, and the variances of the children add to that of their sum. A pass down computes `variance`, which uses all
measurements. With g = v / s, where v is the child's `below` and s its sum over all children of the parent, the
variance of the child is v (1 - g) + g^2 x variance of the parent. For an entity, `raise_parts` carries its slope and
its spread from each geolevel to the next coarser one; its variance is the sum over the roots of spread + slope^2 x
variance of the root. Each pass visits every geolevel once.

Worked case. A root and its two children are each measured with variance 1. `below` is 1 for the children and 1 / (1 +
1/2) = 2/3 for the root, which is also its `variance`. For a child g = 1/2, so its variance is 1/2 + 1/4 x 2/3 = 2/3.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Integers, Numbers
from tallyveil.budget.allocation import require_affordable
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError
from tallyveil.geography.areas import StatedGeounits, replaced_areas, sums_of_siblings, with_sums
from tallyveil.geography.entities import EntityFamily, require_same_spine
from tallyveil.geography.optimise import OptimisedSpine
from tallyveil.geography.spine import GeounitShares, Spine
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

if TYPE_CHECKING:
    from tallyveil.kernels.tree.variance import ChildVariances, EntityParts


@dataclass(frozen=True, slots=True, eq=False)
class SpineVariances:
    """Variances of one answer (such as the total) in every geounit, from all measurements together.

    The estimator is the best linear unbiased one. A geounit's answer is the sum of its children's answers, each geounit
    is measured with the given precision, and nothing else is used (no lower bound of 0, no rounding).

    Attributes:
        spine: The spine.
        precisions: For each geolevel, 1 / variance of each geounit's own measurement. It is 0 without a measurement and
            infinite if the answer is known exactly.
        below: Variance of each geounit from the measurements in its own subtree alone.
        variance: Variance of each geounit from all measurements; infinite if they do not determine the answer.
    """

    spine: Spine
    precisions: tuple[Numbers, ...]
    below: tuple[Numbers, ...]
    variance: tuple[Numbers, ...]

    def family(self, level: int) -> "ChildVariances":
        """The children of every geounit of a geolevel, as the kernels take them."""
        from tallyveil.kernels.tree.variance import ChildVariances

        offsets, below = self.spine.child_offsets[level], self.below[level + 1]
        total, unknown = _sums(below, offsets)
        return ChildVariances(self.spine.parents(level + 1), below, total, unknown, np.diff(offsets))


def spine_variances(spine: Spine, precisions: Sequence[Numbers]) -> SpineVariances:
    """Variances of every geounit, by one pass up the tree and one pass down.

    Args:
        spine: The spine.
        precisions: For each geolevel, the precision of each geounit's measurement, 0 or more. Complex numbers are
            allowed, to compute a derivative.

    Raises:
        BudgetError: the precisions belong to another spine, or one is below 0.
    Source: Cumings-Menon et al. 2023, equation 19, for one answer; docs/spine.md derives the passes.
    """
    measured = tuple(np.asarray(precision) for precision in precisions)
    sizes = tuple(spine.n_geounits(level) for level in range(spine.n_levels))
    if tuple(len(precision) for precision in measured) != sizes or any(
        bool(np.any(precision.real < 0)) for precision in measured
    ):
        raise BudgetError(
            f"precisions of {', '.join(str(len(precision)) for precision in measured) or 'no'} geounits by "
            f"geolevel do not fit; wanted a number of 0 or more for each of {', '.join(map(str, sizes))}. "
            "Use answer_precisions with this spine."
        )
    below: list[Numbers] = [inverse(measured[-1])]
    for level in range(spine.finest - 1, -1, -1):
        total, unknown = _sums(below[0], spine.child_offsets[level])
        from_children = np.where(unknown == 0, inverse(total), 0)
        below.insert(0, inverse(measured[level] + from_children))
    variance = [below[0]]
    for level in range(spine.finest):
        variance.append(_down(spine, level, variance[level], below[level + 1]))
    for array in (*measured, *below, *variance):
        array.flags.writeable = False
    return SpineVariances(spine, measured, tuple(below), tuple(variance))


def entity_variances(variances: SpineVariances, family: EntityFamily) -> Numbers:
    """Variance of every entity of a family, from all measurements; shape (n_entities,).

    The time depends only on the geounits that the entities touch. The variance is infinite if the measurements do not
    determine the answer.

    Raises:
        GeographyError: the family belongs to another spine.
    """
    roots = entity_parts(variances, family)[0][0]
    above = variances.variance[0][roots.geounit]
    # A slope of 0 contributes nothing, even if the root's variance is infinite. An infinite complex number is never
    # multiplied, because its product is no number.
    unknown = ~np.isfinite(above.real)
    informed = np.where(unknown, np.inf, roots.slope**2 * np.where(unknown, 0, above))
    from_root = np.where(roots.slope == 0, 0, informed)
    values = roots.spread + from_root
    if family.n_entities == 0:
        return values
    summed: Numbers = np.add.reduceat(values, roots.begin[:-1])
    return summed


def entity_parts(
    variances: SpineVariances, family: EntityFamily
) -> "tuple[tuple[EntityParts, Integers | None], ...]":
    """The geounits that every entity touches at each geolevel, root first, in the form of `raise_parts`.

    Returns:
        For each geolevel its entries and, below the root, the position of the entry above that contains each one.

    Raises:
        GeographyError: the family belongs to another spine.
    """
    from tallyveil.kernels.tree.variance import EntityParts, raise_parts

    spine = variances.spine
    require_same_spine(spine, family)
    kind = variances.below[0].dtype
    ones, zeros = np.ones(len(family.members), dtype=kind), np.zeros(len(family.members), dtype=kind)
    parts = EntityParts(family.offsets.copy(), family.members.copy(), ones, zeros)
    levels: list[tuple[EntityParts, Integers | None]] = []
    for level in range(spine.finest, 0, -1):
        raised, above = raise_parts(parts, _writeable(variances.family(level - 1)))
        levels.append((parts, above))
        parts = raised
    return (*[(parts, None)], *levels[::-1])


def _writeable(family: "ChildVariances") -> "ChildVariances":
    # To the compiler a read-only array is another type, which would cause a second compilation.
    return family._replace(below=family.below.copy())


def inverse(values: Numbers) -> Numbers:
    """Precisions from variances, or variances from precisions; 0 and infinity are each other's."""
    known, unknown = np.isinf(values.real), values == 0
    safe = np.where(known | unknown, 1, values)
    inverted: Numbers = np.where(known, 0, np.where(unknown, np.inf, 1 / safe))
    return inverted


def _sums(below: Numbers, offsets: Integers) -> tuple[Numbers, Integers]:
    """For each geounit, the sum of its children's finite values and the number of infinite ones."""
    infinite = ~np.isfinite(below.real)
    total: Numbers = np.add.reduceat(np.where(infinite, 0, below), offsets[:-1])
    return total, np.add.reduceat(infinite.astype(np.int64), offsets[:-1])


def _down(spine: Spine, level: int, variance: Numbers, below: Numbers) -> Numbers:
    """Variances of the children of a geolevel, from those of their parents."""
    offsets = spine.child_offsets[level]
    total, unknown = _sums(below, offsets)
    parent = spine.parents(level + 1)
    n_unknown, whole = unknown[parent], total[parent]
    above = np.where(n_unknown < 2, variance[parent], np.inf)
    infinite = ~np.isfinite(below.real)
    informed_below = np.where(infinite, 0, below)
    # If all children are known exactly, the gain has no effect.
    gain = np.where(n_unknown > 0, 0, informed_below / np.where(whole == 0, 1, whole))
    informed = informed_below * (1 - gain) + gain**2 * np.where(n_unknown > 0, 0, above)
    informed_above: Numbers = np.where(infinite, above + whole, informed)
    return informed_above


def answers_summed(query: QueryGroup, target: QueryGroup, answer: int = 0) -> int:
    """Number of answers of a measured query group that sum to a wanted answer; 0 if no set of them does.

    If groups overlap, only answers of one layer are summed, and the number is that of the layer with the fewest.

    Args:
        query: Measured query group.
        target: Query group of the wanted answer, of the same schema; its groups do not overlap. The total has one
            answer.
        answer: Index of the wanted answer in that group.
    """
    wanted = []
    for factor in reversed(target.factors):
        answer, group = divmod(answer, factor.size)
        wanted.append(factor.codes == group)
    counts = [_summed(layer, wanted[::-1]) for layer in query.layers]
    return min((number for number in counts if number), default=0)


def _summed(measured: QueryGroup, wanted: Sequence[Bools]) -> int:
    """Number of answers that sum to the cells with the wanted levels of every attribute; 0 if no set of them does.

    The wanted cells and those of every answer are products of levels. So the answers are found attribute by attribute.
    """
    numbers = []
    for factor, levels in zip(measured.factors, wanted, strict=True):
        used = np.unique(factor.codes[levels])
        # All wanted levels must be measured, and the groups used must contain no other levels.
        if used[0] < 0 or bool(np.isin(factor.codes[~levels], used).any()):
            return 0
        numbers.append(len(used))
    return math.prod(numbers)


def precision_of(strategy: Strategy, geolevel: str, share: Fraction, summed: Mapping[str, int]) -> Fraction:
    """Precision (1 / variance) with which a geounit's own measurements determine its answer.

    Each query group gives one estimate of the answer: the sum of some of its measured answers. The result is the sum
    over query groups of 1 / (answers summed x variance of each). That is the precision of the best linear unbiased
    combination of these sums.

    No estimate from all measured answers is better if the wanted answer is the total and, in every query group, all
    answers have the same number of cells (products of whole attributes, and of attributes summed out). The histogram of
    ones is then an eigenvector of every geolevel's W'W, so the total is estimated independently of everything else.
    This holds on one geounit and on a whole spine. With recodes into unequal groups, using all answers can be slightly
    better.

    The variance used is the law's parameter. The variance of the discrete laws is at most that (for the Gaussian, 3e-7
    less at parameter 1).

    Args:
        strategy: Its mechanism, total and query shares are used.
        geolevel: Geolevel of the query shares. The precision is 0 if the strategy does not measure it.
        share: The geounit's share of the whole budget.
        summed: For each query group, the number of answers to sum, from `answers_summed`.

    Raises:
        BudgetError: a measured query group is missing from `summed`.
    Source: Cumings-Menon et al. 2023, Lemma 4 and equation 19.
    """
    precision = Fraction(0)
    for query, query_share in strategy.shares_of(geolevel) if geolevel in strategy.geolevels else ():
        if query not in summed:
            raise BudgetError(
                f"nothing is said of query group '{query}' of geolevel {geolevel}. Give the number of its answers."
            )
        if summed[query] == 0:
            continue
        budget = strategy.total * share * query_share
        if strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN:
            precision += 2 * budget / (strategy.squared_distance(query) * summed[query])
        else:
            moved = strategy.answers_moved(query) * strategy.records
            precision += budget**2 / (2 * moved**2 * summed[query])
    return precision


def answer_precisions(
    spine: Spine,
    strategy: Strategy,
    summed: Mapping[str, int],
    *,
    shares: GeounitShares | None = None,
    exact: Sequence[str] = (),
) -> tuple[NDArray[np.float64], ...]:
    """Precision of an answer's own measurement in every geounit, by geolevel.

    Args:
        spine: The spine.
        strategy: What is measured. A geolevel that it does not name has no measurement.
        summed: As in `precision_of`.
        shares: Share of every geounit. None gives every geounit the share of its geolevel.
        exact: Geolevels at which the answer is published exactly.

    Raises:
        BudgetError: the shares belong to another spine.
        GeographyError: the spine has no geolevel of a name in `exact`.
    """
    for name in exact:
        spine.level_index(name)
    return tuple(
        np.full(spine.n_geounits(level), np.inf)
        if name in exact
        else _of_level(spine, level, shares, _by_share(strategy, name, summed))
        for level, name in enumerate(spine.geolevels)
    )


def _by_share(strategy: Strategy, name: str, summed: Mapping[str, int]) -> Callable[[Fraction | None], float]:
    geolevel_share = dict(strategy.geolevel_shares).get(name, Fraction(0))
    return lambda share: float(
        precision_of(strategy, name, geolevel_share if share is None else share, summed)
    )


def _of_level(
    spine: Spine, level: int, shares: GeounitShares | None, precision: Callable[[Fraction | None], float]
) -> NDArray[np.float64]:
    n = spine.n_geounits(level)
    if shares is None:
        return np.full(n, precision(None))
    if level >= len(shares.positions) or len(shares.positions[level]) != n:
        raise BudgetError(
            f"the shares do not fit the {n} geounits of geolevel {spine.geolevels[level]}. Use the shares that were "
            "made with this spine."
        )
    return np.array([precision(value) for value in shares.values])[shares.positions[level]]


def totals_summed(schema: Schema, strategy: Strategy) -> dict[str, int]:
    """For every measured query group, how many answers sum to the total; 0 if some cells are in no answer."""
    names = {query for geolevel in strategy.geolevels for query in strategy.queries(geolevel)}
    total = schema.query("total")
    return {name: answers_summed(schema.query(name), total) for name in sorted(names)}


Kind = Literal["geolevel", "entities"]


@dataclass(frozen=True, slots=True)
class AreaAccuracy:
    """Standard deviations of one answer over all areas of a kind, in counts.

    Attributes:
        name: The geolevel, or the family of entities.
        kind: Whether the areas are a geolevel or entities.
        areas: Number of areas.
        mean: Mean of their standard deviations.
        median: Median of their standard deviations.
        q90: Their 90th percentile.
        greatest: The largest of them.
    """

    name: str
    kind: Kind
    areas: int
    mean: float
    median: float
    q90: float
    greatest: float


def measured_variances(
    spine: Spine,
    strategy: Strategy,
    summed: Mapping[str, int],
    *,
    shares: GeounitShares | None = None,
    exact: Sequence[str] = (),
    sums: Sequence[StatedGeounits] = (),
) -> SpineVariances:
    """Variances of an answer on a spine under a strategy, after a check that the strategy can pay for the shares.

    Args:
        spine: The spine.
        strategy: What is measured.
        summed: For each query group, the number of answers to sum, as in `precision_of`.
        shares: Share of every geounit. None gives every geounit the share of its geolevel.
        exact: Geolevels at which the answer is published exactly.
        sums: Sums of siblings of which the answer is published exactly. The result has a geolevel for these, too
            (`with_sums`).

    Raises:
        BudgetError: the shares cost more than the strategy's total, or shares or precisions do not fit the spine.
    """
    if shares is not None:
        require_affordable(spine, shares, strategy)
    by_geolevel = answer_precisions(spine, strategy, summed, shares=shares, exact=exact)
    by_name = dict(zip(spine.geolevels, by_geolevel, strict=True))
    whole = with_sums(spine, sums)
    known = (np.full(whole.n_geounits(level), np.inf) for level in range(whole.n_levels))
    return spine_variances(
        whole, [by_name.get(name, of_sums) for name, of_sums in zip(whole.geolevels, known, strict=True)]
    )


def geolevel_accuracies(variances: SpineVariances, spine: Spine | None = None) -> tuple[AreaAccuracy, ...]:
    """Accuracy of a spine's own geounits, root first; the spine is that of the variances, but for exact sums."""
    return tuple(
        _accuracy(name, "geolevel", variances.variance[variances.spine.level_index(name)])
        for name in (spine or variances.spine).geolevels
    )


def family_accuracies(
    variances: SpineVariances, families: Sequence[EntityFamily], kind: Kind = "entities"
) -> tuple[AreaAccuracy, ...]:
    """Accuracy of every family's entities. Families without entities are left out.

    Raises:
        GeographyError: a family belongs to another spine.
    """
    return tuple(
        _accuracy(family.name, kind, entity_variances(variances, family))
        for family in families
        if family.n_entities
    )


def _accuracy(name: str, kind: Kind, variances: NDArray[np.float64]) -> AreaAccuracy:
    deviations = np.sort(np.sqrt(variances))
    n = len(deviations)
    return AreaAccuracy(
        name,
        kind,
        n,
        float(deviations.mean()),
        float(deviations[-(-n // 2) - 1]),
        float(deviations[-(-9 * n // 10) - 1]),
        float(deviations[-1]),
    )


AS_GOOD_AS_EXACT = 1e9
"""Below the roots, an exactly published total gets this many times the largest precision of a measurement."""


@dataclass(frozen=True, slots=True)
class TotalMeasures:
    """The measurements that inform about totals.

    Attributes:
        strategy: What is measured. Its geolevels are those of the spine made by the steps.
        summed: For every measured query group, how many answers sum to the total (`totals_summed`).
        exact: Geolevels whose totals are published exactly.
        exact_on_geography: The same on the geography as given, where the steps cut some of them; None for `exact`.
        sums: Sums of siblings whose totals are published exactly, of geolevels that the steps cut.
    """

    strategy: Strategy
    summed: Mapping[str, int]
    exact: tuple[str, ...] = ()
    exact_on_geography: tuple[str, ...] | None = None
    sums: tuple[StatedGeounits, ...] = ()

    def tell_totals(self) -> bool:
        """Whether any measured query determines a total."""
        return any(self.summed.values())

    def by_geolevel(self, geolevels: Sequence[str]) -> dict[str, float]:
        """Precision of a total's measurement at each geolevel, root first, as `group_by_variance` takes it.

        The search needs finite numbers below the roots. An exactly published total there gets a precision far above
        all others.

        Raises:
            BudgetError: no measured query determines a total.
        """
        shares = dict(self.strategy.geolevel_shares)
        measured = {
            name: float(precision_of(self.strategy, name, shares.get(name, Fraction(0)), self.summed))
            for name in geolevels
        }
        greatest = max(measured.values())
        if greatest <= 0:
            raise BudgetError(
                "groups of geounits are chosen by the variance of totals, but no measured query tells a total. "
                "Measure one that does, such as 'total', or leave [spine.regroup] out."
            )
        for number, name in enumerate(geolevels):
            if name in self.exact:
                measured[name] = AS_GOOD_AS_EXACT * greatest if number else np.inf
        return measured

    def made_into(self, original: Spine, optimised: OptimisedSpine) -> "TotalMeasures":
        """The measures on a spine made from a geography, if these are the measures on the geography."""
        return self.with_cut(optimised.spine, original.geolevels, replaced_areas(original, optimised))

    def with_cut(
        self, spine: Spine, geolevels: Sequence[str], cut: Iterable[EntityFamily]
    ) -> "TotalMeasures":
        """The measures on a spine that cuts geounits of a geography.

        If geounits of an exact geolevel are cut, the sums of their parts are exact, where these are siblings; and so
        are the geounits of the geolevel above.

        Args:
            spine: The spine.
            geolevels: Geolevels of the geography, root first.
            cut: Those of them that are cut, each as a family on the spine with the geolevel's name.
        """
        by_name = {family.name: family for family in cut}
        exact: list[str] = []
        for name in self.exact:
            place = geolevels.index(name) if name in geolevels else 0
            above = [
                level for level in geolevels[: place + 1] if level not in by_name and level in spine.geolevels
            ]
            exact += [name] if name not in by_name else above[-1:]
        sums = (sums_of_siblings(spine, by_name[name]) for name in self.exact if name in by_name)
        return replace(
            self,
            exact=tuple(dict.fromkeys(exact)),
            exact_on_geography=self.exact,
            sums=tuple(item for item in sums if item is not None),
        )

    def on(self, spine: Spine, shares: GeounitShares | None = None) -> SpineVariances:
        """Variances of totals on a spine that has the strategy's geolevels."""
        return measured_variances(
            spine, self.strategy, self.summed, shares=shares, exact=self.exact, sums=self.sums
        )

    def on_geography(self, original: Spine) -> SpineVariances:
        """Variances of totals on the spine of the geography table, with the same budget.

        Geolevels of both spines keep their shares, scaled to sum to one. So the shares of geolevels that only the steps
        make are distributed over the others in proportion.
        """
        remaining = [
            (name, share) for name, share in self.strategy.geolevel_shares if name in original.geolevels
        ]
        whole = sum((share for _, share in remaining), Fraction(0))
        scaled = self.strategy.with_shares(
            [(name, share / whole, self.strategy.shares_of(name)) for name, share in remaining]
        )
        known = self.exact if self.exact_on_geography is None else self.exact_on_geography
        exact = tuple(name for name in known if name in original.geolevels)
        return TotalMeasures(scaled, self.summed, exact).on(original)
