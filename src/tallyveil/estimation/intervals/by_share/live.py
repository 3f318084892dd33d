"""Variances of estimates from the root downwards where most cells are zero, for any shares.

Problem. Counts are never negative. So where a category has no records, its estimate is nearly always zero: the noise
of its measurement is cut off, and does not reach the other cells. `tallyveil.estimation.intervals.by_share.covariances`
does not know this, and finds variances of fine geolevels that are several times too large. Here, a geounit of a
geolevel has only the categories in use, the *live* ones. Their numbers are stated for each geolevel and come from a
public table.

Variables. An attribute i has a chain of groupings: all levels together, recodes from coarse to fine, and the levels
themselves. Its grouping t has n_it live groups, 1 for the first, n_i for the last. Groups are taken to be of equal
size. A label T chooses one grouping of every attribute. It stands for the differences between groups that this
grouping shows and the next coarser one does not, so there are m_T of them, the product of n_it - n_i,t-1. A query q is
a label too. It determines the differences T if no grouping of T is finer than that of q.

Steps. The precision of T is l_T, the sum over queries q that determine T of w_q prod_i n_i / n_iq. At this geolevel,
the answers of a query a have the summed variance sum_T m_T / l_T prod_i n_i / n_ia, over all T that a determines. The
mean variance is the sum over geolevels of s_l (see `covariances`) times this, divided by the number of all answers of
a, live or not.

Stopping rule. One sum over geolevels and labels.

Worked case. One attribute has 2 live categories, one query measures the total and one the categories, each with
precision 1. The sum of both has precision 2 + 1, and the difference 1. So the categories have the summed variance
1/3 + 1, and the total, with m_T = 1 and n_i / n_ia = 2, has 2/3. A best linear estimate has the same variances.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from tallyveil.arrays import Bools, Floats, Int32s, Integers
from tallyveil.budget.optimal.solve import Evaluated
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import SchemaError
from tallyveil.estimation.intervals.by_share.covariances import TopDownEstimator
from tallyveil.estimation.intervals.by_share.measured import KNOWN, UNKNOWN, AskedVariance, Passes
from tallyveil.schema.query_group import Factor, QueryGroup
from tallyveil.schema.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class LiveVariances:
    """Mean variances of what is asked, for any shares.

    Attributes:
        level: Position of the geolevel of each share; shape (shares,).
        weights: Precision of each label that the whole budget would buy; shape (shares, labels).
        fixed: Precision that no share pays for; shape (geolevels, labels).
        exact: Precision of what is published exactly; shape (geolevels, labels).
        faint: The least precision, so that there is an inverse.
        grams: Factors of the inverse precisions in what is asked; shape (asked, geolevels, labels).
    """

    level: Integers
    weights: Floats
    fixed: Floats
    exact: Floats
    faint: float
    grams: Floats

    def at(self, shares: Floats, *, known: float = 1.0, unknown: float = 1.0) -> Evaluated:
        """The variances at some shares.

        Args:
            shares: Above 0; shape (shares,).
            known: Factor on the precision of exact answers.
            unknown: Factor on the least precision.
        """
        # A new array, to which the shares are added below.
        precision = self.fixed + known * self.exact + unknown * self.faint
        # Unbuffered, because several shares belong to one geolevel.
        np.add.at(precision, self.level, shares[:, None] * self.weights)
        inverse = 1.0 / precision
        # The derivative of 1 / l is -l' / l^2.
        moved = (inverse**2)[self.level] * self.weights
        slopes = -np.einsum("ast,st->as", self.grams[:, self.level], moved)
        return Evaluated(np.einsum("alt,lt->a", self.grams, inverse), slopes)


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """The groupings of one attribute, each a refinement of the one before.

    Attributes:
        names: Names of the groupings after the first, in which all levels are together: recodes, then the attribute.
        codes: Group of each level in every grouping, groups numbered as they first occur; shape (groupings, levels).
    """

    names: tuple[str, ...]
    codes: Integers

    def place(self, factor: Factor) -> int:
        """Position of the grouping of a factor."""
        return int(np.flatnonzero((self.codes == _numbered(factor.codes)).all(axis=1))[0])

    def live(self, sizes: Mapping[tuple[str, str], float], geolevel: str) -> Floats:
        """Number of live groups in every grouping, at a geolevel."""
        return np.array([1.0, *(sizes[geolevel, name] for name in self.names)])


def chains_of(schema: Schema, groups: Sequence[QueryGroup]) -> tuple[Chain, ...]:
    """The groupings of every attribute in some queries.

    Raises:
        SchemaError: groups overlap or leave out a level, or two groupings of an attribute are not nested.
    """
    chains = []
    for axis, attribute in enumerate(schema.attributes):
        named: dict[bytes, tuple[Integers, str]] = {}
        for group in groups:
            factor = group.factors[axis]
            if len(factor.layers) > 1 or factor.codes.min() < 0:
                raise SchemaError(
                    f"'{factor.name}' in the query '{group.name}' has groups that overlap, or it leaves out levels of "
                    f"'{attribute.name}'. Live sizes are defined for groups that divide all levels among them. Leave "
                    "out `live`, or measure and ask for other queries.",
                    code="bad-live-sizes",
                )
            codes = _numbered(factor.codes)
            # By codes: two recodes with the same groups are one grouping, under the first name.
            named.setdefault(codes.tobytes(), (codes, factor.name or attribute.name))
        whole = np.arange(attribute.size)
        # The levels themselves are always the finest grouping, measured or not.
        named[whole.tobytes()] = (whole, attribute.name)
        together = np.zeros(attribute.size, np.int64)
        named.pop(together.tobytes(), None)
        # By number of groups: if they nest at all, then in this order.
        ordered = sorted(named.values(), key=lambda grouping: int(grouping[0].max()))
        _refuse_crossing(attribute.name, ordered)
        chains.append(
            Chain(tuple(name for _, name in ordered), np.array([together, *(codes for codes, _ in ordered)]))
        )
    return tuple(chains)


def live_variances(
    schema: Schema,
    strategy: Strategy,
    geolevels: Sequence[str],
    *,
    sizes: Mapping[tuple[str, str], float],
    exact: Mapping[str, Sequence[str]],
    drawn: Mapping[str, Sequence[tuple[QueryGroup, float]]],
    passes: Passes,
    asked: Sequence[AskedVariance],
    estimator: TopDownEstimator,
) -> LiveVariances:
    """The variances of a strategy whose estimates are made from the root downwards.

    Args:
        schema: The universe.
        strategy: Gaussian. Its total is kept and its shares are to be varied.
        geolevels: Geolevels of the spine, root first.
        sizes: Number of live groups, by geolevel and name of the grouping.
        exact, drawn, passes: As for `measured_queries`.
        asked: What is asked.
        estimator: Weights of the geolevels in every area that is asked about.
    Raises:
        SchemaError: as `chains_of`; or a size is absent, or smaller than that of a coarser grouping.
    """
    names = [(level, query) for level in strategy.geolevels for query in strategy.queries(level)]
    wanted = [*(query for _, query in names), *(name for queries in exact.values() for name in queries)]
    groups = [schema.query(name) for name in dict.fromkeys([*wanted, *(query for _, query in asked)])]
    given = [group for measurements in drawn.values() for group, _ in measurements]
    chains = chains_of(schema, [*groups, *given])
    # Before any matrix is made, since sizes come from a user's table.
    _refuse_sizes(chains, geolevels, sizes)
    labels = _Labels(schema, chains, geolevels, sizes)
    # Precision that the whole budget would buy: rho = sensitivity^2 / (2 variance).
    unit = np.array([2.0 * float(strategy.total) / strategy.squared_distance(query) for _, query in names])
    weights = []
    for geolevel, query in names:
        earlier = np.zeros(labels.count, np.bool_)
        for queries in passes.get(geolevel, ()):
            if query in queries:
                break
            earlier |= np.any([labels.below(schema.query(name)) for name in queries], axis=0)
        # What an earlier pass determines is fixed when this query is used.
        weights.append(np.where(earlier, 0.0, labels.eigenvalues(schema.query(query), geolevel)))
    nothing = np.zeros(labels.count)
    fixed = [
        sum((labels.eigenvalues(group, name) / v for group, v in drawn.get(name, ())), nothing)
        for name in geolevels
    ]
    known = [
        np.any([nothing, *(labels.below(schema.query(query)) for query in exact.get(name, ()))], axis=0)
        for name in geolevels
    ]
    return LiveVariances(
        np.array([list(geolevels).index(level) for level, _ in names], np.int64),
        np.array(weights) * unit[:, None],
        np.array(fixed),
        np.array(known) * KNOWN * unit.max(),
        UNKNOWN * float(unit.max()),
        np.array(
            [
                estimator.weights[area][:, None]
                * np.array([labels.gram(schema.query(query), name) for name in geolevels])
                for area, query in asked
            ]
        ),
    )


class _Labels:
    """All labels of a schema, and what each means at every geolevel.

    Attributes:
        count: Number of labels.
    """

    def __init__(
        self,
        schema: Schema,
        chains: Sequence[Chain],
        geolevels: Sequence[str],
        sizes: Mapping[tuple[str, str], float],
    ) -> None:
        self._chains = chains
        self._labels = np.array(list(product(*(range(len(chain.codes)) for chain in chains))), np.int64)
        self._live = {name: [chain.live(sizes, name) for chain in chains] for name in geolevels}
        self.count = len(self._labels)

    def below(self, group: QueryGroup) -> Bools:
        """Which labels a query determines."""
        determined: Bools = np.all(self._labels <= self._places(group), axis=1)
        return determined

    def eigenvalues(self, group: QueryGroup, geolevel: str) -> Floats:
        """Precision of every label where the answers have precision 1."""
        live = self._live[geolevel]
        # How many live levels a live group of each attribute has; their product divides the answers' precision evenly.
        each = [sizes[-1] / sizes[place] for sizes, place in zip(live, self._places(group), strict=True)]
        return np.where(self.below(group), np.prod(each), 0.0)

    def gram(self, group: QueryGroup, geolevel: str) -> Floats:
        """Factor of each label's variance in the mean variance of the answers."""
        differences = np.ones(self.count)
        for axis, sizes in enumerate(self._live[geolevel]):
            differences *= np.diff(sizes, prepend=0.0)[self._labels[:, axis]]
        factors: Floats = self.eigenvalues(group, geolevel) * differences / group.size
        return factors

    def _places(self, group: QueryGroup) -> Integers:
        return np.array(
            [chain.place(factor) for chain, factor in zip(self._chains, group.factors, strict=True)]
        )


