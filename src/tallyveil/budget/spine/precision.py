"""Precision with which a strategy measures one answer, such as the total, in every geounit."""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Bools
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError
from tallyveil.geography import GeounitShares, Spine
from tallyveil.schema import QueryGroup, Schema


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
        budget, moved = strategy.total * share * query_share, strategy.answers_moved(query)
        if strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN:
            precision += 2 * budget / (moved * summed[query])
        else:
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
