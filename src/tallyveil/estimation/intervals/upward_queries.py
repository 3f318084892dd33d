"""The sweep up the spine query by query, where blocks of covariances would be too large.

Every query is estimated from its own answers in and below a geounit (`tallyveil.kernels.tree.query_wise`). The
estimates are unbiased. They are less accurate than those of `tallyveil.estimation.intervals.upward_blocks` where
public zeros differ between geounits, or where a query is measured at some geolevels only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.estimation.intervals.model import TreeModel
from tallyveil.estimation.intervals.upward import FinestKinds, finest_kinds
from tallyveil.kernels.tree.query_wise import AnswerPlaces, add_finest_answers, learn_answers
from tallyveil.kernels.tree.upward import Alike, ChildSums, Told
from tallyveil.schema.query_group import QueryGroup


@dataclass(frozen=True, slots=True, eq=False)
class QuerySweep:
    """What the sweep needs besides the measurements.

    Attributes:
        model: Spine, precisions, zeros and invariants. Its algebra is not used.
        finest: The kinds of finest geounits.
        places: For each geolevel, where the answers of each query are.
        variances: Variance of each answer of a finest geounit, one row a kind.
    """

    model: TreeModel
    finest: FinestKinds
    places: tuple[AnswerPlaces, ...]
    variances: Floats

    name = "query by query"

    def width(self, level: int) -> int:
        """Number of answers that a geolevel measures."""
        return sum(group.size for group in self.model.levels[level].measured)

    def table(self, level: int, group: QueryGroup) -> Int32s:
        """For each answer that the geolevel measures, its number in a query; -1 if it belongs to another query."""
        numbers = np.full(self.width(level), -1, np.int32)
        begin = 0
        for query in self.model.levels[level].measured:
            if query.factors == group.factors:
                numbers[begin : begin + group.size] = np.arange(group.size)
            begin += query.size
        return numbers

    def nothing(self, n: int) -> ChildSums:
        """Sums over no children."""
        shape = n, int(self.places[0].begin[-1])
        # Variances answer by answer take the place of blocks, and there are no undetermined directions.
        return ChildSums(np.zeros(shape), np.zeros(shape), np.zeros((0, shape[1])))

    def add_finest(self, alike: Alike, sums: ChildSums, first: int, last: int) -> None:
        """Add the finest geounits of parents first..last."""
        add_finest_answers(self.places[-1], self.variances, alike, sums, first, last)

    def learn(self, level: int, told: Told, sums: ChildSums, span: tuple[int, int], out: Floats) -> None:
        """Turn sums over children into estimates, and write those that the geolevel measures."""
        learn_answers(self.places[level], told, sums, *span, out)


def query_sweep(model: TreeModel) -> QuerySweep:
    """Prepare the sweep of a model. No measurement is read."""
    # Each query once, in the order in which the geolevels name it: an answer has one place at all geolevels.
    queries = list(
        {
            group.factors: group for level in model.levels for group in (*level.measured, *level.invariants)
        }.values()
    )
    finest = finest_kinds(model)
    places = tuple(_places(queries, level.measured, level.invariants) for level in model.levels)
    return QuerySweep(model, finest, places, _variances(queries, places[-1], finest))


def _places(
    queries: Sequence[QueryGroup], measured: Sequence[QueryGroup], exact: Sequence[QueryGroup]
) -> AnswerPlaces:
    numbers = {group.factors: number for number, group in enumerate(measured)}
    measured_at, exact_at = _begins(measured), _begins(exact)
    return AnswerPlaces(
        np.cumsum([0, *(group.size for group in queries)]).astype(np.int64),
        np.array([numbers.get(group.factors, -1) for group in queries], np.int64),
        np.array([measured_at.get(group.factors, 0) for group in queries], np.int64),
        np.array([exact_at.get(group.factors, -1) for group in queries], np.int64),
    )


def _begins(groups: Sequence[QueryGroup]) -> dict[object, int]:
    ends = np.cumsum([0, *(group.size for group in groups)]).tolist()
    return {group.factors: begin for group, begin in zip(groups, ends, strict=False)}


def _variances(queries: Sequence[QueryGroup], places: AnswerPlaces, finest: FinestKinds) -> Floats:
    """Variance of each answer of a finest geounit of each kind: zero where all of its cells are zero."""
    # Infinite until something is measured.
    variances = np.full((len(finest.precisions), int(places.begin[-1])), np.inf)
    for u, group in enumerate(queries):
        columns = variances[:, places.begin[u] : places.begin[u + 1]]
        if places.query[u] >= 0:
            precisions = finest.precisions[:, places.query[u]]
            columns[precisions > 0] = 1.0 / precisions[precisions > 0, None]
        for row, zeros in zip(columns, finest.zeros, strict=True):
            reached: Integers = group.answers_of(np.flatnonzero(~zeros))
            empty = np.ones(group.size, np.bool_)
            empty[reached[reached >= 0]] = False
            # Known to be zero without noise, whether it is measured or not.
            row[empty] = 0.0
    return variances