def _numbered(codes: Int32s) -> Integers:
    """The same groups, numbered in the order in which they first occur."""
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    # np.unique numbers by value; what is wanted is the order of levels.
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[group.reshape(-1)]


def _refuse_crossing(attribute: str, ordered: Sequence[tuple[Integers, str]]) -> None:
    for (coarse, coarse_name), (fine, fine_name) in pairwise(ordered):
        pairs = np.unique(np.column_stack([fine, coarse]), axis=0)
        # Nested if and only if every fine group occurs with one coarse group.
        if len(pairs) > fine.max() + 1:
            raise SchemaError(
                f"a group of '{fine_name}' lies in several groups of '{coarse_name}', both of the attribute "
                f"'{attribute}'. Live sizes are defined for groupings of which each is a refinement of the one before. "
                "Leave out `live`, or measure and ask for other queries.",
                code="bad-live-sizes",
            )


def _refuse_sizes(
    chains: Sequence[Chain], geolevels: Sequence[str], sizes: Mapping[tuple[str, str], float]
) -> None:
    wanted = [(geolevel, name) for geolevel in geolevels for chain in chains for name in chain.names]
    absent = [f"'{name}' at {geolevel}" for geolevel, name in wanted if (geolevel, name) not in sizes]
    if absent:
        raise SchemaError(
            f"the table of live sizes has no row for {', '.join(absent[:6])}{' and others' * (len(absent) > 6)}. Add "
            "what is absent: the number of live categories of every attribute, and of every recode that a query uses, "
            "at every geolevel of the spine.",
            code="bad-live-sizes",
        )
    for geolevel in geolevels:
        for chain in chains:
            live = chain.live(sizes, geolevel)
            if bool((np.diff(live) < 0).any()):
                place = int(np.flatnonzero(np.diff(live) < 0)[0])
                coarse = chain.names[place - 1] if place else "the total"
                raise SchemaError(
                    f"the table of live sizes gives '{chain.names[place]}' at {geolevel} {live[place + 1]:g} live "
                    f"groups, and {coarse} {live[place]:g}. Every live group of the coarser grouping has at least one "
                    "live group of the finer one. Correct one of the two numbers.",
                    code="bad-live-sizes",
                )
